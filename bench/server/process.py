"""What a running process costs, as Linux counts it (proc_pid_status(5), Documentation/scheduler/sched-stats.rst)."""

from __future__ import annotations

import contextlib
from pathlib import Path


def cpu(pid: int) -> float:
    """CPU seconds of the process since it started, of its live threads to the nanosecond."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            total += int((task / "schedstat").read_bytes().split()[0])
    return total / 1e9


def memory(pid: int, what: str = "VmRSS") -> float:
    """Resident MB: `VmRSS` now, `VmHWM` at its peak."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")

"""What a command costs, its child processes included."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU and wall time in seconds; `memory` is the peak resident set of the largest process, in MB."""

    cpu: float
    wall: float
    memory: float


def cost(command: Sequence[str | Path], cwd: Path) -> Cost:
    """Runs a command to its end; RuntimeError with its output when it fails."""
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{command[0]} exited {process.returncode}:\n{output.decode(errors='replace')[-4000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def typical(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(median(c.cpu for c in costs), median(c.wall for c in costs), median(c.memory for c in costs))

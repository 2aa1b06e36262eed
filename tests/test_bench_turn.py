"""The benchmark of turns runs; what it measures is for people to read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.claude_support import require_cli

ROOT = Path(__file__).parent.parent


def test_the_benchmark_measures_both_ways() -> None:
    require_cli()
    done = subprocess.run(
        [sys.executable, "-m", "bench.turn", "--contexts", "1", "--follow-ups", "1", "--turns", "10", "--idle", "4"],
        cwd=ROOT,
        env={**os.environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d,.]+) \| [\d,.]+ \|", done.stdout, re.MULTILINE))
    assert {"first turn, ms to the first piece", "follow-up, ms to the first piece"} <= rows.keys()
    assert re.findall(r"^MB of the server after (\d+) turns: ", done.stdout, re.MULTILINE) == ["1", "5", "10"]

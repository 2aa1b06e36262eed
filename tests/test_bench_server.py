"""The benchmark of the server runs; what it measures is for people to read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_benchmark_measures_a_server_and_leaves_out_peers_that_are_not_installed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.server", "--no-install", "--rounds", "1", "--seconds", "0.2", "--long", "200"],
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^(\S+) is not installed: left out$", done.stdout, re.MULTILINE) == ["a2a-sdk", "@a2a-js/sdk"]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d,.]+) \|$", done.stdout, re.MULTILINE))
    assert {"ready, CPU s", "idle RSS, MB", "GetTask /s", "SendMessage p99 ms", "peak RSS, MB"} <= rows.keys()
    assert {
        "1 stream of 1,000, events/s",
        "100 streams of 100, events/s",
        "CPU µs an event, stream of 200",
    } <= rows.keys()

"""The benchmark of the compiler runs; what it measures is for people to read."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_benchmark_compiles_what_check_jsonschema_accepts_and_prints_the_ratio() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.compile", "--sizes", "1,3", "--repeat", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\| ([a-z2 -]+) \| (\d+|-) \|", done.stdout, re.MULTILINE) == [
        *((name, size) for size in "13" for name in ("check-jsonschema", "a2a-claude validate", "a2a-claude compile")),
        ("a2a-claude --help", "-"),
        ("a2a-claude validate", "1"),
    ]
    assert re.search(r"^compile / check-jsonschema, 3 agents: \d+\.\d\d CPU", done.stdout, re.MULTILINE)

"""What stopping may take, and what orchestrators wait for: docs/serving.md shows the sum."""

from __future__ import annotations

import re
from pathlib import Path

from a2a_claude import runtime, server
from a2a_claude.a2a import endings
from a2a_claude.targets import docker, systemd

ROOT = Path(__file__).parent.parent
ACCEPTED = 0.1  # last frames on their way


def test_stopping_takes_no_longer_than_who_stops_it_waits() -> None:
    nix = re.search(r"closingSeconds = (\d+);", (ROOT / "nix/unit.nix").read_text())
    assert nix is not None
    steps = (runtime.DRAIN_MARGIN, runtime.STREAM_SECONDS + ACCEPTED, server.CLOSE_SECONDS, runtime.CLOSING_SECONDS)
    assert endings.STOP_GRACE < runtime.DRAIN_MARGIN
    assert max(runtime.CLAUDE_SECONDS, runtime.FLUSH_SECONDS) <= runtime.CLOSING_SECONDS
    assert sum(steps) <= server.HARD_MARGIN < systemd._CLOSING_SECONDS == docker.STOP_MARGIN == int(nix[1])
    shown = (ROOT / "docs/serving.md").read_text()
    for step in (*(round(each) for each in steps), server.HARD_MARGIN, docker.STOP_MARGIN):
        assert re.search(rf"\| {step:.0f} s \|", shown), step

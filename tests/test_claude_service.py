"""What is told when Claude's part of an agent is opened."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.service import open_service
from a2a_claude.store import Store
from tests.lifecycle import asynchronous
from tests.support import make_agent

FAKE = str(Path(__file__).with_name("fake_claude.py"))
BYPASS = {"permissionMode": "bypassPermissions", "dangerouslyAllowBypassPermissions": True}


@pytest.mark.parametrize(
    ("claude", "found", "told"),
    [
        ({}, {"ANTHROPIC_API_KEY": "k"}, []),
        ({}, {}, ["No credentials of Claude are set: ANTHROPIC_API_KEY"]),
        (
            {"settingSources": ["user", "project"]},
            {"ANTHROPIC_API_KEY": "k"},
            ["claude.settingSources is user, project"],
        ),
        (BYPASS, {"ANTHROPIC_API_KEY": "k"}, ["claude.permissionMode is bypassPermissions"]),
    ],
    ids=["nothing", "no credentials", "sources", "bypass"],
)
def test_a_start_warns_of_what_may_not_be_meant(
    claude: dict[str, Any],
    found: dict[str, str],
    told: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # Claude refuses bypassPermissions as root

    @asynchronous
    async def run() -> None:
        settings = {"workingDirectory": str(tmp_path), "executablePathOverride": FAKE, **claude}
        config = make_agent({"claude": settings, "session": {"spareClients": 0}}).config
        store = await Store.open(":memory:")
        with caplog.at_level(logging.WARNING, "a2a_claude.claude.service"):
            service = await open_service(config, tmp_path / "state" / "claude", found.get, store, inherited={})
        await service.close(1)
        await store.close()

    run()
    said = [each.getMessage() for each in caplog.records if each.name == "a2a_claude.claude.service"]
    assert len(said) == len(told)
    assert all(words in message for words, message in zip(told, said, strict=True))

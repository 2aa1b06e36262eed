"""What the tests lay over the rendered `compose.yaml`, and the program that reads both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.e2e.fleet import KEY
from tests.fake_anthropic_api import FakeAPI
from tests.trixie import root_with

# Of the addresses for benchmarks (RFC 2544): nobody's network.
SUBNET, HOST = "198.18.77.0/24", "198.18.77.1"
TOKEN = "the-token-of-a-caller"
UID = 10001
AGENTS = ("example", "reviewer")


def program() -> Path:
    """Debian 13's Compose, which runs on Debian 12, too."""
    return root_with("/usr/bin/docker-compose", "docker-compose") / "usr" / "bin" / "docker-compose"


def overlay(project: str, api: FakeAPI, service: dict[str, Any]) -> dict[str, Any]:
    """A second file: `service` for both agents, the API of the tests for Claude, and volumes that are the tests'."""
    environment = {"ANTHROPIC_BASE_URL": f"http://{HOST}:{api.server_address[1]}", "CLAUDE_CODE_MAX_RETRIES": "0"}
    names = [f"{name}-{each}" for name in AGENTS for each in ("state", "workspace")]
    return {
        "services": {name: {**service, "environment": environment} for name in AGENTS},
        "networks": {"default": {"ipam": {"config": [{"subnet": SUBNET, "gateway": HOST}]}}},
        "volumes": {name: {"name": f"{project}-{name}"} for name in names},
    }


def supplied(folder: Path) -> dict[str, Any]:
    """The config's `secrets`, of which each is a file in `folder` that only the services' user can read."""
    folder.mkdir()
    for name, content in {"ANTHROPIC_API_KEY": KEY, "CALLER_TOKENS": f"me:{TOKEN}\n"}.items():
        (folder / name).write_text(content)
        (folder / name).chmod(0o400)
        os.chown(folder / name, UID, UID)
    os.chown(folder, UID, UID)
    folder.chmod(0o700)
    return {each.name: {"file": str(each)} for each in folder.iterdir()}

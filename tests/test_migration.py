"""What the README of the TypeScript a2a-claude tells its users to do, done with this one: config, flags and calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.claude_support import KEY, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.serving import PATIENCE, Served, environment
from tests.test_cases import REFERENCE, older
from tests.tools import require


@contextmanager
def started(folder: Path, *flags: str) -> Iterator[Served]:
    """`WORKSPACE_DIR=… ANTHROPIC_API_KEY=… a2a-claude --config agents/example/config.json`, and an API on loopback."""
    require_cli()
    api = FakeAPI().start()
    (folder / "repo").mkdir()
    older(folder, REFERENCE)
    variables = environment(
        ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY, WORKSPACE_DIR=str(folder / "repo"), HOME=str(folder)
    )
    command = [sys.executable, "-m", "a2a_claude", "--config", "agents/example/config.json", *flags]
    served = Served(subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE, text=True))
    try:
        yield served
    finally:
        served.stop()
        api.shutdown()


def curl(*arguments: str) -> Any:
    program = require("curl", "apt-get install curl")
    ran = subprocess.run([program, "-s", *arguments], capture_output=True, text=True, check=True, timeout=PATIENCE)
    return json.loads(ran.stdout)


def send(url: str, text: str) -> Any:
    """The README's call, word for word but for the text."""
    body = {
        "jsonrpc": "2.0",
        "id": "1",
        "method": "message/send",
        "params": {
            "message": {
                "kind": "message",
                "messageId": "m1",
                "role": "user",
                "parts": [{"kind": "text", "text": text}],
            }
        },
    }
    header = "content-type: application/json"
    return curl("-X", "POST", f"{url}/a2a/jsonrpc", "-H", header, "-d", json.dumps(body))


@pytest.fixture(params=[("--hostname", "127.0.0.1", "--port", "0"), ("-p", "0", "--hostname", "127.0.0.1", "-w", ".")])
def flags(request: pytest.FixtureRequest, tmp_path: Path) -> Sequence[str]:
    return [str(tmp_path / "repo") if each == "." else each for each in request.param]


def test_its_config_flags_and_calls_work(tmp_path: Path, flags: Sequence[str]) -> None:
    with started(tmp_path, *flags) as served:
        url = served.wait_until_it_listens().url
        card = curl(f"{url}/.well-known/agent-card.json")
        assert card["name"] == "Claude Workspace Engineer"
        assert card["url"].endswith("/a2a/jsonrpc")
        wrote = {"tools": [{"name": "Write", "input": {"file_path": str(tmp_path / "repo/new"), "content": "x"}}]}
        task = send(url, directive(wrote, {"text": "There is one file."}))["result"]
        assert (task["kind"], task["status"]["state"]) == ("task", "completed")
        [artifact] = task["artifacts"]
        assert artifact["parts"] == [{"kind": "text", "text": "There is one file."}]
        assert (tmp_path / "repo" / "new").read_text() == "x"
        assert curl(f"{url}/health") == {"status": "healthy", "agent": "Claude Workspace Engineer"}


def test_its_open_address_has_to_be_meant(tmp_path: Path) -> None:
    with started(tmp_path, "--port", "0") as served:
        assert served.wait() == 78
        assert "server.auth.allowUnauthenticated" in "".join(served.raw)

"""Sub-agents on the SDKs of other makers: `@a2a-js/sdk` of A2A v1.0, a2a-sdk 0.3.26 of v0.3."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.interop.drivers import NODE_HINT, Command, installed
from tests.lifecycle import asynchronous
from tests.serving import PATIENCE
from tests.test_subagents import opened, remote, text, turn
from tests.tools import require

SERVERS = Path(__file__).parent / "servers"


def _js() -> Command:
    node, npm = require("node", NODE_HINT), require("npm", NODE_HINT)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    install: list[Command] = [[npm, "install", "--prefix", ".", *quiet, "@a2a-js/sdk@1.3.0", "express@5"]]
    folder = installed("a2a-js-sdk-1.3.0-server", lambda _: install)
    # Node looks for packages beside the program.
    return [node, shutil.copy(SERVERS / "js_v1.mjs", folder)]


def _python(how: str) -> Callable[[], Command]:
    def command() -> Command:
        uv = require("uv", "pip install uv")

        def install(folder: Path) -> list[Command]:
            python = folder / "venv" / "bin" / "python"
            return [
                [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder / "venv"],
                [uv, "pip", "install", "--quiet", "--python", python, "a2a-sdk[http-server]==0.3.26", "uvicorn"],
            ]

        name = f"a2a-sdk-0.3.26-server-python{sys.version_info.major}.{sys.version_info.minor}"
        return [installed(name, install) / "venv" / "bin" / "python", SERVERS / "python_v03.py", how]

    return command


KINDS = {
    "@a2a-js/sdk 1.3.0": _js,
    "a2a-sdk 0.3.26": _python("streaming"),
    "a2a-sdk 0.3.26 without streaming": _python("plain"),
}


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of such an SDK that answers."""
    program, script, *more = KINDS[request.param]()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # A session of its own: `node` may be a wrapper around the real one.
    command = [program, script, str(port), *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(address):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield address
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/.well-known/agent-card.json").status_code == 200
    except httpx.HTTPError:
        return False


@asynchronous
async def test_a_remote_of_another_maker_works_asks_and_is_cancelled(url: str) -> None:
    async with opened(remote(url), syncBudgetMs=0) as agents:
        now = turn(agents)
        assert [each.name for each in agents.tools()][:1] == ["clerk__work"]
        assert text(await now.call("clerk__work", {"message": "this"})) == "did this"
        assert "Which one?" in text(await now.call("clerk__work", {"message": "ask"}))
        answered = await now.call("clerk__work", {"message": "that", "task_id": "clerk-2"})
        assert text(answered) == "you said that"
        agents.budget = 1.0
        assert "goes on" in text(await now.call("clerk__work", {"message": "hang"}))
        canceled = await now.call("task_cancel", {"task_id": "clerk-3"})
        assert "is canceled" in text(canceled)
        assert "is canceled" in text(await turn(agents).call("task_status", {"task_id": "clerk-3"}))

"""The real Claude CLI against an API on loopback, for the tests that need it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import claude_agent_sdk

from a2a_claude.claude.delegates import Delegates
from a2a_claude.claude.processes import Processes
from a2a_claude.claude.session import LiveSession, Received, SessionStore
from a2a_claude.claude.sessions import Pool
from tests.fake_anthropic_api import FakeAPI
from tests.support import make_agent
from tests.tools import absent

KEY = "sk-ant-api03-the-key-of-the-server"


def require_cli() -> None:
    """The CLI is in the SDK's wheels for Linux with glibc, macOS and Windows."""
    if not (Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude").is_file():
        absent("the Claude CLI", "uv sync --extra runtime, on a platform whose claude-agent-sdk wheel has it")


def make_processes(
    folder: Path,
    api: FakeAPI | None,
    document: Mapping[str, Any] | None = None,
    *,
    claude: Mapping[str, Any] | None = None,
    session: Mapping[str, Any] | None = None,
    credentials: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    hidden: Iterable[Path] = (),
    start_seconds: float = 45,
    delegates: Delegates | None = None,
    files: Mapping[str, Path] | None = None,
) -> Processes:
    """Processes of an agent that works in `folder/workspace` and keeps its own things in `folder/state/claude`."""
    (folder / "workspace").mkdir(exist_ok=True)
    (folder / "state").mkdir(exist_ok=True)
    complete = {
        "claude": {"workingDirectory": str(folder / "workspace"), "allowedTools": ["Bash"], **(claude or {})},
        "session": {"spareClients": 0, **(session or {})},
        **(document or {}),
    }
    inherited = {
        **os.environ,
        "SERVER_SECRET": "s3cret-of-the-server",
        "CLAUDE_CODE_MAX_RETRIES": "0",
        **({"ANTHROPIC_BASE_URL": api.url} if api else {}),
        **(variables or {}),
    }
    found = {"ANTHROPIC_API_KEY": KEY} if credentials is None else credentials
    config, own = make_agent(complete).config, folder / "state" / "claude"
    return Processes(config, own, found.get, inherited, hidden, start_seconds, delegates, files)


def make_pool(folder: Path, api: FakeAPI, store: SessionStore | None = None, **how: Any) -> Pool:
    """A pool over `make_processes`; close it with `shutdown`."""
    return Pool(make_processes(folder, api, **how), store)


async def answered(session: LiveSession, text: str) -> list[Received]:
    """A prompt's frames up to its answer."""
    received = []
    async for each in session.turn([{"type": "text", "text": text}], uuid=str(uuid.uuid4())):
        received.append(each)
        if each.answers:
            break
    return received


async def turn(pool: Pool, text: str, context: str = "c") -> tuple[str, list[Received]]:
    """A whole turn of a context: the result's text and all that was received."""
    session = await pool.acquire(context, "me", str(uuid.uuid4()))
    try:
        received = await answered(session, text)
    except BaseException:
        await pool.release(session, healthy=False)
        raise
    await pool.release(session, healthy=True)
    return str(received[-1].frame["result"]), received


def tool_results(received: Iterable[Received]) -> list[str]:
    """What the tools of a turn gave."""
    contents = [each.frame["message"]["content"] for each in received if each.frame["type"] == "user"]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [str(block["content"]) for block in blocks if block["type"] == "tool_result"]


def processes_with(marker: str) -> list[int]:
    """Process ids whose command line contains `marker`."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if marker.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found

"""However a turn ends, what Claude has said by then is kept, and its artifact is closed: on the real CLI."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from a2a_claude.claude import streaming
from a2a_claude.claude import turn as turns
from a2a_claude.claude.client import Client
from a2a_claude.claude.session import Frame
from tests.fake_anthropic_api import directive
from tests.lifecycle import Caller, asynchronous, serving, state, texts
from tests.test_claude_end_to_end import bash, served
from tests.test_claude_turns import closed, kinds, reason, replayed

TEXT = "what Claude has said so far"
End = Callable[[Caller, str], Awaitable[Any]]


async def stop(caller: Caller, _: str) -> None:
    await caller.lifecycle.drain(0)


async def cancel(caller: Caller, task_id: str) -> None:
    await caller.cancel(task_id)


async def kill(*_: Any) -> None:
    # The next context's process may be there already.
    processes = [each for each in psutil.Process(os.getpid()).children(recursive=True) if each.name() == "claude"]
    assert processes
    for each in processes:
        each.kill()


async def leave(*_: Any) -> None:
    """It ends by itself."""


STALLED = {"text": TEXT, "chunks": 5, "stall": 60}
CALL = {"text": TEXT, "chunks": 5, **bash("true")}
IN_TOOL = {"text": TEXT, **bash("python3 -c 'import time; time.sleep(60)'")}


@pytest.mark.parametrize(
    ("script", "end", "expected", "streams"),
    [
        ([STALLED], stop, ("failed", "server_stopped"), True),
        ([IN_TOOL], stop, ("failed", "server_stopped"), True),
        ([IN_TOOL], stop, ("failed", "server_stopped"), False),
        ([STALLED], cancel, ("canceled", None), True),
        ([IN_TOOL], cancel, ("canceled", None), False),
        ([STALLED], leave, ("failed", "timeout"), True),
        ([STALLED], kill, ("failed", "claude_lost"), True),
        ([IN_TOOL], kill, ("failed", "claude_lost"), False),
        ([CALL, {"status": 429}], leave, ("failed", "rate_limit"), True),
        ([CALL, {"status": 500}], leave, ("failed", "api_unavailable"), True),
        ([CALL, {"status": 500}], leave, ("failed", "api_unavailable"), False),
    ],
    ids=[
        "stop",
        "stop in a tool",
        "stop in a tool, whole",
        "cancel",
        "cancel, whole",
        "timeout",
        "kill -9",
        "kill -9, whole",
        "rate limit",
        "API error",
        "API error, whole",
    ],
)
def test_every_ending_keeps_what_was_said_and_closes_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: list[dict[str, Any]],
    end: End,
    expected: tuple[str, str],
    streams: bool,
) -> None:
    said = asyncio.Event()

    class Watched(streaming.Response):
        async def add(self, text: str, *, block: int | None = None) -> None:
            await super().add(text, block=block)
            if self.text.endswith(TEXT):
                said.set()

    # Nothing is told before its time: all of the text is still held back when the end comes.
    monkeypatch.setattr(streaming, "SECONDS", 3600)
    monkeypatch.setattr(turns, "Response", Watched)
    config = {
        "features": {"streamArtifactChunks": streams},
        "timeouts": {"prompt": 5000 if expected[1] == "timeout" else 0},
    }

    @asynchronous
    async def run() -> None:
        path = tmp_path / "tasks.sqlite3"
        async with served(tmp_path, config, path) as (lifecycle, _):
            caller = Caller(lifecycle)
            events: list[dict[str, Any]] = []

            async def read() -> None:
                async for each in caller.stream(directive(*script)):
                    events.append(each)

            reading = asyncio.create_task(read())
            await said.wait()
            task_id = events[0]["task"]["id"]
            assert not replayed(events)
            await end(caller, task_id)
            await reading
        assert kinds(events) == ["task:submitted", "working", "artifact|", expected[0]]
        assert (list(replayed(events).values()), closed(events)) == ([TEXT], True)
        async with serving(path=path) as lifecycle:
            task = await Caller(lifecycle).get(task_id)
        assert (state(task), reason(task), texts(task)) == (*expected, [TEXT])

    run()


@pytest.mark.parametrize("after", [1, 30])
def test_a_stop_in_the_flow_of_text_loses_nothing_of_what_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """What the API has sent, and Claude Code has not passed on when it is interrupted, has not come."""
    come: list[str] = []
    flowing = asyncio.Event()
    take = Client._take

    def taking(self: Client, frame: Frame) -> None:
        if text := frame.get("event", {}).get("delta", {}).get("text"):
            come.append(text)
            if len(come) == after:
                flowing.set()
        take(self, frame)

    monkeypatch.setattr(Client, "_take", taking)

    @asynchronous
    async def run() -> None:
        path = tmp_path / "tasks.sqlite3"
        async with served(tmp_path, {"features": {"streamArtifactChunks": True}}, path) as (lifecycle, _):
            script = directive({"text": "part of it " * 400, "chunks": 400, "delay": 0.01})
            task = await Caller(lifecycle).task(script, return_immediately=True)
            await flowing.wait()
            await lifecycle.drain(0)
        async with serving(path=path) as lifecycle:
            task = await Caller(lifecycle).get(task["id"])
        assert (state(task), reason(task)) == ("failed", "server_stopped")
        assert "".join(texts(task)) == "".join(come)
        assert after <= len(come) < 400

    run()

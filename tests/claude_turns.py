"""Turns of Claude without a CLI: the executor, the SDK's real parser, and frames that a test wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    PermissionMode,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.claude.client import Client, Stderr
from a2a_claude.claude.content import Files
from a2a_claude.claude.executor import ClaudeExecutor
from a2a_claude.claude.session import Ask, Calls, ClaudeStartFailed, FellBack, LiveSession, Received, Totals
from a2a_claude.claude.usage import Usage
from a2a_claude.observe.redaction import Redactor
from tests.fake_transport import Frame, ScriptedTransport
from tests.lifecycle import serving
from tests.support import make_agent


class Session:
    """A `LiveSession` over a client."""

    ask: Ask | None = None
    calls: Calls | None = None

    def __init__(self, client: Client, fell_back: FellBack | None, before: Totals | None) -> None:
        self.client, self.fell_back, self.before = client, fell_back, before
        self.stopped: list[str] = []
        self.costs: list[float] = []  # what it is said to have cost, each time somebody asks

    @property
    def session_id(self) -> str | None:
        return self.client.session_id

    def turn(self, blocks: list[dict[str, Any]], *, uuid: str) -> AsyncIterator[Received]:
        return self.client.turn(blocks, uuid)

    async def set_mode(self, mode: PermissionMode) -> bool:
        return await self.client.set_mode(mode)

    async def cost(self) -> float | None:
        return self.costs.pop(0) if self.costs else None

    async def stop_background(self, task_id: str) -> bool:
        self.stopped.append(task_id)
        return True

    async def interrupt(self, bound: float) -> bool:
        return await self.client.interrupt(bound)


class OneSession:
    """`Sessions` with one process that plays `turns`; `released` has the health of each release."""

    def __init__(self, turns: tuple[list[Frame], ...], **how: Any) -> None:
        self.transport = ScriptedTransport(turns, deaf=how.pop("deaf", False))
        self.fell_back: FellBack | None = how.pop("fell_back", None)
        self.before: Totals | None = how.pop("before", Totals())
        self.costs: list[float] = how.pop("costs", [])
        self.before_acquire: Callable[[], Any] | None = how.pop("before_acquire", None)
        self.fails: ClaudeStartFailed | None = how.pop("fails", None)
        assert not how
        self.released: list[bool] = []
        self.session: Session | None = None

    async def acquire(self, context_id: str, owner: str, task_id: str) -> LiveSession:
        if self.before_acquire:
            await self.before_acquire()
        if self.fails:
            raise self.fails
        if self.session is None:
            options = ClaudeAgentOptions(verbatim_prompts=True, can_use_tool=self._ask)
            client = Client(options, self.transport, Stderr())
            await client.start()
            self.session = Session(client, self.fell_back, self.before)
            self.session.costs = self.costs
        return self.session

    async def _ask(
        self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        assert self.session is not None
        assert self.session.ask is not None
        return await self.session.ask(tool, arguments, context)

    async def release(self, session: LiveSession, *, healthy: bool) -> None:
        assert self.session is not None
        self.session.ask = None
        self.session.client.detach()
        self.released.append(healthy)
        if not healthy:
            await self.session.client.close()

    async def shutdown(self, bound: float) -> None:
        if self.session:
            await self.session.client.close()


class Room:
    """A served executor: `lifecycle`, its `sessions`, what it `spent`, and the prompts that Claude got."""

    def __init__(self, lifecycle: Lifecycle, sessions: OneSession, spent: list[Usage]) -> None:
        self.lifecycle, self.sessions, self.spent = lifecycle, sessions, spent

    @property
    def prompts(self) -> list[Any]:
        return [each["message"]["content"] for each in self.sessions.transport.written if each["type"] == "user"]


@asynccontextmanager
async def room(
    *turns: list[Frame],
    config: Mapping[str, Any] | None = None,
    workspace: Path | None = None,
    secrets: tuple[str, ...] = (),
    remote_files: Files | None = None,
    notes: Path | None = None,
    known: Callable[[str], bool] = lambda _: True,
    **how: Any,
) -> AsyncIterator[Room]:
    """An agent that plays `turns`; `config` is its document."""
    document = dict(config or {})
    if workspace is not None:
        document["claude"] = {**document.get("claude", {}), "workingDirectory": str(workspace)}
    sessions = OneSession(turns, **how)
    spent: list[Usage] = []
    executor = ClaudeExecutor(
        make_agent(document).config,
        sessions,
        Redactor(secrets),
        remote_files=remote_files,
        spent=spent.append,
        notes=notes,
        known=known,
    )
    async with serving(executor) as lifecycle:
        yield Room(lifecycle, sessions, spent)
    await sessions.shutdown(1)


STREAMING: dict[str, Any] = {"features": {"streamArtifactChunks": True}}


def event(kind: str, **members: Any) -> Frame:
    """A frame of a stream."""
    return {
        "type": "stream_event",
        "uuid": "e",
        "session_id": "11111111-1111-4111-8111-111111111111",
        "parent_tool_use_id": None,
        "event": {"type": kind, **members},
    }


def streamed(*texts: str, name: str = "msg_1", cut: bool = False) -> list[Frame]:
    """A message of the model in deltas; `cut` gives it no end, and says that it does not count."""
    frames = [
        event("message_start", message={"id": name, "model": "claude-fake"}),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=0, delta={"type": "text_delta", "text": each}) for each in texts),
        event("content_block_stop", index=0),
    ]
    if cut:
        return [*frames, {**event("message_stop"), "abandoned_blocks": {"from_block_index": 0}}]
    return [*frames, event("message_delta", delta={"stop_reason": "end_turn"}), event("message_stop")]


def system(subtype: str, **members: Any) -> Frame:
    """A system frame."""
    return {"type": "system", "subtype": subtype, "session_id": "11111111-1111-4111-8111-111111111111", **members}


def background(*tasks: tuple[str, str]) -> Frame:
    """The set of background tasks, as (id, type)."""
    listed = [{"task_id": name, "task_type": kind, "description": f"does {name}"} for name, kind in tasks]
    return system("background_tasks_changed", tasks=listed)

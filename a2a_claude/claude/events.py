"""`Events`: what the turns of an agent tell on the side, and where it goes.

A turn's frames become events in `frame_events.py`; here they get their envelope, their beginning and end, and a way out
that never fails a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from typing import Any, Final

from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import Message

from a2a_claude.claude.delegates import SERVER
from a2a_claude.claude.frame_events import BACKEND, LONGEST_MESSAGE, Frames
from a2a_claude.claude.results import Failure
from a2a_claude.claude.session import Received
from a2a_claude.claude.todos import TodoLists
from a2a_claude.claude.tool_calls import Kinds
from a2a_claude.claude.trace import TraceTransport
from a2a_claude.claude.usage import Usage
from a2a_claude.config.model import Config
from a2a_claude.observe.events import Event, Origin, Transport
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

# A task that is cancelled has not failed: its reason is of the event alone.
_CANCELED: Final = "canceled", "The turn was cancelled."
# What a caller may give as an id that ends up in other systems.
_ID: Final = re.compile(r"[\w.:@/-]{1,128}", re.ASCII)


class Events:
    """The events of an agent; without a `transport` they go into the streams of the tasks."""

    def __init__(self, config: Config, redactor: Redactor, transport: Transport | None = None) -> None:
        self._config, self._redactor, self._transport = config, redactor, transport
        self._kinds = Kinds(config.mcp)
        self._todos = TodoLists()
        name = config.agent_card.name
        self._agent = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "agent", name

    def turn(self, context: RequestContext, queue: EventQueue) -> TurnEvents:
        """For the turn that answers a request and publishes to `queue`."""
        transport = self._transport or TraceTransport(queue)
        if not self._config.events.enabled:
            return TurnEvents(None, None, None, self._redactor)
        conversation = (context.call_context.user.user_name, context.context_id)
        frames = Frames(self._config, self._redactor, self._kinds, self._todos.of(conversation))
        return TurnEvents(transport, frames, self._origin(context), self._redactor, begun=bool(context.current_task))

    def _origin(self, context: RequestContext) -> Origin:
        context_id = context.context_id or ""
        trace = _given(context.message, "traceId") or context_id
        parent = _given(context.message, "parentAgentId")
        return Origin(*self._agent, trace, context.task_id or "", context_id, parent)


class TurnEvents:
    """The events of one turn. Nothing here raises, and nothing after `end` is told."""

    def __init__(
        self,
        transport: Transport | None,
        frames: Frames | None,
        origin: Origin | None,
        redactor: Redactor,
        *,
        begun: bool = False,
    ) -> None:
        """`begun`: an earlier turn of the task has told that the agent has started."""
        self._transport, self._frames, self._origin, self._redactor = transport, frames, origin, redactor
        self._begun, self._over = begun, False
        self._telling: set[asyncio.Task[None]] = set()

    async def frame(self, received: Received) -> None:
        """A frame, before the turn takes it."""
        if self._frames is None or received.frame.get("type") == "stream_event":
            return
        try:
            told = list(self._frames.read(received.frame))
        except Exception:
            logger.exception("A frame could not be told as an event")
            return
        for kind, data in told:
            if kind == "agent_started":
                if self._begun:
                    continue
                self._begun = True
            await self._tell(kind, data)

    def progress(self, tool: str, state: str, text: str) -> None:
        """A sub-agent's task has come to a state, with what was said."""
        if self._transport is None or self._over:
            return
        about = {"toolKind": "a2a_subagent", "server": SERVER, "tool": tool, "delegation": True, "state": state}
        said = {"message": self._redactor.excerpt(text, LONGEST_MESSAGE)} if text else {}
        task = asyncio.create_task(self._tell("tool_call_progress", {**BACKEND, **about, **said}))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def end(self, failure: Failure | None, usage: Usage | None, *, canceled: bool = False) -> None:
        """The turn is over; the first call counts. Tell it before the task is told to have ended."""
        if self._over:
            return
        self._over = True
        if self._telling:
            await asyncio.wait(self._telling)
        if canceled or failure is not None:
            reason, text = (failure.reason, failure.text) if failure is not None and not canceled else _CANCELED
            data = {"message": self._redactor.excerpt(text, LONGEST_MESSAGE), "reason": reason}
            errors = self._frames.errors if self._frames else []
            await self._tell("agent_error", {**BACKEND, **data, **({"errors": errors} if errors else {})})
        elif usage is not None:
            cost = None if usage.cost is None else round(usage.cost, 9)
            spent = {"usage": usage.sdk_tokens, "totalCostUsd": cost, "numTurns": usage.turns}
            await self._tell("agent_finished", {**BACKEND, **spent})

    async def _tell(self, kind: str, data: dict[str, Any]) -> None:
        if self._transport is None or self._origin is None:
            return
        try:
            await self._transport.send(Event(kind, self._origin, data))
        except Exception as error:  # noqa: BLE001 (a transport may raise anything)
            # A task that is lost is the turn's to notice, at its next word.
            with contextlib.suppress(Exception):
                logger.warning("The event %s was not told: %s", kind, error)


def _given(message: Message | None, name: str) -> str | None:
    """An id in the metadata of a message; None without one, and for what is none."""
    if message is None or name not in message.metadata.fields:
        return None
    value = message.metadata.fields[name].string_value
    return value if _ID.fullmatch(value) else None

"""Sideband events: what an agent does while it works, for whoever watches it. docs/events.md lists them.

An event is a name and its data in an envelope that says whose it is. A `Transport` takes it somewhere; nothing that a
transport does changes a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose events they are. `trace_id` joins the tasks of a conversation, also over agents that call each other."""

    agent_id: str
    agent_name: str
    trace_id: str
    task_id: str
    context_id: str
    parent_agent_id: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `data` is JSON without credentials; `timestamp` is UTC with milliseconds (ISO 8601)."""

    type: str
    origin: Origin
    data: Mapping[str, Any]
    id: str = field(default_factory=lambda: str(uuid4()))
    timestamp: str = field(default_factory=lambda: _now())

    def envelope(self) -> dict[str, Any]:
        """The event as the http transport posts it."""
        return {
            "eventId": self.id,
            "eventType": self.type,
            "agentId": self.origin.agent_id,
            "agentName": self.origin.agent_name,
            "traceId": self.origin.trace_id,
            "parentAgentId": self.origin.parent_agent_id,
            "taskId": self.origin.task_id,
            "contextId": self.origin.context_id,
            "timestamp": self.timestamp,
            "data": self.data,
        }


class TryAgain(Exception):
    """An event could not be taken now. `after` are the seconds that the receiver asks to be left alone."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


class Transport(Protocol):
    """Where events go. Give one to `a2a_claude.serve(events=…)` to have it instead of `events.transport`."""

    async def send(self, event: Event) -> None:
        """Takes one event. Those of a task come one after the other, in order; those of several tasks may overlap.

        Nobody waits for it. It may take `events.httpTimeout`. `TryAgain` has it called again later; any other
        exception loses the event. The log tells of both.
        """
        ...


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""`Scripted`: an executor without Claude, for trying the server and for protocol tests (skeleton)."""

from __future__ import annotations

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue


class Scripted(AgentExecutor):  # type: ignore[misc]
    """Answers by the prefix of the messageId; takes no arguments."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One scripted turn."""

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Publishes `canceled`."""

"""`Observed`: an executor whose turns are timed, and whose log lines carry the ids of the task."""

from __future__ import annotations

import time
from collections.abc import Callable

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue

from a2a_claude.a2a.answering import answering
from a2a_claude.observe.logs import bind, bound


class Observed(AgentExecutor):
    """Runs another executor; `timed` gets the seconds that each turn took, however it ended."""

    def __init__(self, executor: AgentExecutor, timed: Callable[[float], None]) -> None:
        self._executor = executor
        self._answering = answering(executor)
        self._timed = timed

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn."""
        started = time.monotonic()
        bind(task_id=context.task_id or "", context_id=context.context_id or "")
        try:
            await self._executor.execute(context, event_queue)
        finally:
            self._timed(time.monotonic() - started)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancels a turn."""
        with bound(task_id=context.task_id or "", context_id=context.context_id or ""):
            await self._executor.cancel(context, event_queue)

    def waits(self, task_id: str) -> bool:
        """See `Answering`."""
        return self._answering is not None and self._answering.waits(task_id)

    def answer(self, context: RequestContext) -> bool:
        """See `Answering`."""
        with bound(task_id=context.task_id or "", context_id=context.context_id or ""):
            return self._answering is not None and self._answering.answer(context)

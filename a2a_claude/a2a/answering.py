"""What an executor has whose turns pause for an answer and then go on: `input-required` in the middle of a turn.

Any other executor returns when it needs something, and the caller's next message begins another turn.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext


@runtime_checkable
class Answering(Protocol):
    """Beside `AgentExecutor`. Neither method waits."""

    def waits(self, task_id: str) -> bool:
        """Whether a turn of the task is paused until it is answered.

        Asked when the task comes to `input-required` or `auth-required`. True: SendMessage is answered and
        SendStreamingMessage ends, the turn's place is given to others meanwhile, and a restart fails the task.
        """
        ...

    def answer(self, context: RequestContext) -> bool:
        """Takes a further message of a task for the turn that is paused; `context.current_task` is None.

        True: it is the turn's, which publishes a status next. False: it is a follow-up, whose own turn comes later.

        Raises:
            A2AError: it is an answer that cannot be taken. It is refused, and nothing of it is stored.
        """
        ...


def answering(executor: AgentExecutor) -> Answering | None:
    """The executor, if its turns can pause."""
    return executor if isinstance(executor, Answering) else None

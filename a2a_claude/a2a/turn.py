"""`Turn`: one message's way through the executor, and the queue that the executor publishes to."""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING

from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event, EventQueue
from a2a.types.a2a_pb2 import SendMessageRequest, TaskStatusUpdateEvent

from a2a_claude.a2a.subscribers import Subscriber
from a2a_claude.a2a.turns import Place
from a2a_claude.store import PushConfig, Record

if TYPE_CHECKING:
    from a2a_claude.a2a.engine import Engine
    from a2a_claude.a2a.live import LiveTask

logger = logging.getLogger(__name__)


class Turn:
    """What happens to one message.

    `document` is the message as it is stored. `answer` is what a blocking SendMessage waits for: a Message, or None for
    "read the task". `ready` is the commit of what the client is told before the executor speaks, if anything. `pending`
    is true while a follow-up's turn has not set a status, `spoke` once it has published anything, `replied` once that
    was a bare Message. `stopped` marks a turn that the server cancelled, `last` is how its task ends then.
    `answers` are messages that this turn took while it was paused: each is answered when the turn pauses again, or is
    over. `scope` holds the context variables of its request, such as the ids of log lines: a turn that waits is started
    by whoever makes room.
    """

    place: Place

    def __init__(
        self,
        live: LiveTask,
        params: SendMessageRequest,
        document: bytes,
        context: ServerCallContext,
        *,
        subscriber: Subscriber | None = None,
        push: PushConfig | None = None,
    ) -> None:
        self.live, self.params, self.document, self.context = live, params, document, context
        self.subscriber, self.push = subscriber, push
        self.scope = copy_context()
        self.follow_up = self.pending = live.stored
        self.spoke = self.replied = self.stopped = False
        self.last: TaskStatusUpdateEvent | None = None
        self.answers: list[Turn] = []
        self.ready: asyncio.Future[None] | None = None
        self.worker: asyncio.Task[None] | None = None
        self.answer: asyncio.Future[Record | None] = asyncio.get_running_loop().create_future()

    def settle(self, answer: Record | Exception | None) -> None:
        """Answers whoever waits; the first answer counts."""
        for each in self.answers:
            each.settle(answer)
        if self.answer.done():
            return
        if isinstance(answer, Exception):
            self.answer.set_exception(answer)
            self.answer.exception()  # a client that went away does not fetch it
        else:
            self.answer.set_result(answer)

    def end(self, error: Exception | None = None) -> None:
        """Answers, and ends the streams of this turn's messages."""
        self.settle(error)
        for each in (self, *self.answers):
            if each.subscriber:
                each.subscriber.end(error)
        self.answers.clear()

    def stop(self, last: TaskStatusUpdateEvent | None = None) -> None:
        """Cancels the executor's coroutine; the turn is over when that has ended, and has published what it still held.

        `last` then ends the task.
        """
        self.stopped, self.last = True, last or self.last
        if self.worker:
            self.worker.cancel()


class TurnQueue(EventQueue):
    """What the executor publishes to; `turn` is None for a cancellation."""

    def __init__(self, engine: Engine, live: LiveTask, turn: Turn | None) -> None:
        self._engine, self._live, self._turn = engine, live, turn
        self.closed = False

    async def enqueue_event(self, event: Event) -> None:
        """Publishes an event; returns when it is committed and handed out.

        After the end of the task, or of the turn, it is dropped and logged.

        Raises:
            InvalidAgentResponseError: an event of another task, or one that does not fit what went before.
            StoreError: it could not be stored; the task is lost.
        """
        if self.closed:
            logger.warning("Task %s: %s after the end of its turn was dropped", self._live.id, type(event).__name__)
            return
        await committed(self._engine.publish(self._live, event, self._turn))


async def committed(write: asyncio.Future[None] | None) -> None:
    """Waits for a commit; StoreError when it failed."""
    if write is not None:
        await write

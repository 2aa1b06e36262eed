"""How tasks end otherwise than by their own turn: cancelled, lost by the store, interrupted by a restart or a stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial

from a2a.server.agent_execution.context import RequestContext
from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import TaskState, TaskStatusUpdateEvent
from a2a.utils.errors import InternalError

from a2a_claude.a2a import events
from a2a_claude.a2a.engine import Engine, stopping
from a2a_claude.a2a.live import LiveTask
from a2a_claude.a2a.turn import TurnQueue, committed
from a2a_claude.store import StoreError
from a2a_claude.store.sqlite import milliseconds

logger = logging.getLogger(__name__)

CANCEL_GRACE = 10.0  # seconds an executor gets to cancel a turn in its own way
STOP_GRACE = 5.0  # seconds cancelled executors get to clean up when the server stops
REPAIR_DELAYS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds between attempts to record what the store refused


class Endings:
    """Ends the tasks of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._repairs: set[asyncio.Task[None]] = set()
        engine.lost = self.lose

    async def cancel(self, live: LiveTask, context: ServerCallContext) -> None:
        """Cancels an unfinished task; returns when it has ended, in whatever state came first.

        Goes on when the caller goes away; several callers share one cancellation.
        """
        if live.canceling is None:
            self._engine.tasks.keep(live)
            live.canceling = asyncio.create_task(self._cancel(live, context))
            self._engine.keep(live.canceling)
        await asyncio.shield(live.canceling)

    async def _cancel(self, live: LiveTask, context: ServerCallContext) -> None:
        try:
            if live.running or live.state != TaskState.TASK_STATE_SUBMITTED:
                await self._cancel_in_executor(live, context)
            if not live.terminal:
                await committed(self._engine.publish(live, events.canceled(), None))
            await committed(live.written)
        except StoreError as error:
            self.lose(live, error)
        finally:
            if live.running:
                live.running.stop()
            live.canceling = None
            self._engine.tasks.release(live)

    async def _cancel_in_executor(self, live: LiveTask, context: ServerCallContext) -> None:
        queue = TurnQueue(self._engine, live, None)
        request = RequestContext(context, None, live.id, live.context_id, self._engine.task(live))
        try:
            await asyncio.wait_for(self._engine.executor.cancel(request, queue), CANCEL_GRACE)
        except TimeoutError:
            logger.error("Task %s: the executor did not cancel it within %.0f s", live.id, CANCEL_GRACE)
        except Exception:
            logger.exception("Task %s: the executor failed to cancel it", live.id)
        finally:
            queue.closed = True

    async def recover(self) -> None:
        """Fails the tasks that were at work when the server stopped; those that wait for input are left as they are."""
        for row in self._engine.store.interrupted():
            live = self._engine.tasks.load(row)
            event = events.failed("server_restarted", "The server was restarted while this task was at work")
            await committed(self._engine.publish(live, event, None))
            logger.warning("Task %s had not ended when the server stopped: it has failed", live.id)

    async def drain(self, seconds: float) -> None:
        """See `Lifecycle.drain`."""
        engine = self._engine
        engine.stopping = True
        engine.turns.stop()
        for live in engine.tasks:
            if any(turn.place.running for turn in live.turns):
                for turn in list(live.turns):
                    engine.withdraw(turn, stopping())
            elif live.turns:
                self._stop(live)
            else:
                for subscriber in live.subscribers:
                    subscriber.end()
        for turn in engine.running:
            if turn.place.paused:  # it gets no answer any more
                turn.stop(_stopped())
        workers = {turn.worker for turn in engine.running if turn.worker}
        if workers:
            await asyncio.wait(workers, timeout=seconds)
        for turn in engine.running:
            turn.stop(_stopped())
        if pending := {turn.worker for turn in engine.running if turn.worker}:
            await asyncio.wait(pending, timeout=STOP_GRACE)
        for turn in engine.running:
            if turn.live.stored and not turn.live.terminal:
                self._stop(turn.live)
        for live in engine.tasks:
            with contextlib.suppress(StoreError):
                await committed(live.written)
            for subscriber in live.subscribers:
                subscriber.end()
        for repair in self._repairs:
            repair.cancel()

    def _stop(self, live: LiveTask) -> None:
        self._engine.publish(live, _stopped(), None)

    def lose(self, live: LiveTask, error: StoreError) -> None:
        """The store refused a change: whoever listens is told, and the failure is recorded when the store allows."""
        if live.broken:
            return
        live.broken = True
        live.state = TaskState.TASK_STATE_FAILED
        logger.error("Task %s is lost: %s", live.id, error)
        problem = InternalError("The server cannot store this task now")
        for subscriber in live.subscribers:
            subscriber.end(problem)
        for turn in list(live.turns):
            if not self._engine.withdraw(turn, problem):
                turn.end(problem)
                turn.stop()
        repair = asyncio.create_task(self._repair(live))
        self._repairs.add(repair)
        repair.add_done_callback(self._repairs.discard)

    async def _repair(self, live: LiveTask) -> None:
        store = self._engine.store
        event = events.failed("store_failed", "The server could not store this task")
        attempt = 0
        while live.broken:
            await asyncio.sleep(REPAIR_DELAYS[min(attempt, len(REPAIR_DELAYS) - 1)])
            attempt += 1
            with contextlib.suppress(StoreError):
                row = store.task(live.id)
                if row is not None:
                    again = self._engine.tasks.load(row)
                    if not again.terminal:
                        step = again.set_status(event, milliseconds(), first_word=False)
                        await store.write(step.changes, partial(self._engine.deliver, again, step.records))
                live.broken = False
                self._engine.tasks.release(live)


def _stopped() -> TaskStatusUpdateEvent:
    return events.failed("server_stopped", "The server was stopped")

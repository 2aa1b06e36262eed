"""`Engine`: runs the executor's turns and makes committed events of what it says.

One rule holds it together: an event is applied to its `LiveTask` at once, committed by the store, and only then handed
to whoever listens. Everything here runs on one event loop; between two awaits nothing else happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.types.a2a_pb2 import Message, SendMessageRequest, Task, TaskArtifactUpdateEvent, TaskState
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    UnsupportedOperationError,
)

from a2a_claude.a2a import events
from a2a_claude.a2a.answering import answering
from a2a_claude.a2a.errors import invalid_params
from a2a_claude.a2a.ids import new_id
from a2a_claude.a2a.live import LiveTask, Step
from a2a_claude.a2a.sideband import Sideband
from a2a_claude.a2a.subscribers import Subscriber
from a2a_claude.a2a.tasks import Tasks
from a2a_claude.a2a.turn import Turn, TurnQueue, committed
from a2a_claude.a2a.turns import Overloaded, Turns
from a2a_claude.store import EventRecord, PushConfig, Record, Store, StoreError, changes, codec
from a2a_claude.store.codec import INTERRUPTED
from a2a_claude.store.sqlite import milliseconds

logger = logging.getLogger(__name__)


class Engine:
    """Turns of an executor over the tasks of a store. `history_limit` caps the history an executor is given."""

    def __init__(
        self,
        executor: AgentExecutor,
        store: Store,
        turns: Turns,
        history_limit: int,
        sideband: Sideband = Sideband(),  # noqa: B008 (frozen)
    ) -> None:
        self.executor, self.store, self.turns, self.sideband = executor, store, turns, sideband
        self._answering = answering(executor)
        self.history_limit = history_limit
        self.stopping = False
        self.running: set[Turn] = set()
        self.tasks = Tasks(store)
        self.observers: list[Callable[[EventRecord], None]] = []
        self._background: set[asyncio.Task[None]] = set()
        self.lost: Callable[[LiveTask, StoreError], None]

    def begin(
        self,
        params: SendMessageRequest,
        context: ServerCallContext,
        owner: str,
        *,
        subscriber: Subscriber | None = None,
        push: PushConfig | None = None,
        visible: bool = False,
    ) -> Turn:
        """Accepts a message: its turn starts now or is queued, or a paused turn takes it for the answer. Nothing waits
        in here, so the order is that of arrival.

        A new task whose turn starts now is not stored until the executor says its first word, so that an agent may
        answer with a bare Message; with `visible`, or when it must wait, it is stored as `submitted`.

        Raises:
            Overloaded: no room, or the server is stopping; nothing was stored.
            TaskNotFoundError, InvalidParamsError, UnsupportedOperationError: A2A 3.4.3, messages that name a task.
        """
        if self.stopping:
            raise stopping()
        message = params.message
        if message.task_id:
            live = self.tasks.find(message.task_id, owner)
            if message.context_id not in ("", live.context_id):
                raise invalid_params(("message.contextId", f"task {live.id} belongs to context {live.context_id}"))
            if live.terminal:
                raise UnsupportedOperationError(
                    f"Task {live.id} has ended: send the message without taskId to start a new task"
                )
        else:
            live = LiveTask.new(self.store.next_key(), message.context_id or new_id(), owner, milliseconds())
        try:
            document = live.document(message)
        except ValueError as error:
            raise invalid_params(("message", str(error))) from error
        turn = Turn(live, params, document, context, subscriber=subscriber, push=push)
        if turn.follow_up and self._answers(turn):
            return self._go_on(turn)
        turn.place = self.turns.take((owner, live.context_id), partial(self._start, turn))
        live.turns.append(turn)
        if subscriber:
            live.subscribers.append(subscriber)
        if turn.follow_up:
            self.tasks.keep(live)
            live.pushes += push is not None
            turn.ready = self._commit(live, self._with_push(turn, live.accept(document)))
        elif visible or not turn.place.running:
            turn.ready = self._commit(live, self._create(turn))
        return turn

    def _answers(self, turn: Turn) -> bool:
        live = turn.live
        if self._answering is None or live.running is None:
            return False
        return self._answering.answer(RequestContext(turn.context, turn.params, live.id, live.context_id))

    def _go_on(self, answer: Turn) -> Turn:
        """The running turn has taken a message, and goes on with it."""
        live = answer.live
        assert live.running is not None  # noqa: S101 (it took the message)
        live.running.answers.append(answer)
        if answer.subscriber:
            live.subscribers.append(answer.subscriber)
        live.pushes += answer.push is not None
        answer.ready = self._commit(live, self._with_push(answer, live.accept(answer.document, waits=False)))
        return answer

    def keep(self, task: asyncio.Task[None]) -> None:
        """Holds work that no request waits for: the event loop itself holds tasks weakly."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _start(self, turn: Turn) -> None:
        self.running.add(turn)
        turn.worker = asyncio.create_task(self._work(turn), context=turn.scope)
        self.keep(turn.worker)

    async def _work(self, turn: Turn) -> None:
        live = turn.live
        queue = TurnQueue(self, live, turn)
        try:
            await committed(turn.ready)
            if not live.terminal:
                live.running = turn
                await self.executor.execute(self._request(turn), queue)
                await self._ended(turn)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if not turn.stopped and task and task.cancelling():
                # Nobody but the end of the event loop cancels a turn from outside.
                self.stopping = True
                self.turns.stop()
                raise
            if not turn.stopped:
                logger.exception("Task %s: the executor cancelled itself", live.id)
                await self._failed(turn, error)
        except StoreError as error:
            self.lost(live, error)
        except A2AError as error:
            logger.warning("Task %s: the executor raised %s: %s", live.id, type(error).__name__, error.message)
            await self._failed(turn, error)
        except Exception as error:
            logger.exception("Task %s: the executor failed", live.id)
            await self._failed(turn, error)
        finally:
            queue.closed = True
            await self._say_last(turn)
            live.running = None
            live.turns.remove(turn)
            turn.end(self.unanswered(turn))
            self.running.discard(turn)
            self.turns.leave(turn.place)
            self.tasks.release(live)

    def unanswered(self, turn: Turn) -> Exception | None:
        """Why a turn that ends without an answer has none; None when the task is the answer."""
        if not turn.live.stored:
            return stopping()
        if turn.pending and turn.live.terminal and not turn.spoke:
            if self.stopping:
                return stopping()
            return UnsupportedOperationError(f"Task {turn.live.id} ended before this message had its turn")
        return None

    async def _ended(self, turn: Turn) -> None:
        """The executor has returned. Without a word it has failed; a task that it left `working` may be continued."""
        live = turn.live
        await committed(live.written)
        if turn.replied or live.terminal:
            return
        if live.state == TaskState.TASK_STATE_SUBMITTED:
            await committed(self.publish(live, events.failed("executor_ended", "The agent gave no answer"), turn))
        elif turn.pending or live.paused:
            wordless, turn.pending = turn.pending, False
            await committed(self._commit(live, live.settle(wordless=wordless)))

    async def _say_last(self, turn: Turn) -> None:
        """How a stopped turn's task ends, before its streams do."""
        if turn.last and turn.live.stored and not turn.live.terminal:
            with contextlib.suppress(StoreError):
                await committed(self.publish(turn.live, turn.last, None))

    async def _failed(self, turn: Turn, error: BaseException) -> None:
        if turn.replied or turn.stopped:
            return
        if not turn.live.stored and isinstance(error, A2AError) and not isinstance(error, InternalError):
            # Nothing was promised yet: the executor refuses the request itself.
            turn.end(error)
            return
        problem = error if isinstance(error, Exception) else InternalError()
        with contextlib.suppress(StoreError):
            await committed(self.publish(turn.live, events.failed_by(problem), turn, forced=True))

    def _request(self, turn: Turn) -> RequestContext:
        live = turn.live
        task = self.task(live) if turn.follow_up else None
        return RequestContext(turn.context, turn.params, live.id, live.context_id, task)

    def task(self, live: LiveTask) -> Task | None:
        """A task as executors get it."""
        found = self.store.task_json(live.id, live.owner, self.history_limit)
        return Record("task", found.json).proto if found else None  # type: ignore[return-value]

    def publish(self, live: LiveTask, event: Event, turn: Turn | None, *, forced: bool = False) -> asyncio.Future[None]:
        """Applies an event and has it committed; the future ends when it was handed out.

        `turn` is whose event it is (None: a cancellation's, or the server's). A turn that is being cancelled or stopped
        can no longer end its task itself, unless `forced`.
        """
        if live.terminal:
            level = logging.DEBUG if self.sideband.takes(event) else logging.WARNING
            logger.log(level, "Task %s: %s after its end was dropped", live.id, type(event).__name__)
            return _nothing()
        if turn and (live.canceling or turn.stopped) and not forced and events.ends(event):
            logger.info("Task %s: its turn's end was dropped, it is being ended otherwise", live.id)
            return _nothing()
        if turn and turn.replied:
            raise InvalidAgentResponseError("The agent answered with a Message and then published more")
        events.check_ids(event, live.id, live.context_id)
        try:
            if isinstance(event, Message):
                if turn is None or turn.spoke:
                    raise InvalidAgentResponseError("The agent published a Message in the middle of a task")
                if not live.stored:
                    return self._reply(turn, event)
                event = events.completed(event)
            if isinstance(event, TaskArtifactUpdateEvent) and not self.sideband.stored and self.sideband.takes(event):
                return self._tell(live, event, turn)
            # A turn that ends by itself closes what it has opened.
            closing = live.close_artifacts() if events.ends(event) and (turn is None or forced) else Step()
            step = closing.then(self._apply(live, event, turn))
        except ValueError as error:
            raise InvalidAgentResponseError(f"The agent published what JSON cannot say: {error}") from error
        if turn:
            turn.spoke = True
        return self._commit(live, step)

    def _apply(self, live: LiveTask, event: Event, turn: Turn | None) -> Step:
        step = Step()
        if turn and not live.stored:
            described = event if isinstance(event, Task) else None
            step = self._create(turn, described)
            if described:
                return step
        if isinstance(event, TaskArtifactUpdateEvent):
            extension = self.sideband.extension if self.sideband.takes(event) else ""
            return step.then(live.add_artifact(event, extension=extension))
        if isinstance(event, Task):
            for artifact in event.artifacts:
                step.then(live.add_artifact(TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True)))
            if event.status.state in (0, live.state) and not event.status.HasField("message"):
                return step
        assert not isinstance(event, Message)  # noqa: S101 (publish has made a status of it)
        paused = event.status.state in INTERRUPTED and self._answering is not None and self._answering.waits(live.id)
        step.then(live.set_status(event, milliseconds(), first_word=bool(turn and turn.pending), paused=paused))
        if turn:
            turn.pending = False
            (self.turns.pause if paused else self.turns.resume)(turn.place)
        return step

    def _tell(self, live: LiveTask, event: TaskArtifactUpdateEvent, turn: Turn | None) -> asyncio.Future[None]:
        """Tells streams of what the task does not keep, after the events that are still to be committed."""
        if turn and not live.stored:
            turn.spoke = True
            self._commit(live, self._create(turn))
        if any(each.wants(self.sideband.extension) for each in live.subscribers):
            record = live.aside(event, extension=self.sideband.extension)
            if live.undelivered is None:
                self.deliver(live, [record])
            else:
                live.undelivered.append(record)
        return _nothing()

    def _create(self, turn: Turn, task: Task | None = None) -> Step:
        live = turn.live
        live.pushes += turn.push is not None
        step = live.create(turn.document, milliseconds(), task)
        self.tasks.keep(live)
        return self._with_push(turn, step)

    def _with_push(self, turn: Turn, step: Step) -> Step:
        if turn.push:
            live, push = turn.live, turn.push
            document = codec.dumps(codec.loads(push.json) | {"taskId": live.id})
            stored = PushConfig(live.id, push.id, push.version, document)
            step.changes.append(changes.put_push_config(live.key, live.owner, milliseconds(), stored))
        return step

    def _reply(self, turn: Turn, message: Message) -> asyncio.Future[None]:
        content = codec.message(message, task_id="", context_id=turn.live.context_id)
        content["messageId"] = content["messageId"] or new_id()
        content.setdefault("role", "ROLE_AGENT")
        record = Record("message", codec.dumps(content), last=True)
        turn.replied = True
        turn.settle(record)
        if turn.subscriber:
            turn.subscriber.put(record)
            turn.subscriber.end()
        return _nothing()

    def _commit(self, live: LiveTask, step: Step) -> asyncio.Future[None]:
        if not live.stored:
            step.changes.insert(0, live.insert())
        if not step.changes:
            return _nothing()
        live.undelivered = step.records
        live.written = self.store.write(step.changes, partial(self.deliver, live, step.records))
        live.written.add_done_callback(partial(self._written, live))
        return live.written

    def _written(self, live: LiveTask, write: asyncio.Future[None]) -> None:
        if not write.cancelled() and isinstance(error := write.exception(), StoreError):
            self.lost(live, error)
        self.tasks.release(live)

    def deliver(self, live: LiveTask, records: list[EventRecord]) -> None:
        """Hands committed events out."""
        for record in records:
            for subscriber in live.subscribers:
                if subscriber.wants(record.extension):
                    subscriber.put(record)
            if record.aside:
                continue
            for observer in self.observers:
                try:
                    observer(record)
                except Exception:
                    logger.exception("Task %s: an observer of its events failed", live.id)
            if record.last:
                self._finish(live)
            elif record.state in INTERRUPTED and record.kind != "artifactUpdate" and live.running:
                (live.running.end if live.paused else live.running.settle)(None)
        if live.undelivered is records:
            live.undelivered = None

    def _finish(self, live: LiveTask) -> None:
        for turn in list(live.turns):
            if not self.withdraw(turn, self.unanswered(turn)):
                turn.settle(self.unanswered(turn))
        for subscriber in live.subscribers:
            subscriber.end()

    def withdraw(self, turn: Turn, error: Exception | None) -> bool:
        """Ends a turn that is still queued; false when it has started."""
        if not self.turns.withdraw(turn.place):
            return False
        turn.live.turns.remove(turn)
        turn.end(error)
        return True


def stopping() -> Overloaded:
    """The refusal of a server that shuts down."""
    return Overloaded("The server is stopping", retry_after=10, http_status=503)


def _nothing() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future

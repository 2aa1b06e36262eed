"""`Lifecycle`: every A2A operation over the store and one executor.

It implements a2a-sdk's `RequestHandler` (`on_…`, protobuf in and out). Bindings that speak v1.0 use the twin of each
operation that gives ready ProtoJSON instead (`get`, `list`, `send`, `cancel`, `stream`, `subscribe`): the same checks
and errors without a round trip through protobuf. docs/server.md says why this is not the SDK's own handler.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import Event
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    TaskNotCancelableError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import Parse

from a2a_claude.a2a.endings import Endings
from a2a_claude.a2a.engine import Engine
from a2a_claude.a2a.push_configs import PushConfigs
from a2a_claude.a2a.queries import Queries, last_messages
from a2a_claude.a2a.sideband import Sideband
from a2a_claude.a2a.subscribers import Subscriber
from a2a_claude.a2a.turn import Turn, committed
from a2a_claude.a2a.turns import Turns
from a2a_claude.config.model import Limits
from a2a_claude.store import EventRecord, PushConfig, Record, Store, StoreError, codec


@dataclass(frozen=True, slots=True)
class Stats:
    """What the server is doing now: stored tasks by state name, turns queued and running, open streams."""

    tasks: dict[str, int]
    queued: int
    running: int
    subscribers: int


class Lifecycle(RequestHandler):
    """The server's operations. Raises a2a-sdk's errors (`a2a.utils.errors`), `turns.Overloaded` among them.

    A task belongs to the principal that started it (`context.user.user_name`; callers of an open server share one
    empty name). To anybody else it does not exist, on every operation.
    """

    def __init__(
        self,
        executor: AgentExecutor,
        store: Store,
        limits: Limits,
        *,
        streaming: bool = True,
        push_notifications: bool = True,
        extended_card: bool = False,
        make_extended_card: Callable[[ServerCallContext], AgentCard] | None = None,
        check_url: Callable[[str], Awaitable[None]] | None = None,
        sideband: Sideband = Sideband(),  # noqa: B008 (frozen)
    ) -> None:
        """`check_url` vets a webhook's URL at registration and raises InvalidParamsError."""
        turns = Turns(limits.max_concurrent_tasks, limits.max_queued_tasks)
        self.store = store
        self._engine = Engine(executor, store, turns, limits.max_history_length, sideband)
        self._endings = Endings(self._engine)
        self._queries = Queries(store, limits.max_history_length)
        self._push = PushConfigs(
            self._engine, supported=push_notifications, limit=limits.max_push_configs, check_url=check_url
        )
        self._streaming = streaming
        self._extended_card = extended_card
        self._make_extended_card = make_extended_card

    async def start(self) -> None:
        """Fails the tasks that a crash interrupted (reason `server_restarted`). Before the first request."""
        await self._endings.recover()

    async def drain(self, seconds: float) -> None:
        """Refuses new messages, lets running turns end for `seconds`, fails the rest with reason `server_stopped`.

        Queued tasks fail at once. Every open stream ends by itself. Afterwards the store may be closed.
        """
        await self._endings.drain(seconds)

    def observe(self, callback: Callable[[EventRecord], None]) -> None:
        """`callback` gets each event after its commit, in order per task, on the event loop; it must not block."""
        self._engine.observers.append(callback)

    def stats(self) -> Stats:
        """For health and metrics."""
        tasks = {codec.STATE_NAMES[state]: count for state, count in self.store.count_by_state().items()}
        streams = sum(len(live.subscribers) for live in self._engine.tasks)
        return Stats(tasks, self._engine.turns.queued, self._engine.turns.running, streams)

    # The operations in ready ProtoJSON

    async def get(self, params: GetTaskRequest, context: ServerCallContext) -> Record:
        """GetTask: a `task` record."""
        with _store_errors():
            return self._queries.get(params, _owner(context))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> bytes:
        """ListTasks: the ListTasksResponse as ProtoJSON (every member present)."""
        with _store_errors():
            return await self._queries.list(params, _owner(context))

    async def send(self, params: SendMessageRequest, context: ServerCallContext) -> Record:
        """SendMessage: a `task` or a `message` record.

        Waits until the turn ends its task, interrupts it for input, or is over; with `returnImmediately` only until
        the message is stored.
        """
        with _store_errors():
            owner = _owner(context)
            history = self._queries.history(params.configuration, "configuration.historyLength")
            push = await self._inline_push(params, context)
            at_once = params.configuration.return_immediately
            turn = self._engine.begin(params, context, owner, push=push, visible=at_once)
            if at_once:
                await committed(turn.ready)
            elif (record := await turn.answer) is not None:
                return record
            return self._queries.snapshot(turn.live.id, owner, history)

    async def cancel(self, params: CancelTaskRequest, context: ServerCallContext) -> Record:
        """CancelTask: a `task` record. TaskNotCancelableError when the task ended in another way first."""
        with _store_errors():
            owner = _owner(context)
            live = self._engine.tasks.find(params.id, owner)
            if not live.terminal:
                await self._endings.cancel(live, context)
                if live.state == TaskState.TASK_STATE_CANCELED:
                    return self._queries.snapshot(live.id, owner, self._queries.history_limit)
            # What a client is told about its end is committed, like everything else.
            await committed(live.written)
            raise TaskNotCancelableError(f"Task {live.id} has ended ({codec.STATE_NAMES[live.state]})")

    async def stream(self, params: SendMessageRequest, context: ServerCallContext) -> AsyncGenerator[Record, None]:
        """SendStreamingMessage: the task and then its events, or one Message.

        Ends when the task does, or when the turn of this message is over. Errors of the request are raised by the
        first step. Close the generator when the client goes: the task goes on.
        """
        self._require_streaming()
        with _store_errors():
            owner = _owner(context)
            history = self._queries.history(params.configuration, "configuration.historyLength")
            push = await self._inline_push(params, context)
            subscriber = Subscriber(context.requested_extensions)
            turn = self._engine.begin(params, context, owner, subscriber=subscriber, push=push)
            try:
                if turn.follow_up:
                    yield await self._first(turn, subscriber, owner, history)
                async for record in subscriber:
                    yield last_messages(record, history) if record.kind == "task" else record
            finally:
                self._engine.tasks.leave(turn.live, subscriber)

    async def subscribe(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Record, None]:
        """SubscribeToTask: the task as it is, with partial artifacts, then what follows until it ends.

        UnsupportedOperationError when it has ended already. Close the generator when the client goes.
        """
        self._require_streaming()
        with _store_errors():
            owner = _owner(context)
            live = self._engine.tasks.find(params.id, owner)
            subscriber = Subscriber(context.requested_extensions)
            self._engine.tasks.join(live, subscriber)
            try:
                record = self._queries.snapshot(live.id, owner, self._queries.history_limit)
                if record.last:
                    raise UnsupportedOperationError(f"Task {live.id} has ended: read it with GetTask")
                subscriber.after = record.seq
                if self._engine.stopping and not live.turns:
                    subscriber.end()
                yield record
                async for event in subscriber:
                    yield event
            finally:
                self._engine.tasks.leave(live, subscriber)

    async def _first(self, turn: Turn, subscriber: Subscriber, owner: str, history: int) -> Record:
        await committed(turn.ready)
        record = self._queries.snapshot(turn.live.id, owner, history)
        subscriber.after = record.seq
        return record

    async def _inline_push(self, params: SendMessageRequest, context: ServerCallContext) -> PushConfig | None:
        if not params.configuration.HasField("task_push_notification_config"):
            return None
        push = await self._push.vet(params.configuration.task_push_notification_config, context)
        if params.message.task_id:
            self._push.check_room(params.message.task_id, _owner(context), push)
        return push

    def _require_streaming(self) -> None:
        if not self._streaming:
            raise UnsupportedOperationError("This agent does not stream")

    # a2a-sdk's RequestHandler

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """GetTask."""
        return cast("Task", (await self.get(params, context)).proto)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """ListTasks."""
        return Parse(await self.list(params, context), ListTasksResponse())

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """CancelTask."""
        return cast("Task", (await self.cancel(params, context)).proto)

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """SendMessage."""
        return cast("Task | Message", (await self.send(params, context)).proto)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """SendStreamingMessage."""
        async for event in _protos(self.stream(params, context)):
            yield event

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """SubscribeToTask."""
        async for event in _protos(self.subscribe(params, context)):
            yield event

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """CreateTaskPushNotificationConfig: the config with its id. An id that exists is replaced."""
        with _store_errors():
            return await self._push.create(params, _owner(context), context)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """GetTaskPushNotificationConfig: TaskNotFoundError when the task has none of this id."""
        with _store_errors():
            return self._push.get(params.task_id, params.id, _owner(context))

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """ListTaskPushNotificationConfigs: all on one page, `limits.maxPushConfigs` bounds them."""
        with _store_errors():
            return ListTaskPushNotificationConfigsResponse(configs=self._push.list(params.task_id, _owner(context)))

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """DeleteTaskPushNotificationConfig: no error when there is none of this id."""
        with _store_errors():
            await self._push.delete(params.task_id, params.id, _owner(context))

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """GetExtendedAgentCard. Authentication is the binding's business."""
        if not self._extended_card:
            raise UnsupportedOperationError("This agent has no extended card")
        if self._make_extended_card is None:
            raise ExtendedAgentCardNotConfiguredError
        return self._make_extended_card(context)


def _owner(context: ServerCallContext) -> str:
    return context.user.user_name


async def _protos(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Event, None]:
    try:
        async for record in records:
            yield record.proto
    finally:
        await records.aclose()


class _store_errors:  # noqa: N801 (used like a function)
    """Callers learn that the store failed, the log what happened to it."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreError):
            raise InternalError("The server's store does not work now") from error

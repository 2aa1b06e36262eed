"""The operations of A2A (v1.0 section 3.1), each from a decoded request to v1.0 ProtoJSON.

Every binding goes through here: v1.0 bindings put the bytes into their envelope, v0.3 bindings translate them. A
handler that has ready JSON (`Lifecycle`) is asked for it; any other a2a-sdk `RequestHandler` works too, its protobuf
messages are encoded here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol

import orjson
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import (
    InvalidAgentResponseError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

Unary = Callable[[Any, ServerCallContext], Awaitable[bytes]]
Stream = Callable[[Any, ServerCallContext], AsyncGenerator[bytes, None]]


class Operation(NamedTuple):
    """One operation: its v1.0 JSON-RPC method name and the message that asks for it."""

    name: str
    request: type[Message]
    streams: bool = False


SEND: Final = Operation("SendMessage", pb.SendMessageRequest)
STREAM: Final = Operation("SendStreamingMessage", pb.SendMessageRequest, streams=True)
GET: Final = Operation("GetTask", pb.GetTaskRequest)
LIST: Final = Operation("ListTasks", pb.ListTasksRequest)
CANCEL: Final = Operation("CancelTask", pb.CancelTaskRequest)
SUBSCRIBE: Final = Operation("SubscribeToTask", pb.SubscribeToTaskRequest, streams=True)
PUSH_CREATE: Final = Operation("CreateTaskPushNotificationConfig", pb.TaskPushNotificationConfig)
PUSH_GET: Final = Operation("GetTaskPushNotificationConfig", pb.GetTaskPushNotificationConfigRequest)
PUSH_LIST: Final = Operation("ListTaskPushNotificationConfigs", pb.ListTaskPushNotificationConfigsRequest)
PUSH_DELETE: Final = Operation("DeleteTaskPushNotificationConfig", pb.DeleteTaskPushNotificationConfigRequest)
EXTENDED_CARD: Final = Operation("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest)

ALL: Final = (
    SEND,
    STREAM,
    GET,
    LIST,
    CANCEL,
    SUBSCRIBE,
    PUSH_CREATE,
    PUSH_GET,
    PUSH_LIST,
    PUSH_DELETE,
    EXTENDED_CARD,
)
_PUSH: Final = frozenset((PUSH_CREATE.name, PUSH_GET.name, PUSH_LIST.name, PUSH_DELETE.name))


class _Record(Protocol):
    @property
    def json(self) -> bytes: ...

    @property
    def wrapped(self) -> bytes: ...


class Operations:
    """What the agent offers, over one handler.

    `streaming` and `push_notifications` are the capabilities on the card; `extended_card` answers
    GetExtendedAgentCard and raises what that operation raises.
    """

    def __init__(
        self,
        handler: RequestHandler,
        *,
        streaming: bool,
        push_notifications: bool,
        extended_card: Unary,
    ) -> None:
        self._handler = handler
        self._streaming = streaming
        self._push_notifications = push_notifications
        ready = all(hasattr(handler, name) for name in ("get", "list", "send", "cancel", "stream", "subscribe"))
        self._ready: Any = handler if ready else None
        self._unary: dict[str, Unary] = {
            SEND.name: self._send_ready if ready else self._send,
            GET.name: self._get_ready if ready else self._get,
            LIST.name: self._list_ready if ready else self._list,
            CANCEL.name: self._cancel_ready if ready else self._cancel,
            PUSH_CREATE.name: self._push_create,
            PUSH_GET.name: self._push_get,
            PUSH_LIST.name: self._push_list,
            PUSH_DELETE.name: self._push_delete,
            EXTENDED_CARD.name: extended_card,
        }

    async def run(self, operation: Operation, params: Any, context: ServerCallContext) -> bytes:
        """One answer as v1.0 ProtoJSON: SendMessageResponse, Task, ListTasksResponse, … (`{}` for a deletion).

        Raises:
            A2AError: what the handler raises, and the error of a capability that the card does not have.
        """
        self._require_push(operation, params)
        return await self._unary[operation.name](params, context)

    def stream(self, operation: Operation, params: Any, context: ServerCallContext) -> AsyncGenerator[bytes, None]:
        """Each StreamResponse as v1.0 ProtoJSON. Errors of the request are raised by the first step.

        Closing the generator ends the subscription, never the agent's work.
        """
        if not self._streaming:
            raise UnsupportedOperationError("This agent does not stream")
        self._require_push(operation, params)
        if self._ready is not None:
            records = self._ready.stream if operation is STREAM else self._ready.subscribe
            return _wrapped(records(params, context))
        handler = self._handler
        events: Any = handler.on_message_send_stream if operation is STREAM else handler.on_subscribe_to_task
        return _encoded(events(params, context))

    def _require_push(self, operation: Operation, params: Any) -> None:
        if self._push_notifications:
            return
        inline = operation.request is pb.SendMessageRequest and params.HasField("configuration")
        if operation.name in _PUSH or (inline and params.configuration.HasField("task_push_notification_config")):
            raise PushNotificationNotSupportedError

    async def _send_ready(self, params: pb.SendMessageRequest, context: ServerCallContext) -> bytes:
        record: _Record = await self._ready.send(params, context)
        return record.wrapped

    async def _get_ready(self, params: pb.GetTaskRequest, context: ServerCallContext) -> bytes:
        record: _Record = await self._ready.get(params, context)
        return record.json

    async def _list_ready(self, params: pb.ListTasksRequest, context: ServerCallContext) -> bytes:
        page: bytes = await self._ready.list(params, context)
        return page

    async def _cancel_ready(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> bytes:
        record: _Record = await self._ready.cancel(params, context)
        return record.json

    async def _send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> bytes:
        return _wrap(await self._handler.on_message_send(params, context))

    async def _get(self, params: pb.GetTaskRequest, context: ServerCallContext) -> bytes:
        return _task(await self._handler.on_get_task(params, context))

    async def _cancel(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> bytes:
        return _task(await self._handler.on_cancel_task(params, context))

    async def _list(self, params: pb.ListTasksRequest, context: ServerCallContext) -> bytes:
        page = await self._handler.on_list_tasks(params, context)
        return orjson.dumps(
            {
                "tasks": [MessageToDict(task) for task in page.tasks],
                "nextPageToken": page.next_page_token,
                "pageSize": page.page_size,
                "totalSize": page.total_size,
            }
        )

    async def _push_create(self, params: pb.TaskPushNotificationConfig, context: ServerCallContext) -> bytes:
        return encode(await self._handler.on_create_task_push_notification_config(params, context))

    async def _push_get(self, params: pb.GetTaskPushNotificationConfigRequest, context: ServerCallContext) -> bytes:
        return encode(await self._handler.on_get_task_push_notification_config(params, context))

    async def _push_list(self, params: pb.ListTaskPushNotificationConfigsRequest, context: ServerCallContext) -> bytes:
        page = await self._handler.on_list_task_push_notification_configs(params, context)
        configs = [MessageToDict(config) for config in page.configs]
        return orjson.dumps({"configs": configs, "nextPageToken": page.next_page_token})

    async def _push_delete(
        self, params: pb.DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> bytes:
        await self._handler.on_delete_task_push_notification_config(params, context)
        return b"{}"


def encode(message: Message) -> bytes:
    """A protobuf message as ProtoJSON: UTF-8, on one line."""
    return orjson.dumps(MessageToDict(message))


def _task(task: pb.Task | None) -> bytes:
    if task is None:
        raise TaskNotFoundError
    return encode(task)


_MEMBERS: Final[dict[type, bytes]] = {
    pb.Task: b"task",
    pb.Message: b"message",
    pb.TaskStatusUpdateEvent: b"statusUpdate",
    pb.TaskArtifactUpdateEvent: b"artifactUpdate",
}


def _wrap(event: Any) -> bytes:
    member = _MEMBERS.get(type(event))
    if member is None:
        raise InvalidAgentResponseError(f"The agent answered with {type(event).__name__}")
    return b'{"%b":%b}' % (member, encode(event))


async def _wrapped(records: AsyncGenerator[_Record, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for record in records:
            yield record.wrapped
    finally:
        await records.aclose()


async def _encoded(events: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for event in events:
            yield _wrap(event)
    finally:
        await events.aclose()

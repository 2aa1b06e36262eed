"""`Lifecycle`: every A2A operation over the store and one executor (skeleton: signatures first).

It implements a2a-sdk's `RequestHandler` (`on_…`, protobuf in and out). Bindings that speak v1.0 use the twin of each
operation that gives ready ProtoJSON instead (`get`, `list`, `send`, `cancel`, `stream`, `subscribe`): the same checks
and errors without a round trip through protobuf.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from a2a.server.agent_execution import AgentExecutor
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
)

from a2a_claude.config.model import Limits
from a2a_claude.store import EventRecord, Record, Store


@dataclass(frozen=True, slots=True)
class Stats:
    """What the server is doing now: stored tasks by state name, turns queued and running, open streams."""

    tasks: dict[str, int]
    queued: int
    running: int
    subscribers: int


class Lifecycle(RequestHandler):
    """The server's operations. Raises a2a-sdk's errors (`a2a.utils.errors`), `turns.Overloaded` among them."""

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
    ) -> None:
        """`check_url` vets a webhook's URL at registration and raises InvalidParamsError."""

    async def start(self) -> None:
        """Fails the tasks that a crash interrupted (reason `server_restarted`). Before the first request."""

    async def drain(self, seconds: float) -> None:
        """Refuses new turns, lets running ones end for `seconds`, fails the rest (reason `server_stopped`), ends every stream."""

    def observe(self, callback: Callable[[EventRecord], None]) -> None:
        """`callback` gets each event after its commit, in order per task, on the event loop; it must not block or raise."""

    def stats(self) -> Stats:
        """For health and metrics."""

    async def get(self, params: GetTaskRequest, context: ServerCallContext) -> Record:
        """GetTask: a `task` record."""

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> bytes:
        """ListTasks: the ListTasksResponse as ProtoJSON (every member present)."""

    async def send(self, params: SendMessageRequest, context: ServerCallContext) -> Record:
        """SendMessage: a `task` or a `message` record."""

    async def cancel(self, params: CancelTaskRequest, context: ServerCallContext) -> Record:
        """CancelTask: a `task` record."""

    def stream(self, params: SendMessageRequest, context: ServerCallContext) -> AsyncGenerator[Record, None]:
        """SendStreamingMessage: errors of the request are raised by the first step; close the generator when the client goes."""

    def subscribe(self, params: SubscribeToTaskRequest, context: ServerCallContext) -> AsyncGenerator[Record, None]:
        """SubscribeToTask: first the task as it is, then what follows until it ends."""

"""What the tests of the lifecycle share: a served executor, callers, and executors that a test drives."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskArtifactUpdateEvent,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict

from a2a_claude.a2a.auth import Principal
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.scripted import Scripted
from a2a_claude.config.model import Limits
from a2a_claude.store import Store
from tests.support import make_agent

DEADLINE = 60.0  # seconds after which a test that hangs fails


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **named), DEADLINE))

    return run


def limits(**changed: Any) -> Limits:
    """The default limits with some changed."""
    return dataclasses.replace(make_agent().config.server.limits, **changed)


@asynccontextmanager
async def serving(
    executor: AgentExecutor | None = None, path: Path | str = ":memory:", *, drain: float = 5.0, **options: Any
) -> AsyncIterator[Lifecycle]:
    """A lifecycle over a store of its own; options named like limits are limits, others go to `Lifecycle`."""
    names = {field.name for field in dataclasses.fields(Limits)}
    bounds = limits(**{name: value for name, value in options.items() if name in names})
    store = await Store.open(path)
    rest = {name: value for name, value in options.items() if name not in names}
    lifecycle = Lifecycle(executor or Scripted(), store, bounds, **rest)
    await lifecycle.start()
    try:
        yield lifecycle
    finally:
        await lifecycle.drain(drain)
        await store.close()


class Caller:
    """One principal's calls, with plain data as answers."""

    def __init__(self, lifecycle: Lifecycle, name: str = "", version: str = "1.0") -> None:
        self.lifecycle = lifecycle
        self.context = ServerCallContext(state={"version": version})
        if name:
            self.context.user = Principal(name)

    async def send(self, text: str = "hello", **options: Any) -> dict[str, Any]:
        """SendMessage: the SendMessageResponse."""
        return read((await self.lifecycle.send(request(text, **options), self.context)).wrapped)

    async def task(self, text: str = "hello", **options: Any) -> dict[str, Any]:
        """SendMessage: the Task of the answer."""
        answer: dict[str, Any] = (await self.send(text, **options))["task"]
        return answer

    async def answer(self, task_id: str, *answers: Any, text: str = "") -> dict[str, Any]:
        """SendMessage with answers to what a task asks, and a text: the Task."""
        parts: list[dict[str, Any]] = [{"data": {"approvals": list(answers)}}] if answers else []
        if text:
            parts.append({"text": text})
        message = {"messageId": "answer", "role": "ROLE_USER", "taskId": task_id, "parts": parts}
        params = ParseDict({"message": message}, SendMessageRequest())
        answered: dict[str, Any] = read((await self.lifecycle.send(params, self.context)).wrapped)["task"]
        return answered

    async def get(self, task_id: str, **options: Any) -> dict[str, Any]:
        """GetTask."""
        return read((await self.lifecycle.get(GetTaskRequest(id=task_id, **options), self.context)).json)

    async def cancel(self, task_id: str) -> dict[str, Any]:
        """CancelTask."""
        return read((await self.lifecycle.cancel(CancelTaskRequest(id=task_id), self.context)).json)

    async def stream(self, text: str = "hello", **options: Any) -> AsyncGenerator[dict[str, Any], None]:
        """SendStreamingMessage: each StreamResponse."""
        async with aclosing(self.lifecycle.stream(request(text, **options), self.context)) as records:
            async for record in records:
                yield read(record.wrapped)

    async def subscribe(self, task_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """SubscribeToTask: each StreamResponse."""
        async with aclosing(self.lifecycle.subscribe(SubscribeToTaskRequest(id=task_id), self.context)) as records:
            async for record in records:
                yield read(record.wrapped)

    async def list(self, **options: Any) -> dict[str, Any]:
        """ListTasks: the ListTasksResponse."""
        return read(await self.lifecycle.list(ListTasksRequest(**options), self.context))


def read(json: bytes) -> dict[str, Any]:
    """Plain data of JSON."""
    data: dict[str, Any] = orjson.loads(json)
    return data


def request(
    text: str = "hello",
    *,
    message_id: str = "m",
    task_id: str = "",
    context_id: str = "",
    script: dict[str, Any] | None = None,
    **configuration: Any,
) -> SendMessageRequest:
    """A SendMessageRequest; what is left over are members of its configuration."""
    message = Message(
        message_id=message_id, role="ROLE_USER", parts=[Part(text=text)], task_id=task_id, context_id=context_id
    )
    if script is not None:
        message.metadata.update({"script": script})
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))


def state(task: dict[str, Any]) -> str:
    """`completed` for TASK_STATE_COMPLETED."""
    name: str = task["status"]["state"]
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


def status(name: str, text: str = "", **metadata: Any) -> TaskStatusUpdateEvent:
    """A status event as an executor publishes it."""
    event = TaskStatusUpdateEvent(status=TaskStatus(state=f"TASK_STATE_{name.upper().replace('-', '_')}"))
    if text:
        event.status.message.CopyFrom(message(text))
    if metadata:
        event.metadata.update(metadata)
    return event


def message(text: str) -> Message:
    """A Message of the agent."""
    return Message(message_id="a", role="ROLE_AGENT", parts=[Part(text=text)])


def chunk(text: str, artifact_id: str = "answer", **options: Any) -> TaskArtifactUpdateEvent:
    """A text artifact, or more of it with `append=True`."""
    return TaskArtifactUpdateEvent(artifact=Artifact(artifact_id=artifact_id, parts=[Part(text=text)]), **options)


def texts(task: dict[str, Any]) -> list[str]:
    """The text parts of a task's artifacts."""
    return [part["text"] for artifact in task.get("artifacts", []) for part in artifact["parts"]]


async def until(condition: Callable[[], bool]) -> None:
    """Lets others run until something holds."""
    while not condition():
        await asyncio.sleep(0.001)


Turn = Callable[[RequestContext, EventQueue], Awaitable[None]]


class Driven(AgentExecutor):
    """An executor whose turns are functions of the test; `started` are the texts it was given."""

    def __init__(self, turn: Turn, cancel: Turn | None = None) -> None:
        self._turn = turn
        self._cancel = cancel
        self.started: list[str] = []
        self.cancelled: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.started.append(context.get_user_input())
        await self._turn(context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(context.task_id or "")
        if self._cancel:
            await self._cancel(context, event_queue)
        else:
            await event_queue.enqueue_event(status("canceled"))

"""A real server for protocol tests: an app on Granian, on a loopback port, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import orjson
from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandlerV2
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import a2a_pb2 as pb
from granian.constants import Interfaces
from granian.server.embed import Server as Granian

from a2a_claude.a2a.app import App
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.config.agent import Agent
from a2a_claude.store import Store

JSON = {"Content-Type": "application/json"}
V1 = {**JSON, "A2A-Version": "1.0"}


class Running:
    """A started server: `url` without a trailing slash, `app`, and `stop()`, which waits until it has ended."""

    def __init__(self, make: Callable[[], App | Awaitable[App]]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.app: App
        self._loop: asyncio.AbstractEventLoop
        self._granian: Granian
        self._make = make
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        for _ in range(400):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.05):
                return
            threading.Event().wait(0.02)
        raise AssertionError("the server did not start")

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Runs something on the server's loop and gives its result."""

        async def step() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(step(), self._loop).result(10)

    def stop(self) -> bool:
        """Stops as the real server does: streams first. Whether it ended."""
        self._loop.call_soon_threadsafe(self.app.streams.close)
        self._loop.call_soon_threadsafe(self._granian.stop)
        self._thread.join(10)
        return not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        made = self._make()
        self.app = made if isinstance(made, App) else await made
        self._granian = Granian(
            self.app, address="127.0.0.1", port=self.port, interface=Interfaces.ASGI, log_enabled=False
        )
        await self._granian.serve()


@contextlib.contextmanager
def running(make: Callable[[], App | Awaitable[App]]) -> Iterator[Running]:
    """A server for the length of a `with` block."""
    server = Running(make)
    try:
        yield server
    finally:
        server.stop()


class Scripted(AgentExecutor):
    """Answers by the start of the messageId: what a real agent may do, without one."""

    def __init__(self) -> None:
        self.finished: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn."""
        message = context.message
        assert message is not None
        name = message.message_id
        assert context.task_id is not None
        assert context.context_id is not None
        task_id, context_id = context.task_id, context.context_id

        async def status(state: pb.TaskState, text: str = "") -> None:
            update = pb.TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=_status(state))
            if text:
                update.status.message.CopyFrom(_says(text, task_id, context_id))
            await event_queue.enqueue_event(update)

        async def artifact(*parts: pb.Part, append: bool = False, last: bool = True) -> None:
            made = pb.Artifact(artifact_id="a1", parts=parts)
            await event_queue.enqueue_event(
                pb.TaskArtifactUpdateEvent(
                    task_id=task_id, context_id=context_id, artifact=made, append=append, last_chunk=last
                )
            )

        if name.startswith("message"):
            await event_queue.enqueue_event(_says("Direct", task_id, context_id))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(
                pb.Task(id=task_id, context_id=context_id, status=_status(pb.TASK_STATE_SUBMITTED), history=[message])
            )
        if name.startswith("boom"):
            raise RuntimeError("the secret text of an exception")
        await status(pb.TASK_STATE_WORKING)
        if name.startswith("wait"):
            await asyncio.sleep(float(name.split("-")[1]))
        if name.startswith("chunks"):
            for index in range(int(name.split("-")[1])):
                await artifact(pb.Part(text=f"chunk {index} "), append=index > 0, last=False)
        if name.startswith("parts"):
            data = pb.Part()
            data.data.string_value = "no object"
            await artifact(
                pb.Part(text="Grüße 🎉"),
                pb.Part(raw=b"\x00\xff", media_type="application/octet-stream", filename="b.bin"),
                pb.Part(url="https://example.com/o.txt", media_type="text/plain"),
                data,
            )
        if name.startswith("ask"):
            await status(pb.TASK_STATE_INPUT_REQUIRED, "Which one?")
            return
        if name.startswith("stay"):
            return
        self.finished.append(name)
        await status(pb.TASK_STATE_COMPLETED, "Done")

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancels at once."""
        assert context.task_id is not None
        assert context.context_id is not None
        await event_queue.enqueue_event(
            pb.TaskStatusUpdateEvent(
                task_id=context.task_id, context_id=context.context_id, status=_status(pb.TASK_STATE_CANCELED)
            )
        )


def sdk_handler(executor: AgentExecutor | None = None) -> DefaultRequestHandlerV2:
    """a2a-sdk's own request handler: the binding must serve any."""
    capabilities = pb.AgentCapabilities(streaming=True, push_notifications=True)
    return DefaultRequestHandlerV2(
        agent_executor=executor or Scripted(),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
        agent_card=pb.AgentCard(name="a", description="d", version="1", capabilities=capabilities),
    )


async def lifecycle_handler(agent: Agent, executor: AgentExecutor | None = None) -> Lifecycle:
    """The server's own handler, over a store in memory."""
    handler = Lifecycle(executor or Scripted(), await Store.open(":memory:"), agent.config.server.limits)
    await handler.start()
    return handler


class Ann(User):
    """An authenticated caller."""

    is_authenticated = True
    user_name = "ann"


class AsAnn:
    """Falcon middleware that takes callers with `X-User` for Ann, and refuses `X-Deny`."""

    async def process_request(self, req: Any, resp: Any) -> None:
        """Before routing, as real authentication."""
        import falcon

        if req.get_header("X-Deny"):
            raise falcon.HTTPUnauthorized(description="no token", challenges=["Bearer"])
        if req.get_header("X-User"):
            req.context.user = Ann()


class Client(httpx.Client):
    """A client with the little that the tables repeat."""

    def rpc(self, method: str, params: Any = None, version: str | None = "1.0", **headers: str) -> httpx.Response:
        """A JSON-RPC call; `version` None sends no A2A-Version."""
        sent = {**JSON, **({"A2A-Version": version} if version else {}), **headers}
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        return self.post("/a2a/jsonrpc", content=orjson.dumps(body), headers=sent)

    def task(self, name: str = "work", **message: Any) -> dict[str, Any]:
        """A task that was just sent for, as v1.0 JSON."""
        answer = self.rpc("SendMessage", {"message": user_message(name, **message)}).json()
        task: dict[str, Any] = answer["result"]["task"]
        return task


def user_message(name: str = "work", **more: Any) -> dict[str, Any]:
    """A v1.0 message; `name` decides what the executor does."""
    return {"messageId": f"{name}-{uuid.uuid4()}", "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}


def user_message_v03(name: str = "work", **more: Any) -> dict[str, Any]:
    """The same in v0.3."""
    parts = [{"kind": "text", "text": "hi"}]
    return {"kind": "message", "messageId": f"{name}-{uuid.uuid4()}", "role": "user", "parts": parts, **more}


def events(response: httpx.Response) -> list[Any]:
    """The data of every event of a finished stream; each must be one line of JSON and a blank line."""
    assert response.headers["content-type"].startswith("text/event-stream"), response.text
    frames = [frame for frame in response.text.split("\n\n") if frame and not frame.startswith(":")]
    found = []
    for frame in frames:
        *names, data = frame.split("\n")
        assert data.startswith("data: "), frame
        assert names in ([], ["event: error"]), frame
        found.append(orjson.loads(data.removeprefix("data: ")))
    return found


def _status(state: pb.TaskState) -> pb.TaskStatus:
    status = pb.TaskStatus(state=state)
    status.timestamp.GetCurrentTime()
    return status


def _says(text: str, task_id: str, context_id: str) -> pb.Message:
    return pb.Message(
        message_id=str(uuid.uuid4()),
        role=pb.ROLE_AGENT,
        parts=[pb.Part(text=text)],
        task_id=task_id,
        context_id=context_id,
    )

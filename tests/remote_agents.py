"""Agents to be called: one that does as it is told, on the real server, and one that does wrong, on bare HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value

from a2a_claude.a2a.app import make_app
from a2a_claude.a2a.edge import make_edge
from tests.a2a_support import Running, lifecycle_handler
from tests.support import make_agent

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Obedient(AgentExecutor):
    """Does what the first word of a message says. `seen` has each message as JSON, with its contextId."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.canceled: list[str] = []
        self.begun = threading.Event()
        self.gone_on = threading.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        self.seen.append(MessageToDict(message) | {"contextId": context.context_id})
        text = context.get_user_input()

        async def status(state: str, said: str = "") -> None:
            update = pb.TaskStatusUpdateEvent(status=pb.TaskStatus(state=f"TASK_STATE_{state}"))
            if said:
                update.status.message.CopyFrom(
                    pb.Message(message_id="m", role=pb.Role.ROLE_AGENT, parts=[pb.Part(text=said)])
                )
            await event_queue.enqueue_event(update)

        async def artifact(name: str, *parts: pb.Part, append: bool = False) -> None:
            made = pb.Artifact(artifact_id=name, name=name, parts=parts)
            await event_queue.enqueue_event(pb.TaskArtifactUpdateEvent(artifact=made, append=append))

        if context.current_task is not None:
            await status("COMPLETED", f"you said {text}")
            return
        match text.split()[0]:
            case "message":
                answer = pb.Message(message_id="m", role=pb.Role.ROLE_AGENT, parts=[pb.Part(text="no task")])
                await event_queue.enqueue_event(answer)
            case "ask":
                await status("INPUT_REQUIRED", "Which one?")
            case "auth":
                await status("AUTH_REQUIRED", "Log in at example.com")
            case "fail":
                await artifact("draft", pb.Part(text="half of it"))
                await status("FAILED", "it broke")
            case "chunks":
                await status("WORKING", "at it")
                for number in range(3):
                    await artifact("a", pb.Part(text=f"{number} "), append=number > 0)
                trace = pb.Artifact(artifact_id="t", name="trace.x", parts=[pb.Part(text="telemetry")])
                await event_queue.enqueue_event(pb.TaskArtifactUpdateEvent(artifact=trace))
                await status("COMPLETED")
            case "parts":
                await artifact(
                    "a",
                    pb.Part(text="Grüße 🎉"),
                    pb.Part(data=ParseDict({"count": 2}, Value())),
                    pb.Part(raw=PNG, media_type="image/png", filename="p.png"),
                    pb.Part(raw=b"\0\1", media_type="application/zip", filename="../z.zip"),
                    pb.Part(url="https://example.com/o.txt", media_type="text/plain"),
                )
                await status("COMPLETED")
            case "huge":
                await artifact("a", pb.Part(text="x" * 100_000 + "the end"))
                await status("COMPLETED")
            case "hang":
                await status("WORKING", "thinking")
                self.begun.set()
                while not self.gone_on.is_set():
                    await asyncio.sleep(0.01)
                await status("COMPLETED", "at last")
            case _:
                await artifact("a", pb.Part(text=f"did {text}"))
                await status("COMPLETED")

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.canceled.append(context.task_id or "")
        status = pb.TaskStatus(state=pb.TaskState.TASK_STATE_CANCELED)
        await event_queue.enqueue_event(pb.TaskStatusUpdateEvent(status=status))


@contextlib.contextmanager
def obedient(
    document: dict[str, Any] | None = None, environment: dict[str, str] | None = None
) -> Iterator[tuple[Running, Obedient]]:
    """The real server with that executor, and the executor."""
    executor = Obedient()
    skills = [{"id": "work", "name": "Work", "description": "Does as told.", "tags": ["x"], "examples": ["chunks"]}]
    card = {"name": "Obedient", "description": "d", "version": "1", "skills": skills}
    document = {"agentCard": card, **(document or {})}

    async def make(port: int) -> Any:
        server = {**document.get("server", {}), "port": port}
        agent = make_agent({**document, "server": server})
        handler = await lifecycle_handler(agent, executor)
        middleware = make_edge(agent.config.server, environment or {})
        return make_app(agent, handler, middleware=middleware, environment={})

    class Served(Running):
        def __init__(self) -> None:
            super().__init__(lambda: make(self.port))

    served = Served()
    try:
        yield served, executor
    finally:
        executor.gone_on.set()
        served.stop()


def card(url: str, *interfaces: tuple[str, str], path: str = "/a2a/jsonrpc", **more: Any) -> dict[str, Any]:
    """A card that leads to `url`; `interfaces` are bindings with their versions."""
    listed = [{"url": url + path, "protocolBinding": binding, "protocolVersion": each} for binding, each in interfaces]
    return {
        "name": "Elsewhere",
        "description": "d",
        "version": "1",
        "supportedInterfaces": listed,
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "work", "name": "Work", "description": "d", "tags": ["x"]}],
        **more,
    }


class Bare:
    """A web server: `answers` has a function by method and path. `asked` has each request's method, path, headers and
    body. A function gets the handler and writes what it likes. Where there is none, the server at the URL `behind`
    answers, as behind a reverse proxy."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], Callable[[Any], None]] = {}
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.release = threading.Event()
        self.behind = ""
        bare = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                headers = {name.lower(): value for name, value in self.headers.items()}
                bare.asked.append((self.command, self.path, headers, body))
                self.body = body
                with contextlib.suppress(OSError):
                    bare.answers.get((self.command, path), bare.pass_on if bare.behind else plain(404, b"{}"))(self)

            do_GET = do_POST = _any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def serve_card(self, found: dict[str, Any]) -> None:
        self.answers["GET", "/.well-known/agent-card.json"] = plain(200, json.dumps(found).encode())

    def hang(self, _handler: Any) -> None:
        """Answers nothing until the end."""
        self.release.wait()

    def pass_on(self, handler: Any) -> None:
        """Has the server behind it answer."""
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
        url = self.behind + handler.path
        with httpx.stream(handler.command, url, headers=headers, content=handler.body, timeout=60) as found:
            handler.send_response(found.status_code)
            handler.send_header("Content-Type", found.headers.get("Content-Type", ""))
            handler.end_headers()
            for chunk in found.iter_raw():
                handler.wfile.write(chunk)

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


def plain(status: int, body: bytes, **headers: str) -> Callable[[Any], None]:
    """An answer with a JSON body."""

    def answer(handler: Any) -> None:
        handler.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@contextlib.contextmanager
def bare() -> Iterator[Bare]:
    """Such a web server."""
    server = Bare()
    try:
        yield server
    finally:
        server.close()

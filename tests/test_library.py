"""The public surface, used as a program that imports it uses it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from granian.server.embed import Server as Granian

import a2a_claude
from a2a_claude.listening import bind
from tests.serving import environment, write_agent

ENVIRON = {"PATH": "/usr/bin:/bin"}


class Echo(AgentExecutor):
    """Says what it was told."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        part = Part(text=f"you said {context.get_user_input()}")
        await event_queue.enqueue_event(TaskArtifactUpdateEvent(artifact=Artifact(artifact_id="a", parts=[part])))
        status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
        await event_queue.enqueue_event(TaskStatusUpdateEvent(status=status))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def message(text: str) -> dict[str, Any]:
    parts = [{"text": text}]
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": parts}},
    }


async def said(client: httpx.AsyncClient, text: str) -> str:
    answer = await client.post("/a2a/jsonrpc", json=message(text), headers={"A2A-Version": "1.0"})
    assert "result" in answer.json(), answer.text
    artifact = answer.json()["result"]["task"]["artifacts"][0]
    return str(artifact["parts"][0]["text"])


@asynccontextmanager
async def granian(application: Any) -> AsyncIterator[str]:
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
    server = Granian(application, address="127.0.0.1", port=port, interface="asgi")  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve())
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            while not serving.done():
                try:
                    await client.get("/health")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await serving


def test_an_agent_is_loaded_with_its_references_replaced(tmp_path: Path) -> None:
    folder = write_agent(tmp_path, claude={"workingDirectory": "${PLACE}/code"})
    agent = a2a_claude.load_agent(folder, settings=["server.port=4711"], environ={"PLACE": "/srv"})
    assert agent.config.claude.working_directory == "/srv/code"
    assert agent.config.server.port == 4711


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"server": {"prot": 1}}, "did you mean"),
        ({"claude": {"workingDirectory": "${PLACE}"}}, "PLACE"),
    ],
)
def test_a_bad_config_is_an_error_that_names_the_place(tmp_path: Path, config: dict[str, Any], says: str) -> None:
    folder = write_agent(tmp_path, **config)
    with pytest.raises(a2a_claude.ConfigError, match=says) as caught:
        a2a_claude.load_agent(folder, environ={})
    assert caught.value.diagnostics
    assert "agent.yaml:" in str(caught.value)


def test_a_path_that_leads_nowhere_or_to_several_agents_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        a2a_claude.load_agent(tmp_path / "none")
    write_agent(tmp_path, "one")
    write_agent(tmp_path, "two", server={"port": 4000})
    with pytest.raises(ValueError, match="one, two"):
        a2a_claude.load_agent(tmp_path / "agents", environ={})


def test_another_executor_needs_no_variable_of_claude(tmp_path: Path) -> None:
    folder = write_agent(tmp_path, claude={"workingDirectory": "${PLACE}"})
    assert a2a_claude.load_agent(folder, environ={}, claude=False).name == "reviewer"


def test_the_application_answers_in_process_and_keeps_its_tasks(tmp_path: Path) -> None:
    async def use() -> None:
        agent = a2a_claude.load_agent(write_agent(tmp_path), environ={}, claude=False)
        for text in ("hello", "again"):
            async with a2a_claude.open_app(agent, Echo(), state=tmp_path / "state", environ=ENVIRON) as app:
                transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
                async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                    assert await said(client, text) == f"you said {text}"
                    listed = await client.get("/tasks", headers={"A2A-Version": "1.0"})
        assert listed.json()["totalSize"] == 2

    asyncio.run(use())


def test_another_asgi_server_holds_it_by_its_lifespan(tmp_path: Path) -> None:
    async def use() -> None:
        agent = a2a_claude.load_agent(write_agent(tmp_path), environ={}, claude=False)
        application = a2a_claude.Application(agent, Echo(), state=tmp_path / "state", environ=ENVIRON)
        async with granian(application) as url, httpx.AsyncClient(base_url=url) as client:
            assert await said(client, "hello") == "you said hello"

    asyncio.run(use())


def test_a_start_that_fails_is_told_to_the_server(tmp_path: Path) -> None:
    async def use() -> None:
        folder = write_agent(tmp_path, store={"type": "memory"})
        agent = a2a_claude.load_agent(folder, environ={}, claude=True)
        application = a2a_claude.Application(agent, state=tmp_path / "state", environ=ENVIRON)
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "lifespan.startup"}

        async def send(event: Any) -> None:
            sent.append(event)

        await application({"type": "lifespan"}, receive, send)
        assert sent[0]["type"] == "lifespan.startup.failed"
        assert "claude.workingDirectory" in sent[0]["message"]

    asyncio.run(use())


def test_without_a_lifespan_a_request_says_what_is_missing(tmp_path: Path) -> None:
    async def use() -> None:
        agent = a2a_claude.load_agent(write_agent(tmp_path), environ={}, claude=False)
        application = a2a_claude.Application(agent, Echo(), state=tmp_path / "state", environ=ENVIRON)
        with pytest.raises(RuntimeError, match="lifespan"):
            await application({"type": "http"}, None, None)  # type: ignore[arg-type]

    asyncio.run(use())


def test_serve_is_the_whole_server(tmp_path: Path) -> None:
    write_agent(tmp_path)
    program = (
        "import asyncio, os, signal, a2a_claude\n"
        "from a2a_claude.a2a.scripted import Scripted\n"
        "agent = a2a_claude.load_agent('agents/reviewer', environ={}, claude=False)\n"
        "async def main():\n"
        "    asyncio.get_running_loop().call_later(0.5, os.kill, os.getpid(), signal.SIGTERM)\n"
        "    return await a2a_claude.serve(agent, Scripted(), state='state', port=0, environ={})\n"
        "print('code', asyncio.run(main()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60
    )
    assert ran.stdout == "code 0\n", ran.stderr
    assert (tmp_path / "state").is_dir()


def test_the_surface_is_typed_and_imports_no_runtime_before_it_is_used() -> None:
    assert (Path(a2a_claude.__file__).parent / "py.typed").is_file()
    program = "import sys, a2a_claude; a2a_claude.load_agent; print({'falcon', 'a2a', 'granian'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
    assert all(getattr(a2a_claude, name) for name in a2a_claude.__all__)
    with pytest.raises(AttributeError):
        _ = a2a_claude.nothing

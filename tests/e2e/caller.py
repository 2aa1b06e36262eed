"""A client of agents on a2a-sdk's own, for tests that look at an agent from outside."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb

from tests.fake_anthropic_api import directive
from tests.serving import PATIENCE

COMPLETED = pb.TaskState.TASK_STATE_COMPLETED
WORKING = pb.TaskState.TASK_STATE_WORKING
FAILED = pb.TaskState.TASK_STATE_FAILED


def bash(command: str) -> dict[str, Any]:
    """A turn of the fake API in which Claude runs a command in its shell."""
    return {"tools": [{"name": "Bash", "input": {"command": command, "description": "d"}}]}


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Returns when a condition holds; AssertionError after a minute, which only what hangs takes."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.1)


class Caller:
    """Calls the agent at `url`, a connection a call, with a bearer token where it wants one."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def card(self) -> pb.AgentCard:
        """What the agent says of itself."""

        async def work() -> pb.AgentCard:
            async with self._http() as http:
                return await A2ACardResolver(http, self.url).get_agent_card()

        return asyncio.run(work())

    def send(self, *turns: dict[str, Any], context: str = "", wait: bool = True) -> pb.Task:
        """A message that makes Claude take these turns; the task at its end, or at its begin without `wait`."""
        message = pb.Message(
            message_id=str(uuid4()),
            role=pb.Role.ROLE_USER,
            parts=[pb.Part(text=directive(*turns))],
            context_id=context,
        )
        configuration = pb.SendMessageConfiguration(return_immediately=not wait)
        request = pb.SendMessageRequest(message=message, configuration=configuration)

        async def work() -> pb.Task:
            async with self._http() as http:
                client = await self._client(http)
                [answer] = [each async for each in client.send_message(request)]
                task: pb.Task = answer.task
                return task

        return asyncio.run(work())

    def task(self, task_id: str) -> pb.Task:
        """A task as it is now."""

        async def work() -> pb.Task:
            async with self._http() as http:
                task: pb.Task = await (await self._client(http)).get_task(pb.GetTaskRequest(id=task_id))
                return task

        return asyncio.run(work())

    def _http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(headers=self._headers, timeout=PATIENCE, trust_env=False)

    async def _client(self, http: httpx.AsyncClient) -> Client:
        card = await A2ACardResolver(http, self.url).get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=["JSONRPC"])
        return ClientFactory(config).create(card)


def text(task: pb.Task) -> str:
    """The text of a task's artifacts."""
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)

"""Approvals over the wire: `a2a-claude serve`, the real CLI, and a2a-sdk's own client in v1.0 and v0.3."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict

from tests.claude_support import KEY, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.serving import PATIENCE, Served, environment, start, write_agent

TOKENS = "alice:alice-s-token\nbob:bob-s-token"
Turn = dict[str, Any]


def touch(name: str) -> Turn:
    return {"tools": [{"name": "Bash", "input": {"command": f"touch {name}", "description": "d"}}]}


class House:
    """An agent's folder, from which servers start one after the other."""

    def __init__(self, folder: Path, api: FakeAPI) -> None:
        self.folder, self.workspace = folder, folder / "workspace"
        self.workspace.mkdir()
        claude = {"workingDirectory": str(self.workspace), "permissionMode": "default", "approvals": "inputRequired"}
        self._agent = write_agent(
            folder,
            claude=claude,
            server={"auth": {"bearer": {"tokensVariable": "TOKENS"}}},
            session={"spareClients": 0},
        )
        self._environ = environment(
            ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_MAX_RETRIES="0", TOKENS=TOKENS
        )
        self.servers: list[Served] = []

    def running(self) -> Served:
        """The server that runs, or a new one."""
        if self.servers and self.servers[-1].process.poll() is None:
            return self.servers[-1]
        served = start(self.folder, self._agent, "--port", "0", "--executor", "claude", environ=self._environ)
        self.servers.append(served)
        return served.wait_until_it_listens()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    require_cli()
    api = FakeAPI().start()
    found = House(tmp_path_factory.mktemp("house"), api)
    try:
        yield found
    finally:
        for served in found.servers:
            if served.process.poll() is None:
                served.process.kill()
                served.wait()
        api.shutdown()


class Peer:
    """A principal with a2a-sdk's client; each call gives what its stream had in it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def send(self, *parts: dict[str, Any], task_id: str = "") -> list[dict[str, Any]]:
        """A message, by a stream."""
        message = {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": list(parts), "taskId": task_id}
        request = ParseDict({"message": message}, pb.SendMessageRequest())
        return [MessageToDict(each) async for each in self._client.send_message(request)]

    async def ask(self, *turns: Turn) -> tuple[str, dict[str, Any]]:
        """A task's id, and its first request."""
        events = await self.send({"text": directive(*turns)})
        return events[0]["task"]["id"], request_in(events)

    async def answer(self, task_id: str, request: dict[str, Any], choice: str) -> list[dict[str, Any]]:
        answer = {"id": request["id"], "choice": choice}
        return await self.send({"data": {"approvals": [answer]}}, task_id=task_id)

    async def task(self, task_id: str) -> dict[str, Any]:
        return MessageToDict(await self._client.get_task(pb.GetTaskRequest(id=task_id)))


async def peer(
    http: httpx.AsyncClient, served: Served, name: str, version: str = "1.0", binding: str = "JSONRPC"
) -> Peer:
    """A client that has spoken to nobody but this server, in one version and binding."""
    http.headers["Authorization"] = f"Bearer {name}-s-token"
    card = await A2ACardResolver(http, served.url).get_agent_card()
    interfaces = [each for each in card.supported_interfaces if each.protocol_version == version]
    del card.supported_interfaces[:]
    card.supported_interfaces.extend(interfaces)
    config = ClientConfig(httpx_client=http, streaming=True, supported_protocol_bindings=[binding])
    return Peer(ClientFactory(config).create(card))


def client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=PATIENCE, trust_env=False)


def status(event: dict[str, Any]) -> str:
    found = event.get("statusUpdate") or event["task"]
    return str(found["status"]["state"]).removeprefix("TASK_STATE_")


def request_in(events: list[dict[str, Any]]) -> dict[str, Any]:
    assert status(events[-1]) == "INPUT_REQUIRED", events[-1]
    [request] = events[-1]["statusUpdate"]["metadata"]["approvals"]
    found: dict[str, Any] = request
    return found


@pytest.mark.parametrize(("version", "binding"), [("1.0", "JSONRPC"), ("1.0", "HTTP+JSON"), ("0.3", "JSONRPC")])
def test_a_client_answers_and_nobody_else(house: House, version: str, binding: str) -> None:
    served = house.running()
    one, two = (house.workspace / f"{name}-{version}-{binding}" for name in ("one", "two"))

    @asynchronous
    async def run() -> None:
        async with client() as http, client() as other:
            alice = await peer(http, served, "alice", version, binding)
            bob = await peer(other, served, "bob", version, binding)
            task_id, first = await alice.ask(touch(one.name), touch(two.name), {"text": "done"})
            assert first["input"]["command"] == f"touch {one.name}"
            with pytest.raises(A2AError, match="no request '00000000'"):
                await alice.answer(task_id, first | {"id": "00000000"}, "allow")
            with pytest.raises(A2AError, match="not found"):
                await bob.answer(task_id, first, "allow")
            assert not one.exists()

            second = request_in(await alice.answer(task_id, first, "allow"))
            assert one.exists()
            with pytest.raises(A2AError, match="decided already"):
                await alice.answer(task_id, first, "deny")
            events = await alice.answer(task_id, second, "deny")
            assert status(events[-1]) == "COMPLETED"
            assert not two.exists()
            task = await alice.task(task_id)
            assert [each["choice"] for each in task["metadata"]["decided"]] == ["allow", "deny"]
            assert task["artifacts"][-1]["parts"][0]["text"] == "done"

    run()


def test_a_server_that_ends_meanwhile_fails_the_task(house: House) -> None:
    async def paused(served: Served) -> tuple[str, dict[str, Any]]:
        async with client() as http:
            return await (await peer(http, served, "alice")).ask(touch("never"), {"text": "done"})

    async def failed(served: Served, task_id: str, request: dict[str, Any], reason: str) -> None:
        async with client() as http:
            alice = await peer(http, served, "alice")
            task = await alice.task(task_id)
            assert (task["status"]["state"], task["metadata"]["reason"]) == ("TASK_STATE_FAILED", reason)
            with pytest.raises(A2AError, match="has ended"):
                await alice.answer(task_id, request, "allow")

    for number, code, reason in (
        (signal.SIGTERM, 0, "server_stopped"),
        (signal.SIGKILL, -signal.SIGKILL, "server_restarted"),
    ):
        served = house.running()
        task_id, request = asyncio.run(paused(served))
        served.signal(number)
        assert served.wait() == code
        asyncio.run(failed(house.running(), task_id, request, reason))
    assert not (house.workspace / "never").exists()

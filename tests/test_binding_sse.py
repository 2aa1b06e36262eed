"""Event streams on a real server, over HTTP/1.1 and HTTP/2."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import httpx
import orjson
import pytest
from a2a.utils.errors import InvalidAgentResponseError
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived

from a2a_claude.a2a.app import make_app
from tests.a2a_support import (
    JSON,
    V1,
    Client,
    Running,
    Scripted,
    events,
    running,
    sdk_handler,
    user_message,
    user_message_v03,
)
from tests.support import make_agent


class Faulty:
    """A handler with ready JSON whose streams do what a test says."""

    def __init__(self) -> None:
        self.source: Callable[[], AsyncGenerator[Any, None]]
        self.closed = threading.Event()

    def __getattr__(self, name: str) -> Any:
        if name in ("get", "list", "send", "cancel"):
            return self._unused
        raise AttributeError(name)

    async def _unused(self, *_: Any) -> Any:
        raise AssertionError

    async def stream(self, *_: Any) -> AsyncGenerator[Any, None]:
        try:
            async for each in self.source():
                yield each
        finally:
            self.closed.set()

    subscribe = stream


class Record:
    """What a ready handler yields."""

    def __init__(self, number: int) -> None:
        self.wrapped = (
            b'{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"},"n":%d}}' % number
        )


@pytest.fixture(scope="module")
def executor() -> Scripted:
    return Scripted()


@pytest.fixture(scope="module")
def server(executor: Scripted) -> Iterator[Running]:
    with running(lambda: make_app(make_agent({}), sdk_handler(executor), ping=0.2)) as started:
        yield started


@pytest.fixture(scope="module")
def faulty() -> Iterator[tuple[Running, Faulty]]:
    handler: Any = Faulty()
    agent = make_agent({"server": {"limits": {"maxStreams": 2}}})
    with running(lambda: make_app(agent, handler, ping=0.1)) as started:
        yield started, handler


@pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
def client(request: pytest.FixtureRequest, server: Running) -> Iterator[Client]:
    http2 = request.param == "HTTP/2"
    with Client(base_url=server.url, timeout=10, http1=not http2, http2=http2) as made:
        yield made


def _until(true: Callable[[], bool], seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def _send(name: str, method: str = "SendStreamingMessage") -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": "s", "method": method, "params": {"message": user_message(name)}}
    return {"method": "POST", "url": "/a2a/jsonrpc", "content": orjson.dumps(body), "headers": V1}


def test_a_stream_has_the_headers_that_keep_it_flowing(client: Client) -> None:
    response = client.request(**_send("work"))
    assert response.http_version in ("HTTP/1.1", "HTTP/2")
    assert response.headers["content-type"] == "text/event-stream"
    assert "no-store" in response.headers["cache-control"]
    assert response.headers["x-accel-buffering"] == "no"
    assert [next(iter(each["result"])) for each in events(response)] == ["task", "statusUpdate", "statusUpdate"]


def test_a_thousand_chunks_arrive_in_order(client: Client) -> None:
    response = client.request(**_send("chunks-1000-"))
    found = [each["result"]["artifactUpdate"] for each in events(response) if "artifactUpdate" in each["result"]]
    assert [each["artifact"]["parts"][0]["text"] for each in found] == [f"chunk {n} " for n in range(1000)]


def test_an_error_before_the_first_event_is_a_plain_answer(client: Client) -> None:
    params = {"message": user_message(taskId="unknown")}
    answer = client.rpc("SendStreamingMessage", params)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["error"]["code"] == -32001
    response = client.post("/message:stream", content=orjson.dumps(params), headers=V1)
    assert (response.status_code, response.headers["content-type"]) == (404, "application/json")


def test_silence_is_broken_by_pings(client: Client) -> None:
    with client.stream(**_send("wait-0.7-")) as response:
        lines = list(response.iter_lines())
    assert lines.count(": ping") >= 2
    assert orjson.loads(lines[-2].removeprefix("data: "))["result"]["statusUpdate"]["status"]["state"] == (
        "TASK_STATE_COMPLETED"
    )


def test_a_client_that_goes_is_noticed_at_once_and_never_cancels_the_agent(server: Running, executor: Scripted) -> None:
    with Client(base_url=server.url) as client, client.stream(**_send("wait-1.5-h1")) as response:
        lines = response.iter_lines()  # dropping it would close the response
        next(lines)
        assert len(server.app.streams) == 1
    _expect_detached(server, executor, "wait-1.5-h1")


def test_an_http2_stream_that_is_reset_is_noticed_while_its_connection_stays(
    server: Running, executor: Scripted
) -> None:
    connection = H2Connection()
    connection.initiate_connection()
    with socket.create_connection(("127.0.0.1", server.port), 5) as wire:
        call = _send("wait-1.5-h2")
        headers = [(":method", "POST"), (":path", call["url"]), (":scheme", "http"), (":authority", "localhost")]
        connection.send_headers(1, headers + [(name.lower(), value) for name, value in V1.items()])
        connection.send_data(1, call["content"], end_stream=True)
        wire.sendall(connection.data_to_send())
        received: list[Any] = []
        while not any(isinstance(each, DataReceived) for each in received):
            received += connection.receive_data(wire.recv(65_536))
        assert len(server.app.streams) == 1
        connection.reset_stream(1, ErrorCodes.CANCEL)
        wire.sendall(connection.data_to_send())
        _expect_detached(server, executor, "wait-1.5-h2")


def _expect_detached(server: Running, executor: Scripted, name: str) -> None:
    assert _until(lambda: len(server.app.streams) == 0, 1), "the stream outlived its client"
    assert not any(each.startswith(name) for each in executor.finished)
    assert _until(lambda: any(each.startswith(name) for each in executor.finished)), "the agent was cancelled"


def test_several_subscribers_see_the_same_order_and_one_may_leave(client: Client, server: Running) -> None:
    seen: dict[int, list[str]] = {}
    with client.stream(**_send("wait-0.8-")) as first:
        lines = first.iter_lines()
        task = orjson.loads(next(lines).removeprefix("data: "))["result"]["task"]["id"]

        def subscribe(number: int) -> None:
            with httpx.Client(base_url=server.url, timeout=10) as own:
                method = "GET" if number % 2 else "POST"
                with own.stream(method, f"/tasks/{task}:subscribe", headers=V1) as response:
                    data = (line for line in response.iter_lines() if line.startswith("data: "))
                    found = orjson.loads(next(data).removeprefix("data: "))
                    assert found["task"]["id"] == task
                    if number == 0:
                        return
                    seen[number] = [line.removeprefix("data: ") for line in data]

        threads = [threading.Thread(target=subscribe, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        list(lines)
    assert sorted(seen) == [1, 2, 3]
    assert seen[1] == seen[2] == seen[3]
    assert "TASK_STATE_COMPLETED" in seen[1][-1]


@pytest.mark.parametrize("path", ["/v1/tasks/{}:subscribe", "/a2a/rest/v1/tasks/{}:subscribe"])
def test_v03_rest_subscribes_by_get_and_post(client: Client, path: str) -> None:
    for method in ("GET", "POST"):
        with client.stream(**_send("wait-0.3-")) as first:
            lines = first.iter_lines()
            task = orjson.loads(next(lines).removeprefix("data: "))["result"]["task"]["id"]
            response = client.request(method, path.format(task), headers=JSON)
        found = events(response)
        assert found[0]["task"]["id"] == task
        assert found[-1]["statusUpdate"]["final"] is True


def test_v03_resubscribe_streams_kinds(client: Client) -> None:
    with client.stream(**_send("wait-0.3-")) as first:
        lines = first.iter_lines()
        task = orjson.loads(next(lines).removeprefix("data: "))["result"]["task"]["id"]
        found = events(client.rpc("tasks/resubscribe", {"id": task}, version=None))
    assert [found[0]["result"]["kind"], found[-1]["result"]["final"]] == ["task", True]


def test_an_error_in_the_middle_is_an_error_event(faulty: tuple[Running, Faulty]) -> None:
    server, handler = faulty

    async def source() -> AsyncGenerator[Any, None]:
        yield Record(1)
        raise InvalidAgentResponseError("cut")

    handler.source = source
    with Client(base_url=server.url) as client:
        response = client.rpc("SendStreamingMessage", {"message": user_message()})
        first, last = events(response)
        assert "event: error\ndata: " in response.text
        assert (last["id"], last["error"]["code"]) == (7, -32006)
        rest = client.post("/message:stream", content=orjson.dumps({"message": user_message()}), headers=V1)
        assert events(rest)[1]["error"]["status"] == "INTERNAL"
        old = client.rpc("message/stream", {"message": user_message_v03()}, version=None)
        assert events(old)[1]["error"]["code"] == -32006
    assert first["result"]["statusUpdate"]["n"] == 1


def test_an_unforeseen_error_in_the_middle_keeps_its_text_to_itself(faulty: tuple[Running, Faulty]) -> None:
    server, handler = faulty

    async def source() -> AsyncGenerator[Any, None]:
        yield Record(1)
        raise ValueError("a secret")

    handler.source = source
    with Client(base_url=server.url) as client:
        response = client.rpc("SendStreamingMessage", {"message": user_message()})
    assert events(response)[1]["error"]["code"] == -32603
    assert "secret" not in response.text


def test_a_stream_without_events_is_an_error_and_never_empty(faulty: tuple[Running, Faulty]) -> None:
    server, handler = faulty

    async def source() -> AsyncGenerator[Any, None]:
        return
        yield

    handler.source = source
    with Client(base_url=server.url) as client:
        answer = client.rpc("SendStreamingMessage", {"message": user_message()})
    assert answer.json()["error"]["code"] == -32006


def test_streams_over_the_bound_are_refused(faulty: tuple[Running, Faulty]) -> None:
    server, handler = faulty

    async def source() -> AsyncGenerator[Any, None]:
        yield Record(1)
        await asyncio.sleep(60)

    handler.source = source
    with Client(base_url=server.url, timeout=10) as client:
        with client.stream(**_send("a")), client.stream(**_send("b")):
            refused = client.request(**_send("c"))
            assert refused.status_code == 429
            assert refused.headers["retry-after"]
            assert refused.json()["error"]["code"] == -32600
        assert _until(lambda: len(server.app.streams) == 0)
        assert handler.closed.wait(5)


def test_a_slow_client_holds_the_source_back(faulty: tuple[Running, Faulty]) -> None:
    server, handler = faulty
    produced = 0

    async def source() -> AsyncGenerator[Any, None]:
        nonlocal produced
        record = Record(0)
        record.wrapped = b'{"statusUpdate":{"n":"%b"}}' % (b"x" * 100_000)
        while produced < 100_000:
            produced += 1
            yield record

    handler.source = source
    with Client(base_url=server.url, timeout=10) as client, client.stream(**_send("a")) as response:
        chunks = response.iter_bytes()
        next(chunks)
        time.sleep(0.5)
        before = produced
        time.sleep(0.5)
        # Buffers of the kernel and the server are full by now: without a reader nothing more is asked for.
        assert len(server.app.streams) == 1
        assert produced - before < 500
        assert produced < 20_000
    assert _until(lambda: len(server.app.streams) == 0)


@pytest.mark.parametrize("http2", [False, True])
def test_open_streams_end_by_themselves_when_the_server_stops(http2: bool) -> None:
    server = Running(lambda: make_app(make_agent({}), sdk_handler(), ping=30))
    ended: list[str] = []
    opened = threading.Event()

    def read() -> None:
        with (
            Client(base_url=server.url, timeout=20, http1=not http2, http2=http2) as client,
            client.stream(**_send("wait-30-")) as response,
        ):
            opened.set()
            ended.extend(response.iter_lines())

    reader = threading.Thread(target=read)
    reader.start()
    assert opened.wait(5)
    time.sleep(0.2)
    began = time.monotonic()
    assert server.stop(), "the server did not stop"
    reader.join(5)
    assert not reader.is_alive()
    assert time.monotonic() - began < 5
    assert any("TASK_STATE_WORKING" in line for line in ended)

# ruff: noqa: E501 - strategies read best on one line
"""Whatever is sent: no traceback, no error without a JSON body, no hang."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from a2a_claude.a2a.app import App, make_app
from a2a_claude.a2a.operations import ALL
from a2a_claude.a2a.v03_jsonrpc import METHODS
from tests.a2a_support import AsAnn, Client, Running, lifecycle_handler, running, sdk_handler
from tests.support import make_agent

FUZZ = settings(max_examples=150, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])

KEYS = st.sampled_from(
    [
        "jsonrpc",
        "id",
        "method",
        "params",
        "message",
        "messageId",
        "role",
        "parts",
        "kind",
        "text",
        "file",
        "bytes",
        "uri",
        "data",
        "raw",
        "url",
        "metadata",
        "taskId",
        "contextId",
        "configuration",
        "blocking",
        "historyLength",
        "pushNotificationConfig",
        "pushNotificationConfigId",
        "authentication",
        "schemes",
        "status",
        "pageSize",
        "pageToken",
        "tenant",
        "content",
        "fileWithBytes",
        "request",
        "config",
        "name",
        "configId",
    ]
)
WORDS = st.sampled_from(
    ["2.0", "user", "ROLE_USER", "m", "text", "file", "data", "https://e", "AP8=", "work-1", "", "x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=6)
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
METHOD_NAMES = st.sampled_from([*(each.name for each in ALL), *METHODS, "x"])
SEGMENTS = st.sampled_from(
    [
        "a2a",
        "rest",
        "jsonrpc",
        "v1",
        "tasks",
        "message:send",
        "message:stream",
        "card",
        "x",
        "x:cancel",
        "x:subscribe",
        "%ff",
        "%2F",
        "pushNotificationConfigs",
        "extendedAgentCard",
        ".well-known",
        "agent-card.json",
        "",
        "%00",
        ":",
        "%zz",
        "é",
        "acme",
    ]
)
PATHS = st.lists(SEGMENTS, max_size=6).map(lambda segments: "/" + "/".join(segments))
VERSION = st.sampled_from(["1.0", "0.3", "", "9", "1.0.0", "é", "1" * 300])
TYPES = st.sampled_from(
    ["application/json", "application/a2a+json", "text/plain", "", "multipart/form-data", ";", 'a/b; c="d']
)


@pytest.fixture(scope="module", params=["a2a-sdk", "lifecycle"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    agent = make_agent({"agentCard": {"pushNotifications": True, "extendedCard": True}})

    async def make() -> App:
        handler = sdk_handler() if request.param == "a2a-sdk" else await lifecycle_handler(agent)
        return make_app(agent, handler, middleware=[AsAnn()], ping=0.1)

    with running(make) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Client]:
    with Client(base_url=server.url, timeout=10) as made:
        yield made


def _check(client: Client, method: str, path: str, content: bytes, headers: dict[str, Any]) -> None:
    sent = [(name.encode(), value.encode() if isinstance(value, str) else value) for name, value in headers.items()]
    with client.stream(method, f"{str(client.base_url).rstrip('/')}{path}", content=content, headers=sent) as response:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            # A subscription may rightly stay open; that it has begun is what counts.
            next(response.iter_lines())
            return
        body = response.read()
    assert b"Traceback" not in body
    assert response.status_code < 501
    if response.status_code >= 400 and method != "HEAD":
        assert response.headers["content-type"] == "application/json"
        orjson.loads(body)
    elif body:
        orjson.loads(body)
    if response.status_code == 500:
        # Only what the agent or the handler does may fail, never the reading of a request.
        assert b"INTERNAL_ERROR" not in body, (method, path, content, headers)


@FUZZ
@given(method=METHOD_NAMES, params=JSON, version=VERSION, extra=st.dictionaries(KEYS, JSON, max_size=2))
def test_json_rpc_calls(client: Client, method: str, params: Any, version: str, extra: dict[str, Any]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **extra}
    headers = {"Content-Type": "application/json", "A2A-Version": version}
    try:
        content = orjson.dumps(body)
    except TypeError:
        return
    _check(client, "POST", "/a2a/jsonrpc", content, headers)


@FUZZ
@given(content=st.binary(max_size=60) | JSON.map(lambda value: repr(value).encode()), path=st.sampled_from(["/a2a/jsonrpc", "/message:send", "/v1/message:send"]), kind=TYPES, version=VERSION)  # fmt: skip
def test_bodies(client: Client, content: bytes, path: str, kind: str, version: str) -> None:
    _check(client, "POST", path, content, {"Content-Type": kind, "A2A-Version": version})


@FUZZ
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "BREW"]),
    path=PATHS,
    query=st.text(alphabet="abc=&%;pageSizehistoryLengthstatus0129-A2A-Version.", max_size=30),
    body=JSON,
    version=VERSION,
)
def test_paths(client: Client, method: str, path: str, query: str, body: Any, version: str) -> None:
    try:
        content = orjson.dumps(body)
    except TypeError:
        content = b"{}"
    headers = {"Content-Type": "application/json", "A2A-Version": version}
    _check(client, method, f"{path}?{query}" if query else path, content, headers)


@FUZZ
@given(
    names=st.lists(st.sampled_from(["A2A-Version", "A2A-Extensions", "X-A2A-Extensions", "If-None-Match", "If-Modified-Since", "Accept", "X-Forwarded-Host", "X-Forwarded-Proto", "Content-Length-X", "User-Agent"]), unique=True),
    values=st.lists(st.binary(max_size=30).map(lambda raw: re.sub(rb"[\x00-\x20\x7f]", b"", raw)), min_size=10, max_size=10),
    path=st.sampled_from(["/.well-known/agent-card.json", "/tasks", "/v1/tasks/x", "/a2a/jsonrpc"]),
)  # fmt: skip
def test_headers(client: Client, names: list[str], values: list[bytes], path: str) -> None:
    headers: dict[str, Any] = dict(zip(names, values, strict=False))
    method = "POST" if path == "/a2a/jsonrpc" else "GET"
    _check(client, method, path, b"{}" if method == "POST" else b"", headers)


@settings(max_examples=100, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=st.binary(max_size=40).map(lambda raw: re.sub(rb"[\r\n]", b"", raw)), tail=st.binary(max_size=40))
def test_raw_bytes_are_answered_or_cut_and_the_server_goes_on(server: Running, line: bytes, tail: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 5) as wire:
        wire.settimeout(5)
        wire.sendall(b"GET /" + line + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + tail)
        answer = b""
        try:
            while chunk := wire.recv(65_536):
                answer += chunk
        except ConnectionError:
            pass
    assert b"Traceback" not in answer


def test_the_server_still_works_after_all_of_it(client: Client, server: Running) -> None:
    assert client.task()["status"]["state"] == "TASK_STATE_COMPLETED"

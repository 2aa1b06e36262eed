"""Bounds on what callers and browsers may do: request rate, slow and large bodies, origins and hosts."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import falcon.asgi
import falcon.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.a2a import validation
from a2a_claude.a2a.app import make_app
from a2a_claude.a2a.edge import make_edge
from a2a_claude.a2a.limits import Buckets, Peers
from tests.a2a_support import V1, Client, Running, running, sdk_handler
from tests.support import make_agent

ANN, BEN = {"Authorization": "Bearer ann-token"}, {"Authorization": "Bearer ben-token"}
TOKENS = {"A2A_TOKENS": "ann:ann-token\nben:ben-token"}
BEARER = {"bearer": {"tokensVariable": "A2A_TOKENS"}}


class Health:
    """Stands where the server's own resource does."""

    async def on_get(self, req: Any, resp: Any) -> None:
        resp.media = {"status": "ok"}


def serve(**server: Any) -> Any:
    """A server with the edge of this configuration."""

    def make() -> Any:
        agent = make_agent({"server": server})
        return make_app(
            agent,
            sdk_handler(),
            middleware=make_edge(agent.config.server, TOKENS),
            routes={"/health": Health()},
            environment={},
        )

    return running(make)


# Rate


class Clock:
    """A time that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_holds_a_minute_and_fills_evenly() -> None:
    clock = Clock()
    buckets = Buckets(6, clock)
    assert [buckets.spend("ann") for _ in range(6)] == [0.0] * 6
    assert buckets.spend("ann") == pytest.approx(10.0)
    assert buckets.spend("ben") == 0.0
    clock.now += 9.0
    assert buckets.spend("ann") == pytest.approx(1.0)
    clock.now += 1.0
    assert buckets.spend("ann") == 0.0
    assert buckets.spend("ann") == pytest.approx(10.0)
    clock.now += 3600.0
    assert [bool(buckets.spend("ann")) for _ in range(8)] == [False] * 6 + [True] * 2


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=200))
def test_no_caller_ever_gets_more_than_bucket_and_rate_allow(per_minute: int, pauses: list[float]) -> None:
    clock = Clock()
    buckets = Buckets(per_minute, clock)
    begun, admitted = clock.now, 0
    for pause in pauses:
        clock.now += pause
        admitted += buckets.spend("ann") == 0.0
        assert admitted <= per_minute + (clock.now - begun) * per_minute / 60 + 1e-6


def test_without_a_bound_nobody_waits() -> None:
    buckets = Buckets(0)
    assert not any(buckets.spend("ann") for _ in range(10_000))


def test_memory_is_bounded_and_busy_callers_are_not_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(2, clock)
    buckets.spend("busy")
    buckets.spend("busy")
    for number in range(50_000):
        buckets.spend(f"10.0.0.{number}")
    assert len(buckets) <= 10_000
    assert buckets.spend("busy") > 0.0
    clock.now += 61.0
    for number in range(10_001):
        buckets.spend(f"late {number}")
    clock.now += 61.0
    buckets.spend("last")
    assert len(buckets) <= 10_000


PEERS: dict[str, tuple[str, str | None, str]] = {
    "direct": ("9.9.9.9", None, "9.9.9.9"),
    "claims to be forwarded": ("9.9.9.9", "1.2.3.4", "9.9.9.9"),
    "forwarded": ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
    "forwarded, with a made-up first": ("10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4"),
    "over two proxies": ("10.0.0.1", "1.2.3.4, 10.0.0.2", "1.2.3.4"),
    "garbage": ("10.0.0.1", "<script>", "10.0.0.1"),
    "nothing said": ("10.0.0.1", None, "10.0.0.1"),
    "IPv6 by its network": ("2001:db8:1:2:3:4:5:6", None, "2001:db8:1:2::/64"),
    "IPv4 in IPv6": ("::ffff:9.9.9.9", None, "9.9.9.9"),
}


@pytest.mark.parametrize(("address", "forwarded", "name"), PEERS.values(), ids=PEERS)
def test_a_peer_is_who_trusted_proxies_say(address: str, forwarded: str | None, name: str) -> None:
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    req = falcon.testing.create_asgi_req(headers=headers)
    req.scope["client"] = (address, "40000")
    assert Peers(["10.0.0.0/8"]).name(req) == name


def test_the_rate_is_per_principal_and_refused_in_each_binding() -> None:
    with serve(auth=BEARER, limits={"requestsPerMinute": 3}) as started, Client(base_url=started.url) as client:
        for _ in range(3):
            assert client.get("/tasks", headers=V1 | ANN).status_code == 200
        rest = client.get("/tasks", headers=V1 | ANN)
        rpc = client.rpc("ListTasks", {}, **ANN)
        v03 = client.post("/v1/message:send", headers=ANN)
        for answer in (rest, rpc, v03):
            assert answer.status_code == 429
            assert 1 <= int(answer.headers["Retry-After"]) <= 20
        assert rest.json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        assert rpc.json()["error"]["data"][0]["reason"] == "TOO_MANY_REQUESTS"
        assert "a caller may send 3 a minute" in v03.json()["message"]
        assert client.get("/tasks", headers=V1 | BEN).status_code == 200
        assert [client.get("/health").status_code for _ in range(5)] == [200] * 5


def test_guessing_tokens_is_limited_by_address_and_spares_who_has_one() -> None:
    with serve(auth=BEARER, limits={"requestsPerMinute": 3}) as started, Client(base_url=started.url) as client:
        guesses = [client.get("/tasks", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(5)]
        assert guesses == [401, 401, 401, 429, 429]
        assert client.get("/tasks", headers=V1 | ANN).status_code == 200


def test_an_open_server_limits_by_address() -> None:
    with serve(limits={"requestsPerMinute": 2}) as started, Client(base_url=started.url, headers=V1) as client:
        assert [client.get("/tasks").status_code for _ in range(3)] == [200, 200, 429]


# Bodies

LIMITED = {"maxBodyBytes": 2048, "maxJsonDepth": 6, "maxParts": 3, "maxMetadataBytes": 100}


@pytest.fixture(scope="module")
def limited() -> Iterator[Running]:
    with serve(limits=LIMITED) as started:
        yield started


def raw(port: int, head: str, *chunks: bytes, wait: float = 10.0) -> tuple[int, Any]:
    """Status and JSON of the answer to a request as these very bytes."""
    with socket.create_connection(("127.0.0.1", port), wait) as connection:
        connection.sendall(f"{head}\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode())
        for chunk in chunks:
            try:
                connection.sendall(chunk)
            except (BrokenPipeError, ConnectionResetError):
                break
        received = b""
        while b"\r\n\r\n" not in received:
            received += connection.recv(65536)
        head_received, _, body = received.partition(b"\r\n\r\n")
        headers = head_received.decode().lower()
        length = int(headers.partition("content-length: ")[2].partition("\r\n")[0])
        while len(body) < length:
            body += connection.recv(65536)
    return int(headers.split()[1]), json.loads(body)


@pytest.mark.parametrize("path", ["/a2a/jsonrpc", "/message:send", "/v1/message:send"])
@pytest.mark.parametrize("declared", [True, False])
def test_a_large_body_is_refused_while_it_is_read(limited: Running, path: str, declared: bool) -> None:
    head = f"POST {path} HTTP/1.1\r\nA2A-Version: {'0.3' if 'v1' in path else '1.0'}"
    if declared:
        status, body = raw(limited.port, head, b"Content-Length: 100000\r\n\r\n", b"[" * 4000)
    else:
        chunk = b"400\r\n" + b"[" * 1024 + b"\r\n"
        status, body = raw(limited.port, head, b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 4)
    assert status == 413
    assert "2048 bytes" in json.dumps(body)
    assert ("jsonrpc" in body) == (path == "/a2a/jsonrpc")


def test_a_body_that_drips_is_given_up(limited: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "BODY_SECONDS", 0.2)
    status, body = raw(limited.port, "POST /a2a/jsonrpc HTTP/1.1", b"Content-Length: 100\r\n\r\n", b'{"jsonrpc"')
    assert status == 408
    assert body["error"]["data"][0]["reason"] == "REQUEST_TIMEOUT"


def test_a_proxy_that_speaks_http_1_0_is_served(limited: Running) -> None:
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}).encode()
    head = "POST /a2a/jsonrpc HTTP/1.0\r\nA2A-Version: 1.0"
    status, body = raw(limited.port, head, b"Content-Length: %d\r\n\r\n" % len(call), call)
    assert status == 200
    assert body["result"]["tasks"] == []


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "parts": ({"parts": [{"text": "x"}] * 4}, "3 parts at most"),
    "metadata": ({"metadata": {"a": "x" * 200}}, "100 bytes"),
    "metadata of a part": ({"parts": [{"text": "x", "metadata": {"a": "x" * 200}}]}, "100 bytes"),
    "depth": ({"parts": [{"data": nested(20)}]}, "6 levels"),
    "depth of metadata": ({"metadata": {"a": nested(20)}}, "6 levels"),
}


@pytest.mark.parametrize(("message", "words"), BEYOND.values(), ids=BEYOND)
def test_each_bound_is_named_in_each_binding(limited: Running, message: dict[str, Any], words: str) -> None:
    params = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]} | message}
    with Client(base_url=limited.url) as client:
        rpc = client.rpc("SendMessage", params)
        assert rpc.status_code == 200
        assert words in rpc.json()["error"]["message"]
        rest = client.post("/message:send", headers=V1, json=params)
        assert rest.status_code == 400
        assert words in rest.json()["error"]["message"]


# Browsers

CONSOLE = "https://console.example.com"


@pytest.fixture(scope="module")
def open_server() -> Iterator[Running]:
    with serve(corsOrigins=[f"{CONSOLE}/"], publicUrl="https://agent.example.com/reviewer") as started:
        yield started


@pytest.fixture
def browser(open_server: Running) -> Iterator[Client]:
    with Client(base_url=open_server.url, headers=V1) as client:
        yield client


def test_an_allowed_page_gets_through(browser: Client) -> None:
    preflight = browser.options(
        "/a2a/jsonrpc",
        headers={
            "Origin": CONSOLE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "content-type,a2a-version,authorization",
        },
    )
    assert preflight.status_code == 204
    assert not preflight.content
    assert preflight.headers["Access-Control-Allow-Origin"] == CONSOLE
    allowed = preflight.headers["Access-Control-Allow-Headers"].lower()
    assert all(each in allowed for each in ("content-type", "a2a-version", "authorization", "a2a-extensions"))
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    for answer in (
        browser.get("/tasks", headers={"Origin": CONSOLE}),
        browser.get("/tasks/unknown", headers={"Origin": CONSOLE}),
        browser.get("/.well-known/agent-card.json", headers={"Origin": CONSOLE}),
    ):
        assert answer.headers["Access-Control-Allow-Origin"] == CONSOLE
        assert "A2A-Version" in answer.headers["Access-Control-Expose-Headers"]
        assert "Access-Control-Allow-Credentials" not in answer.headers
        assert "Origin" in answer.headers["Vary"]
    assert "A2A-Version" in answer.headers["Vary"]
    assert "Access-Control-Allow-Origin" not in browser.get("/tasks").headers


FOREIGN = [
    "https://evil.example",
    "http://console.example.com",
    "https://console.example.com:8443",
    "https://console.example.com.evil.example",
    "https://agent.example.com.evil.example",
    "null",
    "http://127.0.0.1:1",
    "http://evil.example:3030",
    "",
]


@pytest.mark.parametrize("origin", FOREIGN)
def test_other_pages_are_refused_not_only_left_without_headers(browser: Client, origin: str) -> None:
    sent = browser.rpc("SendMessage", {}, Origin=origin)
    assert sent.status_code == 403
    assert sent.json()["jsonrpc"] == "2.0"
    assert "server.corsOrigins" in sent.json()["error"]["message"]
    preflight = browser.options("/", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 403
    assert "Access-Control-Allow-Origin" not in {**sent.headers, **preflight.headers}


def test_the_servers_own_pages_are_no_strangers(browser: Client, open_server: Running) -> None:
    for origin in (open_server.url, "https://agent.example.com"):
        assert browser.get("/tasks", headers={"Origin": origin}).status_code == 200


HOSTS = {
    "localhost": 200,
    "localhost:3030": 200,
    "LOCALHOST.": 200,
    "reviewer.localhost:1": 200,
    "127.0.0.1": 200,
    "127.1.2.3:80": 200,
    "[::1]:3030": 200,
    "agent.example.com": 200,
    "agent.example.com:443": 200,
    "evil.example": 403,
    "evil.example:3030": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "localhost@evil.example": 403,
    "evil.example@localhost": 403,
    "192.168.1.7": 403,
    "0.0.0.0": 403,
    "[::1": 403,
    "": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_an_open_agent_on_loopback_answers_to_no_rebound_name(browser: Client, host: str, status: int) -> None:
    answer = browser.get("/tasks", headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert "server.publicUrl" in answer.json()["error"]["message"]
        rebound = browser.rpc("SendMessage", {}, Host=host, Origin=f"http://{host}")
        assert rebound.status_code == 403


def test_with_authentication_any_name_will_do_but_no_foreign_page() -> None:
    with serve(auth=BEARER) as started, Client(base_url=started.url, headers=V1 | ANN) as client:
        assert client.get("/tasks", headers={"Host": "reviewer:3030"}).status_code == 200
        rebound = {"Host": "evil.example:3030", "Origin": "http://evil.example:3030"}
        assert client.get("/tasks", headers=rebound).status_code == 403
        own = {"Host": "10.0.0.7:3030", "Origin": "http://10.0.0.7:3030"}
        assert client.get("/tasks", headers=own).status_code == 200


def test_a_preflight_needs_no_token_and_refusals_can_be_read() -> None:
    with serve(auth=BEARER, corsOrigins=[CONSOLE]) as started, Client(base_url=started.url) as client:
        preflight = {"Origin": CONSOLE, "Access-Control-Request-Method": "POST"}
        assert client.options("/a2a/jsonrpc", headers=preflight).status_code == 204
        refused = client.rpc("ListTasks", {}, Origin=CONSOLE)
        assert refused.status_code == 401
        assert refused.headers["Access-Control-Allow-Origin"] == CONSOLE


def test_every_origin_is_never_with_credentials() -> None:
    with serve(corsOrigins=["*"]) as started, Client(base_url=started.url, headers=V1) as client:
        for origin in ("https://anywhere.example", "null"):
            answer = client.get("/tasks", headers={"Origin": origin})
            assert answer.status_code == 200
            assert answer.headers["Access-Control-Allow-Origin"] == "*"
            assert "Access-Control-Allow-Credentials" not in answer.headers
        assert client.get("/tasks", headers={"Host": "evil.example"}).status_code == 403

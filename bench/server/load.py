"""The client: raw sockets and epoll in one loop, so that it needs a fraction of what any server does.

HTTP/1.1, keep-alive, one request at a time on each connection. Every answer is checked to be a result.
"""

from __future__ import annotations

import selectors
import socket
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import Any, cast

import orjson

PATH = "/a2a/jsonrpc"
_END = b"TASK_STATE_COMPLETED"


class Wrong(Exception):
    """A server gave another answer than the one that is measured."""


def request(method: str, params: dict[str, Any]) -> bytes:
    """A JSON-RPC request of A2A v1.0 as it goes over the wire."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def message(chunks: int = 0) -> dict[str, Any]:
    """A message that is answered at once, or with so many chunks of one artifact."""
    content: dict[str, Any] = {"messageId": "bench", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    return {"message": {**content, "metadata": {"script": {"chunks": chunks}}} if chunks else content}


def ask(port: int, sent: bytes) -> Any:
    """One request, one result."""
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.sendall(sent)
        return orjson.loads(_body(_whole(connection)))["result"]


def get(port: int, path: str) -> bool:
    """Whether a GET is answered with 200; false while nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            return connection.recv(65536).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        return False


@dataclass(frozen=True, slots=True)
class Rate:
    """Answers per second; the median and the 99th percentile of their time in ms; how busy the client's core was."""

    per_second: float
    p50: float
    p99: float
    client: float


def closed_loop(port: int, sent: bytes, connections: int, seconds: float) -> Rate:
    """As many requests as the server answers in that time, each connection sending its next when it has an answer."""
    with selectors.DefaultSelector() as selector:
        clock = time.perf_counter
        started = {}
        for _ in range(connections):
            connection = socket.create_connection(("127.0.0.1", port), 10)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(connection, selectors.EVENT_READ)
            connection.sendall(sent)
            started[connection] = clock()
        parts: dict[Any, bytes] = {}
        times = []
        begin, busy, expected = clock(), time.process_time(), 0
        while (now := clock()) - begin < seconds:
            for key, _ in selector.select(1):
                connection = cast("socket.socket", key.fileobj)
                data = connection.recv(1 << 18)
                if len(data) != expected or connection in parts:
                    data = parts.pop(connection, b"") + data
                    if not _is_whole(data):
                        parts[connection] = data
                        continue
                    expected = len(data)
                if not data.startswith(b"HTTP/1.1 200") or b'"result":' not in data:
                    raise Wrong(data[:2000].decode(errors="replace"))
                now = clock()
                times.append(now - started[connection])
                connection.sendall(sent)
                started[connection] = now
        took, busy = clock() - begin, time.process_time() - busy
        for key in list(selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
    cuts = quantiles(times, n=100)
    return Rate(len(times) / took, cuts[49] * 1000, cuts[98] * 1000, busy / took)


@dataclass(frozen=True, slots=True)
class Streamed:
    """How streams went: events in all, and the seconds until the last one."""

    events: int
    seconds: float


def streams(port: int, chunks: int, number: int, patience: float) -> Streamed:
    """`number` streams at once, until the tasks of all have ended or `patience` (seconds) has."""
    sent = request("SendStreamingMessage", message(chunks))
    tails: dict[socket.socket, bytes] = {}
    events, last = 0, 0.0
    with selectors.DefaultSelector() as selector:
        for _ in range(number):
            connection = socket.create_connection(("127.0.0.1", port), 10)
            tails[connection] = b""
            selector.register(connection, selectors.EVENT_READ)
        begin = time.perf_counter()
        for connection in tails:
            connection.sendall(sent)
        while tails and time.perf_counter() - begin < patience:
            for key, _ in selector.select(1):
                connection = cast("socket.socket", key.fileobj)
                data, tail = connection.recv(1 << 18), tails[connection]
                events += (tail[-5:] + data).count(b"data: ")
                last = time.perf_counter()
                tails[connection] = tail = (tail + data)[-2000:]
                if _END in tail:
                    selector.unregister(connection)
                    del tails[connection]
                    connection.close()
                elif not data:
                    raise Wrong(tail.decode(errors="replace"))
        for connection in tails:
            connection.close()
    return Streamed(events, last - begin if events else patience)


def _is_whole(data: bytes) -> bool:
    head, blank, body = data.partition(b"\r\n\r\n")
    if not blank:
        return False
    _, name, rest = head.lower().partition(b"\r\ncontent-length:")
    if not name:
        return data.endswith(b"0\r\n\r\n")
    return len(body) >= int(rest.split(b"\r\n", 1)[0])


def _whole(connection: socket.socket) -> bytes:
    data = b""
    while not _is_whole(data):
        more = connection.recv(1 << 18)
        if not more:
            raise Wrong(data.decode(errors="replace"))
        data += more
    return data


def _body(data: bytes) -> bytes:
    body = data.partition(b"\r\n\r\n")[2]
    return body[body.index(b"{") : body.rindex(b"}") + 1]

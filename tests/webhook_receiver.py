"""A webhook on loopback that a test drives: it keeps what it is sent and answers what it is told to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass
class Received:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body as plain data."""
        data: dict[str, Any] = orjson.loads(self.body)
        return data


Answer = Callable[[Received, asyncio.StreamWriter], Awaitable[int | None]]


class Receiver:
    """`answer` gives the status, or None when it has answered (or not) by itself. `connections` counts them."""

    port: int

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self.answer: Answer = accept
        self.headers = ""
        self._arrived = asyncio.Condition()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def events(self, path: str | None = None) -> list[dict[str, Any]]:
        """The bodies, of one path only if it is given."""
        return [each.json for each in self.received if path in (None, each.path)]

    async def until(self, count: int) -> None:
        """Waits for so many requests in all."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").rstrip().split("\r\n")
                method, path, _ = first.split(" ")
                headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Received(method, path, headers, body)
                async with self._arrived:
                    self.received.append(request)
                    self._arrived.notify_all()
                status = await self.answer(request, writer)
                if status is None:
                    break
                writer.write(f"HTTP/1.1 {status} Status\r\n{self.headers}Content-Length: 2\r\n\r\nok".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def accept(_request: Received, _writer: asyncio.StreamWriter) -> int:
    """Everything is welcome."""
    return 200


@asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver for the length of a block."""
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()

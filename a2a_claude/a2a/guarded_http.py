"""`GuardedClient`: HTTP requests to addresses that a `Guard` has checked, and nowhere else.

httpcore rather than httpx: it follows no redirect, knows no proxy variables, undoes no compression and sends no headers
of its own, and its network backend is the public seam where a name becomes an address. Certificates are verified for
the URL's name, since only the TCP connection goes to the address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import httpcore
import httpx

from a2a_claude.a2a.ssrf import ForbiddenUrl, Guard, Target

KEEP_ALIVE_SECONDS: Final = 15.0

Headers = list[tuple[bytes, bytes]]


class Response(NamedTuple):
    """An answer whose body is still to be read: `headers` by lower-case name, `body` as it comes over the wire."""

    status: int
    headers: dict[str, str]
    body: AsyncIterator[bytes]


class NoAnswer(Exception):
    """No answer, or half of one: the message names the kind of failure and holds nothing of the request."""


class GuardedClient:
    """Keeps connections. Time is the caller's to bound (`asyncio.timeout`)."""

    def __init__(self, guard: Guard, connections: int, tls: ssl.SSLContext | None = None) -> None:
        """`tls` decides which certificates are trusted: by default those of SSL_CERT_FILE, else certifi's."""
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls or httpx.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections // 4,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=_GuardedBackend(guard),
        )

    @asynccontextmanager
    async def request(
        self, method: str, target: Target, headers: Headers, content: bytes | None = None
    ) -> AsyncIterator[Response]:
        """One exchange. `headers` without Host and Content-Length. What is not read of the body is given up.

        Raises:
            ForbiddenUrl: the name has an address that may not be used.
            NoAnswer: the connection failed, or what came is not HTTP or not whole; also while the body is read.
        """
        length = [] if content is None else [(b"Content-Length", b"%d" % len(content))]
        request = httpcore.Request(
            method.encode(),
            httpcore.URL(
                scheme=target.scheme.encode(),
                host=(f"[{target.host}]" if ":" in target.host else target.host).encode(),
                port=target.port,
                target=target.path.encode(),
            ),
            headers=[(b"Host", target.authority.encode()), *length, *headers],
            content=content,
        )
        try:
            response = await self._pool.handle_async_request(request)
            try:
                found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                # The pool's stream is asynchronous, whatever the type of the shared Response says.
                stream: Any = response.stream
                yield Response(response.status, found, aiter(stream))
            finally:
                await response.aclose()
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            # httpcore drops the cause and keeps its words, which for TLS say what is wrong with the certificate.
            raise NoAnswer(f"TLS failed: {error}" if "SSL" in str(error) else type(error).__name__) from None
        except OSError as error:
            raise NoAnswer(type(error).__name__) from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._pool.aclose()


class _GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to checked addresses only. A name is asked for once a connection, so nothing can change in between."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """The first address that answers."""
        failure: httpcore.ConnectError | None = None
        for address in await self._guard.addresses(host.strip("[]"), port):
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except httpcore.ConnectError as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never: a URL does not lead to a socket of this host."""
        raise ForbiddenUrl(f"must not lead to a unix socket: {path}")

    async def sleep(self, seconds: float) -> None:
        """Part of the seam; the pool is made without retries of its own."""
        await asyncio.sleep(seconds)

"""`WebhookClient`: one POST to a webhook, to an address that the `Guard` has checked, and nowhere else.

httpcore rather than httpx: it follows no redirect, knows no proxy variables and sends no headers of its own, and its
network backend is the public seam where a name becomes an address. Certificates are verified for the URL's name, since
only the TCP connection goes to the address.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import httpcore
import httpx

from a2a_claude.a2a.ssrf import ForbiddenUrl, Guard, Target

CONNECTIONS: Final = 64
KEEP_ALIVE_SECONDS: Final = 15.0
# Of an answer's body only so much is read as makes the connection usable again.
MAX_ANSWER: Final = 16 * 1024


class Answer(NamedTuple):
    """What a webhook said: its status, and the seconds it asks to be left alone (0: nothing said)."""

    status: int
    retry_after: float


class DeliveryError(Exception):
    """No answer: the message names the kind of failure and holds nothing of the request."""


class WebhookClient:
    """Keeps connections to webhooks. `seconds` bound a whole exchange, from the name to the last byte read."""

    def __init__(self, guard: Guard, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        """`tls` decides which certificates are trusted: by default those of SSL_CERT_FILE, else certifi's."""
        self._seconds = seconds
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls or httpx.create_ssl_context(),
            max_connections=CONNECTIONS,
            max_keepalive_connections=CONNECTIONS // 4,
            keepalive_expiry=KEEP_ALIVE_SECONDS,
            network_backend=_GuardedBackend(guard),
        )

    async def post(self, target: Target, headers: list[tuple[bytes, bytes]], body: bytes) -> Answer:
        """Sends a notification. `headers` without Host and Content-Length.

        Raises:
            ForbiddenUrl: the name has an address that may not be used.
            DeliveryError: no answer.
        """
        request = httpcore.Request(
            b"POST",
            httpcore.URL(
                scheme=target.scheme.encode(),
                host=(f"[{target.host}]" if ":" in target.host else target.host).encode(),
                port=target.port,
                target=target.path.encode(),
            ),
            headers=[(b"Host", target.authority.encode()), (b"Content-Length", b"%d" % len(body)), *headers],
            content=body,
            extensions={"timeout": {"pool": self._seconds}},
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await self._exchange(request)
        except TimeoutError:
            raise DeliveryError(f"no answer within {self._seconds:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            # httpcore drops the cause and keeps its words, which for TLS say what is wrong with the certificate.
            reason = f"TLS failed: {error}" if "SSL" in str(error) else type(error).__name__
            raise DeliveryError(reason) from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._pool.aclose()

    async def _exchange(self, request: httpcore.Request) -> Answer:
        response = await self._pool.handle_async_request(request)
        try:
            read = 0
            # The pool's stream is asynchronous, whatever the type of the shared Response says.
            stream: Any = response.stream
            async for chunk in stream:
                read += len(chunk)
                if read > MAX_ANSWER:
                    break
        finally:
            await response.aclose()
        return Answer(response.status, _retry_after(response.headers))


def _retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float:
    for name, value in headers:
        if name.lower() == b"retry-after" and value.isdigit():
            return float(value[:6])
    return 0.0


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
        raise ForbiddenUrl(f"unix sockets are no webhooks: {path}")

    async def sleep(self, seconds: float) -> None:
        """Part of the seam; the pool is made without retries of its own."""
        await asyncio.sleep(seconds)

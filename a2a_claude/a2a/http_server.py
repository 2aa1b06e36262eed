"""`HttpServer`: Granian on a socket that is already bound, in the running event loop.

Granian has no option for an inherited socket (granian#786). `_init_shared_socket` is where its embedded server makes
its own, so that is what is overridden; tests/test_server.py serves on such a socket and would notice a change.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces, TaskImpl
from granian.http import HTTP1Settings, HTTP2Settings
from granian.log import LogLevels
from granian.net import SocketHolder  # type: ignore[attr-defined]
from granian.server.embed import Server as Granian

from a2a_claude.config.model import Server as Settings
from a2a_claude.config.model import Tls
from a2a_claude.listening import BACKLOG, ListenError

# Silent connections count as well, and must not keep the others out: the limit of open files is met first.
_CONNECTIONS: Final = 1 << 20
_MAX_HEADERS: Final = 64 * 1024
# Its records go to our handlers, and only errors: a client that goes away is no event.
_LOGGING: Final = {"handlers": {}, "formatters": {}, "loggers": {"_granian": {"handlers": [], "propagate": True}}}


class _OnSocket(Granian):
    """Granian on the listening socket of this descriptor, which it closes when it stops."""

    descriptor: int

    def _init_shared_socket(self) -> None:
        make: Any = SocketHolder  # its stub has no constructor
        self._shd = make(self.descriptor, False, BACKLOG)


class HttpServer:
    """Serves an ASGI application by the settings of `server`."""

    def __init__(self, app: Any, settings: Settings) -> None:
        """ListenError when certificate or key cannot be used."""
        tls: dict[str, Any] = {}
        if settings.tls:
            tls = tls_settings(settings.tls)
        self._granian = _OnSocket(
            app,
            interface=Interfaces.ASGINL,
            task_impl=TaskImpl.asyncio,
            # Granian times out a silent connection only where it need not find out first which HTTP it speaks.
            http=HTTPModes.auto if settings.tls or settings.http2_cleartext else HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=_CONNECTIONS,
            http1_settings=HTTP1Settings(header_read_timeout=settings.limits.header_timeout),
            http2_settings=HTTP2Settings(max_headers_size=_MAX_HEADERS),
            log_level=LogLevels.error,
            log_dictconfig=_LOGGING,
            **tls,
        )
        self.ended: asyncio.Task[None]

    async def start(self, listener: socket.socket) -> None:
        """Accepts connections on `listener`, and closes it in the end; returns when it does."""
        self._granian.descriptor = listener.detach()
        self.ended = asyncio.create_task(self._granian.serve())
        while not self._granian.wrks and not self.ended.done():
            await asyncio.sleep(0)
        for _ in range(3):  # its worker must have begun, or it would not hear that it is to stop
            await asyncio.sleep(0)

    async def stop(self, seconds: float) -> bool:
        """Accepts no more connections, lets requests in work end for `seconds`; whether all did."""
        self._granian.stop()  # type: ignore[no-untyped-call]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self.ended), seconds)
        return self.ended.done()


def tls_settings(tls: Tls) -> dict[str, Any]:
    """How Granian is to speak TLS.

    Raises:
        ListenError: a file cannot be read, or is no certificate or its key.
    """
    paths = {"certificateFile": tls.certificate_file, "keyFile": tls.key_file, "clientCaFile": tls.client_ca_file}
    for key, path in paths.items():
        try:
            if path is not None:
                Path(path).read_bytes()
        except OSError as error:
            told = f"server.tls.{key} {path} cannot be read: {error.strerror}"
            raise ListenError(told, passes=not isinstance(error, PermissionError)) from error  # ACME may write it yet
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate_file, tls.key_file)
    except (ssl.SSLError, ValueError) as error:
        raise ListenError(
            f"server.tls: {tls.certificate_file} and {tls.key_file} are no certificate and its key in PEM: {error}"
        ) from None
    return {
        "ssl_cert": Path(tls.certificate_file),
        "ssl_key": Path(tls.key_file),
        "ssl_ca": Path(tls.client_ca_file) if tls.client_ca_file else None,
        "ssl_client_verify": tls.client_ca_file is not None,
    }

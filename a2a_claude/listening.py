"""The socket that a server listens on: bound here, or inherited from systemd (sd_listen_fds(3))."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import MutableMapping
from typing import Final

BACKLOG: Final = 1024
_FIRST: Final = 3  # SD_LISTEN_FDS_START
_HINTS: Final = {
    errno.EADDRINUSE: "another program listens there; set server.port or --port",
    errno.EACCES: "ports below 1024 take a privilege that agents do without; set server.port or --port to a higher one",
}
_LASTING: Final = (errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT)


class ListenError(Exception):
    """There is no socket to listen on; the message says what to do. It `passes` when the same address, or
    the file of a certificate, may be there later."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


def inherited(environ: MutableMapping[str, str]) -> socket.socket | None:
    """The listening socket that systemd, or any program with its protocol, has handed over; None when there is none.

    Its variables are removed and it is closed on exec, so that no child takes it for its own.

    Raises:
        ListenError: several were handed over, or one that is no listening stream socket.
    """
    count = environ.pop("LISTEN_FDS", "")
    process = environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if not count.isdigit() or count == "0" or process != str(os.getpid()):
        return None
    for number in range(_FIRST, _FIRST + int(count)):
        os.set_inheritable(number, False)
    if count != "1":
        raise ListenError(f"{count} sockets were handed over: name a single address in the socket unit's ListenStream=")
    try:
        found = socket.socket(fileno=_FIRST)
        listens = found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise ListenError(f"descriptor {_FIRST}, which was handed over, is no socket: {error.strerror}") from error
    if found.type != socket.SOCK_STREAM or found.family == socket.AF_UNIX or not listens:
        found.detach()
        raise ListenError("the socket that was handed over is no listening TCP socket: use ListenStream= with a port")
    found.setblocking(False)
    return found


def bind(hostname: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet; port 0 takes a free one.

    Raises:
        ListenError: the address is not ours, in use, or not allowed.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            hostname.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        told = f"{hostname} cannot be resolved: {error.strerror}; set server.hostname"
        raise ListenError(told, passes=True) from error
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` is every address, of both kinds, whatever the host's default is.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind(address)
    except OSError as error:
        bound.close()
        hint = _HINTS.get(error.errno or 0, "set server.hostname")
        told = f"cannot listen on {hostname} port {port}: {error.strerror}; {hint}"
        raise ListenError(told, passes=error.errno not in _LASTING) from error
    bound.setblocking(False)
    return bound


def shown(bound: socket.socket) -> str:
    """`host:port` of a socket, an IPv6 address in brackets."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""`Browsers`: which web pages may call. The Fetch standard's CORS protocol, and a guard against DNS rebinding.

A browser sends requests to any address on behalf of any page, so a server on loopback is within reach of every page its
owner visits. Two rules keep pages out: a request with an `Origin` that is not allowed is refused, not merely left
without CORS headers; and a server on loopback without authentication answers only to names that mean loopback (or its
configured ones), since a page of evil.example may let that name point to 127.0.0.1 and then be "the same origin".

Credentials (cookies, client certificates) are never allowed: tokens travel in headers, which need no such permission.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

import falcon
import falcon.asgi

from a2a_claude.a2a.auth import is_open
from a2a_claude.config.model import Server

_METHODS: Final = "GET, HEAD, POST, DELETE, OPTIONS"
_REQUEST_HEADERS: Final = ("Authorization", "Content-Type", "A2A-Version", "A2A-Extensions", "X-A2A-Extensions")
_EXPOSED: Final = (
    "A2A-Version, A2A-Extensions, X-A2A-Extensions, ETag, Last-Modified, Retry-After, WWW-Authenticate, X-Request-Id"
)
_MAX_AGE: Final = "600"
_HOSTS: Final = 256


class Browsers:
    """Falcon middleware, the first of all."""

    def __init__(self, server: Server) -> None:
        self._any = "*" in server.cors_origins
        self._allowed = {_origin(each) for each in server.cors_origins}
        configured = {server.hostname, server.advertise_host}
        if server.public_url:
            self._allowed.add(_origin(server.public_url))
            configured.add(urlsplit(server.public_url).hostname or "")
        self._names = {_plain(each) for each in configured if each} - {"0.0.0.0", "::"}  # noqa: S104
        self._known: dict[str, bool] = {}  # hosts as they were sent: a client sends the same one each time
        self._loopback_only = is_open(server.auth) and is_loopback(server.hostname)
        headers = [*_REQUEST_HEADERS, *([server.auth.api_key.header] if server.auth.api_key else [])]
        self._preflight = {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": ", ".join(headers),
            "Access-Control-Max-Age": _MAX_AGE,
        }

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Refuses what no page may send, and answers preflights."""
        host = req.get_header("Host")
        if self._loopback_only and not (host and self._is_known(host)):
            raise falcon.HTTPForbidden(
                title="Unknown host",
                description="an agent on loopback without authentication answers to loopback names only: "
                "set server.publicUrl if it has another name",
            )
        origin = req.get_header("Origin")
        if origin is None:
            return
        if not self._is_allowed(origin, host):
            raise falcon.HTTPForbidden(
                title="Origin not allowed", description="this page may not call: add its origin to server.corsOrigins"
            )
        if req.method == "OPTIONS" and req.get_header("Access-Control-Request-Method"):
            resp.set_headers(self._preflight)
            resp.status = falcon.HTTP_204
            resp.complete = True

    async def process_response(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, _resource: object, _succeeded: bool
    ) -> None:
        """Lets an allowed page read the answer, errors too."""
        if self._allowed and not self._any:
            resp.append_header("Vary", "Origin")
        origin = req.get_header("Origin")
        if origin is not None and self._is_allowed(origin, req.get_header("Host")):
            resp.set_header("Access-Control-Allow-Origin", "*" if self._any else origin)
            resp.set_header("Access-Control-Expose-Headers", _EXPOSED)

    def _is_allowed(self, origin: str, host: str | None) -> bool:
        if self._any or origin.lower() in self._allowed:
            return True
        # The server's own pages: a name that cannot be rebound, and the same as the one that was asked for.
        authority = origin.partition("://")[2]
        return bool(authority) and authority == host and self._is_known(authority)

    def _is_known(self, authority: str) -> bool:
        known = self._known.get(authority)
        if known is None:
            if len(self._known) >= _HOSTS:
                self._known.clear()
            known = self._known[authority] = self._judge(authority)
        return known

    def _judge(self, authority: str) -> bool:
        try:
            parts = urlsplit(f"//{authority}")
            name = _plain(parts.hostname or "")
        except ValueError:
            return False
        # With user information or a path it is no Host header.
        if parts.netloc != authority or "@" in authority:
            return False
        return name in self._names or is_loopback(name) or (not self._loopback_only and _is_address(name))


def is_loopback(host: str) -> bool:
    """Whether a host's name or address never leaves this machine (RFC 6761 section 6.3)."""
    name = _plain(host)
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _plain(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _origin(url: str) -> str:
    """`https://Example.com/` as browsers write it: lower case, without path and default port."""
    parts = urlsplit(url)
    if not parts.netloc:
        return url.lower()
    default = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    netloc = parts.netloc.lower()
    return f"{parts.scheme.lower()}://{netloc.removesuffix(default) if default else netloc}"

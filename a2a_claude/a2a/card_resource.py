"""The card over HTTP: negotiated, cached, signed; the extended one for authenticated callers (A2A v1.0 section 8)."""

from __future__ import annotations

import hashlib
import ipaddress
import re
import time
from collections.abc import Sequence
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, Final, NamedTuple

import falcon.asgi
import orjson
from a2a.server.context import ServerCallContext
from a2a.utils.errors import UnsupportedOperationError

from a2a_claude.a2a.calls import JSON, Request
from a2a_claude.a2a.card import base_url, core_card, hybrid_card
from a2a_claude.a2a.signing import Signer
from a2a_claude.a2a.versions import V03, asked_version
from a2a_claude.config.agent import Agent

PATHS: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json", "/.well-known/agent-json")

_MAX_AGE: Final = 300
_FORWARDED: Final = "X-Forwarded-Proto, X-Forwarded-Host, X-Forwarded-Prefix"
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?", re.ASCII)
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]{1,64}){1,8}", re.ASCII)
_KNOWN_BASES: Final = 64


class _Rendered(NamedTuple):
    body: bytes
    etag: str


class Cards:
    """The cards of an agent as bytes: by base URL and shape."""

    def __init__(
        self,
        agent: Agent,
        extensions: Sequence[tuple[str, bool]],
        signer: Signer | None = None,
        *,
        legacy: bool = True,
    ) -> None:
        self._agent = agent
        self._extensions = extensions
        self._legacy = legacy
        self._rendered: dict[tuple[str, bool], _Rendered] = {}
        self._base = base_url(agent.config.server)
        self._proxies = [ipaddress.ip_network(each, strict=False) for each in agent.config.server.trusted_proxies]
        # A signature must not cover what a request said, and publicUrl is the last word.
        self._forwarded = bool(self._proxies) and signer is None and not agent.config.server.public_url
        signed = core_card(agent, self._base, extensions, legacy=legacy) if signer else {}
        self._signatures = [signer.sign(signed)] if signer else []

    @property
    def vary(self) -> str:
        """What of a request the card depends on."""
        return f"A2A-Version, {_FORWARDED}" if self._forwarded else "A2A-Version"

    def render(self, base: str, hybrid: bool) -> _Rendered:
        """The card for a base URL: v1.0 alone, or with the members of v0.3."""
        key = (base, hybrid and self._legacy)
        if (known := self._rendered.get(key)) is not None:
            return known
        card = core_card(self._agent, base, self._extensions, legacy=self._legacy)
        if self._signatures:
            # Of both shapes: v0.3 members are not part of the card that a signature covers.
            card["signatures"] = self._signatures
        body = orjson.dumps(hybrid_card(card) if key[1] else card)
        rendered = _Rendered(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
        if len(self._rendered) >= _KNOWN_BASES:
            self._rendered.clear()
        self._rendered[key] = rendered
        return rendered

    def base_for(self, req: Request) -> str:
        """The base URL for a request: the configured one, or what a trusted proxy says was asked for."""
        if not self._forwarded or not self._is_trusted(req.scope.get("client")):
            return self._base
        scheme = _last(req.get_header("X-Forwarded-Proto"))
        host = _last(req.get_header("X-Forwarded-Host"))
        prefix = _last(req.get_header("X-Forwarded-Prefix")).rstrip("/")
        if not _HOST.fullmatch(host):
            return self._base
        if scheme not in ("http", "https"):
            scheme = self._agent.config.server.advertise_protocol
        return f"{scheme}://{host}{prefix if _PREFIX.fullmatch(prefix) else ''}"

    async def extended(self, _params: Any, context: ServerCallContext) -> bytes:
        """The operation GetExtendedAgentCard, for authenticated callers only.

        Raises:
            UnsupportedOperationError: the card does not offer it.
            falcon.HTTPUnauthorized: the caller is not authenticated.
        """
        if not self._agent.config.agent_card.extended_card:
            raise UnsupportedOperationError("This agent has no extended card")
        if not context.user.is_authenticated:
            raise falcon.HTTPUnauthorized(
                description="the extended card is for authenticated callers", challenges=["Bearer"]
            )
        return self.render(self._base, context.state["version"] == V03).body

    def _is_trusted(self, client: Sequence[Any] | None) -> bool:
        try:
            address = ipaddress.ip_address(str(client[0])) if client else None
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None) or address
        return mapped is not None and any(mapped in network for network in self._proxies)


class CardResource:
    """Falcon resource of the well-known paths."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards
        self._modified = int(time.time())

    async def on_get(self, req: Request, resp: falcon.asgi.Response) -> None:
        """The card, or 304 when the caller has it. v1.0 callers say so with A2A-Version; all others get both shapes."""
        asked = asked_version(req.get_header("A2A-Version"), req.query_string)
        body, etag = self._cards.render(self._cards.base_for(req), asked == V03)
        resp.set_headers(
            {
                "ETag": etag,
                "Cache-Control": f"public, max-age={_MAX_AGE}",
                "Last-Modified": formatdate(self._modified, usegmt=True),
                "Vary": self._cards.vary,
            }
        )
        if self._is_fresh(req, etag):
            resp.status = falcon.HTTP_304
            return
        resp.content_type = JSON
        resp.data = body

    on_head = on_get

    def _is_fresh(self, req: Request, etag: str) -> bool:
        if (wanted := req.get_header("If-None-Match")) is not None:
            tags = {each.strip().removeprefix("W/") for each in wanted.split(",")}
            return "*" in tags or etag in tags
        since = req.get_header("If-Modified-Since")
        if since is None:
            return False
        try:
            return self._modified <= parsedate_to_datetime(since).timestamp()
        except (ValueError, TypeError, OverflowError):
            return False


def _last(header: str | None) -> str:
    return (header or "").rpartition(",")[2].strip()

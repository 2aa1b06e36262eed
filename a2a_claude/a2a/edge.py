"""The server's edge in one piece: whether it may be open at all, and what every request passes first."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from a2a_claude.a2a.auth import Authentication, is_open
from a2a_claude.a2a.cors import Browsers, is_loopback
from a2a_claude.a2a.limits import Buckets, Peers, RateLimit
from a2a_claude.config.model import Server

logger = logging.getLogger(__name__)


class ExposureError(Exception):
    """The server would be open to the network; the message says what to set."""


def check_exposure(server: Server) -> None:
    """Before listening: an open server on a non-loopback address is refused, or warned of when the config wants it.

    Raises:
        ExposureError: neither a scheme nor `allowUnauthenticated` is configured.
    """
    if not is_open(server.auth) or is_loopback(server.hostname):
        return
    danger = "anyone who reaches it can spend your money and run the agent's tools"
    if not server.auth.allow_unauthenticated:
        raise ExposureError(
            f"refusing to listen on {server.hostname} without authentication: {danger}. "
            "Configure server.auth (bearer, apiKey, jwt or mtls); or bind to loopback (server.hostname: 127.0.0.1); "
            "or, when something in front authenticates callers, set server.auth.allowUnauthenticated: true. "
            "A container listens on 0.0.0.0 so that its port can be published, and needs one of the first and the last."
        )
    logger.warning(
        "NO AUTHENTICATION on %s port %d: %s (server.auth.allowUnauthenticated is true)",
        server.hostname,
        server.port,
        danger,
    )


def make_edge(server: Server, environment: Mapping[str, str]) -> list[Any]:
    """The Falcon middleware of a server, in order: browsers, authentication, request rate. For `make_app`.

    Raises:
        TokenError: a file or variable with tokens cannot be used.
    """
    buckets = Buckets(server.limits.requests_per_minute)
    peers = Peers(server.trusted_proxies)
    chain: list[Any] = [Browsers(server)]
    if not is_open(server.auth):
        chain.append(Authentication(server, environment, buckets, peers))
    chain.append(RateLimit(buckets, peers))
    return chain

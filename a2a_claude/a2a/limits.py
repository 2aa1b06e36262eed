"""How often a caller may ask: a token bucket each, for principals or, where nobody is known, for addresses.

The other bounds are where what they bound is: the size of a body, its nesting, parts and metadata in `validation.py`,
open streams in `sse.py`, waiting tasks in `turns.py`, the time that headers may take in the server's own settings.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final

import falcon
import falcon.asgi

# Never refused: an orchestrator that gets 429 for health restarts a healthy server.
UNLIMITED: Final = frozenset(("/health", "/ready"))
# Callers remembered before those with a full bucket are forgotten.
_CALLERS: Final = 10_000


class Buckets:
    """A bucket per caller that holds a minute's worth of requests and fills evenly.

    One number each: the time at which the bucket would be full again (the generic cell rate algorithm, ITU-T I.371).
    `per_minute` 0 sets no bound; `clock` gives seconds.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._room = 60.0 - self._interval
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def spend(self, caller: str) -> float:
        """Takes one request's worth; 0, or the seconds after which there is one again (and nothing was taken)."""
        if not self._interval:
            return 0.0
        now = self._clock()
        full_at = max(self._full_at.get(caller, now), now)
        if (missing := full_at - now - self._room) > 1e-9:
            return missing
        self._full_at[caller] = full_at + self._interval
        if len(self._full_at) > _CALLERS:
            self._forget(now)
        return 0.0

    def require(self, caller: str) -> None:
        """HTTPTooManyRequests when the bucket is empty."""
        if wait := self.spend(caller):
            raise falcon.HTTPTooManyRequests(
                title="Too many requests",
                description=f"a caller may send {round(60 / self._interval)} a minute",
                retry_after=math.ceil(wait),
            )

    def __len__(self) -> int:
        return len(self._full_at)

    def _forget(self, now: float) -> None:
        self._full_at = {caller: full_at for caller, full_at in self._full_at.items() if full_at > now}
        # More callers at once than anybody serves: those nearest to a full bucket lose nothing much.
        if len(self._full_at) > _CALLERS:
            kept = sorted(self._full_at.items(), key=lambda each: each[1])[-_CALLERS // 2 :]
            self._full_at = dict(kept)


class Peers:
    """Who is at the other end: the connection's address, or what trusted proxies say of it."""

    def __init__(self, trusted_proxies: Iterable[str]) -> None:
        """`trusted_proxies` are networks in CIDR notation."""
        self._proxies = [ipaddress.ip_network(each, strict=False) for each in trusted_proxies]

    def name(self, req: falcon.asgi.Request) -> str:
        """The address, of IPv6 its /64: one host has as many of those as it likes."""
        client = req.scope.get("client")
        address = _address(str(client[0])) if client else None
        if self._proxies and self._is_trusted(address):
            # Each proxy appends whom it heard: the last one that is no proxy of ours is as far as can be believed.
            for text in reversed((req.get_header("X-Forwarded-For") or "").split(",")):
                forwarded = _address(text.strip())
                if forwarded is None:
                    break
                address = forwarded
                if not self._is_trusted(address):
                    break
        return _shown(address)

    def _is_trusted(self, address: Any) -> bool:
        return address is not None and any(address in network for network in self._proxies)


@lru_cache(4096)
def _shown(address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> str:
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)


@lru_cache(4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class RateLimit:
    """Falcon middleware, after authentication: a bucket for each principal, for each address where none is known.

    Leaves that name in `req.context.caller`.
    """

    def __init__(self, buckets: Buckets, peers: Peers) -> None:
        self._buckets = buckets
        self._peers = peers

    async def process_request(self, req: falcon.asgi.Request, _resp: falcon.asgi.Response) -> None:
        """Refuses with 429 and Retry-After."""
        if req.path in UNLIMITED:
            return
        user = getattr(req.context, "user", None)
        req.context.caller = caller = user.user_name if user is not None else self._peers.name(req)
        self._buckets.require(caller)

"""URLs of other agents: what a card means by one, and what of one may be shown."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx


def origin(url: httpx.URL) -> str:
    """The scheme, host and port of a URL, written one way (RFC 6454 section 6.2)."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def reachable(advertised: str, card_url: str) -> str:
    """Where to send what a card wants at `advertised`; ValueError when that is no URL.

    A loopback address on the card of an agent elsewhere is the default of many servers and never meant for its callers,
    and on this machine `localhost`, 127.0.0.1 and ::1 with one port are one agent: the path is taken, on the host that
    the card came from.
    """
    there, card = urlsplit(advertised), urlsplit(card_url)
    local = is_loopback(there.hostname or "") or there.hostname in ("0.0.0.0", "::")  # noqa: S104 (no socket is bound)
    if local and (not is_loopback(card.hostname or "") or _port(there) == _port(card)):
        return urlunsplit((card.scheme, card.netloc, there.path, there.query, ""))
    return advertised


def is_loopback(host: str) -> bool:
    """Whether a host is this one, by its name or address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def shown(url: str) -> str:
    """A URL for logs and messages: user information, query and fragment may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)

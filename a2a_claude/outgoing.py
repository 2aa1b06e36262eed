"""What every client of other agents keeps to: whose URL a request goes to, and how much an answer may be.

A card, and whatever an agent answers, is the other side's word.
"""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import Any, Final, cast
from urllib.parse import SplitResult, urlsplit, urlunsplit

import httpx

# A chunk costs as much as so many bytes, however small it is: no event of A2A is shorter.
_LEAST_CHUNK: Final = 128
_EVENTS: Final = "text/event-stream"
# https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream
# A line ends with \n, \r or \r\n, in any mixture: so ends the empty line after an event.
_EVENT_ENDS: Final = (b"\n\n", b"\r\r", b"\n\r")


class TooLarge(httpx.RequestError):
    """A response beyond the bound, or one whose size cannot be told before it is unpacked."""


def bound(response: httpx.Response, most: int, *, each_event: bool = False) -> None:
    """Has the reading of a response fail with `TooLarge` after `most` bytes; with `each_event`, those of one event
    where it is a stream of events that was asked for. Anything else is read as a whole, whatever it says it is.

    Ask for it with `Accept-Encoding: identity`: a few KiB can unpack to GiB, so what is compressed is refused.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise TooLarge("it sent a compressed answer, which was not asked for")
    # As JSON and events always are; in another encoding an event would end elsewhere, and some are none of text.
    response.encoding = "utf-8"
    asked = response.request.headers.get("accept") == _EVENTS and response.is_success
    # a2a-sdk knows it in small letters alone.
    each_event = each_event and asked and response.headers.get("content-type", "").startswith(_EVENTS)
    response.stream = _Bounded(cast(httpx.AsyncByteStream, response.stream), most, each_event)


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, most: int, each_event: bool) -> None:
        self._stream: Any = stream
        self._most, self._each_event = most, each_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, end = 0, b""
        async for chunk in self._stream:
            size += max(len(chunk), _LEAST_CHUNK)
            if size > self._most:
                raise TooLarge(f"it sent more than {self._most >> 20} MiB{' in one event' if self._each_event else ''}")
            if self._each_event:
                end += chunk
                if any(mark in end for mark in _EVENT_ENDS):
                    size = 0
                end = end[-1:]
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


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

"""`FileFetcher`: the file at a URL that a message gives instead of bytes (A2A v1.0 section 4.1.6, `Part.url`).

The caller chooses the URL, so it is asked for as a stranger's: only where `server.fileUrls` allows, redirects through
the same guard, without credentials, as much as was agreed and no longer than a slow link needs.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, NamedTuple
from urllib.parse import urljoin

from a2a_claude import __version__
from a2a_claude.a2a.guarded_http import GuardedClient, NoAnswer, Response
from a2a_claude.a2a.ssrf import ForbiddenUrl, Guard

CONNECTIONS: Final = 16
REDIRECTS: Final = 4
# A file may take so long, and longer as long as it keeps arriving at this rate.
SECONDS: Final = 30.0
BYTES_PER_SECOND: Final = 64 * 1024
# Each chunk of a body costs the same however small it is; a server that sends single bytes would keep this one busy.
_FREE_CHUNKS: Final = 512
_LEAST_CHUNK: Final = 256
_MOVED: Final = frozenset((301, 302, 303, 307, 308))
# What is sent compressed is counted as it is sent: nothing is undone, so nothing grows.
_HEADERS: Final = [
    (b"Accept", b"*/*"),
    (b"Accept-Encoding", b"identity"),
    (b"User-Agent", f"a2a-claude/{__version__}".encode()),
]


class File(NamedTuple):
    """What was at a URL; `media_type` as the server there says it, empty when it says nothing."""

    content: bytes
    media_type: str


class FetchError(Exception):
    """There is no file to be had; the message says why in words for the caller, and holds nothing of the URL's path."""


class FileFetcher:
    """Fetches files. Close it at the end."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext | None = None, *, seconds: float = SECONDS) -> None:
        """`tls`: see `GuardedClient`."""
        self._guard, self._tls, self._seconds = guard, tls, seconds
        self._http: GuardedClient | None = None

    def check(self, url: str) -> None:
        """FetchError for a URL that will never be asked for, whatever its host's addresses are."""
        try:
            self._guard.target(url)
        except ForbiddenUrl as error:
            raise FetchError(f"its URL {error}") from None

    async def get(self, url: str, most: int) -> File:
        """The file at `url`, of at most `most` bytes.

        Raises:
            FetchError: it may not be asked for, is not there, is too large, or takes too long.
        """
        if self._http is None:
            self._http = GuardedClient(self._guard, CONNECTIONS, self._tls)
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(started + self._seconds) as deadline:
                for _ in range(REDIRECTS + 1):
                    target = self._guard.target(url)
                    async with self._http.request("GET", target, _HEADERS) as response:
                        if response.status not in _MOVED:
                            return await self._read(response, most, started, deadline)
                        url = _led(url, response.headers.get("location", ""))
        except TimeoutError:
            raise FetchError("it took too long") from None
        except ForbiddenUrl as error:
            raise FetchError(f"its URL {error}") from None
        except NoAnswer as error:
            raise FetchError(f"it could not be fetched ({error})") from None
        raise FetchError(f"its URL leads on more than {REDIRECTS} times")

    async def close(self) -> None:
        """Closes the connections."""
        if self._http is not None:
            await self._http.close()

    async def _read(self, response: Response, most: int, started: float, deadline: asyncio.Timeout) -> File:
        if response.status != 200:
            raise FetchError(f"the server there answered {response.status}")
        if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
            raise FetchError(f"it was sent compressed ({encoding[:20]}), which was not asked for")
        too_large = FetchError(f"it has more than {most} bytes")
        length = response.headers.get("content-length", "")
        if length.isdigit() and int(length[:20]) > most:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.body:
            size += len(chunk)
            if size > most:
                raise too_large
            chunks.append(chunk)
            if len(chunks) > _FREE_CHUNKS + size // _LEAST_CHUNK:
                raise FetchError("it was sent in too small pieces")
            deadline.reschedule(started + self._seconds + size / BYTES_PER_SECOND)
        return File(b"".join(chunks), response.headers.get("content-type", ""))


def _led(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:  # brackets in it hold no address
        raise FetchError("it leads on to what is no URL") from None

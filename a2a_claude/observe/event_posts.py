"""`HttpTransport`: each event as one POST of its envelope in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import httpx

from a2a_claude.observe.events import Event, TryAgain

_TRY_AGAIN: Final = frozenset((408, 425, 429))
# RFC 9110, sections 5.1 and 5.5.
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?![ \t])[\t\x20-\x7e\x80-\xff]*(?<![ \t])")


class HttpTransport:
    """Posts to one URL. Redirects are not followed: they would take the headers elsewhere."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """ValueError, which names the key of the config and never its value, when one cannot be used."""
        try:
            self._url = httpx.URL(url)
        except (httpx.InvalidURL, TypeError):
            self._url = httpx.URL("")
        if self._url.scheme not in ("http", "https") or not self._url.host:
            raise ValueError("events.httpUrl is no http or https URL")
        for name, value in headers.items():
            if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                raise ValueError(f"events.httpHeaders.{name} is no header: a line break or space at an end, perhaps")
        fields = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._client = httpx.AsyncClient(
            headers=[(b"Content-Type", b"application/json"), *fields],
            timeout=None,  # noqa: S113 (whoever calls bounds the whole exchange)
        )

    async def send(self, event: Event) -> None:
        """TryAgain for no answer, 408, 425, 429 and 5xx; ValueError for any other refusal."""
        body = json.dumps(event.envelope(), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        try:
            async with self._client.stream("POST", self._url, content=body) as answer:
                status, asked = answer.status_code, answer.headers.get("Retry-After", "")
        except httpx.HTTPError as error:
            raise TryAgain(f"{self._url.host}: {type(error).__name__}") from None
        if 200 <= status < 300:
            return
        reason = f"{self._url.host} answered {status}"
        if status in _TRY_AGAIN or status >= 500:
            raise TryAgain(reason, float(asked[:6]) if asked.isdecimal() else 0.0)
        raise ValueError(reason)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

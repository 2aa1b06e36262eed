"""`WebhookClient`: one POST to a webhook."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, NamedTuple

from a2a_claude.a2a.guarded_http import GuardedClient, Headers, NoAnswer
from a2a_claude.a2a.ssrf import Guard, Target

CONNECTIONS: Final = 64
# Of an answer's body only so much is read as makes the connection usable again.
MAX_ANSWER: Final = 16 * 1024


class Answer(NamedTuple):
    """What a webhook said: its status, and the seconds it asks to be left alone (0: nothing said)."""

    status: int
    retry_after: float


class WebhookClient:
    """Keeps connections to webhooks. `seconds` bound a whole exchange, from the name to the last byte read."""

    def __init__(self, guard: Guard, seconds: float, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: see `GuardedClient`."""
        self._seconds = seconds
        self._http = GuardedClient(guard, CONNECTIONS, tls)

    async def post(self, target: Target, headers: Headers, body: bytes) -> Answer:
        """Sends a notification. `headers` without Host and Content-Length.

        Raises:
            ForbiddenUrl: the name has an address that may not be used.
            NoAnswer: there was none in time.
        """
        try:
            async with (
                asyncio.timeout(self._seconds),
                self._http.request("POST", target, headers, body) as response,
            ):
                read = 0
                async for chunk in response.body:
                    read += len(chunk)
                    if read > MAX_ANSWER:
                        break
                return Answer(response.status, _retry_after(response.headers.get("retry-after", "")))
        except TimeoutError:
            raise NoAnswer(f"no answer within {self._seconds:g} s") from None

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.close()


def _retry_after(value: str) -> float:
    return float(value[:6]) if value.isascii() and value.isdigit() else 0.0

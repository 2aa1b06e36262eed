"""How requests to another agent are authenticated: `subAgents.agents[].auth` as `httpx.Auth`.

Credentials are in memory alone. They go to the origins that the config names and to no other (`http.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Generator
from typing import Any, Final
from urllib.parse import quote

import httpx

from a2a_claude.config.model import (
    SubAgentAuth,
    SubAgentAuthApiKey,
    SubAgentAuthBearer,
    SubAgentAuthOauth2ClientCredentials,
)
from a2a_claude.outgoing import is_loopback

logger = logging.getLogger(__name__)

TOKEN_SECONDS: Final = 10.0
# A token is renewed this much before its end, so that it does not end on the way.
_EARLY_SECONDS: Final = 30.0
# RFC 6749 section 5.1 recommends expires_in, and some servers leave it out: the next 401 tells.
_UNTOLD_SECONDS: Final = 300.0
_MAX_TOKEN_ANSWER: Final = 64 * 1024


class CredentialsError(httpx.RequestError):
    """No token could be had; the message says why and holds no secret."""


def auth(settings: SubAgentAuth | None) -> httpx.Auth | None:
    """The authentication of an agent's settings; None when they want none."""
    match settings:
        case SubAgentAuthBearer():
            return Header("Authorization", f"Bearer {settings.token}")
        case SubAgentAuthApiKey():
            return Header(settings.header_name, settings.token)
        case SubAgentAuthOauth2ClientCredentials():
            return ClientCredentials(settings)
    return None


class Header(httpx.Auth):
    """The same header on each request."""

    def __init__(self, name: str, value: str) -> None:
        self._name, self._value = name, value

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """See `httpx.Auth`."""
        request.headers[self._name] = self._value
        yield request


class ClientCredentials(httpx.Auth):
    """OAuth 2.0 client credentials (RFC 6749 section 4.4): a token is kept while it is valid and asked for once,
    however many requests wait for it. One that is refused with 401 is replaced once.
    """

    def __init__(self, settings: SubAgentAuthOauth2ClientCredentials) -> None:
        self._settings = settings
        self._lock = asyncio.Lock()
        self._token, self._until = "", 0.0
        self._in_body = False

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """See `httpx.Auth`."""
        used = await self._valid()
        request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == httpx.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await self._valid(refused=used)}"
            yield request

    async def _valid(self, refused: str = "") -> str:
        async with self._lock:
            if self._token in ("", refused) or time.monotonic() >= self._until:
                self._token, seconds = await self._ask()
                self._until = time.monotonic() + max(1.0, seconds - _EARLY_SECONDS)
            return self._token

    async def _ask(self) -> tuple[str, float]:
        """A new token, and for how many seconds it is valid."""
        try:
            local = is_loopback(httpx.URL(self._settings.token_url).host)
            client = httpx.AsyncClient(timeout=TOKEN_SECONDS, trust_env=not local)
            async with asyncio.timeout(TOKEN_SECONDS), client as http:
                status, answer = await self._post(http)
                # Every server has to take HTTP Basic (section 2.3.1), and some take the body alone.
                if status in (400, 401) and answer.get("error") == "invalid_client":
                    self._in_body = not self._in_body
                    status, answer = await self._post(http)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise CredentialsError(f"its token endpoint gave no answer ({type(error).__name__})") from None
        token, seconds = answer.get("access_token"), answer.get("expires_in", _UNTOLD_SECONDS)
        if status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            named = answer.get("error")
            why = named if isinstance(named, str) and named.isidentifier() else "no token in the answer"
            raise CredentialsError(f"its token endpoint gave no token (HTTP {status}, {why[:50]})")
        return token, float(seconds) if isinstance(seconds, int | float | str) and str(seconds).isdigit() else 0.0

    async def _post(self, http: httpx.AsyncClient) -> tuple[int, dict[str, Any]]:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        if settings.scopes:
            form["scope"] = " ".join(settings.scopes)
        basic = None
        if self._in_body:
            form |= {"client_id": settings.client_id, "client_secret": settings.client_secret}
        else:
            basic = httpx.BasicAuth(quote(settings.client_id, safe=""), quote(settings.client_secret, safe=""))
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        async with http.stream("POST", settings.token_url, data=form, headers=headers, auth=basic) as response:
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _MAX_TOKEN_ANSWER:
                    raise ValueError("too long")
        try:
            answer = httpx.Response(200, content=body).json()
        except ValueError:
            answer = None
        return response.status_code, answer if isinstance(answer, dict) else {}

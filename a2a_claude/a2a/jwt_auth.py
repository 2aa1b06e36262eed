"""`TokenVerifier`: signed tokens of an OpenID Connect issuer (RFC 7519, RFC 8725; OpenID Connect Discovery 1.0).

Keys come from a file, a URL or the issuer's discovery document. They are fetched with the first token, again every
hour, and when a token names a key that is not among them, but then at most every `REFRESH_PAUSE` seconds: a caller
with made-up tokens cannot make the server flood the issuer. While the issuer does not answer, the keys last fetched
stay good for `LONGEST_USE` seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import orjson

from a2a_claude.config.model import AuthJwt

logger = logging.getLogger(__name__)

FRESH: Final = 3600.0
REFRESH_PAUSE: Final = 30.0
LONGEST_USE: Final = 24 * 3600.0
FETCH_SECONDS: Final = 5.0
MAX_DOCUMENT: Final = 1024 * 1024
MAX_TOKEN: Final = 16 * 1024
MAX_VERIFIED: Final = 1024

_REQUIRED: Final = ["exp", "iss", "aud"]


class InvalidToken(Exception):
    """The token admits nobody; the message tells its holder why."""


class MissingScope(Exception):
    """The token is valid and carries too little; `scope` is what it needs (RFC 6750 section 3.1)."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"the token needs the scopes {scope}")
        self.scope = scope


class KeysUnavailable(Exception):
    """The issuer's keys cannot be had now: nobody can be told from anybody."""


class TokenVerifier:
    """Verifies tokens of one issuer for one audience."""

    def __init__(self, settings: AuthJwt, *, pause: float = REFRESH_PAUSE) -> None:
        """`pause` is the least time between two fetches, in seconds."""
        self._settings = settings
        self._keys = KeySet(settings, pause)
        self._algorithms = frozenset(settings.algorithms)
        # A caller sends the same token many times, and a signature takes longer to verify than a task to read.
        self._verified: dict[bytes, tuple[str, float]] = {}
        self._verified_with = self._keys.keys

    async def principal(self, token: str) -> str:
        """The caller's name: `<issuer>#<claim>`, since a claim is unique only at its issuer (OIDC Core 5.7).

        Raises:
            InvalidToken: wrong form, signature, issuer, audience or time; no such claim.
            MissingScope: a scope is missing.
            KeysUnavailable: the keys could not be fetched.
        """
        if len(token) > MAX_TOKEN:
            raise InvalidToken("the token is too long")
        await self._keys.follow()
        if self._verified_with is not self._keys.keys:
            self._verified, self._verified_with = {}, self._keys.keys
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        known, until = self._verified.get(digest, ("", 0.0))
        if known and time.time() < until:
            return known
        name, expiry = await self._verify(token)
        if len(self._verified) >= MAX_VERIFIED:
            self._verified.clear()
        self._verified[digest] = name, expiry + self._settings.leeway
        return name

    async def _verify(self, token: str) -> tuple[str, float]:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            raise InvalidToken("the token is no JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._algorithms:
            raise InvalidToken("the token's algorithm is not accepted")
        key = await self._keys.find(key_id if isinstance(key_id, str) else None, algorithm)
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=self._settings.leeway,
                options={"require": _REQUIRED},
            )
        except jwt.InvalidTokenError as error:
            raise InvalidToken(f"the token is not valid: {error}") from None
        name = claims.get(self._settings.principal_claim)
        if not isinstance(name, str) or not name or not name.isprintable():
            raise InvalidToken(f"the token's claim {self._settings.principal_claim} names nobody")
        if not set(self._settings.scopes) <= _scopes(claims):
            raise MissingScope(" ".join(self._settings.scopes))
        return f"{self._settings.issuer}#{name}", float(claims["exp"])


def _scopes(claims: Mapping[str, Any]) -> set[str]:
    """`scope` as RFC 8693 section 4.2 has it, or the list `scp` that some issuers write instead."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        if isinstance(value, str):
            found |= set(value.split())
        elif isinstance(value, list):
            found |= {each for each in value if isinstance(each, str)}
    return found


class KeySet:
    """The public keys of an issuer (RFC 7517): `keys` is another list whenever they are read again."""

    def __init__(self, settings: AuthJwt, pause: float) -> None:
        self._settings = settings
        self._pause = pause
        self.keys: list[jwt.PyJWK] = []
        self._fetched = self._tried = -LONGEST_USE
        self._lock = asyncio.Lock()
        self._renewal: asyncio.Task[None] | None = None
        self._stamp: tuple[int, int] | None = None

    async def follow(self) -> None:
        """Reads a file that has changed, fetches keys that are old."""
        if self._settings.jwks_file:
            self._read_file(self._settings.jwks_file)
        elif not self.keys:
            await self._refresh()
        elif time.monotonic() - self._fetched > FRESH:
            self._renewal = self._renewal or asyncio.create_task(self._renew())

    async def find(self, key_id: str | None, algorithm: str) -> jwt.PyJWK:
        """The key that a token names; without a name the only one that fits its algorithm.

        Raises:
            InvalidToken: there is none, or without a name several.
            KeysUnavailable: there are no keys at all.
        """
        found = self._match(key_id, algorithm)
        if not found and not self._settings.jwks_file:
            await self._refresh()
            found = self._match(key_id, algorithm)
        if not self.keys:
            raise KeysUnavailable("the issuer's keys are not available now")
        if len(found) != 1:
            raise InvalidToken("the token names no key of the issuer")
        return found[0]

    def _match(self, key_id: str | None, algorithm: str) -> list[jwt.PyJWK]:
        fitting = [each for each in self.keys if each.algorithm_name == algorithm]
        return [each for each in fitting if each.key_id == key_id] if key_id is not None else fitting

    async def _renew(self) -> None:
        try:
            await self._refresh()
        finally:
            self._renewal = None

    async def _refresh(self) -> None:
        async with self._lock:
            now = time.monotonic()
            if now - self._tried < self._pause:
                return
            self._tried = now
            try:
                self.keys = _keys(await self._fetch(), self._settings.algorithms)
                self._fetched = now
            except (httpx.HTTPError, ValueError, TimeoutError) as error:
                logger.error("The keys of %s cannot be fetched: %s", self._settings.issuer, error)
                if now - self._fetched > LONGEST_USE:
                    self.keys = []

    async def _fetch(self) -> Any:
        async with httpx.AsyncClient(timeout=FETCH_SECONDS, follow_redirects=False) as client:
            async with asyncio.timeout(2 * FETCH_SECONDS):
                url = self._settings.jwks_url
                if not url:
                    issuer = self._settings.issuer.rstrip("/")
                    found = await _document(client, f"{issuer}/.well-known/openid-configuration")
                    if found.get("issuer") != self._settings.issuer:
                        raise ValueError("the discovery document is of another issuer")
                    url = str(found.get("jwks_uri") or "")
                return await _document(client, url)

    def _read_file(self, name: str) -> None:
        try:
            found = Path(name).stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return
            self._stamp = stamp
            self.keys = _keys(orjson.loads(Path(name).read_bytes()), self._settings.algorithms)
        except (OSError, ValueError) as error:
            kept = "; the keys that were read before stay valid" if self.keys else ""
            logger.error("The keys in %s cannot be read: %s%s", name, error, kept)


def _keys(document: Any, accepted: Sequence[str]) -> list[jwt.PyJWK]:
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("this is no JWK set: it has no list of keys")
    found: list[jwt.PyJWK] = []
    for each in document["keys"]:
        # RFC 7517 section 5: keys that are not understood, or serve another use, are ignored.
        if not isinstance(each, dict) or each.get("use", "sig") != "sig" or each.get("kty") == "oct":
            continue
        for algorithm in _algorithms(each, accepted):
            try:
                found.append(jwt.PyJWK(each, algorithm))
            except (jwt.PyJWTError, ValueError, KeyError, TypeError):
                continue
    if not found:
        raise ValueError("the JWK set has no key for the accepted algorithms")
    return found


def _algorithms(key: Mapping[str, Any], accepted: Sequence[str]) -> list[str]:
    """What a key may verify: what it says itself, else what its type can."""
    if key.get("alg"):
        return [each for each in accepted if each == key["alg"]]
    prefixes = {"RSA": ("RS", "PS"), "OKP": ("Ed",)}.get(str(key.get("kty")), ())
    curves = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
    return [each for each in accepted if each.startswith(prefixes) or each == curves.get(str(key.get("crv")))]


async def _document(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    async with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
        if response.status_code != 200:
            raise ValueError(f"{url} answered {response.status_code}")
        body = b""
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_DOCUMENT:
                raise ValueError(f"{url} is larger than {MAX_DOCUMENT} bytes")
    found = orjson.loads(body)
    if not isinstance(found, dict):
        raise ValueError(f"{url} is no JSON object")
    return found

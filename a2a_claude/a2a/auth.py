"""`Authentication`: who is calling, decided before anything of the request is looked at.

Any one configured scheme admits a caller. The principal's name carries the scheme, since "alice" in the token file need
not be the "alice" of the identity provider; tasks belong to that name, so moving a caller to another scheme makes a new
owner of it:

    bearer:alice                       a line of the token file
    apiKey:alice                       a line of the key file
    jwt:https://login.example.com#42   issuer and principalClaim of a token
    mtls:CN=alice,O=Example            the certificate's subject, where the HTTP server tells it (ASGI TLS extension)
    mtls                               everybody with a certificate, where it does not: Granian 2.8 checks it, and that
                                       is all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import falcon
import falcon.asgi
from a2a.auth.user import User

from a2a_claude.a2a.card_resource import PATHS
from a2a_claude.a2a.limits import UNLIMITED, Buckets, Peers
from a2a_claude.a2a.tokens import TokenTable
from a2a_claude.config.model import Auth, AuthJwt, Server

if TYPE_CHECKING:
    from a2a_claude.a2a.jwt_auth import TokenVerifier

# Read by anybody: the public card, and what orchestrators ask.
OPEN: Final = frozenset(PATHS) | UNLIMITED
_REALM: Final = 'realm="a2a"'


class Principal(User):
    """An authenticated caller; `user_name` is the stable name that tasks belong to."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        """Always."""
        return True

    @property
    def user_name(self) -> str:
        """The principal's name with its scheme."""
        return self._name


def is_open(auth: Auth) -> bool:
    """Whether no scheme is configured, so that anybody may call."""
    return not (auth.bearer or auth.api_key or auth.jwt or auth.mtls)


class Authentication:
    """Falcon middleware: sets `req.context.user`, or refuses in the binding's own form.

    Who fails too often is told to wait (429), from one address as often as one caller may send.
    """

    def __init__(self, server: Server, environment: Mapping[str, str], buckets: Buckets, peers: Peers) -> None:
        """Reads the tokens.

        Raises:
            TokenError: a file or variable with tokens cannot be used.
        """
        auth = server.auth
        self._bearer = (
            TokenTable.load(auth.bearer.tokens_file, auth.bearer.tokens_variable, environment) if auth.bearer else None
        )
        self._keys = (
            TokenTable.load(auth.api_key.keys_file, auth.api_key.keys_variable, environment) if auth.api_key else None
        )
        self._key_header = auth.api_key.header if auth.api_key else ""
        self._jwt = _verifier(auth.jwt) if auth.jwt else None
        self._mtls = auth.mtls
        self._challenges = _challenges(auth)
        self._buckets = buckets
        self._peers = peers

    async def process_request(self, req: falcon.asgi.Request, _resp: falcon.asgi.Response) -> None:
        """Before routing, so that nothing is told of what exists."""
        if req.path in OPEN and req.method in ("GET", "HEAD"):
            return
        name, problem = self._by_key(req)
        if not name and (token := _bearer_token(req)) is not None:
            name, problem = await self._by_token(req, token)
        if not name and not problem and self._mtls:
            name = _certificate(req)
        if not name:
            self._buckets.require(self._peers.name(req))
            challenges = [
                f'{each}, error="invalid_token"' if problem and each.startswith("Bearer") else each
                for each in self._challenges
            ]
            raise falcon.HTTPUnauthorized(
                title="Unauthenticated", description=problem or "authentication is required", challenges=challenges
            )
        req.context.user = Principal(name)

    def _by_key(self, req: falcon.asgi.Request) -> tuple[str, str]:
        key = req.get_header(self._key_header) if self._keys else None
        if self._keys is None or key is None:
            return "", ""
        found = self._keys.principal(key)
        return (f"apiKey:{found}", "") if found else ("", "the API key is not valid")

    async def _by_token(self, req: falcon.asgi.Request, token: str) -> tuple[str, str]:
        if self._bearer and (found := self._bearer.principal(token)):
            return f"bearer:{found}", ""
        if self._jwt is None:
            return "", "the token is not valid"
        from a2a_claude.a2a.jwt_auth import InvalidToken, KeysUnavailable, MissingScope

        try:
            return f"jwt:{await self._jwt.principal(token)}", ""
        except InvalidToken as error:
            return "", str(error)
        except MissingScope as error:
            self._buckets.require(self._peers.name(req))
            challenge = f'Bearer {_REALM}, error="insufficient_scope", scope="{error.scope}"'
            raise falcon.HTTPForbidden(
                title="Forbidden", description=str(error), headers={"WWW-Authenticate": challenge}
            ) from None
        except KeysUnavailable as error:
            raise falcon.HTTPServiceUnavailable(description=str(error), retry_after=10) from None


def _verifier(settings: AuthJwt) -> TokenVerifier:
    # Imported here: cryptography takes longer to load than all the rest of the server's edge.
    from a2a_claude.a2a.jwt_auth import TokenVerifier

    return TokenVerifier(settings)


def _bearer_token(req: falcon.asgi.Request) -> str | None:
    scheme, _, token = (req.get_header("Authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _certificate(req: falcon.asgi.Request) -> str:
    """The principal of a connection whose certificate the HTTP server has verified; empty without TLS."""
    if req.scope.get("scheme") != "https":
        return ""
    tls: Mapping[str, Any] = req.scope.get("extensions", {}).get("tls") or {}
    subject = tls.get("client_cert_name")
    return f"mtls:{subject}" if subject else "mtls"


def _challenges(auth: Auth) -> list[str]:
    found = []
    if auth.bearer or auth.jwt:
        found.append(f"Bearer {_REALM}")
    if auth.api_key:
        found.append(f'ApiKey {_REALM}, header="{auth.api_key.header}"')
    # HTTP has no scheme for a certificate, and a 401 must name one.
    return found or [f"ClientCertificate {_REALM}"]

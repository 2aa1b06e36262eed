"""Signatures of the agent card: a detached JWS (RFC 7515) over canonical JSON (RFC 8785); A2A v1.0 section 8.4."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from a2a_claude.config.model import Signing

# RFC 7638: the members of a public key that its thumbprint is made of.
_THUMBPRINT: Final = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}


class SigningError(Exception):
    """The signing key cannot be used; the message says which variable and what to put there."""


class Signer:
    """Signs cards with one private key."""

    def __init__(self, key: Any, algorithm: str, key_id: str) -> None:
        self._key = key
        self._algorithm = algorithm
        self._key_id = key_id

    def sign(self, card: Mapping[str, Any]) -> dict[str, str]:
        """The AgentCardSignature of a card: `protected` and `signature`, base64url."""
        from jwt import api_jws

        headers = {"kid": self._key_id, "typ": "JOSE"}
        token = api_jws.encode(canonical(card), self._key, algorithm=self._algorithm, headers=headers)
        protected, _, signature = token.split(".")
        return {"protected": protected, "signature": signature}


def canonical(card: Mapping[str, Any]) -> bytes:
    """What is signed: the card without `signatures` and without empty values (as the SDKs leave them out), RFC 8785."""
    import rfc8785

    return rfc8785.dumps(_without_empty({key: value for key, value in card.items() if key != "signatures"}))


def signer_for(signing: Signing, environment: Mapping[str, str]) -> Signer | None:
    """The signer that `agentCard.signing` asks for, None when it asks for none.

    Raises:
        SigningError: no variable is named or set, or it holds no private key for the algorithm.
    """
    if not signing.enabled:
        return None
    name = signing.private_key_jwk_env_var
    if not name:
        raise SigningError("agentCard.signing is enabled: name the key's variable in privateKeyJwkEnvVar")
    text = environment.get(name)
    if not text:
        raise SigningError(f"agentCard.signing needs the variable {name}: set it to a private key as a JWK (RFC 7517)")
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        jwk = orjson.loads(text)
        if not isinstance(jwk, dict) or "d" not in jwk:
            raise SigningError(f"{name} must hold a private key as a JWK: a JSON object with the member d")
        key = PyJWK(jwk, algorithm=signing.algorithm)
        signer = Signer(key, signing.algorithm, signing.key_id or jwk.get("kid") or thumbprint(jwk))
        signer.sign({"name": "a first signature shows that key and algorithm fit"})
    except (PyJWTError, ValueError, TypeError, KeyError):
        # The cause stays out: its text may quote the key.
        raise SigningError(f"{name} holds no private JWK that can sign with {signing.algorithm}") from None
    return signer


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """The SHA-256 thumbprint of a key (RFC 7638), its key id when it has no other."""
    members = {name: jwk[name] for name in _THUMBPRINT[jwk["kty"]]}
    digest = hashlib.sha256(orjson.dumps(members, option=orjson.OPT_SORT_KEYS)).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, each in value.items() if (inner := _without_empty(each)) not in (None, "", [], {})}
    if isinstance(value, list):
        return [inner for each in value if (inner := _without_empty(each)) not in (None, "", [], {})]
    return value

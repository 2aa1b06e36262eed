"""A notification as HTTP: the body and the headers that a webhook's registration asks for (A2A v1.0 section 4.3.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from a2a_claude import __version__
from a2a_claude.a2a import v03_objects
from a2a_claude.a2a.versions import V03
from a2a_claude.store import PushConfig, Record

Headers = list[tuple[bytes, bytes]]

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_USER_AGENT: Final = f"a2a-claude/{__version__}".encode()


def is_header_value(text: str) -> bool:
    """Whether text can be sent in a header as it is (RFC 9110 section 5.5): printable ASCII."""
    return text.isascii() and text.isprintable()


def is_auth_scheme(text: str) -> bool:
    """Whether text is the name of an authentication scheme (RFC 9110 section 11.1)."""
    return _TOKEN.fullmatch(text) is not None


def body(record: Record, version: str) -> bytes:
    """A StreamResponse for webhooks registered in v1.0, the bare object with its `kind` for those of v0.3."""
    if version != V03:
        return record.wrapped
    return orjson.dumps(v03_objects.event(orjson.loads(record.wrapped)))


def headers(config: PushConfig, document: Mapping[str, Any]) -> Headers:
    """All but Host and Content-Length. `document` is the config's JSON.

    Raises:
        ValueError: its token or credentials cannot be sent; the message does not show them.
    """
    legacy = config.version == V03
    found = [
        (b"Content-Type", b"application/json" if legacy else b"application/a2a+json"),
        (b"A2A-Version", config.version.encode()),
        (b"User-Agent", _USER_AGENT),
    ]
    token = document.get("token") or ""
    authentication = document.get("authentication") or {}
    scheme, credentials = authentication.get("scheme") or "", authentication.get("credentials") or ""
    if not is_header_value(token) or not is_header_value(credentials) or (scheme and not is_auth_scheme(scheme)):
        raise ValueError("its token or authentication cannot be sent in a header")
    if scheme and credentials:
        found.append((b"Authorization", f"{scheme} {credentials}".encode()))
    if token:
        found.append((b"X-A2A-Notification-Token", token.encode()))
    return found

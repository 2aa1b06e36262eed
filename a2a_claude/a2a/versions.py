"""Which protocol version and which extensions a request speaks (A2A v1.0 sections 3.6 and 4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from a2a.utils.errors import ExtensionSupportRequiredError, VersionNotSupportedError

V1: Final = "1.0"
V03: Final = "0.3"
TRACE_EXTENSION: Final = "urn:x-a2a:trace:v1"

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.\d{1,9}(?:[-+][0-9A-Za-z.+-]{1,64})?)?", re.ASCII)


def asked_version(header: str | None, query: str) -> str:
    """The version a request names, reduced to Major.Minor; an unparsable one as it was written.

    The header wins over the query parameter of the same name; absent or empty means v0.3.
    """
    asked = (header or "").strip()
    if not asked and query and "a2a-version" in query.lower():
        pairs = parse_qsl(query, keep_blank_values=True)
        asked = next((value.strip() for name, value in pairs if name.lower() == "a2a-version"), "")
    if asked in ("", V1, V03):
        return asked or V03
    match = _VERSION.fullmatch(asked)
    return f"{int(match[1])}.{int(match[2])}" if match else asked


def require_version(asked: str, spoken: str, named: bool) -> None:
    """Refuse a request for another version than the one that the method or path belongs to.

    `named` is false when the request named no version.

    Raises:
        VersionNotSupportedError: with a message that says what to send.
    """
    if asked == spoken:
        return
    if not named:
        text = f"This operation is of A2A {spoken}: send the header A2A-Version: {spoken} (without it, 0.3 is meant)"
    else:
        text = f"A2A version {asked[:40]!r} is not supported here; this operation is of A2A {spoken}"
    raise VersionNotSupportedError(text, {"requested": asked[:40], "supported": spoken})


def asked_extensions(*headers: str | None) -> set[str]:
    """The extension URIs of comma separated headers."""
    return {uri for header in headers if header for each in header.split(",") if (uri := each.strip())}


class Extensions:
    """The extensions the agent declares, and which of them a request activates."""

    __slots__ = ("_declared", "_required")

    def __init__(self, declared: Iterable[tuple[str, bool]]) -> None:
        """`declared` are pairs of URI and whether it is required."""
        pairs = list(declared)
        self._declared = frozenset(uri for uri, _ in pairs)
        self._required = frozenset(uri for uri, required in pairs if required)

    def require(self, asked: set[str]) -> None:
        """Refuse a request that leaves out a required extension.

        Raises:
            ExtensionSupportRequiredError: naming the missing extensions.
        """
        if self._required and (missing := self._required - asked):
            named = ", ".join(sorted(missing))
            raise ExtensionSupportRequiredError(f"This agent requires the extension {named}", {"required": named})

    def activated(self, asked: set[str]) -> str:
        """The value of the response's `A2A-Extensions` header; empty when nothing was activated."""
        return ", ".join(sorted(self._declared & asked)) if asked else ""

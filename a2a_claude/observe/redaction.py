"""Credentials are taken out of whatever leaves the server for an operator's eyes.

Three ways to know one: it is a value that the server itself was given as a secret, it has the form of a token, or it
stands behind the name of one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from a2a_claude.config.credentials import is_secret_name, mask

REDACTED: Final = "<redacted>"
# Shorter values are words: taking them out would only garble the text.
_SHORTEST: Final = 8

# `name = value`, `"name": "value"`, `name: Bearer value`; a quoted value ends at its quote, another at a space.
_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{2,64}+)(?P<between>\\?["']?[ \t]{0,8}[:=][ \t]{0,8})"""
    r"""(?P<scheme>(?:bearer|basic)[ \t]+)?"""
    r"""(?:\\"(?P<escaped>(?:[^"\\]|\\[^"])*)\\"|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'"""
    r"""|(?P<plain>[^\s,;"'&{}\[\]]+))""",
    re.IGNORECASE,
)
_OPTION = re.compile(r"(?<!\S)(--?[\w-]*(?:key|token|password|passwd|secret))(?P<between>[ \t]+|=)(?P<value>[^\s-]\S*)")
_STARS = re.compile(r"\*{4,}")
_NO_VALUES: Final = frozenset({"", "none", "null", "true", "false", "missing", "unset", "required"})


class Redactor:
    """Redacts texts and JSON values. `secrets` are values that must never appear, in whatever context."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({each for each in secrets if len(each) >= _SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """`text` without credentials."""
        if self._known:
            text = self._known.sub(REDACTED, text)
        text = _STARS.sub(REDACTED, mask(text))
        if ":" in text or "=" in text:
            text = _without_named(text)
        return _OPTION.sub(rf"\1\g<between>{REDACTED}", text) if "-" in text else text

    def value(self, value: Any) -> Any:
        """A JSON value without credentials: texts by their form, members by their name too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(str(key)): REDACTED if each and is_secret_name(str(key)) else self.value(each)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(each) for each in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))


def _without_named(text: str) -> str:
    """`text` without the values behind the names of secrets."""
    out = []
    done = at = 0
    while match := _NAMED.search(text, at):
        kind = match.lastgroup or "plain"
        value = match[kind]
        # What follows another name may hold a secret's name in turn: `error: password=x`.
        at = match.end("between")
        if is_secret_name(match["name"]) and value.lower() not in _NO_VALUES and REDACTED not in value:
            start, at = match.span(kind)
            out += [text[done:start], REDACTED]
            done = at
    return "".join([*out, text[done:]])

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
_SPACE = re.compile(r"\s")
# Scripts without spaces: between two of their characters no credential ends, nor begins.
_WIDE = "[\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_CUT = re.compile(rf"\s+|{_WIDE}(?={_WIDE})")
_SEPARATOR = re.compile(r"[:=?&]")
# A credential may follow these after a space (`Authorization: Bearer x`), though not on the next line.
_OPENS = re.compile(
    r"(?i)(?:\b(?:bearer|basic)|authorization[\"']?(?:[ \t]{0,8}[:=])?(?:[ \t]{0,8}[\"']?)(?:token)?)\Z"
)
_NO_VALUES: Final = frozenset({"", "none", "null", "true", "false", "missing", "unset", "required"})


class Redactor:
    """Redacts texts and JSON values. `secrets` are values that must never appear, in whatever context."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({each for each in secrets if len(each) >= _SHORTEST}, key=len, reverse=True)
        self._secrets = known
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """`text` without credentials."""
        if self._known:
            text = self._known.sub(REDACTED, text)
        text = _STARS.sub(REDACTED, mask(text))
        if ":" in text or "=" in text:
            text = _without_named(text)
        return _OPTION.sub(rf"\1\g<between>{REDACTED}", text) if "-" in text else text

    def answer(self, text: str) -> str:
        """`text` without the known secrets and without what has the form of a credential.

        For what an agent answers, where a name proves nothing: `token = next(tokens)` is code.
        """
        if self._known:
            text = self._known.sub(REDACTED, text)
        masked = mask(text)
        return text if masked == text else _marked(text, masked)

    @property
    def broken_secrets(self) -> tuple[str, ...]:
        """The known secrets that a text may be cut in, at a space for example."""
        return tuple(each for each in self._secrets if _CUT.search(each))

    def known_spans(self, text: str) -> list[tuple[int, int]]:
        """Where known secrets stand."""
        return [match.span() for match in self._known.finditer(text)] if self._known else []

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


def _marked(text: str, masked: str) -> str:
    """`text` with `<redacted>` wherever `masked`, of the same length, has stars in its place."""
    out = []
    done = 0
    for run in _STARS.finditer(masked):
        start, end = run.span()
        if text[start:end] != run[0]:
            out += [text[done:start], REDACTED]
            done = end
    return "".join([*out, text[done:]])


class StreamRedactor:
    """`Redactor.answer` for a text that comes in pieces: the same result, wherever the pieces are cut.

    What may be the beginning of a credential is held back until its end has come: the last word, the words before it
    that announce one, and the beginning of a known secret that has spaces. Never more than `bound` characters: of a
    word that is longer, what looks like a credential by then is taken out to the word's end, the rest is let through.
    """

    def __init__(self, redactor: Redactor, bound: int = 4096) -> None:
        self._redactor, self._bound = redactor, bound
        self._held = ""
        self._swallows = False

    def feed(self, text: str) -> str:
        """What may be told now."""
        if self._swallows:
            end = _SPACE.search(text)
            if end is None:
                return ""
            self._swallows, text = False, text[end.start() :]
        self._held += text
        at = self._safe(self._held)
        if at == 0 and len(self._held) > self._bound:
            return self._force()
        ready, self._held = self._held[:at], self._held[at:]
        return self._redactor.answer(ready)

    def finish(self) -> str:
        """The rest; the next text is another one."""
        rest, self._held, self._swallows = self._held, "", False
        return self._redactor.answer(rest)

    def _safe(self, text: str) -> int:
        """The last place where nothing can straddle; 0 when there is none."""
        limit = len(text)
        for secret in self._redactor.broken_secrets:
            start = max(0, len(text) - len(secret) + 1)
            while (start := text.find(secret[0], start, limit)) >= 0:
                if secret.startswith(text[start:]):
                    limit = start
                    break
                start += 1
        spans = self._redactor.known_spans(text)
        best = word = 0
        announced = False
        for gap in _CUT.finditer(text, 0, limit):
            at = gap.end()
            if gap[0].isspace():
                before = text[max(0, gap.start() - 64) : gap.start()]
                word, announced = at, "\n" not in gap[0] and _OPENS.search(before) is not None
                safe = not announced
            else:
                safe = not announced and _SEPARATOR.search(text, word, at) is None
            if safe and not any(start < at < end for start, end in spans):
                best = at
        return best

    def _force(self) -> str:
        text, self._held = self._held, ""
        told = self._redactor.answer(text)
        self._swallows = told.endswith(REDACTED) and not text.endswith(REDACTED)
        return told

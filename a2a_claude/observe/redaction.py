"""Credentials are taken out of whatever leaves the server for an operator's eyes.

Three ways to know one: it is a value that the server itself was given as a secret, it has the form of a token, or it
stands behind the name of one, in JSON, code, a header, an option or a connection string.

Texts are hostile, so every pattern is linear in its text: a run of characters is entered at its first character only
(the lookbehinds), never read twice (the possessive quantifiers), or has a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from a2a_claude.config.credentials import is_secret_name, mask

REDACTED: Final = "<redacted>"
# Shorter values are words: taking them out would only garble the text.
_SHORTEST: Final = 8

_PEM_HEAD: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY: Final = r"(?:[A-Za-z0-9+/=\s\\:,]|-(?!----))"
# To its end, or without one as far as there are lines of base64, also in a string of JSON.
_PEM = re.compile(
    rf"{_PEM_HEAD}(?:{_PEM_BODY}*+-----END [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\r?\\?n){1,40}[A-Za-z0-9+/=]{16,}+)*+)"
)
# One that has begun, and of which there may be more to come.
_PEM_BEGUN = re.compile(
    rf"-----BEGIN(?: [A-Z0-9 ]{{0,60}}+)?(?:-{{0,4}}|-----{_PEM_BODY}*+(?:-{{0,5}}|-----E[A-Z0-9 ]{{0,60}}-{{0,5}}))\Z"
)
_PEM_REST = re.compile(rf"{_PEM_BODY}*+")
_WORD_REST = re.compile(r"\S*+")

# `name =`, `"name": `, `name => `, `\"name\": `; the value is looked at when the name is one of a secret.
_NAMED = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{2,64}+)\\{0,15}["'`]?[ \t]{0,8}(?:=>|[=!:]={1,2}|[:=])[ \t]{0,8}"""
    r"""(?:(?i:bearer|basic|token|digest)[ \t]{1,8}(?=[^\s,;:=])|[bfruBFRU]{1,2}(?=["']))?"""
)
_VALUE = re.compile(
    # A quote that ends a value is neither escaped nor doubled, nor within a word.
    r"""(?P<open>\\{0,15}["'`])(?P<quoted>[^\n]*?)(?<!\\)(?P=open)(?!["'`\w])"""
    r"""|\\{0,15}["'`](?P<unclosed>[^\n]+)"""
    r"""|[|>][+-]?[ \t]{0,8}\n(?P<block>[ \t]+[^\n]*+(?:\n[ \t]+[^\n]*+)*+)"""
    r"""|(?P<plain>[^\s,;"'`&{}\[\]]++)"""
)
# What stands unquoted behind a name in code and in prose, and is no value.
_CODE = re.compile(
    r"\$(?:[A-Z_][A-Z0-9_]*|\(.*|)|\.{3}|\*+|[|>][+-]?|[A-Za-z_.]+\(.*|(?:[A-Za-z_]+\.)+[A-Za-z_]+"
    r"|\d{1,3}|&?(?:str|string|bytes?|bool(?:ean)?|int(?:eger)?|number|object|any|unknown|undefined|optional)"
)
# What stands in the place of a value, quoted or not.
_PLACEHOLDER = re.compile(
    r"(?:(?i:bearer|basic|token)[ ])?(?:<[\w .-]{0,60}>|\$?\{[^{}\n]{0,80}\}|\$[A-Z_]+|%s|%\(\w{0,60}\)s)"
    r"(?![^\s,;\"'`)}\]])"
)
_WORD_OF_MANY = re.compile(r"[A-Za-z]+,?[ \t]+[A-Za-z(+*/|-]")
# A quote after a name may be the end of a string that the name is the last word of: `input("Password: ")`.
_ENDS = re.compile(r"""["'`](?=[\s),;:\]}+%.&|]|\Z)""")
_LINE: Final = 200
_LETTERS = re.compile(r"[A-Za-z_]+")
_NO_VALUES: Final = frozenset({"", "none", "null", "true", "false", "missing", "unset", "required", "nil"})

# Values in other places than behind `name =` or `name:`. Each pattern has the group `value`.
_OPTION = re.compile(
    r"(?<!\S)--?[\w-]*(?:key|token|password|passwd|passphrase|secret)(?:[ \t]+|=)"
    r"""(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s-]\S*)"""
)
_LOGIN = re.compile(
    r"\b(?:curl\b[^\n]{0,80}?[ \t](?:-u|-U|--user|--proxy-user)[ \t=]{0,8}[\"']?[^\s:\"']{1,60}:"
    r"|(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]{0,80}?[ \t]-p|sshpass[ \t]{1,8}-p[ \t]{0,8}"
    r"|login[ \t]{1,8}\S{1,60}\s{1,8}password[ \t]{1,8})"
    r"""(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s"']+)"""
)
_COOKIE = re.compile(r"(?i)\bcookie[\"']?[ \t]{0,8}:[ \t]{0,8}(?P<value>[^\s=;\"']{1,100}=[^\n\"'\\]*+)")
_SIGNED = re.compile(
    r"(?i)[?&](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token))=(?P<value>[^\s&#\"']{8,}+)"
)
_ELEMENT = re.compile(r"<(?P<name>[\w.:-]{2,64}+)>(?P<value>[^<>\n]{1,1000}+)</")

_STARS = re.compile(r"\*+")
_SPACE = re.compile(r"\s")
# Scripts without spaces: between two of their characters no credential ends, nor begins.
_WIDE = "[\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_CUT = re.compile(rf"\s+|{_WIDE}(?={_WIDE})")
_SEPARATOR = re.compile(r"[:=?&]")
# A credential may follow these after a space (`Authorization: Bearer x`), though not on the next line.
_OPENS = re.compile(r"(?i)(?:bearer|basic|authorization[\"']?(?:[ \t]{0,8}[:=])?(?:[ \t]{0,8}[\"']?)(?:token)?)\Z")
# What is read beyond the bound of an excerpt, so that a credential is whole when it is looked for.
_BEYOND: Final = 4096


class Redactor:
    """Redacts texts and JSON values. `secrets` are values that must never appear, in whatever context."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = sorted({each for each in secrets if len(each) >= _SHORTEST}, key=len, reverse=True)
        self._secrets = known
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def text(self, text: str) -> str:
        """`text` without credentials."""
        text = self.answer(text)
        if ":" in text or "=" in text:
            text = _SIGNED.sub(_without_value, _COOKIE.sub(_without_value, text))
            text = _without_named(text)
        if "-" in text or "login" in text:
            text = _LOGIN.sub(_without_value, _OPTION.sub(_without_value, text))
        return _ELEMENT.sub(_without_value, text) if "</" in text else text

    def answer(self, text: str) -> str:
        """`text` without the known secrets and without what has the form of a credential.

        For what an agent answers, where a name proves nothing: `token = next(tokens)` is code.
        """
        if self._known:
            text = self._known.sub(REDACTED, text)
        if "-----BEGIN" in text:
            text = _PEM.sub(REDACTED, text)
        masked = mask(text)
        return text if masked == text else _marked(text, masked)

    def excerpt(self, text: str, most: int) -> str:
        """The first `most` characters of `text` without credentials, and a note of how long it is if it is longer."""
        if len(text) <= most:
            return self.text(text)[:most]
        read = text
        if len(text) > most + _BEYOND:
            read = text[: most + _BEYOND]
            # What the cut has torn is left out, as far as it may be a part of a credential.
            spaces = [match.start() for match in _SPACE.finditer(read, most)]
            read = read[: spaces[-1] if spaces else most]
            if (torn := _PEM_BEGUN.search(read)) is not None:
                read = read[: torn.start()]
        return f"{self.text(read)[:most]}… [{len(text)} characters]"

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
        # What follows another name may hold a secret's name in turn: `error: password=x`.
        at = match.end()
        if not is_secret_name(match["name"]) or _ends_a_string(text, at):
            continue
        if (value := _VALUE.match(text, at)) is None:
            continue
        kind = value.lastgroup if value.lastgroup != "open" else "quoted"
        start, end = value.span(kind or "plain")
        at = value.end()
        if not _is_harmless(text, start, end, quoted=kind != "plain"):
            out += [text[done:start], REDACTED]
            done = end
    return "".join([*out, text[done:]])


def _ends_a_string(text: str, at: int) -> bool:
    if not _ENDS.match(text, at):
        return False
    line = max(text.rfind("\n", at - _LINE if at > _LINE else 0, at) + 1, at - _LINE)
    return text.count(text[at], line, at) % 2 == 1


def _is_harmless(text: str, start: int, end: int, *, quoted: bool) -> bool:
    """Whether what stands behind the name of a secret is no secret: nothing, another name, code, or a sentence."""
    value = text[start:end].rstrip(".,;:!?)") if not quoted else text[start:end]
    if value.lower() in _NO_VALUES or value == REDACTED:
        return True
    if _PLACEHOLDER.match(text, start) or (_LETTERS.fullmatch(value) and is_secret_name(value)):
        return True
    if quoted:
        return False
    if _CODE.fullmatch(value) or (text[end : end + 1] == "[" and _LETTERS.fullmatch(value)):
        return True
    # A credential has a digit, or stands alone.
    return text[start - 1] in " \t" and _WORD_OF_MANY.match(text, start) is not None


def _without_value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    value = groups["value"]
    named = "name" not in groups or is_secret_name(groups["name"])
    if not named or value.strip("\"'").lower() in _NO_VALUES or _CODE.fullmatch(value) or REDACTED in value:
        return match[0]
    start, end = match.start("value") - match.start(), match.end("value") - match.start()
    return match[0][:start] + REDACTED + match[0][end:]


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
        self._swallows: re.Pattern[str] | None = None

    def feed(self, text: str) -> str:
        """What may be told now."""
        if self._swallows:
            text = text[_end(self._swallows, text) :]
            if not text:
                return ""
            self._swallows = None
        self._held += text
        at = self._safe(self._held)
        if at == 0 and len(self._held) > self._bound:
            return self._force()
        ready, self._held = self._held[:at], self._held[at:]
        return self._redactor.answer(ready)

    def finish(self) -> str:
        """The rest; the next text is another one."""
        rest, self._held, self._swallows = self._held, "", None
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
        if "-----BEGIN" in text:
            if (begun := _PEM_BEGUN.search(text)) is not None:
                limit = min(limit, begun.start())
            spans += [match.span() for match in _PEM.finditer(text)]
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
        if _PEM_BEGUN.search(text):
            self._swallows = _PEM_REST
        elif told.endswith(REDACTED) and not text.endswith(REDACTED):
            self._swallows = _WORD_REST
        return told


def _end(pattern: re.Pattern[str], text: str) -> int:
    match = pattern.match(text)
    return match.end() if match else 0

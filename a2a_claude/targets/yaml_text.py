"""YAML that every reader takes for the same data, whether it follows YAML 1.1 (kubectl) or 1.2 (Compose).

Written by hand: PyYAML leaves plain what YAML 1.2 reads as numbers, and takes three times as long. Sources: YAML 1.1
and 1.2.2, sections 5.7 (escapes), 7.3.1 (double quotes), 8.1.2 (literal blocks) and 8.2 (block collections).
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from a2a_claude.targets import Unrenderable

# A letter first, and none of the words that some version of YAML reads as something else than text. No plain scalar of
# this form is a number, a date or a time in any of them.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null|nan|inf)\Z)[a-z][a-z0-9_./-]*", re.IGNORECASE)
# Lines that a literal block holds as they are: of ASCII, none of them blank, ended by one line feed.
_LINES = re.compile(r"([!-~]([ -~]*[!-~])?\n( *[!-~]([ -~]*[!-~])?\n)*)")
# What may have to be escaped in double quotes.
_SPECIAL = re.compile(r'["\\]|[^ -~]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
# Half a surrogate pair, NUL, and the controls above ASCII: kustomize reads the escapes of these, and cannot read what
# it then writes.
_NO_TEXT = re.compile("[\0\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def document(value: dict[str, Any], comment: str = "") -> str:
    """`value`, which is not empty, as one YAML document in block style, behind lines of `comment`, which must hold
    nothing of a config.

    Text is in double quotes unless it cannot be read as anything but text, or has lines; keys keep their order.
    """
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    _block(value, "", lines)
    return "\n".join([*lines, ""])


def check(text: str, origin: str) -> str:
    """`text` when every reader of YAML can read it; Unrenderable names the config path `origin` otherwise."""
    if found := _NO_TEXT.search(text):
        raise Unrenderable(origin, f"has U+{ord(found[0]):04X}, which not all that reads YAML can read", "remove it")
    return text


def _block(value: dict[str, Any] | list[Any], indent: str, lines: list[str]) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            _entry(f"{indent}{_scalar(key)}:", each, indent, lines)
        return
    for each in value:
        if isinstance(each, dict | list) and each:
            first = len(lines)
            _block(each, f"{indent}  ", lines)
            lines[first] = f"{indent}- {lines[first][len(indent) + 2 :]}"
        else:
            _entry(f"{indent}-", each, indent, lines)


def _entry(head: str, value: Any, indent: str, lines: list[str]) -> None:
    """Appends `head` and the value behind or below it."""
    if isinstance(value, dict) and value:
        lines.append(head)
        _block(value, f"{indent}  ", lines)
    elif isinstance(value, list) and value:
        lines.append(head)
        _block(value, indent, lines)
    elif isinstance(value, str) and "\n" in value and _LINES.fullmatch(value):
        lines.append(f"{head} |")
        lines += [f"{indent}  {line}" for line in value.split("\n")[:-1]]
    else:
        lines.append(f"{head} {_scalar(value)}")


def _scalar(value: Any) -> str:
    match value:
        case str():
            return _text(value)
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case int():
            return str(value)
        case float():
            return format(Decimal(repr(value)), "f")  # YAML 1.1 reads 1e-05 as text
        case {} | []:
            return "{}" if isinstance(value, dict) else "[]"
    raise TypeError(f"{value!r} has no form in YAML")


@lru_cache(4096)  # a fleet says the same again and again
def _text(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else f'"{_SPECIAL.sub(_escape, value)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if short := _SHORT.get(character):
        return short
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

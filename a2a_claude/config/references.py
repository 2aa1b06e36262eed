"""`${VAR}`, `${VAR:-default}`, `${VAR:?message}` and `$$`: parsed once, resolved in one pass, never expanded again."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MAX_REFERENCES = 100
"""In one string."""
_TOKEN = re.compile(r"\$(?:(\$)|\{|([A-Za-z_][A-Za-z0-9_]*))")
_BODY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:[-?])([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Reference:
    """A variable in a string. `default` and `message` are the texts after `:-` and `:?`; `bare` is the form `$NAME`."""

    name: str
    default: str | None = None
    message: str | None = None
    bare: bool = False

    @property
    def written(self) -> str:
        """The reference as it is written in a config."""
        if self.bare:
            return f"${self.name}"
        suffix = f":-{self.default}" if self.default is not None else f":?{self.message}" if self.message else ""
        return f"${{{self.name}{suffix}}}"


class BadReference(ValueError):
    """A `${` that does not become a reference. `offset` is where it starts in the string."""

    def __init__(self, message: str, hint: str, offset: int) -> None:
        super().__init__(message)
        self.hint = hint
        self.offset = offset


def parse(text: str) -> list[str | Reference]:
    """The literal pieces and references of `text`, `$$` already read as a dollar; BadReference for a broken `${`.

    A dollar before anything but a brace, a name or a dollar is literal.
    """
    if "$" not in text:
        return [text] if text else []
    pieces: list[str | Reference] = []
    at = 0
    count = 0
    while match := _TOKEN.search(text, at):
        if match.start() > at:
            pieces.append(text[at : match.start()])
        at = match.end()
        if match[1]:
            pieces.append("$")
            continue
        count += 1
        if count > MAX_REFERENCES:
            raise BadReference(f"more than {MAX_REFERENCES} references", "split the text", match.start())
        if match[2]:
            pieces.append(Reference(match[2], bare=True))
        else:
            body = _BODY.match(text, at)
            if body is None:
                raise _broken(text, match.start())
            at = body.end()
            default = body[3] if body[2] == ":-" else None
            message = body[3] if body[2] == ":?" else None
            pieces.append(Reference(body[1], default, message))
    if at < len(text):
        pieces.append(text[at:])
    return pieces


def references(text: str) -> list[Reference]:
    """The references in `text`."""
    return [piece for piece in parse(text) if isinstance(piece, Reference)]


def resolve(text: str, lookup: Callable[[str], str | None]) -> tuple[str, list[Reference]]:
    """`text` with its references replaced by what `lookup` gives, and the references that have no value.

    As in a shell, an empty value counts as unset where a default or message is given. References without a value stay
    as they are written.
    """
    out, missing = [], []
    for piece in parse(text):
        if isinstance(piece, str):
            out.append(piece)
            continue
        value = lookup(piece.name)
        if piece.default is not None and not value:
            value = piece.default
        elif piece.message is not None and not value:
            value = None
        if value is None:
            missing.append(piece)
        out.append(piece.written if value is None else value)
    return "".join(out), missing


def _broken(text: str, offset: int) -> BadReference:
    rest = text[offset + 2 :]
    if "}" not in rest:
        return BadReference("a reference without its closing }", "write ${NAME}, or $${ for a literal ${", offset)
    body = rest.split("}", 1)[0]
    if not body:
        return BadReference("a reference without a name", "write ${NAME}", offset)
    hint = "write ${NAME}, ${NAME:-default} or ${NAME:?message}; a name has letters, digits and _; $${ is a literal ${"
    return BadReference(f"${{{body[:40]}}} is not a reference", hint, offset)

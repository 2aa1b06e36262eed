"""A config file as text: bytes checked once, so that everything after speaks of the user's own lines and columns."""

from __future__ import annotations

import bisect
import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from a2a_claude.config.diagnostics import Diagnostic, Span, error

MAX_BYTES = 1 << 20
_BOM = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
# Unicode line separators and bidirectional overrides make a file read differently to a person than to a parser.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


@dataclass(slots=True, eq=False)
class Source:
    """A file (or another layer, such as a command line option) by its display path, with its text.

    `path` is None for a layer that is no file. `digest` is the SHA-256 of the file's bytes, in hex.
    """

    name: str
    text: str
    path: Path | None = None
    digest: str = ""
    _starts: list[int] = field(default_factory=list)

    @property
    def starts(self) -> list[int]:
        """The offset of each line in `text`."""
        if not self._starts:
            self._starts = [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]
        return self._starts

    def line(self, number: int) -> str:
        """The text of line `number` (from 0) without its line break; empty past the end."""
        if not 0 <= number < len(self.starts):
            return ""
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[self.starts[number] : end].rstrip("\r\n")

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column (from 0) of an offset in `text`."""
        line = bisect.bisect_right(self.starts, offset) - 1
        return line, offset - self.starts[line]

    def span(self, start: int, end: int) -> Span:
        """The span of `text[start:end]`, cut at the end of its first line."""
        line, column = self.position(start)
        last, end_column = self.position(end)
        return Span(self, line, column, line, end_column if last == line else len(self.line(line)))


class Unreadable(Exception):
    """A file that cannot be read as text. `diagnostic` says why and what to do."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read(path: Path, name: str) -> Source:
    """The text of `path`, shown as `name`.

    Raises Unreadable when it is no regular file, cannot be opened, is larger than MAX_BYTES, is not UTF-8 or holds a
    control character; OSError never escapes.
    """
    data = _read_bytes(path, name)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise Unreadable(_not_utf8(data, problem, name)) from None
    source = Source(name, text.removeprefix(_BOM), path, hashlib.sha256(data).hexdigest())
    if match := _REFUSED.search(source.text):
        message = f"control character U+{ord(match[0]):04X} in the file"
        hint = 'delete it; in a quoted value write an escape such as "\\t" where tabs are allowed'
        raise Unreadable(error("control-character", message, source.span(match.start(), match.end()), hint))
    return source


def read_regular(path: Path, limit: int) -> bytes | None:
    """At most `limit` + 1 bytes of a plain file; None when it is no plain file. Raises OSError.

    Neither a pipe hangs it, nor does it open a device.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        return file.read(limit + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


def _read_bytes(path: Path, name: str) -> bytes:
    start = Span(Source(name, ""), 0, 0, 0, 0)
    try:
        data = read_regular(path, MAX_BYTES)
    except OSError as problem:
        message = f"cannot be read: {problem.strerror}"
        raise Unreadable(error("unreadable-file", message, start, "check that it exists and may be read")) from None
    if data is None:
        raise Unreadable(error("unreadable-file", "not a regular file", start, "put the config into a plain file"))
    if len(data) > MAX_BYTES:
        hint = "split it into layers with extends, or move long texts out"
        raise Unreadable(error("file-too-large", f"larger than {MAX_BYTES >> 20} MiB", start, hint))
    return data


def _not_utf8(data: bytes, problem: UnicodeDecodeError, name: str) -> Diagnostic:
    source = Source(name, data.decode("utf-8", "replace"))
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return error("not-utf-8", "the file is UTF-16", Span(source, 0, 0, 0, 1), "save it as UTF-8")
    offset = len(data[: problem.start].decode("utf-8", "replace"))
    message = f"byte 0x{data[problem.start]:02X} is not UTF-8"
    return error("not-utf-8", message, source.span(offset, offset + 1), "save the file as UTF-8")

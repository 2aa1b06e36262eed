"""`TokenTable`: opaque tokens and the principals they stand for, from a file or a variable.

One token a line: `principal:token`, or `principal:sha256:<hex>` with the SHA-256 of the token, so that the file need
not hold it (`printf %s "$TOKEN" | sha256sum`). Empty lines and lines that start with `#` are skipped. A principal may
have several tokens: add the new one, move the callers over, remove the old one.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

_HASH: Final = "sha256:"
_HEX = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
_PRINCIPAL = re.compile(r"[^\s:#]+")

Stamp = tuple[int, int, int]


class TokenError(Exception):
    """The tokens cannot be used; the message names the place and the line, never a token. It `passes` when their file
    may be there later."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


class TokenTable:
    """Looks tokens up.

    Only hashes are kept, blinded with a key of this process: how long a look-up takes tells nothing about a token that
    a caller could use, however many tokens there are.
    """

    def __init__(self, text: str, where: str, path: Path | None = None) -> None:
        """Use `load`. `path` is looked at again on every look-up; None for a text that does not change."""
        self._where = where
        self._path = path
        self._stamp = _stamp(path)
        self._key = secrets.token_bytes(32)
        self._principals = self._read(text)

    @classmethod
    def load(cls, file: str | None, variable: str | None, environment: Mapping[str, str]) -> TokenTable:
        """The tokens of a file or else of a variable.

        Raises:
            TokenError: neither is there, it has a wrong line, or no token at all.
        """
        if file:
            path = Path(file)
            return cls(_content(path), file, path)
        text = environment.get(variable or "")
        if not text:
            raise TokenError(f"variable {variable} is not set: put lines like principal:token into it")
        return cls(text, f"variable {variable}")

    def principal(self, token: str) -> str | None:
        """Whose token it is, None when nobody's."""
        if self._path is not None:
            self._follow()
        return self._principals.get(self._blinded(hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()))

    def _follow(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._stamp or self._path is None:
            return
        self._stamp = stamp
        try:
            self._principals = self._read(_content(self._path))
        except TokenError as error:
            logger.error("%s; the tokens that were read before stay valid", error)
        else:
            logger.info("%s: read again, %d tokens", self._where, len(self._principals))

    def _read(self, text: str) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            principal, colon, token = line.partition(":")
            if not colon or not token or not _PRINCIPAL.fullmatch(principal):
                raise TokenError(f"{self._where}: line {number} is not principal:token or principal:sha256:<hex>")
            if token.startswith(_HASH):
                if not _HEX.fullmatch(token.removeprefix(_HASH)):
                    raise TokenError(f"{self._where}: line {number}: sha256: needs 64 hexadecimal digits")
                digest = bytes.fromhex(token.removeprefix(_HASH))
            else:
                digest = hashlib.sha256(token.encode()).digest()
            blinded = self._blinded(digest)
            if found.setdefault(blinded, principal) != principal:
                raise TokenError(f"{self._where}: line {number} has the token of another principal")
        if not found:
            raise TokenError(f"{self._where}: no tokens: add lines like principal:token")
        return found

    def _blinded(self, digest: bytes) -> bytes:
        return hashlib.blake2b(digest, key=self._key, digest_size=32).digest()


def _stamp(path: Path | None) -> Stamp | None:
    """What changes with a file's content: an editor keeps the inode and changes the time, `mv` changes the inode."""
    try:
        found = os.stat(path) if path else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ino, found.st_size) if found else None


def _content(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        told = f"{path}: {error.strerror}: make it a file that the server's user can read"
        raise TokenError(told, passes=not isinstance(error, PermissionError)) from error
    except UnicodeDecodeError:
        raise TokenError(f"{path}: is not UTF-8 text") from None

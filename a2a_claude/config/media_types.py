"""Media types as cards and callers name them: `text/plain`, `image/*`, or by a word, as older agents do: `text`."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterable
from typing import Final

UNKNOWN: Final = "application/octet-stream"
_WORDS: Final = {"text": "text/*", "data": "application/json", "file": "*/*", "*": "*/*"}
_PACKED: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


def plain(media_type: str) -> str:
    """Without parameters, in lower case."""
    return media_type.partition(";")[0].strip().lower()


def admits(modes: Iterable[str], media_type: str) -> bool:
    """Whether one of the modes is `media_type`, or a range with it in it."""
    wanted = plain(media_type)
    for mode in modes:
        each = plain(mode)
        each = _WORDS.get(each) or (each if "/" in each else f"{each}/*")
        if each in ("*/*", wanted) or (each.endswith("/*") and wanted.startswith(each[:-1])):
            return True
    return False


def of_name(name: str) -> str:
    """The media type that a file's name tells of; `UNKNOWN` when it tells of none."""
    found, packed = mimetypes.guess_type(name)
    return _PACKED.get(packed, UNKNOWN) if packed else found or UNKNOWN

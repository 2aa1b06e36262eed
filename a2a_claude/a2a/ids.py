"""Ids of tasks, contexts, messages and requests."""

from __future__ import annotations

import os
import time
from typing import Final

_SIZE: Final = 16  # bytes of chance that an id takes at most
_POOL: Final = 256  # ids
_pool: list[bytes] = []
os.register_at_fork(after_in_child=_pool.clear)


def _chance() -> bytes:
    """Random bytes of the kernel, fetched for many ids at once: each system call lets another thread in.

    Lists give and take in one step, so no two threads get the same bytes.
    """
    try:
        return _pool.pop()
    except IndexError:
        fetched = os.urandom(_SIZE * _POOL)
        _pool.extend(fetched[at : at + _SIZE] for at in range(_SIZE, len(fetched), _SIZE))
        return fetched[:_SIZE]


def new_id() -> str:
    """A UUID of version 7 (RFC 9562 section 5.7): its time in ms, then 74 random bits.

    Ids that are made one after the other are neighbours in the store's indexes, so that a commit writes fewer pages.
    """
    moment, chance = f"{time.time_ns() // 1_000_000:012x}", _chance()
    variant = f"{chance[0] & 0x3F | 0x80:02x}"
    digits = chance[1:10].hex()
    return f"{moment[:8]}-{moment[8:]}-7{digits[:3]}-{variant}{digits[3:5]}-{digits[5:17]}"


def new_request_id() -> str:
    """128 random bits, in hexadecimal digits."""
    return _chance().hex()

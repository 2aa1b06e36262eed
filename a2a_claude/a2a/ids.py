"""Ids of tasks, contexts, messages and requests."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

_POOL: Final = 4096  # bytes


def _make_chance() -> Callable[[int], bytes]:
    """Random bytes of the kernel, fetched in portions: a system call for each id lets another thread in each time."""
    pool, used = b"", _POOL

    def chance(size: int) -> bytes:
        nonlocal pool, used
        if used + size > len(pool):
            pool, used = os.urandom(_POOL), 0
        used += size
        return pool[used - size : used]

    return chance


_chance: Final = _make_chance()


def new_id() -> str:
    """A UUID of version 7 (RFC 9562 section 5.7): its time in ms, then 74 random bits.

    Ids that are made one after the other are neighbours in the store's indexes, so that a commit writes fewer pages.
    """
    moment, chance = f"{time.time_ns() // 1_000_000:012x}", _chance(10)
    variant = f"{chance[0] & 0x3F | 0x80:02x}"
    digits = chance[1:].hex()
    return f"{moment[:8]}-{moment[8:]}-7{digits[:3]}-{variant}{digits[3:5]}-{digits[5:17]}"


def new_request_id() -> str:
    """128 random bits, in hexadecimal digits."""
    return _chance(16).hex()

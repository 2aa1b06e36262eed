"""Ids of tasks, contexts and messages."""

from __future__ import annotations

import os
import time


def new_id() -> str:
    """A UUID of version 7 (RFC 9562 section 5.7): its time in ms, then 74 random bits.

    Ids that are made one after the other are neighbours in the store's indexes, so that a commit writes fewer pages.
    """
    moment, chance = f"{time.time_ns() // 1_000_000:012x}", os.urandom(10)
    variant = f"{chance[0] & 0x3F | 0x80:02x}"
    digits = chance[1:].hex()
    return f"{moment[:8]}-{moment[8:]}-7{digits[:3]}-{variant}{digits[3:5]}-{digits[5:17]}"

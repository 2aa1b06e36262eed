"""What the store forgets: finished tasks that are too old or too many, a few at a time so that nobody waits."""

# ruff: noqa: S608 (what is interpolated into SQL are constants of this package)
from __future__ import annotations

import sqlite3

from a2a_claude.store.changes import Change
from a2a_claude.store.schema import FINISHED

INTERVAL = 60.0  # seconds between two looks
BATCH = 200  # tasks deleted in one transaction
# A client that waits for a task gets to read it, however short the retention.
GRACE = 60_000  # milliseconds

_TABLES = ("messages", "artifacts", "parts", "push_configs")


def expired(connection: sqlite3.Connection, now: int, age: int, count: int) -> list[int]:
    """The keys of up to `BATCH` finished tasks, oldest first, that are older than `age` ms or beyond `count`.

    0 switches either bound off. Unfinished tasks are never named.
    """
    cutoff = now - max(age, GRACE)
    keys: list[int] = []
    if age:
        keys = _oldest(connection, cutoff, BATCH)
    if count and len(keys) < BATCH:
        (finished,) = connection.execute(f"SELECT count(*) FROM tasks WHERE {FINISHED}").fetchone()
        excess = min(finished - count, BATCH)
        if excess > len(keys):
            keys = _oldest(connection, now - GRACE, excess)
    return keys


def _oldest(connection: sqlite3.Connection, before: int, limit: int) -> list[int]:
    found = connection.execute(
        f"SELECT key FROM tasks WHERE {FINISHED} AND updated < ? ORDER BY updated LIMIT ?", (before, limit)
    )
    return [key for (key,) in found]


def forget(keys: list[int]) -> list[Change]:
    """Deletes tasks with everything that belongs to them."""
    return [
        *(Change(f"DELETE FROM {table} WHERE task = ?", (key,), key) for table in _TABLES for key in keys),
        *(Change("DELETE FROM tasks WHERE key = ?", (key,), key) for key in keys),
    ]

"""`Store`: what the server remembers, in one SQLite file.

Short writes and reads run on the event loop, each some tens of microseconds, by one connection whose pages stay in
memory; `writer.py` has a thread for what takes longer, lists run on another. A read sees what is committed and nothing
else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from a2a_claude.store import changes, files, reads, retention
from a2a_claude.store.changes import Change
from a2a_claude.store.errors import StoreError
from a2a_claude.store.recent import Reading, Recent
from a2a_claude.store.rows import Filter, Page, PushConfig, Session, TaskRow
from a2a_claude.store.schema import migrate
from a2a_claude.store.writer import Writer

P = ParamSpec("P")
T = TypeVar("T")


def milliseconds() -> int:
    """Now, as the store counts time."""
    return time.time_ns() // 1_000_000


class Store:
    """Tasks, push configs and sessions. One server process per file; use it from one event loop."""

    def __init__(self, writer: Writer, reader: sqlite3.Connection, recent: Recent, where: str) -> None:
        """Use `open`."""
        self._writer = writer
        self._recent = recent
        self._reader = reader
        self._lister: sqlite3.Connection | None = None
        self._lister_thread: ThreadPoolExecutor | None = None
        self._where = where
        self._read_error: StoreError | None = None
        self._key = self._read(reads.highest_key)
        self._lock: int | None = None
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, path: Path | str, *, retention_age: int = 0, retention_count: int = 0) -> Store:
        """The store in `path`; `":memory:"` keeps nothing after `close`.

        `retention_age` (ms) and `retention_count` bound the finished tasks that are kept; 0 keeps all. StoreError when
        the file cannot be used: no access, no database, damaged, made by a newer version, in use by another server.
        """
        where = str(path)
        in_memory = where == ":memory:"
        lock = None if in_memory else files.prepare(Path(path))
        try:
            connection = files.connect(path)
            if not in_memory:
                files.configure(connection)
            migrate(connection, where)
            other = None
            if not in_memory:
                other = files.connect(path)
                files.configure(other)
                connection.execute("PRAGMA busy_timeout = 0")  # the event loop waits for nobody, the writer does
            recent = Recent()
            store = cls(Writer(connection, other, recent, where), connection, recent, where)
        except (sqlite3.Error, StoreError) as error:
            if lock is not None:
                os.close(lock)
            raise error if isinstance(error, StoreError) else StoreError.of(error, where) from error
        store._lock = lock
        if not in_memory:
            store._lister = files.connect(path, read_only=True)
            store._lister_thread = ThreadPoolExecutor(1, "store-lists")
        if retention_age or retention_count:
            store._keeper = asyncio.create_task(store._keep(retention_age, retention_count))
        return store

    async def close(self) -> None:
        """Commits what was handed in, ends the threads, closes the file."""
        if self._keeper:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        if self._lister_thread and self._lister:
            self._lister_thread.shutdown()
            self._lister.close()
        # Last of all, so that SQLite folds the log back into the file.
        await self._writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, change: Sequence[Change], then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Commits changes together: see `Writer.submit`."""
        return self._writer.submit(change, then)

    def next_key(self) -> int:
        """The key of the next task."""
        self._key += 1
        return self._key

    async def check(self) -> None:
        """For readiness: StoreError when the last read failed, or the last write did and a small one still does."""
        if self._read_error:
            raise self._read_error
        if self._writer.error:
            await self.write([changes.touch_health(milliseconds())])

    def task(self, task_id: str) -> TaskRow | None:
        """A task by its id, whoever owns it."""
        return self._read(reads.task_row, task_id)

    def task_json(self, task_id: str, owner: str, history: int) -> Reading | None:
        """A principal's Task with its last `history` messages; None when it has no such."""
        known = None if self._writer.in_thread else self._recent.find(task_id, history)
        if known is not None:
            return known if known.row.owner == owner else None

        def read(connection: sqlite3.Connection) -> Reading | None:
            row = reads.task_row(connection, task_id)
            if row is None or row.owner != owner:
                return None
            json, seq = reads.task_json(connection, row, history)
            return Reading(json, row, seq, history)

        reading = self._read(read)
        if reading is not None:
            self._recent.keep(reading)
        return reading

    def artifacts(self, row: TaskRow) -> tuple[list[tuple[int, bytes]], int]:
        """Position and head of a task's artifacts, and the number of its last change."""
        return self._read(reads.artifact_heads, row.key), self._read(reads.last_seq, row)

    async def page(self, wanted: Filter) -> Page:
        """The tasks of an owner, newest status first."""
        if not self._lister_thread or not self._lister:
            return self._read(reads.page, wanted)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._lister_thread, reads.page, self._lister, wanted
            )
        except sqlite3.Error as error:
            raise StoreError.of(error, self._where) from error

    def interrupted(self) -> list[TaskRow]:
        """Tasks that were at work, or were given a message, when the server stopped."""
        return self._read(reads.interrupted)

    def count_by_state(self) -> dict[int, int]:
        """How many tasks are in each `TaskState`."""
        return self._read(reads.count_by_state)

    def push_configs(self, task_key: int) -> list[PushConfig]:
        """The webhooks of a task, oldest first: for the sender, which has the key from an EventRecord."""
        return self._read(reads.push_configs, task_key)

    def untold_webhooks(self) -> list[tuple[int, str, str, str]]:
        """Webhooks that missed a change, as (task key, task id, owner, config id): for the sender, after a restart."""
        return self._read(reads.untold_webhooks)

    def session(self, context_id: str, owner: str) -> Session | None:
        """The session of a principal's context."""
        return self._read(reads.session, context_id, owner)

    async def set_session(self, context_id: str, owner: str, session_id: str) -> None:
        """Remembers, replaces or touches it; returns when it is durable."""
        await self.write([changes.put_session(context_id, owner, session_id, milliseconds())])

    async def delete_session(self, context_id: str, owner: str) -> None:
        """Forgets it; no error when there is none."""
        await self.write([changes.delete_session(context_id, owner)])

    async def delete_sessions_before(self, moment: int) -> None:
        """Forgets the sessions that nobody set or touched since (ms since 1970)."""
        await self.write([changes.delete_sessions_before(moment)])

    async def prune(self, age: int, count: int, now: int | None = None) -> int:
        """Deletes finished tasks older than `age` ms or beyond `count` (0: no bound); returns how many."""
        deleted = 0
        while keys := self._read(retention.expired, now or milliseconds(), age, count):
            await self.write(retention.forget(keys))
            deleted += len(keys)
        return deleted

    async def _keep(self, age: int, count: int) -> None:
        while True:
            # The writer has logged what went wrong; the next look tries again.
            with contextlib.suppress(StoreError):
                await self.prune(age, count)
            await asyncio.sleep(retention.INTERVAL)

    def _read(self, read: Callable[Concatenate[sqlite3.Connection, P], T], *values: P.args, **named: P.kwargs) -> T:
        try:
            found = read(self._reader, *values, **named)
        except sqlite3.Error as error:
            self._read_error = StoreError.of(error, self._where)
            raise self._read_error from error
        self._read_error = None
        return found

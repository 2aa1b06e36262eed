"""`Writer`: commits what has gathered, so that many events share one transaction.

A commit in WAL mode with `synchronous=NORMAL` is a write to the page cache, which outlives a kill of the process and
takes less time than a thread takes to hear of it. So it is done on the event loop, once in each of its rounds. A thread
does what may take long: a checkpoint, where the disk is synced, the commit after it, which begins the log anew, much at
once, and waiting for another program that holds the file. Meanwhile changes gather and reads go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from a2a_claude.store.changes import Change
from a2a_claude.store.errors import StoreError
from a2a_claude.store.recent import Recent

logger = logging.getLogger(__name__)

Job = tuple[Sequence[Change], "Callable[[], None] | None", "asyncio.Future[None]"]
Errors = list[sqlite3.Error | None]

_PAGE: Final = 4096  # bytes that a change of a row writes at least
# Bytes written to the log before it is folded into the file, and bytes that are much at once.
_CHECKPOINT: Final = 8 << 20
_MUCH: Final = 1 << 20


class Commit(asyncio.Future[None]):
    """A commit that is under way. It cannot be cancelled: a cancelled waiter hears of that when it is done."""

    def cancel(self, msg: object = None) -> bool:
        """False: the rows are on their way."""
        return False

    def set_exception(self, exception: type[BaseException] | BaseException, /) -> None:
        """A failure. Whoever does not wait is not told; the writer has logged it."""
        super().set_exception(exception)
        self.exception()


class Writer:
    """Writes by `connection` on the event loop, by `other` in a thread; without another connection all on the loop."""

    def __init__(
        self, connection: sqlite3.Connection, other: sqlite3.Connection | None, recent: Recent, where: str
    ) -> None:
        self._connection, self._other = connection, other
        self._recent, self._where = recent, where
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, "store-writer")
        self._gathered: list[Job] = []
        self._in_thread: asyncio.Future[None] | None = None
        self._logged = 0
        self._closed = False
        self.error: StoreError | None = None

    def submit(self, changes: Sequence[Change], then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Commits the changes together. The future ends after the commit, or with StoreError.

        `then` runs on the event loop after the commit and before anything that waits for the future, in the order of
        submission: what it hands out is in the order of the store.
        """
        future = Commit(loop=self._loop)
        if self._closed:
            future.set_exception(StoreError(f"store {self._where} is closed"))
            return future
        if not self._gathered and self._in_thread is None:
            self._loop.call_soon(self._flush)
        self._gathered.append((changes, then, future))
        return future

    @property
    def in_thread(self) -> bool:
        """Whether changes become visible to reads at any moment, and not with what follows a commit on the loop."""
        return self._in_thread is not None

    async def close(self) -> None:
        """Commits what was submitted, then closes the connections."""
        if self._closed:
            return
        self._closed = True
        while self._gathered or self._in_thread:
            self._flush()
            if self._in_thread:
                await self._in_thread
        self._thread.shutdown()
        for connection in (self._other, self._connection):
            if connection is not None:
                connection.close()

    def _flush(self) -> None:
        if not self._gathered or self._in_thread is not None:
            return
        jobs, self._gathered = self._gathered, []
        size = sum(_size(change) for changes, _, _ in jobs for change in changes)
        self._logged += size
        if self._other is not None and (size > _MUCH or self._logged > _CHECKPOINT or not self._begin()):
            self._in_thread = asyncio.ensure_future(self._leave_to_thread(jobs, self._other))
        else:
            self._settle(jobs, _commit(self._connection, jobs))

    def _begin(self) -> bool:
        """False when something is in the way: the thread waits for it, or tells what it is."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            return False
        return True

    async def _leave_to_thread(self, jobs: list[Job], connection: sqlite3.Connection) -> None:
        checkpoint = self._logged > _CHECKPOINT
        if checkpoint:
            self._logged = 0
        errors = await self._loop.run_in_executor(self._thread, _commit_slowly, connection, jobs, checkpoint)
        self._in_thread = None
        self._loop.call_soon(self._flush)
        self._settle(jobs, errors)

    def _settle(self, jobs: list[Job], errors: Errors) -> None:
        for key in {change.task for changes, _, _ in jobs for change in changes}:
            self._recent.drop(key)
        for (_, then, future), error in zip(jobs, errors, strict=True):
            if error is not None:
                self.error = StoreError.of(error, self._where)
                logger.error("%s", self.error)
                future.set_exception(self.error)
                continue
            self.error = None
            try:
                if then:
                    then()
            except Exception:
                # It is committed all the same, and whoever waits for this or another job must not wait for ever.
                logger.exception("What follows a change of the store failed")
            future.set_result(None)


def _size(change: Change) -> int:
    return _PAGE + sum(len(value) for value in change.values if type(value) is bytes)


def _commit_slowly(connection: sqlite3.Connection, jobs: list[Job], checkpoint: bool) -> Errors:
    if checkpoint:
        # What a checkpoint cannot do now the next one does: the log holds everything.
        with contextlib.suppress(sqlite3.Error):
            connection.execute("PRAGMA wal_checkpoint").fetchall()
    return _commit(connection, jobs)


def _commit(connection: sqlite3.Connection, jobs: list[Job]) -> Errors:
    execute = connection.execute
    try:
        if not connection.in_transaction:
            execute("BEGIN IMMEDIATE")
        for changes, _, _ in jobs:
            for sql, values, _ in changes:
                execute(sql, values)
        execute("COMMIT")
    except (sqlite3.Error, OverflowError, ValueError) as error:
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()
        if len(jobs) == 1:
            # A value that SQLite cannot take is no error of the database to Python; its job fails like any other.
            return [error if isinstance(error, sqlite3.Error) else sqlite3.DataError(str(error))]
        # One bad job must not take the others with it.
        return [outcome for job in jobs for outcome in _commit(connection, [job])]
    return [None] * len(jobs)

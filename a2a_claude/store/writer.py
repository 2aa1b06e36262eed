"""`Writer`: one thread that commits whatever has gathered, so that many events share one transaction.

The event loop hands jobs over and goes on; the thread takes all that wait, runs them in one transaction and hands the
outcomes back in order. With `synchronous=NORMAL` in WAL mode a commit is a write to the page cache, which outlives a
kill of the process; the disk is synced at checkpoints, also here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence

from a2a_claude.store.changes import Change
from a2a_claude.store.errors import StoreError

logger = logging.getLogger(__name__)

Job = tuple[Sequence[Change], "Callable[[], None] | None", "asyncio.Future[None]"]


class Writer:
    """Owns the connection that writes. `threaded=False` commits on the event loop: for a store in memory."""

    def __init__(self, connection: sqlite3.Connection, where: str, *, threaded: bool) -> None:
        self._connection = connection
        self._where = where
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._gathered: list[Job] = []
        self._closed = False
        self.error: StoreError | None = None
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True) if threaded else None
        if self._thread:
            self._thread.start()

    def submit(self, changes: Sequence[Change], then: Callable[[], None] | None = None) -> asyncio.Future[None]:
        """Commits the changes together. The future ends after the commit, or with StoreError.

        `then` runs on the event loop after the commit and before anything that waits for the future, in the order of
        submission: what it hands out is in the order of the store.
        """
        future = self._loop.create_future()
        # Whoever does not wait is not told; the writer has logged the error.
        future.add_done_callback(_seen)
        if self._closed:
            future.set_exception(StoreError(f"store {self._where} is closed"))
        elif self._thread:
            self._jobs.put((changes, then, future))
        else:
            if not self._gathered:
                self._loop.call_soon(self._commit_gathered)
            self._gathered.append((changes, then, future))
        return future

    async def close(self) -> None:
        """Commits what was submitted, then closes the connection."""
        if self._closed:
            return
        self._closed = True
        if self._thread:
            self._jobs.put(None)
            await self._loop.run_in_executor(None, self._thread.join)
        # What the thread handed back last is delivered before this goes on.
        await asyncio.sleep(0)
        self._connection.close()

    def _work(self) -> None:
        while True:
            batch = [self._jobs.get()]
            # Only this thread takes, so what qsize counts is there.
            batch += [self._jobs.get() for _ in range(self._jobs.qsize())]
            jobs = [job for job in batch if job is not None]
            errors = self._commit(jobs)
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody is left to be told
                self._loop.call_soon_threadsafe(self._settle, jobs, errors)
            if len(jobs) < len(batch):
                return

    def _commit_gathered(self) -> None:
        jobs, self._gathered = self._gathered, []
        self._settle(jobs, self._commit(jobs))

    def _commit(self, jobs: list[Job]) -> list[sqlite3.Error | None]:
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            for changes, _, _ in jobs:
                for sql, values in changes:
                    execute(sql, values)
            execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
            if len(jobs) == 1:
                return [error]
            # One bad job must not take the others with it.
            return [outcome for job in jobs for outcome in self._commit([job])]
        return [None] * len(jobs)

    def _settle(self, jobs: list[Job], errors: list[sqlite3.Error | None]) -> None:
        for (_, then, future), error in zip(jobs, errors, strict=True):
            if error is not None:
                self.error = StoreError.of(error, self._where)
                logger.error("%s", self.error)
                if not future.done():
                    future.set_exception(self.error)
                continue
            self.error = None
            if then:
                then()
            if not future.done():
                future.set_result(None)


def _seen(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()

"""`Subscriber`: one open stream's bounded queue of committed events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Set

from a2a.utils.errors import InternalError

from a2a_claude.store import EventRecord, Record

# Events a stream may be behind before it is given up: its client does not read, and the task must not wait for it.
LIMIT = 1024


class Subscriber:
    """Gets every event of a task in order; `async for` gives them until the stream ends.

    A subscriber that is `limit` events behind is evicted: what it has not read is dropped and its reader gets an
    InternalError, so that a client knows to subscribe again instead of missing events silently.
    """

    def __init__(self, extensions: Set[str] = frozenset(), limit: int = LIMIT) -> None:
        """`extensions` are those that the stream's request activated."""
        self._records: deque[Record] = deque()
        self._limit = limit
        self._extensions = extensions
        self._ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self.after = -1  # the number of the last change that the reader has already seen in a snapshot

    def wants(self, extension: str) -> bool:
        """Whether records of this extension (empty: of none) are for this stream."""
        return not extension or extension in self._extensions

    def put(self, record: Record) -> None:
        """Hands an event over; never waits."""
        if self._ended:
            return
        if len(self._records) >= self._limit:
            self._records.clear()
            self.end(InternalError(f"The stream fell {self._limit} events behind and was closed: subscribe again"))
            return
        self._records.append(record)
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """After what is queued the stream ends, with `error` if there is one. The first call counts."""
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Record:
        while True:
            while self._records:
                record = self._records.popleft()
                if not isinstance(record, EventRecord) or record.aside or record.seq > self.after:
                    return record
            if self._ended:
                if self._error:
                    raise self._error
                raise StopAsyncIteration
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader

    def _wake(self) -> None:
        if self._reader and not self._reader.done():
            self._reader.set_result(None)

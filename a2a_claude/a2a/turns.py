"""`Turns`: whose turn it is. One turn of a context at a time, contexts in parallel up to a limit, a bounded queue.

Two messages of one context would mix in one Claude session, so they go one after the other, in order of arrival.
Plain bookkeeping without waiting: a turn that may start is started by the call that makes it possible.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable
from itertools import count

from a2a.utils.errors import InternalError


class Overloaded(InternalError):
    """The queue is full (429), or the server is stopping (503): nothing was stored, try again in `retry_after` seconds.

    JSON-RPC has no code of its own for it: there it is an internal error (-32603).
    """

    def __init__(self, message: str, *, retry_after: int, http_status: int = 429) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.http_status = http_status


class Place:
    """A turn's place: waiting, running (some of the time paused), or over."""

    __slots__ = ("arrival", "context", "paused", "running", "start", "withdrawn")

    def __init__(self, context: Hashable, start: Callable[[], None], arrival: int) -> None:
        self.context = context
        self.start = start
        self.arrival = arrival
        self.running = False
        self.paused = False
        self.withdrawn = False

    def __lt__(self, other: Place) -> bool:
        return self.arrival < other.arrival


class Turns:
    """`running_limit` turns at a time, `queue_limit` more may wait. `running` leaves paused ones out."""

    def __init__(self, running_limit: int, queue_limit: int) -> None:
        self._running_limit = running_limit
        self._queue_limit = queue_limit
        self._arrivals = count()
        self._waiting: dict[Hashable, deque[Place]] = {}  # contexts with a turn running, and who waits for it to end
        self._ready: list[Place] = []  # heap of turns whose context is idle and who wait for a free slot
        self.queued = 0
        self.running = 0

    def take(self, context: Hashable, start: Callable[[], None]) -> Place:
        """A place for a turn of a context; `start` is called now or when its turn comes. Overloaded: none is left."""
        place = Place(context, start, next(self._arrivals))
        must_wait = context in self._waiting or self.running >= self._running_limit
        if must_wait and self.queued >= self._queue_limit:
            raise Overloaded(f"{self.queued} tasks wait for this agent already: try again later", retry_after=5)
        self.queued += 1
        if context in self._waiting:
            self._waiting[context].append(place)
        else:
            self._waiting[context] = deque()
            heapq.heappush(self._ready, place)
        self._start_ready()
        return place

    def withdraw(self, place: Place) -> bool:
        """Gives up a place whose turn has not started; false when it has."""
        if place.running or place.withdrawn:
            return place.withdrawn
        place.withdrawn = True
        self.queued -= 1
        if place in self._ready:
            self._ready.remove(place)
            heapq.heapify(self._ready)
            self._next_of(place.context)
        else:
            self._waiting[place.context].remove(place)
        self._start_ready()
        return True

    def stop(self) -> None:
        """No turn starts any more."""
        self._running_limit = 0

    def pause(self, place: Place) -> None:
        """A running turn waits for its caller: a turn of another context may run meanwhile."""
        if not place.paused:
            place.paused = True
            self.running -= 1
            self._start_ready()

    def resume(self, place: Place) -> None:
        """It goes on at once, even when as many as may run do so already: it has waited long enough."""
        if place.paused:
            place.paused = False
            self.running += 1

    def leave(self, place: Place) -> None:
        """A running turn is over: the next one starts."""
        self.running -= not place.paused
        self._next_of(place.context)
        self._start_ready()

    def _next_of(self, context: Hashable) -> None:
        waiting = self._waiting[context]
        if waiting:
            heapq.heappush(self._ready, waiting.popleft())
        else:
            del self._waiting[context]

    def _start_ready(self) -> None:
        while self._ready and self.running < self._running_limit:
            place = heapq.heappop(self._ready)
            place.running = True
            self.queued -= 1
            self.running += 1
            place.start()

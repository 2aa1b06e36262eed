"""`Delivery`: events on their way to a transport that may be slow or gone, without anybody waiting for it.

The events of a task go out one after the other. One that fails is tried again with growing pauses, and those behind it
wait. What is given up is counted, and the log tells when it begins and how many it were in the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from dataclasses import dataclass
from typing import Final

from a2a_claude.observe.events import Event, Transport, TryAgain

logger = logging.getLogger(__name__)

WAITING: Final = 4096  # events of all tasks together; an event is 10 kB at most, as a rule much less
PARALLEL: Final = 8
ATTEMPTS: Final = 5
LONGEST_PAUSE: Final = 30.0


@dataclass(slots=True)
class DeliveryStats:
    """Events since the start: taken, attempts that failed, given up; and those that wait."""

    delivered: int = 0
    failed_attempts: int = 0
    lost: int = 0
    waiting: int = 0


class Delivery:
    """A bounded queue in front of a transport. One event loop."""

    def __init__(
        self,
        transport: Transport,
        seconds: float,
        *,
        limit: int = WAITING,
        attempts: int = ATTEMPTS,
        pause: float = 0.5,
    ) -> None:
        """`seconds` are for one attempt, `pause` before the second one; each further pause is twice as long."""
        self._transport, self._seconds = transport, seconds
        self._limit, self._attempts, self._pause = limit, attempts, pause
        self._lanes: dict[str, deque[Event]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(PARALLEL)
        self._closing = asyncio.Event()
        self._losing = 0  # given up since the last one that was taken
        self.stats = DeliveryStats()

    async def send(self, event: Event) -> None:
        """Queues an event; never waits."""
        if self._closing.is_set() or self.stats.waiting >= self._limit:
            self._lose(event, "the server stops" if self._closing.is_set() else f"{self._limit} wait already")
            return
        self.stats.waiting += 1
        task_id = event.origin.task_id
        if (lane := self._lanes.get(task_id)) is not None:
            lane.append(event)
            return
        self._lanes[task_id] = deque([event])
        worker = asyncio.create_task(self._work(task_id), name="events")
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def close(self, seconds: float) -> None:
        """Takes no more and sends what waits: each pause is cut short, and after `seconds` the rest is lost."""
        self._closing.set()
        if self._workers:
            await asyncio.wait(self._workers, timeout=seconds)
        for worker in self._workers:
            worker.cancel()
        if self.stats.waiting:
            logger.warning("%d events were not delivered before the end", self.stats.waiting)
            self.stats.lost += self.stats.waiting
            self.stats.waiting = 0

    async def _work(self, task_id: str) -> None:
        lane = self._lanes[task_id]
        while lane:
            event = lane[0]
            try:
                await self._deliver(event)
            except Exception as error:  # noqa: BLE001 (a transport may raise anything)
                self._lose(event, str(error) or type(error).__name__)
            else:
                self._took()
            lane.popleft()
            self.stats.waiting -= 1
        del self._lanes[task_id]

    async def _deliver(self, event: Event) -> None:
        attempt = 1
        while True:
            last = self._closing.is_set()
            try:
                await self._attempt(event)
            except TryAgain as error:
                self.stats.failed_attempts += 1
                if last or attempt >= self._attempts:
                    raise
                await self._wait(max(min(error.after, LONGEST_PAUSE), self._backoff(attempt)))
                attempt += 1
            else:
                return

    async def _attempt(self, event: Event) -> None:
        try:
            async with self._slots, asyncio.timeout(self._seconds):
                await self._transport.send(event)
        except TimeoutError:
            raise TryAgain(f"no answer within {self._seconds:g} s") from None

    def _backoff(self, attempt: int) -> float:
        # Up to half is random, so that tasks that failed together do not come back together.
        return min(self._pause * 2.0 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def _lose(self, event: Event, reason: str) -> None:
        self.stats.lost += 1
        self._losing += 1
        if self._losing == 1:
            logger.warning(
                "Task %s: the event %s was not delivered: %s. Further ones are counted until one is",
                event.origin.task_id,
                event.type,
                reason,
            )

    def _took(self) -> None:
        self.stats.delivered += 1
        if self._losing:
            logger.warning("Events are delivered again; %d were lost", self._losing)
            self._losing = 0

"""`PushSender`: notifies webhooks of committed events.

Each webhook of a task has an outbox of its own: its notifications go out one after the other in the order of the
events, and webhooks do not wait for each other. A notification that fails is tried again with growing pauses; the ones
behind it wait. What is behind too far is replaced by one snapshot of the task, which says the same.

Delivery is at least once, also over a crash: the store remembers how far each webhook was notified, and a webhook that
missed something gets a snapshot of its task after the restart. Two exceptions, both logged: a notification that failed
`push.maxAttempts` times is skipped, and a webhook that keeps failing is left alone until it is registered again or the
server restarts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from a2a_claude.a2a import webhook_request
from a2a_claude.a2a.guarded_http import NoAnswer
from a2a_claude.a2a.ssrf import ForbiddenUrl, Guard, Target
from a2a_claude.a2a.webhook_client import CONNECTIONS, WebhookClient
from a2a_claude.config.model import Push
from a2a_claude.store import EventRecord, PushConfig, Record, Store, StoreError, changes, codec

logger = logging.getLogger(__name__)

BACKLOG: Final = 256  # notifications that wait for one webhook before they are replaced by a snapshot
PER_HOST: Final = 8  # requests to one host at a time: many webhooks must not become an attack on it, nor delay others
SUSPEND_AFTER: Final = 3  # notifications in a row that were skipped
SAVE_EVERY: Final = 16  # notifications between two writes of how far a busy webhook is
LONGEST_PAUSE: Final = 60.0
LONGEST_ASKED_PAUSE: Final = 300.0
_TRY_AGAIN: Final = frozenset((408, 425, 429))
_GONE: Final = 410


@dataclass(slots=True)
class PushStats:
    """Notifications since the start: sent and accepted, attempts that failed, skipped for good; and those waiting."""

    delivered: int = 0
    failed_attempts: int = 0
    skipped: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Stands for the task as it is when its turn comes."""


@dataclass(slots=True)
class _Outbox:
    """What one webhook is still to be told. `position` is the last change it was told of, `saved` what is stored."""

    key: int
    task_id: str
    owner: str
    config_id: str
    waiting: deque[EventRecord | _Snapshot] = field(default_factory=deque)
    position: int = -1
    saved: int = -1
    skipped: int = 0  # in a row
    suspended: bytes | None = None  # the registration that is given up
    ended: bool = False  # its task sends no more events
    worker: asyncio.Task[None] | None = None


class _Skip(Exception):
    """This notification is given up; `forever` when the whole webhook is."""

    def __init__(self, reason: str, *, forever: bool = False) -> None:
        super().__init__(reason)
        self.forever = forever


class PushSender:
    """Sends what `notify` is given. One event loop; `start` before the first event, `close` before the store's."""

    def __init__(
        self, store: Store, settings: Push, guard: Guard, *, client: WebhookClient | None = None, pause: float = 1.0
    ) -> None:
        """`pause` is the first wait between two attempts, in seconds; each further one is twice as long."""
        self._store, self._settings, self._guard, self._pause = store, settings, guard, pause
        self._client = client
        self._outboxes: dict[tuple[int, str], _Outbox] = {}
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._hosts: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._closing = False
        self._stats = PushStats()

    async def start(self) -> None:
        """Takes up what was not told before the last stop or crash. Call it before `Lifecycle.start`."""
        for key, task_id, owner, config_id in self._store.untold_webhooks():
            self._put(self._outbox(key, task_id, owner, config_id), _Snapshot())

    def notify(self, record: EventRecord) -> None:
        """For `Lifecycle.observe`: queues the event for the webhooks that its task has now. Never waits."""
        if not record.pushes or self._closing:
            return
        for config in self._store.push_configs(record.key):
            outbox = self._outbox(record.key, record.task_id, record.owner, config.id)
            outbox.ended = record.last
            if outbox.suspended is not None and outbox.suspended != config.json:
                outbox.suspended, outbox.skipped = None, 0
            if outbox.suspended is None:
                self._put(outbox, record)
            elif outbox.ended:
                self._forget(outbox)

    def stats(self) -> PushStats:
        """For metrics."""
        self._stats.waiting = sum(len(each.waiting) for each in self._outboxes.values())
        return self._stats

    async def close(self, seconds: float) -> None:
        """Sends what waits for up to `seconds`, then stops. What is left is taken up by the next `start`."""
        self._closing = True
        workers = {each.worker for each in self._outboxes.values() if each.worker}
        if workers:
            await asyncio.wait(workers, timeout=seconds)
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        if left := self.stats().waiting:
            logger.warning("%d push notifications were not sent: they are taken up after the restart", left)
        if self._client:
            await self._client.close()

    def _outbox(self, key: int, task_id: str, owner: str, config_id: str) -> _Outbox:
        return self._outboxes.setdefault((key, config_id), _Outbox(key, task_id, owner, config_id))

    def _forget(self, outbox: _Outbox) -> None:
        self._outboxes.pop((outbox.key, outbox.config_id), None)

    def _put(self, outbox: _Outbox, item: EventRecord | _Snapshot) -> None:
        if len(outbox.waiting) >= BACKLOG:
            # The first is on its way.
            first = outbox.waiting[0]
            outbox.waiting.clear()
            outbox.waiting += [first, _Snapshot()]
            logger.warning(
                "Task %s: webhook %r is %d events behind: it gets the task itself next",
                outbox.task_id,
                outbox.config_id,
                BACKLOG,
            )
        outbox.waiting.append(item)
        if outbox.worker is None:
            outbox.worker = asyncio.create_task(self._work(outbox))

    async def _work(self, outbox: _Outbox) -> None:
        try:
            while outbox.waiting and await self._send_first(outbox):
                outbox.waiting.popleft()
                if outbox.position >= outbox.saved + SAVE_EVERY:
                    self._save(outbox)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("Task %s: webhook %r is given up", outbox.task_id, outbox.config_id)
            outbox.waiting.clear()
        finally:
            outbox.worker = None
            self._save(outbox)
            # One that failed last is kept: it is the failures in a row that count.
            if not outbox.waiting and (outbox.ended or not outbox.skipped):
                self._forget(outbox)

    async def _send_first(self, outbox: _Outbox) -> bool:
        """Sends or skips the first notification; false when there is nothing left to do for this webhook."""
        record, seq = self._record(outbox)
        if record is not None and seq > outbox.position:
            try:
                if not await self._deliver(outbox, record):
                    outbox.skipped = 0
                    outbox.waiting.clear()
                    return False
            except _Skip as error:
                self._stats.skipped += 1
                outbox.skipped += 1
                suspend = error.forever or outbox.skipped >= SUSPEND_AFTER
                logger.error(
                    "Task %s: webhook %r was not notified of change %d: %s%s",
                    outbox.task_id,
                    outbox.config_id,
                    seq,
                    error,
                    "; it is left alone until it is registered again" if suspend else "",
                )
                if suspend:
                    config = self._config(outbox)
                    outbox.suspended = config.json if config else None
                    outbox.waiting.clear()
                    return False
            else:
                self._stats.delivered += 1
                outbox.skipped = 0
        outbox.position = max(outbox.position, seq)
        return True

    def _record(self, outbox: _Outbox) -> tuple[Record | None, int]:
        item = outbox.waiting[0]
        if isinstance(item, EventRecord):
            return item, item.seq
        found = self._store.task_json(outbox.task_id, outbox.owner, 0)
        return (Record("task", found[0]), found[2]) if found else (None, 0)

    async def _deliver(self, outbox: _Outbox, record: Record) -> bool:
        """Tries until it is accepted; false when the webhook was deleted meanwhile. Raises `_Skip`."""
        for attempt in range(1, self._settings.max_attempts + 1):
            config = self._config(outbox)
            if config is None:
                return False
            reason, pause = await self._attempt(config, record)
            if not reason:
                return True
            self._stats.failed_attempts += 1
            if attempt < self._settings.max_attempts:
                pause = max(min(pause, LONGEST_ASKED_PAUSE), self._backoff(attempt))
                logger.warning(
                    "Task %s: webhook %r, attempt %d of %d: %s; again in %.1f s",
                    outbox.task_id,
                    outbox.config_id,
                    attempt,
                    self._settings.max_attempts,
                    reason,
                    pause,
                )
                await asyncio.sleep(pause)
        raise _Skip(reason)

    def _backoff(self, attempt: int) -> float:
        # Up to half is random, so that webhooks of one host that failed together do not come back together.
        return min(self._pause * 2.0 ** (attempt - 1), LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311

    async def _attempt(self, config: PushConfig, record: Record) -> tuple[str, float]:
        """Why it failed (empty: it did not), and the pause that the webhook asked for."""
        document = codec.loads(config.json)
        try:
            target = self._guard.target(document["url"])
            headers = webhook_request.headers(config, document)
        except ValueError as error:
            raise _Skip(f"the webhook {error}", forever=True) from error
        try:
            status, asked = await self._post(target, headers, webhook_request.body(record, config.version))
        except (ForbiddenUrl, NoAnswer) as error:
            return f"{target.origin}: {error}", 0.0
        if 200 <= status < 300:
            return "", 0.0
        reason = f"{target.origin} answered {status}"
        if status < 500 and status not in _TRY_AGAIN:
            raise _Skip(reason, forever=status == _GONE)
        return reason, asked

    async def _post(self, target: Target, headers: webhook_request.Headers, body: bytes) -> tuple[int, float]:
        if self._client is None:
            self._client = WebhookClient(self._guard, self._settings.timeout / 1000)
        host = self._hosts.setdefault(target.host, asyncio.Semaphore(PER_HOST))
        async with host, self._slots:
            return await self._client.post(target, headers, body)

    def _config(self, outbox: _Outbox) -> PushConfig | None:
        return next((each for each in self._store.push_configs(outbox.key) if each.id == outbox.config_id), None)

    def _save(self, outbox: _Outbox) -> None:
        if outbox.position <= outbox.saved:
            return
        outbox.saved = outbox.position
        write = self._store.write([changes.set_told(outbox.key, outbox.config_id, outbox.position)])
        write.add_done_callback(_forgiven)


def _forgiven(write: asyncio.Future[None]) -> None:
    # The store has logged it; the webhook is told once more after a restart.
    if not write.cancelled():
        with contextlib.suppress(StoreError):
            write.result()

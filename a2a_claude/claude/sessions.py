"""`Pool`: which context has which session, what continues it, and whose turn it is. `capacity.py` has the processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from claude_agent_sdk import PermissionMode

from a2a_claude.claude.capacity import Capacity, Held, Key, Starter
from a2a_claude.claude.client import Client
from a2a_claude.claude.session import (
    Ask,
    Calls,
    ClaudeError,
    ClaudeStartFailed,
    FellBack,
    LiveSession,
    Received,
    SessionStore,
    Totals,
)

logger = logging.getLogger(__name__)

_NO_TRANSCRIPT: Final = "No conversation found"
_SWEEP_SECONDS: Final = 1.0
_TOTALS_KEPT: Final = 10_000


class _Place:
    """A context's turn to run; `users` have it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class PooledSession:
    """A `LiveSession` of the pool."""

    def __init__(self, pool: Pool, key: Key, held: Held, stored: str | None, fell_back: FellBack | None) -> None:
        self._pool, self.key, self.held = pool, key, held
        self._stored = stored
        self.fell_back = fell_back
        self.before = pool.totals_of(held.client, stored if fell_back is None else None)
        self.released: asyncio.Task[None] | None = None

    @property
    def session_id(self) -> str | None:
        return self.held.client.session_id

    @property
    def ask(self) -> Ask | None:
        return self.held.asker.ask

    @ask.setter
    def ask(self, value: Ask | None) -> None:
        self.held.asker.ask = value

    @property
    def calls(self) -> Calls | None:
        return self.held.client.delegates.turn if self.held.client.delegates is not None else None

    @calls.setter
    def calls(self, value: Calls | None) -> None:
        if self.held.client.delegates is not None:
            self.held.client.delegates.turn = value

    async def turn(self, blocks: list[dict[str, Any]], *, uuid: str) -> AsyncIterator[Received]:
        turn = self.held.client.turn(blocks, uuid)
        try:
            async for received in turn:
                if received.frame.get("type") in ("system", "result"):
                    await self._remember()
                yield received
        finally:
            await turn.aclose()  # type: ignore[attr-defined]

    async def _remember(self) -> None:
        """The session is durable before a client is told anything of it."""
        found = self.session_id
        if found is None or found == self._stored:
            return
        new = self._stored is None or self.fell_back is not None
        if self._stored is not None and self.fell_back is None:
            self.fell_back = FellBack(self._stored, "session_changed", "Claude continued under another session id")
        self._stored = found
        await self._pool.remember(self.key, found)
        if new and (prefix := self._pool.title_prefix):
            await self.held.client.rename(f"{prefix}{self.key[1]}")

    async def set_mode(self, mode: PermissionMode) -> bool:
        return await self.held.client.set_mode(mode)

    async def stop_background(self, task_id: str) -> bool:
        return await self.held.client.stop_background(task_id)

    async def cost(self) -> float | None:
        return await self.held.client.spending()

    async def interrupt(self, bound: float) -> bool:
        return await self.held.client.interrupt(bound)


class Pool:
    """`Sessions` over live CLI processes."""

    def __init__(self, starter: Starter, store: SessionStore | None = None) -> None:
        """Without a `store` a context is forgotten with its process."""
        self._store = store
        self._settings = starter.config.session
        self.title_prefix = self._settings.title_prefix
        self._capacity = Capacity(starter)
        self._places: dict[Key, _Place] = {}
        self._swept = time.monotonic()
        self._totals: dict[str, Totals] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Starts the spares and the sweep; needs a running loop."""
        self._sweeper = asyncio.create_task(self._sweep(), name="claude-sweep")
        self._capacity.refill()

    async def acquire(self, context_id: str, owner: str, task_id: str) -> LiveSession:
        """See `Sessions.acquire`."""
        key = (owner, context_id, "" if self._settings.reuse_by_context else task_id)
        await self._place(key)
        obtaining = self._capacity.spawn(self._obtain(key))
        try:
            return await asyncio.shield(obtaining)
        except asyncio.CancelledError:
            self._capacity.spawn(self._give_up(key, obtaining))
            raise
        except BaseException:
            self._unlock(key)
            raise

    async def release(self, session: LiveSession, *, healthy: bool) -> None:
        """See `Sessions.release`."""
        assert isinstance(session, PooledSession)  # noqa: S101 - what `acquire` gave
        if session.released is None:
            session.ask = session.calls = None
            session.released = self._capacity.spawn(self._release(session, healthy))
        await asyncio.shield(session.released)

    async def shutdown(self, bound: float) -> None:
        """See `Sessions.shutdown`."""
        if self._sweeper:
            self._sweeper.cancel()
        await self._capacity.close(bound)

    def stats(self) -> dict[str, int]:
        """See `Capacity.stats`."""
        return self._capacity.stats()

    def totals_of(self, client: Client, resumed: str | None) -> Totals | None:
        """What the session had used when the turn began: None when it was with a server before this one."""
        if client.totals is not None:
            return client.totals
        return Totals() if resumed is None else self._totals.get(resumed)

    async def remember(self, key: Key, session_id: str) -> None:
        """Notes which session continues a context."""
        if self._store is not None and self._settings.reuse_by_context:
            await self._store.set_session(key[1], key[0], session_id)

    # Acquiring

    async def _obtain(self, key: Key) -> PooledSession:
        if self._capacity.closed:
            raise ClaudeStartFailed("the server is stopping")
        stored = await self._stored(key)
        held = self._capacity.live.pop(key, None)
        if held is not None and (not held.client.usable or (stored is None and self._store is not None)):
            await self._capacity.retire(held)
            held = None
        fell_back = None
        if held is None:
            held, fell_back = await self._fresh(stored)
        held.leased = True
        self._capacity.live[key] = held
        return PooledSession(self, key, held, stored, fell_back)

    async def _stored(self, key: Key) -> str | None:
        """The session to continue; None for a new one, also when the old one is older than `session.ttl`."""
        if self._store is None or not self._settings.reuse_by_context:
            return None
        owner, context_id, _ = key
        row = self._store.session(context_id, owner)
        if row is None:
            return None
        if 0 < self._settings.ttl <= _now() - row.created:
            logger.info("The session of context %s has expired: a new one begins", context_id)
            await self._store.delete_session(context_id, owner)
            return None
        return row.session_id

    async def _fresh(self, stored: str | None) -> tuple[Held, FellBack | None]:
        if stored is None:
            return await self._capacity.new(), None
        try:
            return await self._capacity.start(stored), None
        except ClaudeStartFailed as error:
            text = f"{error}\n{error.detail}"
            reason = "transcript_lost" if _NO_TRANSCRIPT in text else "resume_failed"
            logger.warning("Session %s cannot be continued (%s): a new one begins", stored, error)
        return (await self._fresh(None))[0], FellBack(stored, reason, text)

    async def _give_up(self, key: Key, obtaining: asyncio.Task[PooledSession]) -> None:
        """The caller of `acquire` was cancelled: what it would have got stays in the pool."""
        try:
            session = await obtaining
        except (ClaudeError, asyncio.CancelledError):
            self._unlock(key)
        else:
            await self.release(session, healthy=True)

    # Giving back

    async def _release(self, session: PooledSession, healthy: bool) -> None:
        held, key = session.held, session.key
        client = held.client
        client.detach()
        if client.session_id and client.totals is not None:
            self._totals.pop(client.session_id, None)
            self._totals[client.session_id] = client.totals
            while len(self._totals) > _TOTALS_KEPT:
                del self._totals[next(iter(self._totals))]
        try:
            if not healthy or not client.usable or self._capacity.closed or not self._settings.reuse_by_context:
                self._capacity.live.pop(key, None)
                await self._capacity.retire(held)
            elif self._capacity.is_worn(client):
                self._capacity.live.pop(key, None)
                self._capacity.spawn(self._capacity.retire(held))
            else:
                self._capacity.live[key] = self._capacity.live.pop(key, held)  # now the most recently used
                held.last = time.monotonic()
            if client.session_id:
                with contextlib.suppress(Exception):  # a store that fails is told by the server's readiness
                    await self.remember(key, client.session_id)
        finally:
            held.leased = False
            self._capacity.refill()
            self._unlock(key)
            await self._capacity.tell()

    async def _place(self, key: Key) -> None:
        """Waits until no other turn has the context."""
        place = self._places.setdefault(key, _Place())
        place.users += 1
        try:
            await place.lock.acquire()
        except asyncio.CancelledError:
            self._leave(key, place)
            raise

    def _unlock(self, key: Key) -> None:
        place = self._places[key]
        place.lock.release()
        self._leave(key, place)

    def _leave(self, key: Key, place: _Place) -> None:
        place.users -= 1
        if place.users == 0:
            del self._places[key]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._capacity.retire_idle()
            self._capacity.refill()
            now = time.monotonic()
            interval = self._settings.cleanup_interval / 1000
            if self._store is not None and self._settings.ttl > 0 and 0 < interval <= now - self._swept:
                self._swept = now
                with contextlib.suppress(Exception):  # the store has logged it, and there is a next time
                    await self._store.delete_sessions_before(_now() - self._settings.ttl)


def _now() -> int:
    return time.time_ns() // 1_000_000

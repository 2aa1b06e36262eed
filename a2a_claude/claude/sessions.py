"""`Pool`: which context has which live process, and how many there are.

A process that stays makes a follow-up cost a tenth of a first turn, and holds about 100 MiB. So each context keeps its
own for a while, a few are kept at most, and the next new context finds one that has started already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

from claude_agent_sdk import (
    CanUseTool,
    PermissionMode,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from a2a_claude.claude.approval_policy import asks
from a2a_claude.claude.budget import is_watched
from a2a_claude.claude.client import CLOSE_SECONDS, Client
from a2a_claude.claude.session import (
    Ask,
    Calls,
    ClaudeError,
    ClaudeStartFailed,
    FellBack,
    LiveSession,
    Received,
    SessionStore,
)
from a2a_claude.config.model import Config

logger = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Owner, context and, when sessions are not reused, the task."""
_NO_TRANSCRIPT: Final = "No conversation found"
_SWEEP_SECONDS: Final = 1.0
_BYTES: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_LAST_SECONDS: Final = 0.5  # for what is cancelled at the end
_COSTS_KEPT: Final = 10_000


class Starter(Protocol):
    """What starts processes; `Processes` does."""

    config: Config

    async def start(self, resume: str | None, ask: CanUseTool | None = None) -> Client: ...

    def memory(self, client: Client) -> int: ...

    def close(self) -> None: ...


class _Asker:
    """Whom a process asks for permission: the turn that has it, if any. Bound before the process knows its turn."""

    def __init__(self) -> None:
        self.ask: Ask | None = None

    async def __call__(
        self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        if self.ask is None:
            return PermissionResultDeny(message="Nobody can be asked.")
        return await self.ask(tool, arguments, context)


class _Held:
    """A process of the pool. `last` is when it was used, `leased` whether a turn has it."""

    def __init__(self, client: Client, asker: _Asker) -> None:
        self.client, self.asker = client, asker
        self.leased = False
        self.last = time.monotonic()


class _Place:
    """A context's turn to run; `users` have it or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class PooledSession:
    """A `LiveSession` of the pool."""

    def __init__(self, pool: Pool, key: Key, held: _Held, stored: str | None, fell_back: FellBack | None) -> None:
        self._pool, self.key, self.held = pool, key, held
        self._stored = stored
        self.fell_back = fell_back
        self.cost_before = pool.cost_of(held.client, stored if fell_back is None else None)
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

    async def stop_background(self, task_id: str) -> None:
        await self.held.client.stop_background(task_id)

    async def cost(self) -> float | None:
        return await self.held.client.spending()

    async def interrupt(self, bound: float) -> bool:
        return await self.held.client.interrupt(bound)


class Pool:
    """`Sessions` over live CLI processes."""

    def __init__(self, starter: Starter, store: SessionStore | None = None) -> None:
        """Without a `store` a context is forgotten with its process."""
        self._starter, self._store = starter, store
        self._settings = starter.config.session
        self.title_prefix = self._settings.title_prefix
        self._live: dict[Key, _Held] = {}  # least recently used first
        self._spares: list[_Held] = []
        self._places: dict[Key, _Place] = {}
        self._starting = self._sparing = 0
        self._starts = asyncio.Semaphore(self._settings.parallel_starts)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._swept = self._taken = time.monotonic()
        self._costs: dict[str, float] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Starts the spares and the sweep; needs a running loop."""
        self._sweeper = asyncio.create_task(self._sweep(), name="claude-sweep")
        self._refill()

    async def acquire(self, context_id: str, owner: str, task_id: str) -> LiveSession:
        """See `Sessions.acquire`."""
        key = (owner, context_id, "" if self._settings.reuse_by_context else task_id)
        await self._place(key)
        obtaining = self._spawn(self._obtain(key))
        try:
            return await asyncio.shield(obtaining)
        except asyncio.CancelledError:
            self._spawn(self._give_up(key, obtaining))
            raise
        except BaseException:
            self._unlock(key)
            raise

    async def release(self, session: LiveSession, *, healthy: bool) -> None:
        """See `Sessions.release`."""
        assert isinstance(session, PooledSession)  # noqa: S101 - what `acquire` gave
        if session.released is None:
            session.ask = session.calls = None
            session.released = self._spawn(self._release(session, healthy))
        await asyncio.shield(session.released)

    async def shutdown(self, bound: float) -> None:
        """See `Sessions.shutdown`."""
        self._closed = True
        if self._sweeper:
            self._sweeper.cancel()
        everyone = [*self._live.values(), *self._spares]
        patience = max(0.0, bound - CLOSE_SECONDS - 1)

        async def end(held: _Held) -> None:
            if held.leased and patience:
                await held.client.interrupt(patience / 2)
            await held.client.close(min(CLOSE_SECONDS, patience))

        deadline = time.monotonic() + bound
        ending = [asyncio.create_task(end(held)) for held in everyone]
        if left := [*ending, *self._tasks]:
            await asyncio.wait(left, timeout=max(0.0, bound - _LAST_SECONDS))
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=max(0.0, deadline - time.monotonic()))
        self._live.clear()
        self._spares.clear()
        self._starter.close()

    def stats(self) -> dict[str, int]:
        """Processes by what they do: `busy`, `idle`, `spare`, `starting`."""
        busy = sum(held.leased for held in self._live.values())
        return {
            "busy": busy,
            "idle": len(self._live) - busy,
            "spare": len(self._spares),
            "starting": self._starting,
        }

    def cost_of(self, client: Client, resumed: str | None) -> float | None:
        """What the session had cost when the turn began: None when a server before this one spent it."""
        if client.cost is not None:
            return client.cost
        return 0.0 if resumed is None else self._costs.get(resumed)

    async def remember(self, key: Key, session_id: str) -> None:
        """Notes which session continues a context."""
        if self._store is not None and self._settings.reuse_by_context:
            await self._store.set_session(key[1], key[0], session_id)

    # Acquiring

    async def _obtain(self, key: Key) -> PooledSession:
        if self._closed:
            raise ClaudeStartFailed("the server is stopping")
        stored = await self._stored(key)
        held = self._live.pop(key, None)
        if held is not None and (not held.client.usable or (stored is None and self._store is not None)):
            await self._retire(held)
            held = None
        fell_back = None
        if held is None:
            held, fell_back = await self._fresh(stored)
        held.leased = True
        self._live[key] = held
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

    async def _fresh(self, stored: str | None) -> tuple[_Held, FellBack | None]:
        if stored is None:
            while self._spares:
                spare = self._spares.pop()
                self._taken = time.monotonic()
                if spare.client.usable:
                    return spare, None
                await self._retire(spare)
            return await self._start(None), None
        try:
            return await self._start(stored), None
        except ClaudeStartFailed as error:
            text = f"{error}\n{error.detail}"
            reason = "transcript_lost" if _NO_TRANSCRIPT in text else "resume_failed"
            logger.warning("Session %s cannot be continued (%s): a new one begins", stored, error)
        return (await self._fresh(None))[0], FellBack(stored, reason, text)

    async def _start(self, resume: str | None) -> _Held:
        await self._make_room()
        asker = _Asker()
        asked = asks(self._starter.config.claude)
        try:
            async with self._starts:
                if self._closed:
                    raise ClaudeStartFailed("the server is stopping")
                return _Held(await self._starter.start(resume, asker if asked else None), asker)
        finally:
            self._starting -= 1
            await self._tell()

    async def _make_room(self) -> None:
        """Waits until one more process may run; the spares and the least recently used idle ones make room."""
        async with self._changed:
            while len(self._live) + len(self._spares) + self._starting >= self._settings.max_live_clients:
                idle = next((key for key, held in self._live.items() if not held.leased), None)
                if self._spares:
                    self._spawn(self._retire(self._spares.pop()))
                elif idle is not None:
                    self._spawn(self._retire(self._live.pop(idle)))
                else:
                    await self._changed.wait()
            self._starting += 1

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
        if client.session_id and client.cost is not None:
            self._costs.pop(client.session_id, None)
            self._costs[client.session_id] = client.cost
            while len(self._costs) > _COSTS_KEPT:
                del self._costs[next(iter(self._costs))]
        try:
            if not healthy or not client.usable or self._closed or not self._settings.reuse_by_context:
                self._live.pop(key, None)
                await self._retire(held)
            elif self._is_worn(client):
                self._live.pop(key, None)
                self._spawn(self._retire(held))
            else:
                self._live[key] = self._live.pop(key, held)  # now the most recently used
                held.last = time.monotonic()
            if client.session_id:
                with contextlib.suppress(Exception):  # a store that fails is told by the server's readiness
                    await self.remember(key, client.session_id)
        finally:
            held.leased = False
            self._unlock(key)
            await self._tell()

    def _is_worn(self, client: Client) -> bool:
        settings = self._settings
        claude = self._starter.config.claude
        # The CLI's own bound is for all that its process spends.
        spent = claude.max_budget_usd is not None and not is_watched(claude) and client.turns > 0
        return (
            spent
            or client.turns >= settings.client_max_turns
            or self._starter.memory(client) >= byte_size(settings.client_max_memory)
        )

    async def _retire(self, held: _Held) -> None:
        await held.client.close()
        await self._tell()

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

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # In the background

    def _refill(self) -> None:
        total = len(self._live) + len(self._spares) + self._starting
        if (
            not self._closed
            and len(self._spares) + self._sparing < self._settings.spare_clients
            and total < self._settings.max_live_clients
        ):
            self._sparing += 1
            self._spawn(self._add_spare())

    async def _add_spare(self) -> None:
        try:
            held = await self._start(None)
        except ClaudeError as error:
            logger.warning("No process could be started ahead: %s", error)
            return
        finally:
            self._sparing -= 1
        if self._closed:
            await self._retire(held)
        else:
            self._spares.append(held)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            for key, held in list(self._live.items()):
                idle = now - held.last >= self._settings.client_idle_timeout / 1000
                if not held.leased and (idle or not held.client.usable):
                    del self._live[key]
                    self._spawn(self._retire(held))
            # Not at once: a start would take the processor from the turn that the spare was taken for.
            if now - self._taken >= _SWEEP_SECONDS:
                self._refill()
            interval = self._settings.cleanup_interval / 1000
            if self._store is not None and self._settings.ttl > 0 and 0 < interval <= now - self._swept:
                self._swept = now
                with contextlib.suppress(Exception):  # the store has logged it, and there is a next time
                    await self._store.delete_sessions_before(_now() - self._settings.ttl)

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def byte_size(text: str) -> int:
    """`600Mi` in bytes."""
    found = re.fullmatch(r"(\d+)([KMG]i)?", text)
    if found is None:
        raise ValueError(f"{text!r} is no size in bytes")
    return int(found[1]) * _BYTES[found[2] or ""]


def _now() -> int:
    return time.time_ns() // 1_000_000

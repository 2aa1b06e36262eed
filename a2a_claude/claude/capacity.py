"""`Capacity`: how many processes there are, which are kept ahead, and which make room for others.

A process that stays makes a follow-up cost a tenth of a first turn, and holds about 100 MiB. So a few are kept at most,
the least recently used idle one makes room, and the next new context finds one that has started already.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import Any, Final, Protocol

from claude_agent_sdk import CanUseTool, PermissionResultAllow, PermissionResultDeny, ToolPermissionContext

from a2a_claude.claude.approval_policy import asks
from a2a_claude.claude.budget import is_watched
from a2a_claude.claude.client import CLOSE_SECONDS, Client
from a2a_claude.claude.session import Ask, ClaudeError, ClaudeStartFailed
from a2a_claude.config.model import Config

logger = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Owner, context and, when sessions are not reused, the task."""
REFILL_SECONDS: Final = 1.0
_BYTES: Final = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_LAST_SECONDS: Final = 0.5  # for what is cancelled at the end


class Starter(Protocol):
    """What starts processes; `Processes` does."""

    config: Config

    async def start(self, resume: str | None, ask: CanUseTool | None = None) -> Client: ...

    def memory(self, client: Client) -> int: ...

    def close(self) -> None: ...


class Asker:
    """Whom a process asks for permission: the turn that has it, if any. Bound before the process knows its turn."""

    def __init__(self) -> None:
        self.ask: Ask | None = None

    async def __call__(
        self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext
    ) -> PermissionResultAllow | PermissionResultDeny:
        if self.ask is None:
            return PermissionResultDeny(message="Nobody can be asked.")
        return await self.ask(tool, arguments, context)


class Held:
    """A process of the pool. `last` is when it was used, `leased` whether a turn has it."""

    def __init__(self, client: Client, asker: Asker) -> None:
        self.client, self.asker = client, asker
        self.leased = False
        self.last = time.monotonic()


class Capacity:
    """The processes of an agent: those that contexts have, and the spares."""

    def __init__(self, starter: Starter) -> None:
        self._starter, self._settings = starter, starter.config.session
        self.live: dict[Key, Held] = {}  # least recently used first
        self._spares: list[Held] = []
        self._starting = self._sparing = 0
        self._starts = asyncio.Semaphore(self._settings.parallel_starts)
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._taken = time.monotonic()
        self.closed = False

    def stats(self) -> dict[str, int]:
        """Processes by what they do: `busy`, `idle`, `spare`, `starting`."""
        busy = sum(held.leased for held in self.live.values())
        return {
            "busy": busy,
            "idle": len(self.live) - busy,
            "spare": len(self._spares),
            "starting": self._starting,
        }

    async def new(self) -> Held:
        """A process for a session that begins: a spare, if there is one. ClaudeStartFailed: none could be started."""
        while self._spares:
            spare = self._spares.pop()
            self._taken = time.monotonic()
            if spare.client.usable:
                return spare
            await self.retire(spare)
        return await self.start(None)

    async def start(self, resume: str | None) -> Held:
        """A process that resumes a session, or begins one; ClaudeStartFailed when it did not start."""
        await self._make_room()
        asker = Asker()
        asked = asks(self._starter.config.claude)
        try:
            async with self._starts:
                if self.closed:
                    raise ClaudeStartFailed("the server is stopping")
                return Held(await self._starter.start(resume, asker if asked else None), asker)
        finally:
            self._starting -= 1
            await self.tell()

    async def _make_room(self) -> None:
        """Waits until one more process may run; the spares and the least recently used idle ones make room."""
        async with self._changed:
            while len(self.live) + len(self._spares) + self._starting >= self._settings.max_live_clients:
                idle = next((key for key, held in self.live.items() if not held.leased), None)
                if self._spares:
                    self.spawn(self.retire(self._spares.pop()))
                elif idle is not None:
                    self.spawn(self.retire(self.live.pop(idle)))
                else:
                    await self._changed.wait()
            self._starting += 1

    def is_worn(self, client: Client) -> bool:
        """Whether a process is to be replaced after this turn."""
        settings = self._settings
        claude = self._starter.config.claude
        # The CLI's own bound is for all that its process spends.
        spent = claude.max_budget_usd is not None and not is_watched(claude) and client.turns > 0
        return (
            spent
            or client.turns >= settings.client_max_turns
            or self._starter.memory(client) >= byte_size(settings.client_max_memory)
        )

    async def retire(self, held: Held) -> None:
        """Ends a process."""
        await held.client.close()
        await self.tell()

    async def tell(self) -> None:
        """Something has changed: who waits for room may look."""
        async with self._changed:
            self._changed.notify_all()

    def refill(self) -> None:
        """Starts a spare where one is missing: not at once while turns run, it would take the processor from them."""
        if time.monotonic() - self._taken < REFILL_SECONDS and any(held.leased for held in self.live.values()):
            return
        total = len(self.live) + len(self._spares) + self._starting
        if (
            not self.closed
            and len(self._spares) + self._sparing < self._settings.spare_clients
            and total < self._settings.max_live_clients
        ):
            self._sparing += 1
            self.spawn(self._add_spare())

    async def _add_spare(self) -> None:
        try:
            held = await self.start(None)
        except ClaudeError as error:
            logger.warning("No process could be started ahead: %s", error)
            return
        finally:
            self._sparing -= 1
        if self.closed:
            await self.retire(held)
        else:
            self._spares.append(held)

    def retire_idle(self) -> None:
        """Ends the processes that nobody has used for a while, or that are lost."""
        now = time.monotonic()
        for key, held in list(self.live.items()):
            idle = now - held.last >= self._settings.client_idle_timeout / 1000
            if not held.leased and (idle or not held.client.usable):
                del self.live[key]
                self.spawn(self.retire(held))

    async def close(self, bound: float) -> None:
        """Interrupts what runs, and ends every process, within `bound` seconds."""
        self.closed = True
        deadline, patience = time.monotonic() + bound, max(0.0, bound - CLOSE_SECONDS - 1)

        async def end(held: Held) -> None:
            if held.leased and patience:
                await held.client.interrupt(patience / 2)
            await held.client.close(min(CLOSE_SECONDS, patience))

        ending = [asyncio.create_task(end(held)) for held in [*self.live.values(), *self._spares]]
        if left := [*ending, *self._tasks]:
            await asyncio.wait(left, timeout=max(0.0, bound - _LAST_SECONDS))
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=max(0.0, deadline - time.monotonic()))
        self.live.clear()
        self._spares.clear()
        self._starter.close()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Work in the background, which `close` ends."""
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

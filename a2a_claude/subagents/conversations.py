"""What is remembered of the calls of a context: which conversation each remote has with it, and its tasks there.

It is kept with the sessions of Claude, as JSON in a row of its own, so that follow-ups find it after a restart. Tasks
have names of ours, `reviewer-1`: ids of a remote are its own choice, and one that Claude has made up, or heard from
another caller of this agent, must not lead to that caller's task.
"""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from typing import Any, Final

from a2a_claude.claude.session import SessionStore
from a2a_claude.subagents.calls import Call

logger = logging.getLogger(__name__)

_OWNER: Final = "a2a-subagents\x1f"
_MAX_TASKS: Final = 50
_MAX_CONVERSATIONS: Final = 1000
_LONGEST_ID: Final = 512
_MAX_KEPT: Final = 64 << 20
"""Bytes of answers in memory."""


class Conversation:
    """One context's. `contexts` are the contextIds of remotes by their names; `calls` those that this process began."""

    def __init__(self, stored: str = "") -> None:
        self.contexts: dict[str, str] = {}
        self._tasks: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._count, self.born = 0, _now()
        self.calls: dict[str, Call] = {}
        try:
            found = json.loads(stored or "{}")
            self.contexts = {str(name): str(each) for name, each in found.get("contexts", {}).items()}
            self._tasks.update({str(name): (str(each[0]), str(each[1])) for name, each in found.get("tasks", [])})
            self._count = int(found.get("count", 0))
            self.born = int(found.get("born", self.born))
        except (ValueError, TypeError, AttributeError, IndexError, KeyError):
            logger.warning("What was remembered of a context's sub-agents cannot be read, and is forgotten")

    def begin(self, call: Call) -> str:
        """The name of a new call's task."""
        self._count += 1
        name = f"{call.remote.name}-{self._count}"
        self.calls[name] = call
        self._tasks[name] = (call.remote.name, "")
        while len(self._tasks) > _MAX_TASKS:
            oldest, _ = self._tasks.popitem(last=False)
            if (forgotten := self.calls.pop(oldest, None)) is not None:
                forgotten.stop()
        return name

    def go_on(self, name: str, call: Call) -> str:
        """A task that is asked for, or answered, again keeps its name."""
        self.calls[name] = call
        return name

    def note(self, name: str, call: Call) -> bool:
        """Notes what is known of a call by now; whether that is news."""
        before = (self._tasks.get(name), self.contexts.get(call.remote.name))
        if name in self._tasks and len(call.task_id) <= _LONGEST_ID:
            self._tasks[name] = (call.remote.name, call.task_id)
        if call.sends and call.context_id and len(call.context_id) <= _LONGEST_ID:
            self.contexts[call.remote.name] = call.context_id
        return before != (self._tasks.get(name), self.contexts.get(call.remote.name))

    def find(self, name: str) -> tuple[str, str] | None:
        """The remote and its own id for a task, empty while it has not told one; None when there is no such task."""
        return self._tasks.get(name)

    def dump(self) -> str:
        """For the store."""
        kept: dict[str, Any] = {"contexts": self.contexts, "tasks": list(self._tasks.items()), "count": self._count}
        kept["born"] = self.born
        return json.dumps(kept)

    @property
    def runs(self) -> bool:
        """Whether a call has not come to rest."""
        return any(not call.rests for call in self.calls.values())

    def close(self) -> None:
        """Follows nothing any more."""
        for call in self.calls.values():
            call.stop()


class Conversations:
    """The conversations of all contexts. Without a store they are forgotten at the end."""

    def __init__(self, store: SessionStore | None, ttl: int) -> None:
        """`ttl`: milliseconds after which a conversation begins anew, as Claude's own does; 0 never."""
        self._store, self._ttl = store, ttl
        self._live: OrderedDict[tuple[str, str], Conversation] = OrderedDict()
        self._kept: OrderedDict[Call, tuple[Conversation, str]] = OrderedDict()

    def open(self, owner: str, context_id: str) -> Conversation:
        """The conversation of a principal's context."""
        key = (owner, context_id)
        found = self._live.pop(key, None)
        if found is None:
            row = self._store.session(context_id, _OWNER + owner) if self._store is not None else None
            found = Conversation(row.session_id if row is not None else "")
        if 0 < self._ttl <= _now() - found.born:
            found.close()
            found = Conversation()
        self._live[key] = found
        while len(self._live) > _MAX_CONVERSATIONS:
            old = next((each for each, kept in self._live.items() if not kept.runs and each != key), None)
            if old is None:
                break
            self._live.pop(old).close()
        return found

    def keep(self, conversation: Conversation, name: str, call: Call) -> None:
        """Keeps the answer of a call that rests; those of long ago make room, and are asked for again when wanted."""
        self._kept[call] = (conversation, name)
        self._kept.move_to_end(call)
        while sum(each.size for each in self._kept) > _MAX_KEPT and len(self._kept) > 1:
            old, (holder, named) = self._kept.popitem(last=False)
            if holder.calls.get(named) is old:
                del holder.calls[named]

    async def save(self, owner: str, context_id: str) -> None:
        """Keeps what has become of it; a store that fails is told by the server's readiness."""
        found = self._live.get((owner, context_id))
        if self._store is None or found is None:
            return
        try:
            await self._store.set_session(context_id, _OWNER + owner, found.dump())
        except Exception as error:  # noqa: BLE001
            logger.warning("What sub-agents were told could not be kept: %s", error)

    def close(self) -> None:
        """Follows nothing any more."""
        for each in self._live.values():
            each.close()
        self._live.clear()
        self._kept.clear()


def _now() -> int:
    return time.time_ns() // 1_000_000

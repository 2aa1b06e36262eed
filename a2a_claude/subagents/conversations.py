"""What is remembered of the calls of a context: which conversation each remote has with it, and its tasks there.

It is kept with the sessions of Claude, as JSON in a row of its own, so that follow-ups find it after a restart. Tasks
have names of ours, `reviewer-1`: ids of a remote are its own choice, and one that Claude has made up, or heard from
another caller of this agent, must not lead to that caller's task.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from typing import Any, Final

from a2a_claude.claude.session import SessionStore
from a2a_claude.subagents.calls import Call

logger = logging.getLogger(__name__)

_OWNER: Final = "a2a-subagents\x1f"
_MAX_TASKS: Final = 50
_MAX_CONVERSATIONS: Final = 1000
_LONGEST_ID: Final = 512


class Conversation:
    """One context's. `contexts` are the contextIds of remotes by their names; `calls` those that this process began."""

    def __init__(self, stored: str = "") -> None:
        self.contexts: dict[str, str] = {}
        self._tasks: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._count = 0
        self.calls: dict[str, Call] = {}
        try:
            found = json.loads(stored or "{}")
            self.contexts = {str(name): str(each) for name, each in found.get("contexts", {}).items()}
            self._tasks.update({str(name): (str(each[0]), str(each[1])) for name, each in found.get("tasks", [])})
            self._count = int(found.get("count", 0))
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

    def __init__(self, store: SessionStore | None) -> None:
        self._store = store
        self._live: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    def open(self, owner: str, context_id: str) -> Conversation:
        """The conversation of a principal's context."""
        key = (owner, context_id)
        found = self._live.pop(key, None)
        if found is None:
            row = self._store.session(context_id, _OWNER + owner) if self._store is not None else None
            found = Conversation(row.session_id if row is not None else "")
        self._live[key] = found
        for old in [each for each, kept in self._live.items() if not kept.runs][: -_MAX_CONVERSATIONS or None]:
            if len(self._live) > _MAX_CONVERSATIONS and old != key:
                self._live.pop(old).close()
        return found

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

"""`Tasks`: the unfinished tasks that are in memory because somebody works on them or listens to them."""

from __future__ import annotations

from collections.abc import Iterator

from a2a.utils.errors import TaskNotFoundError

from a2a_claude.a2a.live import LiveTask
from a2a_claude.a2a.subscribers import Subscriber
from a2a_claude.store import Store, TaskRow


class Tasks:
    """Whoever changes a task must do so through the one `LiveTask` that is kept here: `find` it, then `keep` it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, LiveTask] = {}

    def __iter__(self) -> Iterator[LiveTask]:
        """Those in memory; the set may change meanwhile."""
        return iter(list(self._kept.values()))

    def find(self, task_id: str, owner: str) -> LiveTask:
        """An owner's task, from memory or the store; TaskNotFoundError for any other."""
        live = self._kept.get(task_id)
        if live is not None and live.owner == owner:
            return live
        row = self._store.task(task_id)
        if row is None or row.owner != owner:
            raise TaskNotFoundError(f"Task {task_id} not found")
        return self.load(row)

    def load(self, row: TaskRow) -> LiveTask:
        """A task as the store has it."""
        artifacts, seq = self._store.artifacts(row)
        pushes = len(self._store.push_configs(row.key))
        return LiveTask(row._replace(seq=seq), artifacts, stored=True, pushes=pushes)

    def keep(self, live: LiveTask) -> None:
        """Keeps a task in memory until `release`."""
        self._kept[live.id] = live

    def kept(self, task_id: str) -> LiveTask | None:
        """A task that is in memory, whoever owns it."""
        return self._kept.get(task_id)

    def join(self, live: LiveTask, subscriber: Subscriber) -> None:
        """A stream follows a task from here on."""
        self.keep(live)
        live.subscribers.append(subscriber)

    def leave(self, live: LiveTask, subscriber: Subscriber) -> None:
        """A stream was closed; its task goes on."""
        subscriber.end()
        live.subscribers = [each for each in live.subscribers if each is not subscriber]
        self.release(live)

    def release(self, live: LiveTask) -> None:
        """Forgets a task that nobody works on or listens to any more; the store has it."""
        idle = not (live.turns or live.canceling or live.broken) and (live.terminal or not live.subscribers)
        if idle and (live.written is None or live.written.done()) and self._kept.get(live.id) is live:
            del self._kept[live.id]

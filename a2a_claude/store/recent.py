"""`Recent`: tasks as they were last read, so that who asks again is answered without SQLite."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from a2a_claude.store.rows import TaskRow

_BYTES: Final = 4 << 20
_OVERHEAD: Final = 1024  # bytes of an entry beside its documents


class Reading(NamedTuple):
    """A task as the store has it: its Task as ProtoJSON with `history` messages at most, its row, its last change."""

    json: bytes
    row: TaskRow
    seq: int
    history: int

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        return len(self.json) + len(self.row.status) + len(self.row.metadata) + _OVERHEAD


class Recent:
    """The tasks that were read last, each as it was asked for last, in `limit` bytes of memory at most.

    Whoever changes a task drops it, when the change is committed and before anybody is told.
    """

    def __init__(self, limit: int = _BYTES) -> None:
        self._limit = limit
        self._size = 0
        self._readings: OrderedDict[str, Reading] = OrderedDict()  # the one that was asked for last at the end
        self._ids: dict[int, str] = {}

    def find(self, task_id: str, history: int) -> Reading | None:
        """The task as it is, with so many messages of its history at most; None when the store has to be asked."""
        found = self._readings.get(task_id)
        if found is None or found.history != history:
            return None
        self._readings.move_to_end(task_id)
        return found

    def keep(self, reading: Reading) -> None:
        """What was just read, if there is room for it at all."""
        self.drop(reading.row.key)
        if reading.size > self._limit:
            return
        self._readings[reading.row.task_id] = reading
        self._ids[reading.row.key] = reading.row.task_id
        self._size += reading.size
        while self._size > self._limit:
            self.drop(next(iter(self._readings.values())).row.key)

    def drop(self, key: int) -> None:
        """Forgets the task with this key."""
        task_id = self._ids.pop(key, None)
        if task_id is not None:
            self._size -= self._readings.pop(task_id).size

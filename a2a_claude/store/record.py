"""`Record`: one committed thing as it goes over the wire, as ready ProtoJSON."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

Kind = Literal["task", "message", "statusUpdate", "artifactUpdate"]


@dataclass(frozen=True)
class Record:
    """A Task, Message or event: `kind` is its member name in a StreamResponse, `json` its ProtoJSON in A2A v1.0 shape.

    `last` is true on the record after which no other can follow for this task (it reached a terminal state).
    """

    kind: Kind
    json: bytes
    last: bool = False

    @property
    def wrapped(self) -> bytes:
        """The StreamResponse (or SendMessageResponse) that carries it: `{"task":…}`, `{"statusUpdate":…}`, …"""
        return b'{"%b":%b}' % (self.kind.encode(), self.json)

    @cached_property
    def proto(self) -> Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent:
        """The same as a protobuf message, parsed on first use. Shared by its readers: do not change it."""
        from a2a_claude.store.codec import decode

        return decode(self.kind, self.json)


@dataclass(frozen=True)
class EventRecord(Record):
    """A record of a stored task, as observers get it after its commit.

    `key` is the task's number in the store, `seq` counts the task's changes upwards (with gaps). `state` and `previous`
    are numbers of `TaskState`, equal when the event does not change it; `previous` is 0 for a new task. `pushes` tells
    whether the task has push configs at all, so that a sender need not look. Only streams whose request activated
    `extension` get it, if it has one. What is told `aside` is no change of the task: it is not stored, and its `seq` is
    that of the change before it.
    """

    key: int = 0
    seq: int = 0
    task_id: str = ""
    context_id: str = ""
    owner: str = ""
    state: int = 0
    previous: int = 0
    pushes: bool = False
    extension: str = ""
    aside: bool = False

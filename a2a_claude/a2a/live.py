"""`LiveTask`: an unfinished task in memory, and what each event changes in the store and tells the subscribers.

No waiting and no I/O happens here. An event is applied in one go, so the first terminal state wins: once `state` is
terminal, nothing changes it, although its commit may still be under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidAgentResponseError

from a2a_claude.a2a.ids import new_id
from a2a_claude.store import EventRecord, TaskRow, changes, codec
from a2a_claude.store.changes import Change
from a2a_claude.store.codec import STATE_NAMES, TERMINAL, dumps, loads
from a2a_claude.store.record import Kind

if TYPE_CHECKING:
    import asyncio

    from a2a_claude.a2a.subscribers import Subscriber
    from a2a_claude.a2a.turn import Turn


@dataclass(slots=True)
class Step:
    """What an event comes to: rows to commit, then records to hand out in this order."""

    changes: list[Change] = field(default_factory=list)
    records: list[EventRecord] = field(default_factory=list)

    def then(self, other: Step) -> Step:
        """Both, in one commit."""
        self.changes += other.changes
        self.records += other.records
        return self


class LiveTask:
    """`stored` is false until the task's rows have been handed to the store: until then nobody knows of it."""

    def __init__(self, row: TaskRow, artifacts: Iterable[tuple[int, bytes]] = (), *, stored: bool, pushes: int) -> None:
        self.key, self.id, self.context_id, self.owner = row.key, row.task_id, row.context_id, row.owner
        self.state, self.created, self.updated = row.state, row.created, row.updated
        self.pending, self.seq = row.pending, row.seq
        self.stored = stored
        self.pushes = pushes
        self.paused = False  # its turn waits for an answer
        self.broken = False  # the store refused a change of it
        self._status = row.status
        self._said = loads(row.status).get("message") if row.status else None
        self._metadata: dict[str, Any] = loads(row.metadata) if row.metadata else {}
        self._artifacts = {loads(head)["artifactId"]: (position, loads(head)) for position, head in artifacts}
        self._open: dict[str, None] = {}  # artifacts that have had no last chunk
        self._ids = b'{"taskId":%b,"contextId":%b' % (dumps(self.id), dumps(self.context_id))
        # What the engine keeps with a task.
        self.turns: list[Turn] = []
        self.running: Turn | None = None
        self.subscribers: list[Subscriber] = []
        self.canceling: asyncio.Task[None] | None = None
        self.written: asyncio.Future[None] | None = None
        self.undelivered: list[EventRecord] | None = None  # records of the last write, until they are handed out

    @classmethod
    def new(cls, key: int, context_id: str, owner: str, now: int) -> LiveTask:
        """A task that nobody knows of yet."""
        row = TaskRow(key, new_id(), context_id, owner, TaskState.TASK_STATE_SUBMITTED, b"", b"", 0, now, now, 0)
        return cls(row, stored=False, pushes=0)

    @property
    def terminal(self) -> bool:
        """Whether nothing can change it any more."""
        return self.state in TERMINAL

    def create(self, message: bytes, now: int, task: Task | None = None) -> Step:
        """Makes it known: `submitted` with the message (`document`) that it answers, or as the executor's `task` is.

        The row itself comes with `insert`, when everything that belongs to the same commit has been applied.
        """
        step = Step()
        if task is not None and task.status.state:
            self._status, self._said = self._encode_status(task.status, now)
            self.state = task.status.state
        else:
            self._status = dumps({"state": STATE_NAMES[self.state], "timestamp": codec.timestamp(now)})
        self.updated = now
        if task is not None and task.HasField("metadata"):
            self._metadata = codec.struct(task.metadata)
        documents = [message]
        if task is not None and task.history:
            known = loads(message)["messageId"]
            documents += [self.document(each) for each in task.history if each.message_id != known]
        step.changes += [changes.add_message(self.key, self._next(), each) for each in documents]
        pieces = []
        for artifact in task.artifacts if task is not None else ():
            parts = codec.parts(artifact.parts)
            step.changes += self._put_artifact(artifact, parts)
            pieces.append(codec.artifact(dumps(codec.artifact_head(artifact)), [parts]))
        metadata = dumps(self._metadata) if self._metadata else b""
        json = codec.task(self.id, self.context_id, self._status, pieces, documents, metadata)
        step.records.append(self._record("task", json, previous=0))
        return step

    def document(self, message: Message) -> bytes:
        """A message of this task as it is stored; ValueError when JSON cannot say it."""
        return dumps(self._message(message))

    def accept(self, message: bytes, *, waits: bool = True) -> Step:
        """A further message of the user (`document`): it joins the history, after what the agent said last.

        `waits` for a turn of its own.
        """
        step = Step(self._move_said())
        status = loads(self._status)
        status.pop("message", None)
        self._status = dumps(status)
        self.pending += waits
        step.changes.append(changes.add_message(self.key, self._next(), message))
        step.changes.append(self._set_status())
        return step

    def settle(self, *, wordless: bool) -> Step:
        """A turn is over: nothing is paused, and if it was `wordless` its message no longer waits."""
        self.pending -= wordless
        self.paused = False
        return Step([changes.set_pending(self.key, self._unsettled)])

    def set_status(
        self, event: TaskStatusUpdateEvent | Task, now: int, *, first_word: bool, paused: bool = False
    ) -> Step:
        """A new status; `first_word` when it is the first of a follow-up's turn. Its metadata joins the task's.

        `paused`: the turn goes on when it is answered, so that a restart has to fail the task.
        """
        status = event.status
        metadata = codec.struct(event.metadata) if event.HasField("metadata") else None
        updated = max(now, self.updated)
        encoded, said = self._encode_status(status, updated)
        step = Step(self._move_said())
        previous, self.state, self.updated = self.state, status.state, updated
        self._status, self._said = encoded, said
        if metadata:
            self._metadata.update(metadata)
        self.pending = 0 if self.terminal else self.pending - first_word
        self.paused = paused
        change = self._set_status()
        if self.stored:
            step.changes.append(change)
        tail = b',"metadata":%b}' % dumps(metadata) if metadata else b"}"
        json = b'%b,"status":%b%b' % (self._ids, self._status, tail)
        step.records.append(self._record("statusUpdate", json, previous=previous))
        return step

    def add_artifact(self, event: TaskArtifactUpdateEvent, *, extension: str = "") -> Step:
        """A new artifact, its replacement, or more parts of it.

        `append` to an artifact that does not exist makes it: clients are told the same (`append` is left out), since
        they would drop the chunk. Only streams that activated `extension` are told.
        """
        artifact = event.artifact
        append = event.append and artifact.artifact_id in self._artifacts
        json, parts = self._artifact_update(event, append=append)
        rows = self._append(artifact, parts) if append else self._put_artifact(artifact, parts)
        self._open.pop(artifact.artifact_id, None)
        if not event.last_chunk:
            self._open[artifact.artifact_id] = None
        return Step(rows, [self._record("artifactUpdate", json, previous=self.state, extension=extension)])

    def close_artifacts(self) -> Step:
        """Tells streams that no more comes of the artifacts that are open; what the task keeps of them stays."""
        step = Step()
        for name in self._open:
            artifact = Artifact(artifact_id=name, name=self._artifacts[name][1].get("name", ""), parts=[Part(text="")])
            json, _ = self._artifact_update(TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True), append=True)
            self._next()
            step.records.append(self._record("artifactUpdate", json, previous=self.state))
        self._open.clear()
        return step

    def aside(self, event: TaskArtifactUpdateEvent, *, extension: str) -> EventRecord:
        """An artifact that streams are told of, those that activated `extension`, and that the task does not keep."""
        json, _ = self._artifact_update(event, append=event.append)
        return self._record("artifactUpdate", json, previous=self.state, extension=extension, aside=True)

    def _artifact_update(self, event: TaskArtifactUpdateEvent, *, append: bool) -> tuple[bytes, bytes]:
        artifact = event.artifact
        if not artifact.artifact_id:
            raise InvalidAgentResponseError("An artifact needs an artifactId")
        parts = codec.parts(artifact.parts)
        json = b'%b,"artifact":%b%b%b%b}' % (
            self._ids,
            codec.artifact(dumps(codec.artifact_head(artifact)), [parts]),
            b',"append":true' if append else b"",
            b',"lastChunk":true' if event.last_chunk else b"",
            b',"metadata":%b' % dumps(codec.struct(event.metadata)) if event.HasField("metadata") else b"",
        )
        return json, parts

    def _append(self, artifact: Artifact, parts: bytes) -> list[Change]:
        position, head = self._artifacts[artifact.artifact_id]
        rows = [changes.append_parts(self.key, position, self._next(), parts)]
        if artifact.HasField("metadata"):
            head.setdefault("metadata", {}).update(codec.struct(artifact.metadata))
            rows.append(changes.put_artifact(self.key, position, dumps(head)))
        return rows

    def _put_artifact(self, artifact: Artifact, parts: bytes) -> list[Change]:
        known = self._artifacts.get(artifact.artifact_id)
        position = known[0] if known else len(self._artifacts)
        head = codec.artifact_head(artifact)
        self._artifacts[artifact.artifact_id] = (position, head)
        rows = [changes.clear_parts(self.key, position)] if known else []
        rows.append(changes.put_artifact(self.key, position, dumps(head)))
        rows.append(changes.append_parts(self.key, position, self._next(), parts))
        return rows

    def _encode_status(self, status: TaskStatus, now: int) -> tuple[bytes, dict[str, Any] | None]:
        name = STATE_NAMES.get(status.state)
        if not name or not status.state:
            raise InvalidAgentResponseError("A status needs a state")
        content: dict[str, Any] = {"state": name}
        said = self._message(status.message) if status.HasField("message") else None
        if said:
            content["message"] = said
        content["timestamp"] = codec.timestamp(now)
        return dumps(content), said

    def _message(self, message: Message) -> dict[str, Any]:
        content = codec.message(message, task_id=self.id, context_id=self.context_id)
        if not message.message_id:
            content["messageId"] = new_id()
        if not message.role:
            content["role"] = "ROLE_AGENT"
        return content

    def _move_said(self) -> list[Change]:
        """The status message that is about to be replaced becomes part of the history."""
        said, self._said = self._said, None
        return [changes.add_message(self.key, self._next(), dumps(said))] if said else []

    def _set_status(self) -> Change:
        metadata = dumps(self._metadata) if self._metadata else b""
        return changes.set_status(
            self.key, self.state, self._status, metadata, self._unsettled, self.updated, self._next()
        )

    @property
    def _unsettled(self) -> int:
        return self.pending + self.paused

    def insert(self) -> Change:
        """The row of a task that had none."""
        self.stored = True
        metadata = dumps(self._metadata) if self._metadata else b""
        row = TaskRow(
            self.key,
            self.id,
            self.context_id,
            self.owner,
            self.state,
            self._status,
            metadata,
            self._unsettled,
            self.created,
            self.updated,
            self.seq,
        )
        return changes.create_task(row)

    def _next(self) -> int:
        self.seq += 1
        return self.seq

    def _record(
        self, kind: Kind, json: bytes, *, previous: int, extension: str = "", aside: bool = False
    ) -> EventRecord:
        return EventRecord(
            kind,
            json,
            self.terminal,
            self.key,
            self.seq,
            self.id,
            self.context_id,
            self.owner,
            self.state,
            previous,
            self.pushes > 0,
            extension,
            aside,
        )

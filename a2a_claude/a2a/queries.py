"""What is asked about stored tasks: GetTask and ListTasks, and the numbers in their parameters."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Protocol

from a2a.types.a2a_pb2 import GetTaskRequest, ListTasksRequest, TaskState
from a2a.utils.errors import TaskNotFoundError

from a2a_claude.a2a.errors import invalid_params
from a2a_claude.store import EventRecord, Record, Store, codec
from a2a_claude.store.rows import Filter

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


class _WithHistoryLength(Protocol):
    history_length: int

    def HasField(self, field_name: str) -> bool: ...  # noqa: N802 (protobuf's name)


class Queries:
    """Answers from the store. `history_limit` caps every history and is the default where a request names no length."""

    def __init__(self, store: Store, history_limit: int) -> None:
        self._store = store
        self.history_limit = history_limit

    def history(self, params: _WithHistoryLength, field: str = "historyLength") -> int:
        """How many messages of history a request gets; InvalidParamsError for a negative number."""
        if not params.HasField("history_length"):
            return self.history_limit
        if params.history_length < 0:
            raise invalid_params((field, "must be 0 or more"))
        return min(params.history_length, self.history_limit)

    def get(self, params: GetTaskRequest, owner: str) -> Record:
        """The task; TaskNotFoundError when the owner has no such."""
        return self.snapshot(params.id, owner, self.history(params))

    def snapshot(self, task_id: str, owner: str, history: int) -> EventRecord:
        """The task as it is now, with the number of its last change; TaskNotFoundError when the owner has no such."""
        found = self._store.task_json(task_id, owner, history)
        if found is None:
            raise TaskNotFoundError(f"Task {task_id} not found")
        json, row, seq, _ = found
        last = row.state in codec.TERMINAL
        return EventRecord("task", json, last, row.key, seq, row.task_id, row.context_id, owner, row.state, row.state)

    async def list(self, params: ListTasksRequest, owner: str) -> bytes:
        """The ListTasksResponse as ProtoJSON, every member present."""
        size = DEFAULT_PAGE_SIZE
        if params.HasField("page_size"):
            size = params.page_size
            if not 1 <= size <= MAX_PAGE_SIZE:
                raise invalid_params(("pageSize", f"must be from 1 to {MAX_PAGE_SIZE}"))
        if params.status not in TaskState.values():
            raise invalid_params(("status", f"{params.status} is no TaskState"))
        after = 0
        if params.HasField("status_timestamp_after"):
            moment = params.status_timestamp_after
            # Rounded up: a task of the millisecond that contains the moment is older than it.
            after = moment.seconds * 1000 + -(-moment.nanos // 1_000_000)
        page = await self._store.page(
            Filter(
                owner=owner,
                context_id=params.context_id,
                state=params.status,
                after=after,
                before=_read_token(params.page_token) if params.page_token else None,
                limit=size,
                history=self.history(params),
                artifacts=params.include_artifacts,
            )
        )
        token = _write_token(page.next) if page.next else ""
        return b'{"tasks":[%b],"nextPageToken":"%b","pageSize":%d,"totalSize":%d}' % (
            b",".join(page.tasks),
            token.encode(),
            size,
            page.total,
        )


def last_messages(record: Record, history: int) -> Record:
    """A `task` record with the last `history` messages at most."""
    if record.kind != "task":
        return record
    task = codec.loads(record.json)
    messages = task.get("history", [])
    if len(messages) <= history:
        return record
    task["history"] = messages[len(messages) - history :]
    if not history:
        del task["history"]
    return Record("task", codec.dumps(task), record.last)


def _write_token(place: tuple[int, int]) -> str:
    return urlsafe_b64encode(b"%d.%d" % place).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, int]:
    try:
        updated, key = (int(each) for each in urlsafe_b64decode(token + "=" * (-len(token) % 4)).split(b"."))
    except ValueError:
        updated = key = -1
    # Only what this server wrote: no other spelling of the same place, no number that SQLite cannot take.
    if not (0 <= updated < 2**62 and 0 <= key < 2**62) or _write_token((updated, key)) != token:
        raise invalid_params(("pageToken", "is none that this server gave out"))
    return updated, key

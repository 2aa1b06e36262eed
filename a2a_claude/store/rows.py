"""The rows of the store as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TaskRow(NamedTuple):
    """A task without its history and artifacts.

    `status` is the ProtoJSON of its TaskStatus, `metadata` that of its Struct (empty when it has none). `state` is a
    number of `TaskState`, `created` and `updated` (the status timestamp) are milliseconds since 1970. `pending` counts
    the messages that were accepted and whose turn has not said anything yet. `seq` counts the task's changes.
    """

    key: int
    task_id: str
    context_id: str
    owner: str
    state: int
    status: bytes
    metadata: bytes
    pending: int
    created: int
    updated: int
    seq: int


@dataclass(frozen=True, slots=True)
class PushConfig:
    """A webhook of a task.

    `json` is its TaskPushNotificationConfig as v1.0 ProtoJSON, `version` the protocol it was registered in ("1.0" or
    "0.3"), which is the protocol it is notified in.
    """

    task_id: str
    id: str
    version: str
    json: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """Which Claude session continues a principal's context; times in milliseconds since 1970."""

    context_id: str
    owner: str
    session_id: str
    created: int
    accessed: int


@dataclass(frozen=True, slots=True)
class Filter:
    """What ListTasks asks for; `after` and `before` are milliseconds, `before` with the key of the last task seen."""

    owner: str
    context_id: str = ""
    state: int = 0
    after: int = 0
    before: tuple[int, int] | None = None
    limit: int = 50
    history: int = 0
    artifacts: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Tasks as ProtoJSON, where the next page starts (None at the end), and how many match in all."""

    tasks: list[bytes]
    next: tuple[int, int] | None
    total: int

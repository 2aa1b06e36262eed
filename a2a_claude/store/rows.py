"""The rows of the store as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TaskRow(NamedTuple):
    """A task without its history and artifacts. `status` is the ProtoJSON of its TaskStatus, `metadata` of its Struct (or empty).

    `state` is a number of `TaskState`, `updated` and `created` are milliseconds since 1970, `pending` counts
    messages that were accepted and whose turn has not said anything yet.
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
    """A webhook of a task: `json` is its TaskPushNotificationConfig as v1.0 ProtoJSON, `version` the protocol it was registered in ("1.0" or "0.3")."""

    task_id: str
    id: str
    version: str
    json: bytes


@dataclass(frozen=True, slots=True)
class Session:
    """Which Claude session continues a context; times in milliseconds since 1970."""

    context_id: str
    owner: str
    session_id: str
    created: int
    accessed: int

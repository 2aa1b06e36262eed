"""Protobuf to ProtoJSON for the messages on the hot path, and back.

`google.protobuf.json_format` writes a status event in about 25 µs; these functions write the same JSON in a few. They
follow its rules (protobuf.dev/programming-guides/json): camelCase, fields without presence left out when empty, bytes
in base64, whole numbers of a Struct without a fraction. Tests compare both on generated messages.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value

from a2a_claude.store.record import Kind

dumps = orjson.dumps
loads = orjson.loads

STATE_NAMES: dict[int, str] = {number: name for name, number in TaskState.items()}
TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})

_ROLE_NAMES: dict[int, str] = {number: name for name, number in Role.items()}
_TYPES: dict[Kind, type[Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent]] = {
    "task": Task,
    "message": Message,
    "statusUpdate": TaskStatusUpdateEvent,
    "artifactUpdate": TaskArtifactUpdateEvent,
}
# Beyond it a double no longer holds every whole number, and orjson writes integers of 64 bits only.
_EXACT = 2.0**53


def decode(kind: Kind, json: bytes) -> Task | Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent:
    """The protobuf message that a record's JSON stands for."""
    return ParseDict(loads(json), _TYPES[kind](), ignore_unknown_fields=True)


def decode_push_config(json: bytes) -> TaskPushNotificationConfig:
    """A stored push config as protobuf."""
    return ParseDict(loads(json), TaskPushNotificationConfig(), ignore_unknown_fields=True)


def encode_push_config(config: TaskPushNotificationConfig) -> bytes:
    """A push config as v1.0 ProtoJSON; always with its id and taskId."""
    content: dict[str, Any] = {"id": config.id, "taskId": config.task_id, "url": config.url}
    if config.tenant:
        content["tenant"] = config.tenant
    if config.token:
        content["token"] = config.token
    if config.HasField("authentication"):
        content["authentication"] = {"scheme": config.authentication.scheme}
        if config.authentication.credentials:
            content["authentication"]["credentials"] = config.authentication.credentials
    return dumps(content)


def timestamp(milliseconds: int) -> str:
    """Milliseconds since 1970 as the spec's UTC timestamp (5.6.1), always with three digits of a fraction."""
    return f"{_second(milliseconds // 1000)}.{milliseconds % 1000:03d}Z"


@lru_cache(4)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def value(item: Value) -> Any:
    """A Struct's value as plain data; ValueError for NaN and infinities, which JSON cannot say."""
    match item.WhichOneof("kind"):
        case "string_value":
            return item.string_value
        case "number_value":
            return _number(item.number_value)
        case "bool_value":
            return item.bool_value
        case "struct_value":
            return struct(item.struct_value)
        case "list_value":
            return [value(each) for each in item.list_value.values]
    return None


def struct(item: Struct) -> dict[str, Any]:
    """A Struct as plain data."""
    return {key: value(each) for key, each in item.fields.items()}


def _number(number: float) -> int | float:
    if not math.isfinite(number):
        raise ValueError(f"{number} has no JSON form")
    return int(number) if number.is_integer() and -_EXACT <= number <= _EXACT else number


def part(item: Part) -> dict[str, Any]:
    """One Part as plain data."""
    content: dict[str, Any] = {}
    match item.WhichOneof("content"):
        case "text":
            content["text"] = item.text
        case "raw":
            content["raw"] = b64encode(item.raw).decode()
        case "url":
            content["url"] = item.url
        case "data":
            content["data"] = value(item.data)
    if item.HasField("metadata"):
        content["metadata"] = struct(item.metadata)
    if item.filename:
        content["filename"] = item.filename
    if item.media_type:
        content["mediaType"] = item.media_type
    return content


def parts(items: Iterable[Part]) -> bytes:
    """Parts as JSON objects with commas between them, without brackets: pieces of a list that are joined later."""
    return dumps([part(each) for each in items])[1:-1]


def message(item: Message, *, task_id: str, context_id: str) -> dict[str, Any]:
    """A Message as plain data, with the ids of the task it belongs to (empty: its own)."""
    content: dict[str, Any] = {"messageId": item.message_id}
    if context_id or item.context_id:
        content["contextId"] = context_id or item.context_id
    if task_id or item.task_id:
        content["taskId"] = task_id or item.task_id
    if item.role:
        content["role"] = _ROLE_NAMES[item.role]
    content["parts"] = [part(each) for each in item.parts]
    if item.HasField("metadata"):
        content["metadata"] = struct(item.metadata)
    if item.extensions:
        content["extensions"] = list(item.extensions)
    if item.reference_task_ids:
        content["referenceTaskIds"] = list(item.reference_task_ids)
    return content


def artifact_head(item: Artifact) -> dict[str, Any]:
    """An Artifact as plain data without its parts."""
    head: dict[str, Any] = {"artifactId": item.artifact_id}
    if item.name:
        head["name"] = item.name
    if item.description:
        head["description"] = item.description
    if item.HasField("metadata"):
        head["metadata"] = struct(item.metadata)
    if item.extensions:
        head["extensions"] = list(item.extensions)
    return head


def artifact(head: bytes, pieces: Iterable[bytes]) -> bytes:
    """An Artifact from its head and the pieces of its parts."""
    return b'%b,"parts":[%b]}' % (head[:-1], b",".join(piece for piece in pieces if piece))


def task(
    task_id: str, context_id: str, status: bytes, artifacts: list[bytes], history: list[bytes], metadata: bytes
) -> bytes:
    """A Task from its pieces; empty ones are left out, as ProtoJSON does."""
    pieces = [b'{"id":%b,"contextId":%b,"status":%b' % (dumps(task_id), dumps(context_id), status)]
    if artifacts:
        pieces.append(b',"artifacts":[%b]' % b",".join(artifacts))
    if history:
        pieces.append(b',"history":[%b]' % b",".join(history))
    if metadata:
        pieces.append(b',"metadata":%b' % metadata)
    pieces.append(b"}")
    return b"".join(pieces)

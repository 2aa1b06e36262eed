"""What a frame of the CLI means for the turn, and what a turn says as A2A events.

Only what Claude itself says counts: frames of a sub-agent (`parent_tool_use_id`) mean nothing here. What is not known
means nothing either, and never breaks a turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Message, Part, Role, Task, TaskState, TaskStatus, TaskStatusUpdateEvent

from a2a_claude.claude.json_values import sendable, whole
from a2a_claude.claude.results import Failure
from a2a_claude.claude.session import Frame

WORKING_TEXT: Final = "Processing request..."
_SYNTHETIC: Final = "<synthetic>"  # the model of messages that the CLI makes itself, about errors
# How the CLI asks the model to go on with a message that was cut: at the bound of its output, or with its stream.
_RESUME: Final = "Resume directly"


@dataclass(frozen=True, slots=True)
class Opened:
    """A round begins; `missing` are the MCP servers that it does without, and why."""

    missing: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Began:
    """A streamed message of the model begins."""

    id: str


@dataclass(frozen=True, slots=True)
class Delta:
    """More text; `block` is the number of the block that it begins."""

    text: str
    block: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """The streamed message has its end."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The stream broke: of the message, the blocks from this one on do not count."""

    block: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The model is asked to go on where its last message was cut."""


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the model, or a block of it, whole; `error` when it is about a failure instead."""

    id: str
    texts: tuple[str, ...]
    model: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class Limit:
    """A `rate_limit_event`'s info, or with `retries` what an `api_retry` says."""

    data: Any
    retries: bool = False


@dataclass(frozen=True, slots=True)
class BackgroundChanged:
    """The whole set of background tasks."""

    tasks: Any


@dataclass(frozen=True, slots=True)
class Refused:
    """The model's safety system declined, and no other model takes over."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a round."""

    frame: Frame


Meaning = Opened | Began | Delta | Finished | Abandoned | Resumed | Said | Limit | BackgroundChanged | Refused | Ended


def meaning(frame: Frame) -> Meaning | None:
    """What a frame means; None when it means nothing to the turn."""
    if frame.get("parent_tool_use_id"):
        return None
    match frame.get("type"):
        case "stream_event":
            return _event(frame, _mapping(frame.get("event")))
        case "assistant":
            return _said(frame)
        case "user" if frame.get("isSynthetic"):
            return Resumed() if any(_RESUME in text for text in _texts(frame)) else None
        case "rate_limit_event":
            return Limit(frame.get("rate_limit_info"))
        case "result":
            return Ended(frame)
        case "system":
            match frame.get("subtype"):
                case "init":
                    return Opened(_missing(frame.get("mcp_servers")))
                case "api_retry":
                    return Limit(frame, retries=True)
                case "background_tasks_changed":
                    return BackgroundChanged(frame.get("tasks"))
                case "model_refusal_no_fallback":
                    return Refused()
    return None


def _event(frame: Frame, event: Mapping[str, Any]) -> Meaning | None:
    match event.get("type"):
        case "message_start":
            return Began(str(_mapping(event.get("message")).get("id") or ""))
        case "content_block_start":
            block = _mapping(event.get("content_block"))
            return (
                Delta(str(block.get("text") or ""), _number(event.get("index")))
                if block.get("type") == "text"
                else None
            )
        case "content_block_delta":
            delta = _mapping(event.get("delta"))
            text = delta.get("text")
            return Delta(text) if delta.get("type") == "text_delta" and isinstance(text, str) else None
        case "message_delta":
            return Finished() if _mapping(event.get("delta")).get("stop_reason") else None
        case "message_stop":
            abandoned = frame.get("abandoned_blocks")
            return Abandoned(_number(_mapping(abandoned).get("from_block_index"))) if abandoned else None
    return None


def _said(frame: Frame) -> Said:
    message = _mapping(frame.get("message"))
    model, error = message.get("model"), frame.get("error")
    made_up = model == _SYNTHETIC
    return Said(
        str(message.get("id") or ""),
        () if made_up else _texts(frame),
        model if isinstance(model, str) and not made_up else None,
        error if isinstance(error, str) else None,
    )


def _texts(frame: Frame) -> tuple[str, ...]:
    content = _mapping(frame.get("message")).get("content")
    blocks = content if isinstance(content, list) else []
    return tuple(
        each["text"]
        for each in blocks
        if isinstance(each, dict) and each.get("type") == "text" and isinstance(each.get("text"), str)
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _missing(servers: object) -> tuple[tuple[str, str], ...]:
    listed = [_mapping(each) for each in servers] if isinstance(servers, list) else []
    seen = [(str(each.get("name")), str(each.get("status"))) for each in listed]
    # Nobody turns a server off but `mcp_servers`, when it is late.
    return tuple((name, "timeout" if how == "disabled" else how) for name, how in seen if how != "connected")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# A2A events


def submitted(task_id: str, context_id: str) -> Task:
    """A new task."""
    return Task(id=task_id, context_id=context_id, status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))


def status(state: TaskState, text: str = "", metadata: Mapping[str, Any] | None = None) -> TaskStatusUpdateEvent:
    """A status with `text` from the agent, and `metadata`; both may have words of a model in them."""
    event = TaskStatusUpdateEvent(status=TaskStatus(state=state))
    if text:
        message = Message(message_id=str(uuid4()), role=Role.ROLE_AGENT, parts=[Part(text=whole(text))])
        event.status.message.CopyFrom(message)
    if metadata:
        event.metadata.update(sendable(dict(metadata)))
    return event


def working(text: str = WORKING_TEXT, metadata: Mapping[str, Any] | None = None) -> TaskStatusUpdateEvent:
    """`working`."""
    return status(TaskState.TASK_STATE_WORKING, text, metadata)


def ended(failure: Failure | None, metadata: Mapping[str, Any]) -> TaskStatusUpdateEvent:
    """`completed`, or `failed` with the failure's reason in the metadata of the event and of its message."""
    if failure is None:
        return status(TaskState.TASK_STATE_COMPLETED, metadata=metadata)
    told = {**metadata, **failure.details, "reason": failure.reason}
    event = status(TaskState.TASK_STATE_FAILED, failure.text, told)
    event.status.message.metadata["reason"] = failure.reason
    return event


def canceled(metadata: Mapping[str, Any]) -> TaskStatusUpdateEvent:
    """`canceled`."""
    return status(TaskState.TASK_STATE_CANCELED, metadata=metadata)

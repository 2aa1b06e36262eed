"""What Claude gets of a call: `subAgents.options.responseMode`, bounded, and what to do next where something is.

| mode | completed task |
|---|---|
| `artifact` | its artifacts' parts: text, data as JSON, files as files |
| `compact` | their text alone, cut at 2,000 characters |
| `structured` | one JSON object: agent, task, state, text, artifacts; files as files beside it |
| `raw` | the task or message as ProtoJSON, bytes of files left out |
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any, Final, Literal

from a2a.types.a2a_pb2 import Message, Part, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict, SerializeToJsonError

from a2a_claude.claude.content import plain
from a2a_claude.claude.delegates import Answer
from a2a_claude.subagents.calls import ENDED, Call, spoken, state_name

Mode = Literal["structured", "compact", "artifact", "raw"]

MAX_TEXT: Final = 60_000
"""Characters that Claude gets at once, about 15,000 tokens."""
_COMPACT: Final = 2000
_MAX_FILES: Final = 20
_BAD: Final = frozenset((TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED))


def error(text: str) -> Answer:
    """An answer that is an error."""
    return Answer((Part(text=text),), failed=True)


def answer(call: Call, name: str, mode: Mode, offset: int = 0) -> Answer:
    """What a call that rests has come to. `name` is the task's for Claude; `offset` goes on in a long text."""
    try:
        return _answer(call, name, mode, offset)
    except (SerializeToJsonError, ValueError):  # protobuf takes NaN, JSON does not
        return error(f"What the agent {call.remote.name} has answered is not JSON. Its task is {name}.")


def _answer(call: Call, name: str, mode: Mode, offset: int) -> Answer:
    agent = call.remote.name
    if call.failure:
        known = f" Its task is {name}." if call.task_id else ""
        return error(f"The agent {agent} could not be asked: {call.failure}.{known}")
    if call.answer is not None:
        return _cut(_shown(call, name, mode), name, offset, failed=False)
    match call.state:
        case TaskState.TASK_STATE_INPUT_REQUIRED:
            said = spoken(call.said.parts) if call.said else ""
            todo = f'Answer it by calling a tool of this agent again with task_id "{name}", or ask your own caller.'
            return _cut((f"The agent {agent} waits for input: {said}\n\n{todo}", ()), name, offset, failed=False)
        case TaskState.TASK_STATE_AUTH_REQUIRED:
            said = spoken(call.said.parts) if call.said else ""
            todo = f'Only a person can do that. When it is done, call a tool of this agent with task_id "{name}".'
            return _cut((f"The agent {agent} waits for an authorisation: {said}\n\n{todo}", ()), name, offset, False)
        case state if state in _BAD:
            said = spoken(call.said.parts) if call.said else ""
            head = f"The task {name} of the agent {agent} has ended as {state_name(state)}."
            text, files = _shown(call, name, mode) if call.artifacts else ("", ())
            return _cut(("\n\n".join(filter(None, (head, said, text))), files), name, offset, failed=True)
    return _cut(_shown(call, name, mode), name, offset, failed=False)


def running(call: Call, name: str) -> Answer:
    """What is told of a call that goes on."""
    state = f"is {state_name(call.state)}" if call.state else "has not answered yet"
    said = spoken(call.said.parts) if call.said else ""
    latest = f" It says: {said[:1000]}" if said.strip() else ""
    return Answer(
        (
            Part(
                text=f"The task {name} of the agent {call.remote.name} {state} and goes on.{latest}\n"
                f'task_result with task_id "{name}" waits for its answer; do something else meanwhile if you can.'
            ),
        )
    )


def status(call: Call, name: str) -> Answer:
    """Where a task is."""
    if not call.rests:
        return running(call, name)
    if call.failure:
        return answer(call, name, "compact")
    state = state_name(call.state) if call.state else "completed"
    said = spoken(call.said.parts) if call.said else ""
    more = f" It says: {said[:1000]}" if said.strip() else ""
    over = call.state in ENDED or call.answer is not None
    todo = f'\ntask_result with task_id "{name}" gives its answer.' if over else ""
    return Answer((Part(text=f"The task {name} of the agent {call.remote.name} is {state}.{more}{todo}"),))


def _shown(call: Call, name: str, mode: Mode) -> tuple[str, tuple[Part, ...]]:
    """The text and the files of an answer."""
    parts = [part for artifact in call.artifacts.values() for part in artifact.parts]
    if call.answer is not None:
        parts = list(call.answer.parts)
    elif not parts and call.said is not None:
        parts = list(call.said.parts)
    left = "\n\n[The rest of the answer was too large, and was left out.]" if call.cut else ""
    files = tuple(part for part in parts if part.HasField("raw"))
    if len(files) > _MAX_FILES:
        left += f"\n\n[{len(files) - _MAX_FILES} of {len(files)} files were left out.]"
        files = files[:_MAX_FILES]
    match mode:
        case "artifact":
            return _text(parts) + left, files
        case "compact":
            text = _text(parts)
            return (text if len(text) <= _COMPACT else text[: _COMPACT - 2] + " …") + left, ()
        case "structured":
            return _json(_structured(call, name, parts)) + left, files
    return _json(_raw(call)) + left, ()


def _text(parts: Iterable[Part]) -> str:
    """Text parts side by side are one text, as the chunks of a stream are."""
    kinds = itertools.groupby(parts, lambda part: part.HasField("text"))
    pieces = [["".join(each.text for each in group)] if texts else list(map(_one, group)) for texts, group in kinds]
    return "\n\n".join(filter(None, itertools.chain.from_iterable(pieces)))


def _one(part: Part) -> str:
    match part.WhichOneof("content"):
        case "data":
            return _json(plain(MessageToDict(part.data)))
        case "url":
            kind = f" ({part.media_type})" if part.media_type else ""
            return f"[The file {part.filename or 'of the answer'}{kind} is at {part.url}]"
    return ""


def _structured(call: Call, name: str, parts: list[Part]) -> dict[str, Any]:
    return {
        "agent": call.remote.name,
        "taskId": name,
        "state": state_name(call.state) if call.state else "completed",
        "text": spoken(parts),
        "artifacts": [
            {"name": each.name, "description": each.description, "parts": [_part(part) for part in each.parts]}
            for each in call.artifacts.values()
        ],
    }


def _raw(call: Call) -> dict[str, Any]:
    if call.answer is not None:
        return _without_bytes(call.answer)
    status = TaskStatus(state=call.state)  # type: ignore[arg-type]
    if call.said is not None:
        status.message.CopyFrom(call.said)
    return _without_bytes(
        Task(id=call.task_id, context_id=call.context_id, status=status, artifacts=call.artifacts.values())
    )


def _without_bytes(found: Task | Message) -> dict[str, Any]:
    copy = type(found)()
    copy.CopyFrom(found)  # type: ignore[arg-type]
    holders: list[Any] = [copy.status.message, *copy.artifacts] if isinstance(copy, Task) else [copy]
    for holder in holders:
        for part in holder.parts:
            if part.HasField("raw"):
                part.text = f"[{len(part.raw)} bytes]"
    shown: dict[str, Any] = plain(MessageToDict(copy))
    return shown


def _part(part: Part) -> dict[str, Any]:
    match part.WhichOneof("content"):
        case "text":
            return {"text": part.text}
        case "data":
            return {"data": plain(MessageToDict(part.data))}
        case "url":
            return {"url": part.url, "filename": part.filename, "mediaType": part.media_type}
    return {"filename": part.filename, "mediaType": part.media_type, "bytes": len(part.raw)}


def _cut(found: tuple[str, tuple[Part, ...]], name: str, offset: int, failed: bool) -> Answer:
    text, files = found
    end = offset + MAX_TEXT
    piece = text[offset:end] or ("(There is nothing more.)" if offset else "(The agent has answered without a text.)")
    if end < len(text):
        piece += f'\n\n[{end} of {len(text)} characters. task_result with task_id "{name}" and offset {end} goes on.]'
    return Answer((Part(text=piece), *(files if offset == 0 else ())), failed)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)

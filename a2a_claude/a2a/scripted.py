"""`Scripted`: an executor without Claude, for trying the server and for protocol tests.

A message that says nothing special is answered at once: `completed`, with its text sent back. Two things change that.

**The messageId.** The public conformance kits (a2aproject/a2a-tck) choose a behaviour by its prefix:

| prefix | behaviour |
|---|---|
| `tck-complete-task` | completed, "Hello from TCK"; also for a follow-up |
| `tck-artifact-text`, `-file`, `-file-url`, `-data` | completed with such an artifact |
| `tck-message-response` | a bare Message, no task |
| `tck-input-required` | input-required |
| `tck-reject-task` | rejected |
| `tck-stream-001`, `-003`, `tck-stream-ordering-001` | working, a text artifact, completed |
| `tck-stream-002` | working, completed |
| `tck-stream-artifact-text`, `-file` | working, such an artifact, completed |
| `tck-stream-artifact-chunked` | working, an artifact in two chunks, completed |
| `test-resubscribe-message-id` | working for five seconds, then completed |

**`metadata.script` of the message**, an object, for tests and benchmarks; every member is optional:

| member | meaning |
|---|---|
| `chunks` | this many chunks of one text artifact (0) |
| `size` | characters in a chunk (16) |
| `delay` | seconds before each chunk and before the end (0) |
| `working` | say `working` first (true when there are chunks or a delay) |
| `asks` | pause so many times in `input-required` until a message with the taskId answers (0) |
| `end` | how it ends (completed), see below |

`end` is `completed`, `failed`, `rejected`, `input-required` or `auth-required`; or `working`: return without an end;
`hang`: wait until cancelled; `raise`: fail with an exception; `message`: answer with a bare Message; `silent`: return
without a word. A message `later` to a paused turn is a follow-up with a turn of its own, `wrong` is refused.

`Scripted(otherwise="working")` leaves every other message's task `working`, as the older kits (branch `main`, tag
`0.3.0.beta4`) want it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Literal

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import Event, EventQueue
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError
from google.protobuf.struct_pb2 import Struct, Value

from a2a_claude.a2a.ids import new_id
from a2a_claude.store.codec import struct

_STATES = {
    "working": TaskState.TASK_STATE_WORKING,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "rejected": TaskState.TASK_STATE_REJECTED,
    "input-required": TaskState.TASK_STATE_INPUT_REQUIRED,
    "auth-required": TaskState.TASK_STATE_AUTH_REQUIRED,
    "canceled": TaskState.TASK_STATE_CANCELED,
}
RESUBSCRIBE_SECONDS = 5.0


class Scripted(AgentExecutor):
    """Does what the message says; `otherwise` is what happens to one that says nothing."""

    def __init__(self, otherwise: Literal["completed", "working"] = "completed") -> None:
        self._otherwise = otherwise
        self._asked: dict[str, asyncio.Future[str]] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn."""
        message = context.message
        if message is None:
            return
        if "script" in message.metadata:
            script = struct(message.metadata)["script"]
            for number in range(int(script.get("asks", 0))):
                await self._ask(context.task_id or "", number + 1, event_queue)
        async for event in self._script(message, context.get_user_input()):
            await event_queue.enqueue_event(event)

    async def _ask(self, task_id: str, number: int, event_queue: EventQueue) -> None:
        answer = self._asked[task_id] = asyncio.get_running_loop().create_future()
        try:
            await event_queue.enqueue_event(_status("input-required", f"Question {number}"))
            text = await answer
        finally:
            del self._asked[task_id]
        await event_queue.enqueue_event(_status("working", f"You said {text}"))

    def waits(self, task_id: str) -> bool:
        """Whether the task's script asks."""
        return task_id in self._asked

    def answer(self, context: RequestContext) -> bool:
        """What a script that asks gets."""
        asked, text = self._asked.get(context.task_id or ""), context.get_user_input()
        if asked is None or text == "later":
            return False
        if text == "wrong" or asked.done():
            raise InvalidParamsError("This is not an answer")
        asked.set_result(text)
        return True

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Publishes `canceled`."""
        await event_queue.enqueue_event(_status("canceled"))

    def _script(self, message: Message, text: str) -> AsyncIterator[Event]:
        if "script" in message.metadata:
            return _by_metadata(struct(message.metadata)["script"], text)
        for prefix, script in _KIT.items():
            if message.message_id.startswith(prefix):
                return script()
        return _states(self._otherwise) if self._otherwise == "working" else _answer(text)


async def _by_metadata(script: dict[str, Any], text: str) -> AsyncIterator[Event]:
    chunks, size, delay = int(script.get("chunks", 0)), int(script.get("size", 16)), float(script.get("delay", 0))
    end = str(script.get("end", "completed"))
    if script.get("working", bool(chunks or delay) or end in ("working", "hang")):
        yield _status("working")
    artifact_id = new_id()
    for number in range(chunks):
        await asyncio.sleep(delay)
        chunk = f"{number} ".ljust(size, "·")
        yield _artifact(Part(text=chunk), artifact_id=artifact_id, append=number > 0, last=number == chunks - 1)
    await asyncio.sleep(delay)
    match end:
        case "hang":
            await asyncio.Event().wait()
        case "raise":
            raise RuntimeError("the script says so: secret internals")
        case "message":
            yield _message(text)
        case "silent" | "working":
            return
        case _:
            yield _status(end, text)


async def _answer(text: str) -> AsyncIterator[Event]:
    yield _status("completed", text)


async def _states(*states: str, text: str = "") -> AsyncIterator[Event]:
    for state in states:
        yield _status(state, text if state == states[-1] else "")


async def _direct() -> AsyncIterator[Event]:
    yield _message("Direct message response")


async def _with(part: Part, *, stream: bool = False) -> AsyncIterator[Event]:
    if stream:
        yield _status("working")
    yield _artifact(part, last=True)
    yield _status("completed")


async def _chunked() -> AsyncIterator[Event]:
    yield _status("working")
    artifact_id = new_id()
    yield _artifact(Part(text="chunk-1 "), artifact_id=artifact_id)
    yield _artifact(Part(text="chunk-2"), artifact_id=artifact_id, append=True, last=True)
    yield _status("completed")


async def _long() -> AsyncIterator[Event]:
    yield _status("working")
    await asyncio.sleep(RESUBSCRIBE_SECONDS)
    yield _status("completed")


def _text_part() -> Part:
    return Part(text="Generated text content")


def _file_part() -> Part:
    return Part(raw=b"file content", filename="output.txt", media_type="text/plain")


def _data_part() -> Part:
    data = Struct()
    data.update({"key": "value", "count": 42})
    return Part(data=Value(struct_value=data))


# The first prefix that fits counts, so the longer ones come first.
_KIT = {
    "tck-complete-task": lambda: _states("completed", text="Hello from TCK"),
    "tck-artifact-text": lambda: _with(_text_part()),
    "tck-artifact-file-url": lambda: _with(
        Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
    ),
    "tck-artifact-file": lambda: _with(_file_part()),
    "tck-artifact-data": lambda: _with(_data_part()),
    "tck-message-response": _direct,
    "tck-input-required": lambda: _states("input-required", text="What else?"),
    "tck-reject-task": lambda: _states("rejected", text="No"),
    "tck-stream-artifact-chunked": _chunked,
    "tck-stream-artifact-text": lambda: _with(_text_part(), stream=True),
    "tck-stream-artifact-file": lambda: _with(_file_part(), stream=True),
    "tck-stream-002": lambda: _states("working", "completed"),
    "tck-stream-001": lambda: _with(_text_part(), stream=True),
    "tck-stream-003": lambda: _with(_text_part(), stream=True),
    "tck-stream-ordering-001": lambda: _with(_text_part(), stream=True),
    "test-resubscribe-message-id": _long,
}


def _message(text: str) -> Message:
    return Message(message_id=new_id(), role=Role.ROLE_AGENT, parts=[Part(text=text)])


def _status(state: str, text: str = "") -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(status=TaskStatus(state=_STATES[state], message=_message(text) if text else None))


def _artifact(
    part: Part, *, artifact_id: str = "", append: bool = False, last: bool = False
) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id=artifact_id or new_id(), name="response", parts=[part])
    return TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last)

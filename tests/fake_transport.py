"""A transport without a CLI: the SDK's own Query and message parser run over frames that a test wrote.

`ScriptedTransport(turns)` plays one list of frames for each user message. Besides frames a list may hold
`{"_sleep": seconds}`, `{"_wait": asyncio.Event}`, `{"_wait_interrupt": True}`, `{"_raise": text}`, `{"_exit": code}`,
and `{"_ask": request}`, a control request whose answer is waited for and kept in `answers`. `"$uuid"` anywhere in a
frame becomes the uuid of the user message.

`claude_agent_sdk.Transport` is documented as changeable: nothing else in the tests depends on it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Any

from claude_agent_sdk import ProcessError, Transport

Frame = dict[str, Any]
SESSION = "11111111-1111-4111-8111-111111111111"


class ScriptedTransport(Transport):
    """Plays `turns`; `written` is what the SDK wrote, `closed` and `killed` how it ended."""

    def __init__(self, turns: Iterable[list[Frame]] = (), *, stuck: bool = False, deaf: bool = False) -> None:
        """`stuck`: it never ends when it is closed, until killed. `deaf`: it answers no control request."""
        self.turns = list(turns)
        self.written: list[Frame] = []
        self.answers: list[Frame] = []
        self.closed = self.killed = False
        self.pid: int | None = None
        self._stuck, self._deaf = stuck, deaf
        self._ready = False
        self._asked: dict[str, asyncio.Future[Frame]] = {}
        self._frames: asyncio.Queue[Frame | Exception | None] = asyncio.Queue()
        self._interrupted = asyncio.Event()
        self._playing: asyncio.Task[None] | None = None
        self._dead = asyncio.Event()

    async def connect(self) -> None:
        self._ready = True

    def is_ready(self) -> bool:
        return self._ready

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            frame = json.loads(line)
            self.written.append(frame)
            match frame["type"]:
                case "control_request":
                    self._control(frame)
                case "control_response":
                    if asked := self._asked.pop(frame["response"]["request_id"], None):
                        asked.set_result(frame["response"])
                case "user":
                    turn = self.turns.pop(0) if self.turns else []
                    self._interrupted.clear()
                    self._playing = asyncio.create_task(self._play(turn, frame.get("uuid"), self._playing))

    def feed(self, *frames: Frame) -> None:
        """What the CLI says unasked."""
        for frame in frames:
            self._frames.put_nowait(frame)

    def read_messages(self) -> AsyncIterator[Frame]:
        return self._read()

    async def end_input(self) -> None:
        await self._frames.put(None)

    async def close(self) -> None:
        if self._stuck:
            await self._dead.wait()
        self.closed, self._ready = True, False
        if self._playing:
            self._playing.cancel()
        await self._frames.put(None)

    async def kill(self) -> None:
        self.killed = self.killed or not self.closed
        self._dead.set()

    def _control(self, frame: Frame) -> None:
        request = frame["request"]["subtype"]
        if self._deaf and request != "initialize":
            return
        if request == "interrupt":
            self._interrupted.set()
        answer: Frame = {"commands": []} if request == "initialize" else {}
        response = {"subtype": "success", "request_id": frame["request_id"], "response": answer}
        self._frames.put_nowait({"type": "control_response", "response": response})

    async def _play(self, turn: list[Frame], prompt: str | None, before: asyncio.Task[None] | None) -> None:
        if before:
            await asyncio.wait({before})
        for frame in turn:
            match frame:
                case {"_sleep": seconds}:
                    await asyncio.sleep(seconds)
                case {"_wait": event}:
                    await event.wait()
                case {"_wait_interrupt": True}:
                    await self._interrupted.wait()
                case {"_raise": text}:
                    await self._frames.put(RuntimeError(text))
                case {"_exit": code}:
                    await self._frames.put(ProcessError("Command failed", exit_code=code))
                case {"_ask": request}:
                    identity = str(uuid.uuid4())
                    self._asked[identity] = asyncio.get_running_loop().create_future()
                    await self._frames.put({"type": "control_request", "request_id": identity, "request": request})
                    self.answers.append(await self._asked[identity])
                case _:
                    await self._frames.put(json.loads(json.dumps(frame).replace("$uuid", prompt or "")))

    async def _read(self) -> AsyncIterator[Frame]:
        while (frame := await self._frames.get()) is not None:
            if isinstance(frame, Exception):
                raise frame
            yield frame


def init(session: str = SESSION) -> Frame:
    """What each round starts with."""
    return {"type": "system", "subtype": "init", "session_id": session, "uuid": str(uuid.uuid4())}


def assistant(text: str, session: str = SESSION) -> Frame:
    """An answer in one block."""
    message = {"id": "msg_1", "role": "assistant", "model": "claude-fake", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "session_id": session, "parent_tool_use_id": None, "message": message}


def result(text: str = "", session: str = SESSION, **members: Any) -> Frame:
    """The end of a round that took in the prompt; `uuids=()` and an `origin` make it one that did not."""
    uuids = list(members.pop("uuids", ("$uuid",)))
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": text,
        "session_id": session,
        "duration_ms": 1,
        "duration_api_ms": 1,
        "num_turns": 1,
        "total_cost_usd": 0.5,
        "terminal_reason": "completed",
        **({"user_message_uuids": uuids} if uuids else {}),
        **members,
    }

"""`Call`: one message to a remote agent, followed until its task rests: ended, or waiting for an answer.

Who waits for it may stop waiting: the call goes on, and its task can be asked for later. What comes is kept within a
bound, since the remote decides how much it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from a2a.types.a2a_pb2 import Artifact, Message, Part, StreamResponse, Task, TaskState, TaskStatus

from a2a_claude.subagents.errors import RemoteError
from a2a_claude.subagents.remote import Remote

logger = logging.getLogger(__name__)

FOLLOW_SECONDS: Final = 3600.0
"""A call whose turn is over is followed no longer than this, and only while its task has no id to ask for."""
MAX_ANSWER: Final = 16 << 20
"""Bytes of an answer that are kept."""
_MAX_ARTIFACTS: Final = 200
_FIRST_POLL: Final = 0.2
_LONGEST_POLL: Final = 5.0
_TRIES: Final = 4
_UNNAMED_SECONDS: Final = 5.0
_TRACE: Final = "urn:x-a2a:trace:v1"

ENDED: Final = frozenset(
    (
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    )
)
WAITING: Final = frozenset((TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED))

Tell = Callable[[str, str], None]


class Call:
    """The call and what is known of its task. `state` is 0 until the remote has named one; `failure` says why nothing
    more is known."""

    def __init__(self, remote: Remote, message: Message | None, tell: Tell, *, task_id: str = "") -> None:
        """Sends `message`; without one it asks for the task `task_id`. `tell` hears of each state and what is said."""
        self.remote, self.sends = remote, message is not None
        self.task_id = task_id if message is None else message.task_id
        self.context_id = "" if message is None else message.context_id
        self.state = 0
        self.said: Message | None = None
        self.artifacts: dict[str, Artifact] = {}
        self.cut = False
        self.failure = ""
        self._answer: Message | None = None
        self.size = 0
        self._tell, self._canceling, self._stopped = tell, False, False
        self._named = asyncio.Event()  # the remote has told the id
        self._following = asyncio.create_task(self._follow(message), name=f"call-{remote.name}")

    @property
    def rests(self) -> bool:
        """Whether nothing more comes by itself."""
        return self._following.done()

    @property
    def answer(self) -> Message | None:
        """The message that a remote without tasks has answered."""
        return self._answer

    async def wait(self, seconds: float | None) -> bool:
        """Waits until it rests, or for so long; whether it rests."""
        await asyncio.wait({self._following}, timeout=seconds)
        return self.rests

    def hush(self) -> None:
        """Nobody wants to hear of states any more."""
        self._tell = lambda _state, _text: None

    async def cancel(self) -> None:
        """Cancels the remote task, as soon as it has a name, and stops following it; once. Raises nothing."""
        if self._canceling or (self.rests and self.state not in WAITING):
            return
        self._canceling = True
        try:
            if not self.task_id and not self.rests:
                naming = asyncio.create_task(self._named.wait())
                await asyncio.wait({naming, self._following}, timeout=_UNNAMED_SECONDS, return_when="FIRST_COMPLETED")
                naming.cancel()
            if self.task_id and self.state not in ENDED:
                self._take_task(await self.remote.cancel(self.task_id))
        except RemoteError as error:
            logger.info("A task of sub-agent %s was not cancelled: %s", self.remote.name, error)
        finally:
            self._following.cancel()

    @property
    def followed(self) -> bool:
        """Whether what becomes of it is still heard."""
        return not (self.rests or self._stopped)

    @property
    def settled(self) -> bool:
        """Whether it rests, with something to tell."""
        return self.rests and bool(self.ended or self.state in WAITING or self.failure)

    @property
    def ended(self) -> bool:
        """Whether the answer is here, and final."""
        return self._answer is not None or self.state in ENDED

    def stop(self) -> None:
        """Stops following it; the remote task goes on."""
        self._stopped = True
        self._following.cancel()

    async def _follow(self, message: Message | None) -> None:
        try:
            async with asyncio.timeout(FOLLOW_SECONDS):
                if message is not None:
                    await self._send(message)
                if self._answer is None and self.task_id:
                    await self._poll(at_once=message is None)
                elif self._answer is None:
                    raise RemoteError("it answered without a task or a message")
        except RemoteError as error:
            self.failure = str(error)
        except TimeoutError:
            self.failure = "it took too long"
        except Exception as error:
            logger.debug("Sub-agent %s", self.remote.name, exc_info=error)
            self.failure = f"what it answered is not A2A ({type(error).__name__})"

    async def _send(self, message: Message) -> None:
        try:
            async for event in self.remote.send(message):
                self._take(event)
        except RemoteError as error:
            if not (error.lost and self.task_id):
                raise
            logger.info("Sub-agent %s: %s; its task is asked for instead", self.remote.name, error)

    async def _poll(self, *, at_once: bool) -> None:
        """Asks for the task until it rests."""
        pause, failed = _FIRST_POLL, 0
        while at_once or not self._resting():
            if not at_once:
                await asyncio.sleep(pause)
            at_once = False
            pause = min(pause * 1.6, _LONGEST_POLL)
            try:
                self._take_task(await self.remote.task(self.task_id))
                failed = 0
            except RemoteError as error:
                failed += 1
                if not (error.lost or self.remote.problem):
                    raise
                if failed >= _TRIES:
                    raise RemoteError(f"{error}; its task may still run there") from error

    def _resting(self) -> bool:
        return self.state in ENDED or self.state in WAITING

    # What comes

    def _take(self, event: StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self._take_task(event.task)
            case "message":
                self._answer = event.message if self._fits(event.message.ByteSize()) else None
                self.context_id = event.message.context_id or self.context_id
                if self._answer is None:
                    raise RemoteError("its answer is too large")
            case "status_update":
                update = event.status_update
                self._name(update.task_id, update.context_id)
                self._take_status(update.status)
            case "artifact_update":
                update_ = event.artifact_update
                self._name(update_.task_id, update_.context_id)
                self._take_artifact(update_.artifact, append=update_.append)

    def _take_task(self, task: Task) -> None:
        self._name(task.id, task.context_id)
        self._take_status(task.status)
        if task.artifacts:
            self.artifacts, self.size, self.cut = {}, 0, False
            for artifact in task.artifacts:
                self._take_artifact(artifact, append=False)

    def _name(self, task_id: str, context_id: str) -> None:
        self.task_id, self.context_id = task_id or self.task_id, context_id or self.context_id
        if self.task_id:
            self._named.set()

    def _take_status(self, status: TaskStatus) -> None:
        if status.HasField("message") and status.message.ByteSize() <= MAX_ANSWER:
            self.said = status.message
        elif status.state != self.state:
            self.said = None
        self.state = status.state
        self._tell(state_name(status.state), spoken(status.message.parts) if status.HasField("message") else "")

    def _take_artifact(self, artifact: Artifact, *, append: bool) -> None:
        if _TRACE in artifact.extensions or artifact.name.startswith("trace."):
            return  # telemetry, which older servers of this family send unasked
        if not self._fits(artifact.ByteSize()) or len(self.artifacts) >= _MAX_ARTIFACTS:
            self.cut = True
            return
        known = self.artifacts.get(artifact.artifact_id)
        if append and known is not None:
            for part in artifact.parts:
                last = known.parts[-1] if known.parts else None
                if last is not None and last.HasField("text") and part.HasField("text"):
                    last.text += part.text
                else:
                    known.parts.append(part)
        else:
            self.artifacts[artifact.artifact_id] = artifact

    def _fits(self, size: int) -> bool:
        self.size += size
        return self.size <= MAX_ANSWER


def state_name(state: int) -> str:
    """`completed`, `input-required`, …; also of a state that this version does not know."""
    name = TaskState.Name(state) if state in TaskState.values() else f"TASK_STATE_{state}"
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


def spoken(parts: object) -> str:
    """The text of parts."""
    listed: list[Part] = list(parts)  # type: ignore[call-overload]
    return "".join(part.text for part in listed if part.HasField("text"))

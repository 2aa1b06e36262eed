"""The seam of this room: what the turn side asks of the process side, and the errors that come back.

`sessions.py` and `client.py` implement it over the real CLI; a test implements it with a list of frames.

    session = await sessions.acquire(context_id, owner, task_id)
    try:
        async for received in session.turn(blocks, uuid=str(uuid4())):
            …                                    # stop when the turn, and the background work it holds for, is over
    finally:
        await sessions.release(session, healthy=…)

A turn that has to end early (cancel, timeout, rate limit, shutdown) calls `interrupt` and then releases; whether the
process can be used again is told by what `interrupt` gives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from a2a.types.a2a_pb2 import Part
from claude_agent_sdk import PermissionMode, PermissionResultAllow, PermissionResultDeny, ToolPermissionContext
from claude_agent_sdk.types import Message

from a2a_claude.claude.delegates import Delegation

Frame = dict[str, Any]
Calls = tuple[Delegation, Callable[[Iterable[Part]], Awaitable[Sequence[dict[str, Any]]]]]
"""A turn's delegation, and how parts of an answer become content blocks."""
Ask = Callable[[str, dict[str, Any], ToolPermissionContext], Awaitable[PermissionResultAllow | PermissionResultDeny]]


@dataclass(frozen=True, slots=True)
class Received:
    """One message of the CLI.

    `frame` is what came over the wire, whole. `message` is the SDK's typed reading of it; None for frames that this
    SDK has no type for (`tool_progress`, whatever is new). The SDK's reading drops content blocks it does not know
    (`redacted_thinking`), which are still in `frame`. `answers` is true for the `result` that ends the round which took
    in the prompt of this turn: told by `user_message_uuids`, so the result of a round that the CLI began by itself
    (`origin`) is never mistaken for the answer.
    """

    frame: Frame
    message: Message | None
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """What a session has used since it began: US dollars, and milliseconds of the API. The CLI carries them on when it
    resumes the session, and tells them with each result."""

    cost: float = 0.0
    api_ms: int = 0


@dataclass(frozen=True, slots=True)
class FellBack:
    """The session of the context could not be continued, and an empty one took its place.

    `lost` is the old session id. `reason` is `transcript_lost`, or `resume_failed` when the CLI gave another
    reason, which is in `detail`.
    """

    lost: str
    reason: str
    detail: str


class LiveSession(Protocol):
    """A Claude session with a process that runs, lent to one turn at a time.

    `session_id` is None until the CLI has named it (its `system/init`, in the first turn). `fell_back` tells that
    earlier turns of this context are lost: the caller has to be told. `before` is what the session had
    used by the last result before this turn (nothing for a new session, None when it is not known, after a restart of
    the server): the CLI's figures only ever grow, so a turn has used the difference.
    """

    ask: Ask | None
    """Who decides a permission request; None denies it. Set by the turn, gone with its release."""
    calls: Calls | None
    """Who calls other agents, as `ask`."""

    @property
    def session_id(self) -> str | None: ...

    @property
    def fell_back(self) -> FellBack | None: ...

    @property
    def before(self) -> Totals | None: ...

    def turn(self, blocks: list[dict[str, Any]], *, uuid: str) -> AsyncIterator[Received]:
        """Sends a prompt and gives what the CLI says from then on, background rounds included, until the caller stops.

        `blocks` are content blocks of the Messages API. `uuid` must be new for each prompt. It is one stream: rounds
        that the CLI begins by itself (a background task that ended) come with the `origin` in their results.
        What a resumed session says before it takes in the prompt is dropped, apart from `system` frames.

        Raises:
            ClaudeLost: the process ended, its stream broke, or it answers nothing any more; the last of its standard
                error is in it.
        """
        ...

    async def stop_background(self, task_id: str) -> bool:
        """Asks the CLI to stop a background task; no error when there is none of that id. False: it did not answer,
        release it with `healthy=False`."""
        ...

    async def set_mode(self, mode: PermissionMode) -> bool:
        """Gives the session another permission mode; whether the CLI took it. False: release it as not healthy."""
        ...

    async def cost(self) -> float | None:
        """What the session has cost up to now, in US dollars; None when the CLI does not tell."""
        ...

    async def interrupt(self, bound: float) -> bool:
        """Interrupts what runs and waits up to `bound` seconds for its result.

        True: the CLI is idle and answers, use it again. False: it did not answer, release it with `healthy=False`.
        A turn that is being iterated gets the frames of the interrupted round like any others.
        """
        ...


class Sessions(Protocol):
    """Live sessions of one agent: which context has which, and how many processes run."""

    async def acquire(self, context_id: str, owner: str, task_id: str) -> LiveSession:
        """The live session of a principal's context: the one that runs, or resumed, or a new one.

        It is the caller's alone until `release`; turns of one context come one after the other (the A2A side sees to
        that), and a second `acquire` waits. Cancelling this call leaves nothing behind.

        Raises:
            ClaudeStartFailed: no process could be started.
        """
        ...

    async def release(self, session: LiveSession, *, healthy: bool) -> None:
        """Gives it back. Not `healthy`: its process is closed, killed if need be, and the next turn resumes in another.

        Returns at once when healthy, else when the process is gone; never raises, and may be called again.
        """
        ...

    async def shutdown(self, bound: float) -> None:
        """Interrupts and closes every process within `bound` seconds, killing what is left then."""
        ...


class SessionStore(Protocol):
    """Where the session of a context is remembered; `a2a_claude.store.Store` is one. Times are ms since 1970."""

    def session(self, context_id: str, owner: str) -> StoredSession | None: ...

    async def set_session(self, context_id: str, owner: str, session_id: str) -> None: ...

    async def delete_session(self, context_id: str, owner: str) -> None: ...

    async def delete_sessions_before(self, moment: int) -> None: ...


class StoredSession(Protocol):
    """A row of it."""

    @property
    def session_id(self) -> str: ...

    @property
    def created(self) -> int: ...

    @property
    def accessed(self) -> int: ...


class ClaudeError(Exception):
    """Claude cannot go on. `reason` is for machines (docs/reasons.md); the text is for people and holds no secret.

    `detail` is what the process wrote on standard error last: for the log, never for a caller.
    """

    reason = "claude_failed"

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class ClaudeStartFailed(ClaudeError):
    """No process could be started: the executable, its options, its credentials, or the machine."""

    reason = "claude_start_failed"


class ClaudeLost(ClaudeError):
    """The process ended, or what it said could not be read. `exit_code` is None when it is not known."""

    reason = "claude_lost"

    def __init__(self, message: str, *, detail: str = "", exit_code: int | None = None) -> None:
        super().__init__(message, detail=detail)
        self.exit_code = exit_code


class OptionsError(ClaudeError):
    """The agent's config cannot be served: the message names the key and what to write instead. It `passes` when
    another try may succeed with the same config."""

    reason = "config_invalid"

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes

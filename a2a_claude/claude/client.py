"""`Client`: one live CLI. It is read from the first to the last moment, whoever listens.

A reader that stops is a trap: the SDK holds a hundred messages and then answers no control request, so that not even
an interrupt gets through. So one task reads always, and hands each frame to the turn that is on, if any.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, PermissionMode, Transport
from claude_agent_sdk._errors import MessageParseError
from claude_agent_sdk._internal.message_parser import parse_message

from a2a_claude.claude.delegate_server import DelegateServer
from a2a_claude.claude.prompt import Prompt
from a2a_claude.claude.session import ClaudeLost, ClaudeStartFailed, Frame, Received, Totals
from a2a_claude.claude.usage import totals

logger = logging.getLogger(__name__)

START_SECONDS: Final = 45.0
CLOSE_SECONDS: Final = 2.5
CONTROL_SECONDS: Final = 2.0
CHANGE_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 60.0
STDERR_LINES: Final = 50


class Killable(Protocol):
    """What a transport of ours can do besides the SDK's `Transport`."""

    @property
    def pid(self) -> int | None: ...

    async def kill(self) -> None: ...


class Stderr:
    """The last lines of a process's standard error."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=STDERR_LINES)

    def __call__(self, line: str) -> None:
        self._lines.append(line[:2000])
        logger.debug("Claude: %s", line)

    def __str__(self) -> str:
        return "\n".join(self._lines)


class Client:
    """One process, one session. `turns` counts prompts; `totals` is what it told last of the session's use.

    `before_turn` is awaited before each prompt. `delegates` are its tools that call other agents.
    """

    def __init__(self, options: ClaudeAgentOptions, transport: Transport, stderr: Stderr) -> None:
        """`transport` is not started yet; it may be `Killable`. `stderr` is what `options.stderr` calls."""
        self._sdk = ClaudeSDKClient(options, transport)
        self._transport: Any = transport
        self._stderr = stderr
        self._reader: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._prompt: Prompt | None = None
        self._working = False  # a prompt is unanswered, or a round is on
        self._idle = asyncio.Event()
        self._idle.set()
        self._frames = 0
        self.lost: ClaudeLost | None = None
        self.session_id: str | None = None
        self.turns = 0
        self.totals: Totals | None = None
        self.before_turn: Callable[[], Awaitable[None]] | None = None
        self.delegates: DelegateServer | None = None

    async def start(self, bound: float = START_SECONDS) -> None:
        """Starts the process and waits until it can take prompts.

        Raises:
            ClaudeStartFailed: it ended, or did not answer within `bound` seconds.
        """
        try:
            await asyncio.wait_for(self._sdk.connect(), bound)
        except TimeoutError:
            await self.close(0)
            raise ClaudeStartFailed(f"Claude did not start within {bound:.0f} s", detail=str(self._stderr)) from None
        except (ClaudeSDKError, OSError, ValueError, TypeError, Exception) as error:
            await self.close(0)
            raise ClaudeStartFailed(f"Claude could not be started: {error}", detail=str(self._stderr)) from error
        except BaseException:
            await self.close(0)
            raise
        self._reader = asyncio.create_task(self._read(), name="claude-reader")

    @property
    def usable(self) -> bool:
        """Whether it can take another prompt."""
        return self.lost is None and self._closing is None

    @property
    def idle(self) -> bool:
        """Whether nothing is on: every prompt is answered, and no round of the CLI's own runs."""
        return not self._working

    @property
    def pid(self) -> int | None:
        """The process that the server started."""
        found: int | None = getattr(self._transport, "pid", None)
        return found

    async def turn(self, blocks: list[dict[str, Any]], uuid: str) -> AsyncIterator[Received]:
        """See `LiveSession.turn`."""
        if self.before_turn is not None and not self.lost:
            await self.before_turn()
        if self.lost:
            raise self.lost
        prompt = self._prompt = Prompt(uuid, waits=self._working)
        self._begin()
        self.turns += 1
        watching = asyncio.create_task(self._watch(prompt), name="claude-watch")
        try:
            await self._send({"type": "user", "message": {"role": "user", "content": blocks}, "uuid": uuid})
            while True:
                received = await prompt.frames.get()
                if isinstance(received, Exception):
                    raise received
                yield received
        finally:
            watching.cancel()
            if self._prompt is prompt:
                self._prompt = None

    async def _watch(self, prompt: Prompt) -> None:
        """Loses a process that says nothing and does not answer either: nobody may have set a bound for the turn."""
        while self._prompt is prompt:
            frames = self._frames
            await asyncio.sleep(SILENT_SECONDS)
            if frames == self._frames and not await self.answers(SILENT_SECONDS):
                self._lose(ClaudeLost("Claude does not answer any more", detail=str(self._stderr)))
                return

    def detach(self) -> None:
        """Nobody listens any more, also when the turn's stream was left without being closed."""
        self._prompt = None

    async def interrupt(self, bound: float) -> bool:
        """See `LiveSession.interrupt`."""
        if self.lost:
            return False
        if not self._working:
            return await self.answers(bound)
        try:
            async with asyncio.timeout(bound):
                await self._sdk.interrupt()
                await self._idle.wait()
        except TimeoutError:
            return False
        except Exception as error:  # noqa: BLE001 - whatever it was, this process cannot be used again
            logger.debug("Interrupt failed: %s", error)
            return False
        return self.usable

    async def control(self, request: dict[str, Any], bound: float) -> dict[str, Any] | None:
        """What the CLI answers to a control request of its protocol; None when it cannot, or not in `bound` seconds."""
        answer = await self._ask(request, bound)
        if isinstance(answer, dict):
            return answer
        logger.debug("Claude does not answer %s: %s", request.get("subtype"), answer)
        return None

    async def answers(self, bound: float) -> bool:
        """Whether the CLI answers at all, be it with a refusal, within `bound` seconds.

        It is asked for what it knows by itself: `get_usage` may ask the API.
        """
        return not isinstance(await self._ask({"subtype": "mcp_status"}, bound), TimeoutError) and self.usable

    async def _ask(self, request: dict[str, Any], bound: float) -> dict[str, Any] | Exception:
        """The answer to a control request, or why there is none: TimeoutError when nothing came."""
        query: Any = self._sdk._query
        if self.lost or query is None:
            return self.lost or ClaudeLost("the process has not started")
        try:
            answer: dict[str, Any] = await asyncio.wait_for(query._send_control_request(request), bound)
        except Exception as error:  # noqa: BLE001 - an older CLI, or one that ends
            return error
        return answer

    async def set_mode(self, mode: PermissionMode) -> bool:
        """See `LiveSession.set_mode`."""
        try:
            await asyncio.wait_for(self._sdk.set_permission_mode(mode), CHANGE_SECONDS)
        except Exception as error:  # noqa: BLE001 - whatever it was, this process cannot be used again
            logger.debug("The permission mode was not changed: %s", error)
            return False
        return self.usable

    async def stop_background(self, task_id: str) -> bool:
        """See `LiveSession.stop_background`."""
        answer = await self._ask({"subtype": "stop_task", "task_id": task_id}, CHANGE_SECONDS)
        return not isinstance(answer, TimeoutError) and self.usable

    async def spending(self) -> float | None:
        """The session's cost up to now, in US dollars; None when it is not told."""
        answer = await self.control({"subtype": "get_usage"}, CONTROL_SECONDS)
        session = answer.get("session") if answer else None
        total = session.get("total_cost_usd") if isinstance(session, dict) else None
        return float(total) if isinstance(total, int | float) else None

    async def rename(self, title: str) -> None:
        """Gives the session a title, which Claude Code's own list of sessions shows."""
        await self.control({"subtype": "rename_session", "title": title, "source": "host"}, CONTROL_SECONDS)

    async def close(self, bound: float = CLOSE_SECONDS) -> None:
        """Ends the process and all that it started: asked to for `bound` seconds, then killed. Never raises.

        It goes on in a task of its own when the caller is cancelled: a close that is cut short leaves orphans.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(bound), name="claude-close")
        await asyncio.shield(self._closing)

    async def _close(self, bound: float) -> None:
        disconnecting = asyncio.create_task(self._sdk.disconnect())
        await asyncio.wait({disconnecting}, timeout=bound)
        if not disconnecting.done() and hasattr(self._transport, "kill"):
            await self._transport.kill()
            await asyncio.wait({disconnecting}, timeout=bound + 1)
        disconnecting.cancel()
        with contextlib.suppress(BaseException):
            await disconnecting
        if hasattr(self._transport, "kill"):  # the SDK may have given up before the process has
            await self._transport.kill()
        if self._reader:
            self._reader.cancel()
            with contextlib.suppress(BaseException):
                await self._reader
        self._lose(ClaudeLost("the process was closed"))

    async def _send(self, message: dict[str, Any]) -> None:
        async def one() -> AsyncIterator[dict[str, Any]]:
            yield {**message, "parent_tool_use_id": None}

        try:
            await self._sdk.query(one())
        except Exception as error:
            raise self._lose(_lost(error, self._stderr)) from error

    async def _read(self) -> None:
        query: Any = self._sdk._query
        try:
            async for frame in query.receive_messages():
                self._take(frame)
            self._lose(ClaudeLost("Claude ended", detail=str(self._stderr), exit_code=0))
        except Exception as error:  # noqa: BLE001 - whatever broke the stream, the process is lost
            self._lose(_lost(error, self._stderr))

    def _take(self, frame: Frame) -> None:
        self._frames += 1
        kind = frame.get("type")
        if isinstance(frame.get("session_id"), str) and kind in ("system", "result", "assistant"):
            self.session_id = frame["session_id"] or self.session_id
        if kind in ("assistant", "stream_event") or (kind == "system" and frame.get("subtype") == "init"):
            self._begin()
        prompt = self._prompt
        answers = prompt is not None and kind == "result" and prompt.is_answered_by(frame)
        received = Received(frame, _typed(frame), answers)
        if kind == "result":
            self.totals = totals(frame) or self.totals
            if prompt is None or prompt.answered or answers:
                self._end()
        if prompt is not None:
            prompt.deliver(received)

    def _begin(self) -> None:
        self._working = True
        self._idle.clear()

    def _end(self) -> None:
        self._working = False
        self._idle.set()

    def _lose(self, error: ClaudeLost) -> ClaudeLost:
        if self.lost is None:
            self.lost = error
            if self._prompt:
                self._prompt.frames.put_nowait(error)
        self._end()
        return self.lost


def _typed(frame: Frame) -> Any:
    try:
        return parse_message(frame)
    except MessageParseError as error:
        logger.warning("A message of Claude could not be read: %s", error)
        return None


def _lost(error: Exception, stderr: Stderr) -> ClaudeLost:
    code = getattr(error, "exit_code", None)
    ended = f"Claude ended with exit code {code}" if code is not None else "the stream from Claude broke"
    return ClaudeLost(ended, detail=f"{error}\n{stderr}".strip(), exit_code=code)

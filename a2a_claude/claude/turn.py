"""`Turn`: one prompt in a live session, from the first frame to the end, with the rounds of background work.

    reader   frames ─▶ meaning ─▶ response, limits, background, usage
    watcher  cancel, timeout, a held task without progress ─▶ interrupt

The reader never judges time, and the watcher never reads: an interrupt makes the CLI send the aborted result, which the
reader takes like any other, so the process can be used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Part, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from a2a_claude.claude import translate
from a2a_claude.claude.background import Background
from a2a_claude.claude.budget import SPENT, Budget
from a2a_claude.claude.content import EVERYTHING, Block, Outputs
from a2a_claude.claude.json_values import sendable
from a2a_claude.claude.rate_limits import RateLimits, Verdict
from a2a_claude.claude.results import REFUSED_TEXT, Failure, Seen, failure_of
from a2a_claude.claude.session import ClaudeError, ClaudeLost, Frame, LiveSession, Received
from a2a_claude.claude.streaming import Response
from a2a_claude.claude.usage import Usage
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

TICK: Final = 0.5
INTERRUPT_SECONDS: Final = 6.0
STOP_SECONDS: Final = 3.0  # as long when the server stops, which waits no more than five
LAST_WORDS_SECONDS: Final = 1.0
# A background task that ended wakes Claude at once; when nothing comes by then, nothing will.
SETTLE_SECONDS: Final = 10.0
# Of structured output, which a client may have asked to be deep; parsers of protobuf take about 30.
LEVELS: Final = 24
# What was said before such an end is not told after it: the next message goes on, or nobody wants it told.
_UNTOLD: Final = ("rate_limit", "refusal")

Publish = Callable[[TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]


@dataclass(slots=True)
class Ending:
    """How a turn ended. `failure` is None for a completed one. `healthy`: the process may be used again."""

    failure: Failure | None
    metadata: dict[str, Any] = field(default_factory=dict)
    canceled: bool = False
    healthy: bool = True


class Turn:
    """One turn of a session. `stop` is set to cancel it. `artifact_id` gives the id of a round's artifact."""

    def __init__(
        self,
        session: LiveSession,
        config: Config,
        publish: Publish,
        redactor: Redactor,
        *,
        stop: asyncio.Event,
        artifact_id: Callable[[int], str],
        outputs: Outputs = EVERYTHING,
        deadline: float | None = None,
        settle_seconds: float = SETTLE_SECONDS,
        waited: Callable[[], float] = lambda: 0.0,
        observe: Callable[[Received], Awaitable[None]] | None = None,
    ) -> None:
        """`deadline` is a time of `time.monotonic`. `waited` gives the seconds that the turn has waited for its caller,
        in which no clock runs. `observe` sees each frame before the turn does.
        """
        self._session, self._config, self._publish, self._redactor = session, config, publish, redactor
        self._stop, self._artifact_id, self._outputs = stop, artifact_id, outputs
        self._deadline, self._settle = deadline, settle_seconds
        self._waited, self._observe = waited, observe
        self._streams = config.features.stream_artifact_chunks and outputs.text
        self._limits = RateLimits()
        self.usage = Usage(session.before)
        self._budget = Budget(config.claude, session.cost)
        self._background = Background(
            config.claude.background, config.features.hold_task_for_background_work, redactor.text
        )
        self._round = 1
        self._response = self._new_response()
        self._streamed: set[str] = set()
        self._saying = ""
        self._seen = Seen()
        self._open = True  # a round is on
        self._answered = self._held = False  # something was said; a round has ended and the task was held
        self._progress = time.monotonic()
        self._failure: Failure | None = None
        self._limit_reached = asyncio.Event()
        self.missing: tuple[tuple[str, str], ...] = ()
        """MCP servers that it does without, and their states."""

    async def run(self, blocks: list[Block]) -> Ending:
        """Sends the prompt and publishes what comes; the artifact is closed and nothing runs on when it returns.

        It does not publish the end. When it is cancelled, it interrupts Claude first.
        """
        reader = asyncio.create_task(self._read(blocks), name="claude-turn")
        stopping = asyncio.create_task(self._stop.wait())
        limited = asyncio.create_task(self._limit_reached.wait())
        try:
            why = await self._watch(reader, stopping, limited)
            return await self._end(reader, why)
        except asyncio.CancelledError:
            await self._silence(reader, STOP_SECONDS)
            raise
        finally:
            for task in (stopping, limited, reader):
                task.cancel()
            with contextlib.suppress(Exception):
                await self._response.close()

    # Watching

    async def _watch(self, reader: asyncio.Task[None], *others: asyncio.Task[Any]) -> str:
        """Why it is over: `read`, `canceled`, `limited`, `timeout`, `budget`, `idle` or `settled`. `others` end when it
        is to stop, and when a limit is reached."""
        before = 0.0
        while True:
            waited = self._waited()
            deadline = None if self._deadline is None else self._deadline + waited
            left = TICK if deadline is None else min(TICK, max(0.0, deadline - time.monotonic()))
            await asyncio.wait({reader, *others}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                return "canceled"
            if reader.done():
                return "read"
            if self._limit_reached.is_set():
                return "limited"
            now = time.monotonic()
            if waited != before:
                self._progress, before = now, waited
            if self._deadline is not None and now >= self._deadline + self._waited():
                return "timeout"
            if await self._budget.is_spent():
                return "budget"
            if self._held:
                silent = now - self._progress
                idle = self._config.claude.background.idle_timeout / 1000
                if 0 < idle <= silent:
                    return "idle"
                if not self._open and not self._background.holds and silent >= self._settle:
                    return "settled"

    async def _end(self, reader: asyncio.Task[None], why: str) -> Ending:
        ending = Ending(self._failure, canceled=why == "canceled")
        broken = reader.exception() if reader.done() else None
        if broken is not None:
            ending.healthy = False
            between = self._held and not self._open
            if not ending.canceled and not (between and isinstance(broken, ClaudeLost) and broken.exit_code == 0):
                ending.failure = self._broken(broken)
        elif self._open or why in ("canceled", "limited", "timeout", "budget", "idle"):
            ending.healthy = await self._silence(reader)
            ending.failure = self._failure
        if why == "timeout":
            ending.failure = Failure("timeout", f"Prompt timed out after {self._config.timeouts.prompt}ms.")
        elif why == "budget":
            ending.failure = SPENT
        elif ending.failure is None and not ending.canceled and not self._answered:
            ending.failure = Failure("empty_result", "Claude ended its turn without an answer.")
        if why == "idle":
            ending.metadata["reason"] = "background_idle"
        if ending.failure is not None and ending.failure.reason in _UNTOLD and not self._streams:
            await self._response.whole("")
        await self._response.close()
        await self._leave_background(ending)
        return ending

    def _broken(self, error: BaseException) -> Failure:
        if self._failure is not None:
            return self._failure
        if self._seen.refused:
            return Failure("refusal", REFUSED_TEXT)
        if isinstance(error, ClaudeError):
            return Failure(error.reason, f"{error}.")
        raise error

    async def _silence(self, reader: asyncio.Task[None], seconds: float = INTERRUPT_SECONDS) -> bool:
        """Interrupts Claude; whether it can go on with another prompt."""
        self._stop.set()  # what comes now is not judged
        healthy = await self._session.interrupt(seconds)
        await asyncio.wait({reader}, timeout=LAST_WORDS_SECONDS if healthy and self._open else 0)
        reader.cancel()
        if reader.done() and not reader.cancelled():
            reader.exception()  # the interrupt has told
        return healthy

    async def _leave_background(self, ending: Ending) -> None:
        """Names what still runs, and stops it when the config says so, or the caller cancelled."""
        left = self._background.metadata()
        if ending.canceled or self._config.claude.background.at_end == "stop":
            stop = True
            for each in self._background.live:
                ending.healthy = ending.healthy and await self._session.stop_background(each.id)
        else:
            stop = not ending.healthy  # it ends with a process that cannot be used again
        if left or self._held:
            # The metadata of a status joins the task's: an empty list takes back what a held round told.
            ending.metadata["backgroundTasks"] = [{**each, "stopped": stop} for each in left]

    # Reading

    async def _read(self, blocks: list[Block]) -> None:
        frames = self._session.turn(blocks, uuid=str(uuid4()))
        try:
            async for received in frames:
                self._progress = time.monotonic()
                if self._observe is not None:
                    await self._observe(received)
                await self._budget.see(received.frame)
                if await self._take(received):
                    return
        finally:
            if (close := getattr(frames, "aclose", None)) is not None:
                await close()

    async def _take(self, received: Received) -> bool:
        """Whether the turn is over."""
        now = time.time_ns() // 1_000_000
        match translate.meaning(received.frame):
            case translate.Opened(missing):
                await self._miss(missing)
            case translate.Began(name):
                self._open = True
                self._streamed.add(name)
                self._note(unfinished=True)
                self._response.begin_message()
            case translate.Delta(text, block):
                if self._streams:
                    await self._response.add(text, block=block)
            case translate.Finished():
                self._note(unfinished=False)
            case translate.Abandoned(block) if not self._stop.is_set():  # an interrupt ends messages so too
                self._response.abandon(block)
            case translate.Resumed():
                self._response.go_on()
            case translate.Said() as said:
                await self._said(said, now)
            case translate.Limit(data, retries):
                self._limited(self._limits.retry(data, now) if retries else self._limits.event(data, now))
            case translate.BackgroundChanged(tasks):
                self._background.change(tasks)
            case translate.Refused():
                self._note(refused=True)
            case translate.Ended(frame):
                return await self._round_ended(frame)
        return False

    async def _miss(self, missing: tuple[tuple[str, str], ...]) -> None:
        if missing != self.missing:
            self.missing = missing
            told = [{"name": name, "status": state} for name, state in missing]
            await self._publish(translate.working("", {"mcpServers": told}))

    def _note(self, *, refused: bool = False, error: str | None = None, unfinished: bool | None = None) -> None:
        seen = self._seen
        self._seen = Seen(
            seen.refused or refused, error or seen.error, seen.unfinished if unfinished is None else unfinished
        )

    async def _said(self, said: translate.Said, now: int) -> None:
        self._open = True
        self.usage.model = said.model or self.usage.model
        if said.error:
            self._note(error=said.error, unfinished=False)
            self._limited(self._limits.error(said.error, now))
        elif said.id not in self._streamed:
            self._note(unfinished=False)
            if said.id != self._saying:
                self._saying = said.id
                self._response.begin_message()
            if self._outputs.text:
                for text in said.texts:
                    await self._response.add(text, block=0)

    def _limited(self, verdict: Verdict | None) -> None:
        """The first limit that is reached ends the turn; its reader goes on to what the turn has used."""
        if verdict is not None and verdict.status == "rejected" and not self._limit_reached.is_set():
            self._failure = Failure("rate_limit", verdict.text, verdict.metadata)
            self._limit_reached.set()

    async def _round_ended(self, frame: Frame) -> bool:
        self.usage.add(frame)
        self._open = False
        if self._stop.is_set() or self._limit_reached.is_set():
            return True
        wanted = self._config.claude.output_format is not None and not self._held
        self._failure = failure_of(frame, self._seen, structured=wanted)
        if self._failure is None and self._budget.is_spent_by(frame):
            self._failure = SPENT
        if self._failure is not None:
            return True
        text = await self._answer(frame)
        if not self._background.holds:
            return True
        await self._publish(
            translate.working(self._redactor.answer(text), {"backgroundTasks": self._background.metadata()})
        )
        self._held = True
        self._round += 1
        self._response = self._new_response()
        self._seen = Seen()
        return False

    async def _answer(self, frame: Frame) -> str:
        """Publishes the round's artifact and gives its text."""
        said = frame.get("result")
        text = said if isinstance(said, str) else ""
        data = frame.get("structured_output")
        parts = [_data(data)] if data is not None and self._outputs.data else []
        if self._streams and self._response.text.strip():
            self._answered = True
            await self._response.close(parts)
            return text
        if self._response.resumed and self._response.last.strip().endswith(text.strip()):
            text = self._response.last  # the result is only what came after the cut
        if text.strip() or data is not None:
            self._answered = True
            await self._response.whole(text if self._outputs.text else "", parts)
        return text

    def _new_response(self) -> Response:
        return Response(self._artifact_id(self._round), self._publish, self._redactor, pieces=self._streams)


def _data(value: Any) -> Part:
    part = Part(data=ParseDict(sendable(value, LEVELS), Value()), media_type="application/json")
    part.metadata["mimeType"] = "application/json"
    return part

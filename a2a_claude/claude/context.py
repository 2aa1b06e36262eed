"""`ContextBuilder`: Claude looks through the workspace and writes what the agent should know of it (`contextFile`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from claude_agent_sdk import CanUseTool

from a2a_claude.claude import context_file
from a2a_claude.claude.client import Client
from a2a_claude.claude.plugins import Apart
from a2a_claude.claude.results import Failure
from a2a_claude.claude.session import ClaudeError
from a2a_claude.claude.sessions import Pool
from a2a_claude.claude.turn import Ending, Turn
from a2a_claude.claude.usage import Usage
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

PROMPT: Final = """\
Look through this workspace and write an overview of it, in Markdown, for somebody who will work here and knows nothing
of it yet. Say what it is for, how it is laid out, which parts matter most and how they depend on each other, how it is
built, run and tested, and which conventions it keeps. Name files by their paths. Leave out what anybody would expect,
and what you have not seen yourself. Answer with the overview alone."""
_WRITERS: Final = ("Write", "Edit", "NotebookEdit", "Bash")
_CLOSE_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Built:
    """What came of it: the text that is in the file now, or why there is none, as `reason` and a text for people."""

    text: str = ""
    reason: str = ""
    problem: str = ""


class ContextBuilder:
    """Builds the context file of an agent, one build at a time, and reads it."""

    def __init__(self, processes: Apart, redactor: Redactor, spent: Callable[[Usage], None] | None = None) -> None:
        """`spent` is told what each build used."""
        self._config = _read_only(processes.config)
        self._processes, self._redactor, self._spent = processes, redactor, spent
        self._building: asyncio.Task[Built] | None = None

    async def read(self) -> bytes | None:
        """The file; None when there is none that can be read."""
        try:
            return await asyncio.to_thread(context_file.read, self._config.claude)
        except OSError as error:
            logger.warning("The context file cannot be read: %s", error)
            return None

    async def build(self, prompt: str = "") -> Built:
        """Asks Claude, read-only, within the limits of a turn, and keeps the answer. `prompt` is over the config's.

        Whoever waits may go away: the build goes on. The reasons are those of a failed task (docs/reasons.md), and
        `busy` when a build runs already, `canceled` when the server stops, `not_written` when the file cannot be.
        """
        if self._building is not None and not self._building.done():
            return Built(reason="busy", problem="A build of the context is running already.")
        text = prompt.strip() or self._config.claude.context_prompt or PROMPT
        self._building = asyncio.create_task(self._build(text), name="context-build")
        try:
            return await asyncio.shield(self._building)
        except asyncio.CancelledError:
            if not self._building.cancelled():
                raise
            return Built(reason="canceled", problem="The server is stopping.")

    async def close(self) -> None:
        """Ends a build that runs."""
        if self._building is not None:
            self._building.cancel()
            await asyncio.wait({self._building})

    async def _build(self, prompt: str) -> Built:
        answer = _Answer()
        pool = Pool(_Readers(self._processes, self._config))
        try:
            ending = await self._turn(pool, prompt, answer)
        except ClaudeError as error:
            logger.error("The context could not be built: %s\n%s", error, self._redactor.text(error.detail))
            ending = Ending(Failure(error.reason, self._redactor.text(f"{error}.")))
        finally:
            await asyncio.shield(asyncio.ensure_future(pool.shutdown(_CLOSE_SECONDS)))
        if ending.failure is not None:
            return Built(reason=ending.failure.reason, problem=ending.failure.text)
        try:
            await asyncio.to_thread(context_file.write, self._config.claude, answer.text)
        except OSError as error:
            logger.error("The context file cannot be written: %s", error)
            return Built(reason="not_written", problem="The context file could not be written into the workspace.")
        return Built(answer.text)

    async def _turn(self, pool: Pool, prompt: str, answer: _Answer) -> Ending:
        seconds = self._config.timeouts.prompt / 1000
        deadline = time.monotonic() + seconds if seconds > 0 else None
        try:
            async with asyncio.timeout(seconds if seconds > 0 else None):
                session = await pool.acquire("context", "", str(uuid4()))
        except TimeoutError:
            return Ending(Failure("timeout", f"Prompt timed out after {self._config.timeouts.prompt}ms."))
        turn = Turn(
            session,
            self._config,
            answer.take,
            self._redactor,
            stop=asyncio.Event(),
            artifact_id=lambda _: "context",
            deadline=deadline,
        )
        try:
            return await turn.run([{"type": "text", "text": prompt}])
        finally:
            if self._spent is not None:
                with contextlib.suppress(Exception):
                    self._spent(turn.usage)


class _Answer:
    """The text of the last round's answer."""

    def __init__(self) -> None:
        self.text = ""

    async def take(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        if isinstance(event, TaskArtifactUpdateEvent):
            self.text = "".join(part.text for part in event.artifact.parts).strip() + "\n"


class _Readers:
    """`Starter` of the processes that look."""

    def __init__(self, processes: Apart, config: Config) -> None:
        self._processes, self.config = processes, config

    async def start(self, resume: str | None, ask: CanUseTool | None = None) -> Client:
        return await self._processes.start_apart(self.config)

    def memory(self, client: Client) -> int:
        return 0

    def close(self) -> None:
        """The processes' folders are the agent's."""


def _read_only(config: Config) -> Config:
    claude = replace(
        config.claude,
        permission_mode="plan",
        disallowed_tools=(*config.claude.disallowed_tools, *_WRITERS),
        output_format=None,
    )
    return replace(config, claude=claude, features=replace(config.features, stream_artifact_chunks=False))

"""`ClaudeExecutor`: a2a-sdk's `AgentExecutor` over live Claude sessions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import InvalidParamsError

from a2a_claude.claude import approval_answers, output_files, translate
from a2a_claude.claude.approvals import Approvals
from a2a_claude.claude.content import Block, Files, FileUnavailable, Outputs, Prompts, outputs
from a2a_claude.claude.delegates import Delegates, Delegation
from a2a_claude.claude.events import Events, TurnEvents
from a2a_claude.claude.output_files import OutputFiles
from a2a_claude.claude.results import Failure
from a2a_claude.claude.session import ClaudeError, LiveSession, Sessions
from a2a_claude.claude.task_folders import TaskFolders
from a2a_claude.claude.turn import Ending, Turn
from a2a_claude.claude.usage import Usage
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 600.0
CANCEL_SECONDS: Final = 9.0  # the server waits ten for an executor
LOST_TEXT: Final = "The earlier conversation of this context could not be continued: a new one has begun."

T = TypeVar("T")
Spent = Callable[[Usage], None]


class _Running:
    """A turn at work: set `stop` to cancel it; `ending` comes when it is quiet."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.approvals: Approvals | None = None
        self.started = time.monotonic()
        self.ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def end(self, ending: Ending) -> None:
        if not self.ending.done():
            self.ending.set_result(ending)


class ClaudeExecutor(AgentExecutor):
    """A message becomes a turn of Claude in the session of its context."""

    def __init__(
        self,
        config: Config,
        sessions: Sessions,
        redactor: Redactor,
        *,
        remote_files: Files | None = None,
        spent: Spent | None = None,
        notes: Path | None = None,
        known: Callable[[str], bool] = lambda _: True,
        delegates: Delegates | None = None,
        events: Events | None = None,
    ) -> None:
        """`remote_files` are those by URL, where the config allows them; `spent` is told what each turn used. `notes`
        keep which tasks have folders in the workspace; they lose them when the task is not `known` any more.
        `delegates` are the agents that Claude may call, `events` what is told on the side; by default, in the streams.
        """
        self._config, self._sessions, self._redactor, self._spent = config, sessions, redactor, spent
        self._folders = TaskFolders(Path(config.claude.working_directory), notes)
        self._prompts = Prompts(self._folders, config.server.limits, remote_files)
        self._known, self._swept = known, -SWEEP_SECONDS
        self._running: dict[str, _Running] = {}
        self._delegates = delegates
        self._events = events or Events(config, redactor)

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn: submitted (for a new task), working, artifacts, the end.

        Raises:
            InvalidParamsError, ContentTypeNotSupportedError: the message cannot be taken, or its answer not be given.
        """
        message, task_id, context_id = context.message, context.task_id or "", context.context_id or ""
        if message is None:
            return
        accepted = context.configuration.accepted_output_modes if context.configuration else ()
        structured = self._config.claude.output_format is not None
        taken = outputs(accepted, structured=structured, files=output_files.promised(self._config))
        self._prompts.check(message)
        if self._config.claude.approvals == "inputRequired" and approval_answers.named(message):
            raise InvalidParamsError("No request is open: an answer names the task that waits for it, by its taskId")
        told = self._events.turn(context, event_queue)
        delegation = self._delegation(context, message, told)
        running = self._running[task_id] = _Running()
        try:
            if context.current_task is None:
                await event_queue.enqueue_event(translate.submitted(task_id, context_id))
            await event_queue.enqueue_event(translate.working())
            try:
                ending = await _delegating(
                    delegation, self._turn(context, message, taken, event_queue, running, delegation, told)
                )
                await told.end(ending.failure, None, canceled=ending.canceled)
            finally:
                await asyncio.to_thread(self._folders.tidy, task_id)
            running.end(ending)
            if ending.failure is not None and not ending.canceled:
                # Who has to mend it reads the log, and sees no task.
                logger.warning("Task %s failed: %s", task_id, ending.failure.reason)
            if not ending.canceled:
                await event_queue.enqueue_event(translate.ended(ending.failure, ending.metadata))
        finally:
            running.end(Ending(None, canceled=True))
            del self._running[task_id]

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Interrupts the turn of a task and publishes `canceled` when it is quiet."""
        running = self._running.get(context.task_id or "")
        metadata: dict[str, Any] = {}
        if running is not None:
            running.stop.set()
            await asyncio.wait({running.ending}, timeout=CANCEL_SECONDS)
            if running.ending.done():
                metadata = running.ending.result().metadata
        await event_queue.enqueue_event(translate.canceled(metadata))

    def waits(self, task_id: str) -> bool:
        """Whether a turn of the task waits for its caller; `Answering` in the A2A room."""
        running = self._running.get(task_id)
        return running is not None and running.approvals is not None and running.approvals.waits

    def answer(self, context: RequestContext) -> bool:
        """Gives a message to the turn that waits for it; `Answering` in the A2A room.

        Raises:
            InvalidParamsError: it decides nothing, and the message says why.
        """
        running, message = self._running.get(context.task_id or ""), context.message
        if running is None or running.approvals is None or message is None:
            return False
        if running.stop.is_set() and running.approvals.waits:
            raise InvalidParamsError("The task is being cancelled")
        return running.approvals.answer(message)

    def _has_room(self) -> bool:
        """Whether a turn may wait. It keeps its process meanwhile, and must leave enough of them to others."""
        limits, session = self._config.server.limits, self._config.session
        waiting = sum(self.waits(each) for each in self._running)
        return waiting < max(1, session.max_live_clients - limits.max_concurrent_tasks)

    async def _turn(
        self,
        context: RequestContext,
        message: Message,
        taken: Outputs,
        queue: EventQueue,
        running: _Running,
        delegation: Delegation | None,
        events: TurnEvents,
    ) -> Ending:
        task_id = context.task_id or ""
        timeout = self._config.timeouts.prompt / 1000
        deadline = running.started + timeout if timeout > 0 else None
        files = OutputFiles(self._folders, task_id, self._config.server.limits, taken, self._redactor.known_spans)
        try:
            prepared = await _unless_stopped(self._prepare(context, message, files), running, deadline)
        except FileUnavailable as error:
            return Ending(Failure("file_unavailable", str(error)))
        except ClaudeError as error:
            logger.error("Task %s: %s\n%s", task_id, error, error.detail)
            return Ending(Failure(error.reason, self._redactor.text(f"{error}.")))
        if prepared is None:
            if running.stop.is_set():
                return Ending(None, canceled=True)
            return Ending(Failure("timeout", f"Prompt timed out after {self._config.timeouts.prompt}ms."))
        blocks, session = prepared
        healthy = False
        approvals = running.approvals = Approvals(self._config, queue.enqueue_event, self._redactor, self._has_room)
        session.ask = approvals.ask
        session.calls = None if delegation is None else (delegation, lambda parts: self._prompts.handed(parts, task_id))
        try:
            if session.fell_back is not None:
                await queue.enqueue_event(translate.working(LOST_TEXT, {"sessionLost": session.fell_back.reason}))
            turn = Turn(
                session,
                self._config,
                approvals.publish,
                self._redactor,
                stop=running.stop,
                artifact_id=self._names(context),
                outputs=taken,
                deadline=deadline,
                waited=lambda: approvals.seconds,
                observe=events.frame,
            )
            told = session.fell_back
            ending = await turn.run(blocks)
            healthy = ending.healthy
            ending.metadata |= approvals.close()
            if ending.failure is None and not ending.canceled and output_files.wanted(self._config):
                await self._hand_out(files, ending, queue)
            if approvals.left_plan and healthy and self._config.claude.permission_mode == "plan":
                healthy = await session.set_mode("plan")
            if session.fell_back is not None and session.fell_back is not told:
                ending.metadata["sessionLost"] = session.fell_back.reason
            if not turn.missing and context.current_task and "mcpServers" in context.current_task.metadata:
                ending.metadata["mcpServers"] = []  # takes back what an earlier turn of the task told
            self._account(turn.usage, ending, running)
            await events.end(ending.failure, turn.usage, canceled=ending.canceled)
            running.end(ending)
            return ending
        finally:
            approvals.close()
            await asyncio.shield(asyncio.ensure_future(self._sessions.release(session, healthy=healthy)))

    def _delegation(self, context: RequestContext, message: Message, events: TurnEvents) -> Delegation | None:
        """The calls of other agents in a turn; InvalidParamsError when they would go round in a circle."""
        if self._delegates is None:
            return None
        return self._delegates.delegation(
            message,
            task_id=context.task_id or "",
            context_id=context.context_id or "",
            owner=context.call_context.user.user_name,
            progress=events.progress,
        )

    async def _prepare(
        self, context: RequestContext, message: Message, files: OutputFiles
    ) -> tuple[list[Block], LiveSession]:
        """The prompt, and the session of the context."""
        task_id = context.task_id or ""
        await self._sweep()
        blocks = await self._prompts.blocks(message, task_id)
        if output_files.wanted(self._config) and (notice := await asyncio.to_thread(files.open)):
            blocks.append({"type": "text", "text": notice})
        owner = context.call_context.user.user_name
        return blocks, await self._sessions.acquire(context.context_id or "", owner, task_id)

    async def _hand_out(self, files: OutputFiles, ending: Ending, queue: EventQueue) -> None:
        found = await asyncio.to_thread(files.collect)
        if found.parts:
            await queue.enqueue_event(found.event())
        if found.left_out:
            ending.metadata["filesLeftOut"] = found.left_out

    async def _sweep(self) -> None:
        """Removes the folders of tasks that are not kept any more."""
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        gone = [each for each in self._folders.noted() if each not in self._running and not self._known(each)]
        for each in gone:
            await asyncio.to_thread(self._folders.remove, each)

    def _account(self, usage: Usage, ending: Ending, running: _Running) -> None:
        ending.metadata["usage"] = usage.metadata(int((time.monotonic() - running.started) * 1000))
        if self._spent is not None:
            self._spent(usage)

    def _names(self, context: RequestContext) -> Callable[[int], str]:
        """Ids of the rounds' artifacts. A task that goes on has some already."""
        task = context.current_task
        before = sum(each.name == "response" for each in task.artifacts) if task is not None else 0
        if not self._config.features.stream_artifact_chunks:
            return lambda _round: f"response-{uuid4()}"
        return lambda number: f"response-{context.task_id}-{before + number}"


async def _delegating(delegation: Delegation | None, turn: Coroutine[Any, Any, Ending]) -> Ending:
    """A turn, and the end of what it has asked other agents for: nothing goes on for a turn that did not succeed."""
    cancel = True
    try:
        ending = await turn
        cancel = ending.canceled or ending.failure is not None
        return ending
    finally:
        if delegation is not None:
            await asyncio.shield(asyncio.ensure_future(delegation.end(cancel=cancel)))


async def _unless_stopped(work: Coroutine[Any, Any, T], running: _Running, deadline: float | None) -> T | None:
    """What `work` gives; None when the turn was cancelled, or its time was up, before that."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(running.stop.wait())
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    try:
        await asyncio.wait({working, stopping}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        stopping.cancel()
        working.cancel()

"""`Approvals`: what one turn asks its caller, and the answers.

    the CLI ─▶ ask ─▶ policy ─▶ allow or deny
                         └────▶ input-required ─▶ answer, or no answer in time ─▶ working ─▶ the CLI

Everything that decides is done at once and once: an answer is taken only while its request is open, and a request is
closed in the same step that decides it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from a2a.types.a2a_pb2 import Artifact, Message, Part, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext

from a2a_claude.claude import approval_answers, translate
from a2a_claude.claude.approval_answers import Answer
from a2a_claude.claude.approval_policy import QUESTION, decide
from a2a_claude.claude.approval_requests import PLAN, Request, describe
from a2a_claude.claude.delegates import SERVER
from a2a_claude.claude.mcp import tool_name
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

# Tools that run side by side ask side by side: what is asked within this time is told at once.
GATHER_SECONDS: Final = 0.05
# Decisions that a task keeps.
KEPT: Final = 50
_WORDS: Final = frozenset({"allow", "allowsession", "allowedits", "deny"})

Publish = Callable[[TaskStatusUpdateEvent | TaskArtifactUpdateEvent], Awaitable[None]]
Result = PermissionResultAllow | PermissionResultDeny


class Approvals:
    """The requests of one turn. `has_room` tells whether one more turn may wait for its caller."""

    def __init__(self, config: Config, publish: Publish, redactor: Redactor, has_room: Callable[[], bool]) -> None:
        self._config, self._publish, self._redactor, self._has_room = config, publish, redactor, has_room
        self._open: dict[str, Request] = {}
        self._known: dict[str, Request] = {}
        self._told: tuple[str, ...] = ()  # the open requests that the task shows
        self._news: list[Request] = []  # decided since the task was told last
        self._decided: deque[dict[str, str]] = deque(maxlen=KEPT)
        self._telling = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._waited, self._since = 0.0, 0.0
        self.left_plan = False
        """Whether a plan was approved, which ends plan mode."""

    @property
    def waits(self) -> bool:
        """Whether a request is open."""
        return bool(self._open)

    @property
    def seconds(self) -> float:
        """How long the turn has waited for its caller so far."""
        return self._waited + (time.monotonic() - self._since if self._open else 0.0)

    async def publish(self, event: TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        """Publishes what the turn says; a task that waits for its caller stays `input-required` meanwhile."""
        working = isinstance(event, TaskStatusUpdateEvent) and event.status.state == TaskState.TASK_STATE_WORKING
        if working and self._told and self._open:
            assert isinstance(event, TaskStatusUpdateEvent)  # noqa: S101 (for the type)
            event.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
        await self._publish(event)

    def close(self) -> dict[str, Any]:
        """The turn is over: what is open is denied, and nothing is published any more.

        Gives what the metadata of the end must have, so that the task shows no request as open.
        """
        self._closed = True
        for request in list(self._open.values()):
            self._decide(request, PermissionResultDeny(message="The task has ended."), "deny", "end")
        return {"approvals": [], "decided": list(self._decided)} if self._known else {}

    # Asking

    async def ask(self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext) -> Result:
        """What the CLI is answered; see `session.Ask`."""
        if self._closed:
            return PermissionResultDeny(message="The task has ended.")
        rules = self._config.claude.approval_policy
        found = decide(rules, tool, arguments)
        if found is not None:
            index, rule = found
            logger.info("Rule %d of claude.approvalPolicy: %s %s", index, rule.decision, tool)
            if rule.decision == "deny":
                return PermissionResultDeny(message=f"The agent's policy does not allow this use of {tool}.")
            if rule.decision == "allow" and tool != QUESTION:  # no rule can answer a question
                self.left_plan |= tool == PLAN
                return PermissionResultAllow()
        elif tool.startswith(tool_name(SERVER)):
            return PermissionResultAllow()  # the config has asked for it under subAgents
        if self._config.claude.approvals != "inputRequired":
            instead = "Give the plan as your answer." if tool == PLAN else "Go on without it, or say what you need."
            return PermissionResultDeny(message=f"Nobody can be asked to allow this. {instead}")
        if not self._open and not self._has_room():
            logger.warning("%s was denied: too many turns wait for their callers", tool)
            return PermissionResultDeny(message="Nobody can be asked now: too many requests wait for an answer.")
        return await self._wait(self._opened(tool, arguments, context))

    def _opened(self, tool: str, arguments: dict[str, Any], context: ToolPermissionContext) -> Request:
        name = secrets.token_hex(4)
        while name in self._known:
            name = secrets.token_hex(4)
        expires = time.time() + GATHER_SECONDS + self._seconds
        rules = self._config.claude.approval_policy
        request = describe(name, tool, arguments, context, self._redactor, expires, rules)
        if not self._open:
            self._since = time.monotonic()
        self._open[name] = self._known[name] = request
        return request

    @property
    def _seconds(self) -> float:
        return self._config.timeouts.approval / 1000

    async def _wait(self, request: Request) -> Result:
        try:
            await asyncio.sleep(GATHER_SECONDS)
            await self._tell()
            await asyncio.wait({request.decided}, timeout=self._seconds)
            if not request.decided.done():
                late = f"Nobody answered within {self._seconds:g} seconds. Go on without {request.tool}, if you can."
                self._decide(request, PermissionResultDeny(message=late), "deny", "timeout")
            await self._tell()
        except BaseException:
            if not request.decided.done():
                # The CLI has taken it back, because of an interrupt for example.
                self._decide(request, PermissionResultDeny(message="It was withdrawn."), "deny", "withdrawn")
                task = asyncio.create_task(self._tell())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            raise
        return request.decided.result()

    def _decide(self, request: Request, result: Result, choice: str, by: str) -> None:
        del self._open[request.id]
        if not self._open:
            self._waited += time.monotonic() - self._since
        request.choice, request.by = choice, by
        self.left_plan |= request.kind == "plan" and isinstance(result, PermissionResultAllow)
        logger.info("Request %s (%s): %s, by %s", request.id, request.tool, choice, by)
        self._news.append(request)
        self._decided.append(request.record)
        request.decided.set_result(result)

    # Answers

    def answer(self, message: Message) -> bool:
        """Takes a message's answers, all or none; whether it was one. While a request is open it has to be.

        Raises:
            InvalidParamsError: a request that is not open, or an answer that does not fit; nothing was decided.
        """
        text = approval_answers.spoken(message)
        answers = approval_answers.named(message) or self._worded(text)
        if not answers:
            if self._open:
                raise InvalidParamsError(f"The task waits for an answer to {self._listed()}: name the request's id")
            if self._known and text.rstrip(".!").casefold() in _WORDS:
                raise InvalidParamsError("No request is open any more")
            return False
        taken = []
        for answer in answers:
            request = self._find(answer.id)
            choice, result = approval_answers.outcome(request, answer)
            self._check(request, result)
            taken.append((request, result, choice))
        for request, result, choice in taken:
            self._decide(request, result, choice, "caller")
        return True

    def _worded(self, text: str) -> list[Answer]:
        """The answer that a text is. Without an id it is one to the only request that the turn has ever made: any
        other may not be the one that the caller has seen."""
        found = approval_answers.worded(text)
        if found is not None and found.id in self._known:
            return [found]
        if len(self._known) == len(self._open) == 1 and text:
            return [Answer(next(iter(self._open)), said=text)]
        return []

    def _find(self, name: str) -> Request:
        request = self._open.get(name)
        if request is not None:
            return request
        if (request := self._known.get(name)) is not None:
            raise InvalidParamsError(f"Request {name} is decided already: {request.choice} ({request.by})")
        waits = f"open: {self._listed()}" if self._open else "none is open"
        raise InvalidParamsError(f"There is no request {name[:64]!r} in this turn: {waits}")

    def _check(self, request: Request, result: Result) -> None:
        """What a rule denies, nobody allows by changing the input."""
        if isinstance(result, PermissionResultAllow) and result.updated_input is not None:
            found = decide(self._config.claude.approval_policy, request.tool, result.updated_input)
            if found is not None and found[1].decision == "deny":
                raise InvalidParamsError(f"Request {request.id}: the agent's policy denies this input")

    def _listed(self) -> str:
        return ", ".join(f"{each.id} ({each.tool})" for each in self._open.values())

    # Telling

    async def _tell(self) -> None:
        """Shows the task what is open, and what has been decided since."""
        async with self._telling:
            now = tuple(self._open)
            if self._closed or (now == self._told and not self._news):
                return
            for request in list(self._open.values()):
                if request.plan and request.id not in self._told:
                    await self._publish(self._artifact(request))
            now, waiting, news = tuple(self._open), list(self._open.values()), self._news
            self._told, self._news = now, []
            metadata = {"approvals": [each.shown for each in waiting], "decided": list(self._decided)}
            said = [*map(_told, news), *(each.text for each in waiting)]
            state = TaskState.TASK_STATE_INPUT_REQUIRED if waiting else TaskState.TASK_STATE_WORKING
            await self._publish(translate.status(state, "\n".join(said), metadata))

    def _artifact(self, request: Request) -> TaskArtifactUpdateEvent:
        part = Part(text=self._redactor.answer(request.plan), media_type="text/markdown")
        artifact = Artifact(artifact_id=request.shown["artifactId"], name="plan", parts=[part])
        return TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True)


def _told(request: Request) -> str:
    match request.by:
        case "caller":
            return f"{request.tool}: {request.choice}."
        case "timeout":
            return f"{request.tool}: denied, nobody answered in time."
    return f"{request.tool}: no longer asked."

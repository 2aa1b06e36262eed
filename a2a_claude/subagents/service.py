"""`SubAgents`: the agents of `subAgents` as tools; `Delegates` of Claude's room."""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from a2a.types.a2a_pb2 import Message, Part, Role

from a2a_claude.claude.delegates import Answer, Progress, Tool
from a2a_claude.claude.json_values import sendable, whole
from a2a_claude.claude.session import SessionStore
from a2a_claude.config.model import Config
from a2a_claude.subagents import answers
from a2a_claude.subagents.calls import Call
from a2a_claude.subagents.checks import checked
from a2a_claude.subagents.conversations import Conversation, Conversations
from a2a_claude.subagents.delegation import Identity, path_of, trace_of
from a2a_claude.subagents.remote import Remote
from a2a_claude.subagents.tools import CANCEL, RESULT, STATUS, Target, catalogue

logger = logging.getLogger(__name__)

_DEFAULT_PROBE_SECONDS: Final = 5.0
# What ending a turn waits for cancelled tasks; they go on being cancelled after it.
_END_SECONDS: Final = 1.5
MAX_RUNNING: Final = 20
"""Calls of one context that may run at once."""


class SubAgents:
    """The remotes of one agent. Open it in a running loop, close it at the end."""

    def __init__(self, config: Config, store: SessionStore | None) -> None:
        """`store` remembers conversations with remotes beside the sessions of Claude.

        Raises:
            OptionsError: see `checked`.
        """
        options = config.sub_agents.options
        probe = options.probe_timeout_ms / 1000
        seconds = probe if probe > 0 else _DEFAULT_PROBE_SECONDS
        self.remotes = {each.name: Remote(each, seconds) for each in checked(config.sub_agents.agents)}
        self.mode: answers.Mode = options.response_mode
        self.budget = options.sync_budget_ms / 1000 or None
        self.me = Identity(str(uuid.uuid4()), config.agent_card.name)
        self._by_context = config.session.reuse_by_context
        self.conversations = Conversations(store if self._by_context else None, config.session.ttl)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._listed: tuple[list[Tool], dict[str, Target]] = ([], {})
        self._cards: list[Any] = []

    async def open(self) -> None:
        """Fetches all cards side by side, each for `probeTimeoutMs` at most. A remote that is down stops nothing."""
        await asyncio.gather(*(each.probe() for each in self.remotes.values()))

    async def close(self, seconds: float) -> None:
        """Waits so long for tasks that are being cancelled, and closes all connections."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        self.conversations.close()
        await asyncio.gather(*(each.close() for each in self.remotes.values()))

    @property
    def seconds(self) -> float:
        """See `Delegates.seconds`."""
        return self.budget or math.inf

    def tools(self) -> Sequence[Tool]:
        """See `Delegates.tools`."""
        return self._catalogue()[0]

    def target(self, tool: str) -> Target | None:
        """What a tool calls."""
        return self._catalogue()[1].get(tool)

    def refresh(self) -> None:
        """See `Delegates.refresh`."""
        for remote in self.remotes.values():
            if remote.stale:
                self.spawn(remote.probe())

    def delegation(
        self,
        message: Message,
        *,
        task_id: str,
        context_id: str,
        owner: str,
        progress: Progress,
        metadata: Mapping[str, str] = {},
    ) -> Delegation:
        """See `Delegates.delegation`."""
        path = path_of(message).checked(self.me)
        along = {"traceId": trace_of(message) or context_id, **metadata, **path.metadata(self.me)}
        return Delegation(self, along, (owner, context_id if self._by_context else task_id), progress)

    def states(self) -> dict[tuple[str, ...], float]:
        """1 for each name and its state: the samples of a gauge."""
        return {(name, "unavailable" if each.problem else "available"): 1.0 for name, each in self.remotes.items()}

    def problem(self) -> str:
        """What `/ready` says of them; empty when all are there."""
        lost = sum(bool(each.problem) for each in self.remotes.values())
        return f"{lost} of {len(self.remotes)} agents are not available" if lost else ""

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something in the background that is not forgotten."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _catalogue(self) -> tuple[list[Tool], dict[str, Target]]:
        cards = [each.card for each in self.remotes.values()]
        if not self._listed[0] or any(a is not b for a, b in zip(cards, self._cards, strict=True)):
            self._cards = cards
            self._listed = catalogue({name: each.card for name, each in self.remotes.items()})
        return self._listed


class Delegation:
    """The calls of one turn; `Delegation` of Claude's room."""

    def __init__(
        self, agents: SubAgents, metadata: Mapping[str, Any], key: tuple[str, str], progress: Progress
    ) -> None:
        """`metadata` goes along with each message; `key` is the principal and the context."""
        self._agents, self._metadata, self._key, self._progress = agents, metadata, key, progress
        self._begun: list[tuple[str, Call]] = []
        self._ended = False

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """See `Delegation.call` in Claude's room."""
        if self._ended:
            return answers.error("The turn is over.")
        tool, arguments = whole(tool), sendable(dict(arguments))
        conversation = self._agents.conversations.open(*self._key)
        name = str(arguments.get("task_id") or "")
        if tool in (STATUS, RESULT, CANCEL):
            return await self._of_task(conversation, tool, name, arguments)
        target = self._agents.target(tool)
        if target is None:
            return answers.error(f"There is no tool {tool[:100]}.")
        return await self._send(conversation, tool, target, name, arguments)

    async def end(self, *, cancel: bool) -> None:
        """See `Delegation.end` in Claude's room."""
        self._ended = True
        conversation, news, canceling = self._agents.conversations.open(*self._key), False, []
        for name, call in self._begun:
            call.hush()
            news |= conversation.note(name, call)
            if cancel:
                canceling.append(self._agents.spawn(call.cancel()))
            elif call.task_id:  # it can be asked for
                call.stop()
        if news:
            await self._agents.conversations.save(*self._key)
        if canceling:
            await asyncio.wait(canceling, timeout=_END_SECONDS)

    # Sending

    async def _send(
        self, conversation: Conversation, tool: str, target: Target, name: str, arguments: Mapping[str, Any]
    ) -> Answer:
        text = arguments.get("message")
        if not isinstance(text, str) or not text.strip():
            return answers.error("The message is empty: say what the agent is to do.")
        if sum(not each.rests for each in conversation.calls.values()) >= MAX_RUNNING:
            return answers.error(f"{MAX_RUNNING} tasks run already: wait for one (task_result), or cancel one.")
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        message.metadata.update({**self._metadata, **({"skillId": target.skill} if target.skill else {})})
        if name:
            found = conversation.find(name)
            if found is None or found[0] != target.remote or not found[1]:
                return answers.error(f"There is no task {name[:100]} of the agent {target.remote}.")
            message.task_id = found[1]
        elif not arguments.get("new_conversation") and not self._talks(conversation, target.remote):
            message.context_id = conversation.contexts.get(target.remote, "")
        call = Call(self._agents.remotes[target.remote], message, self._tell(tool))
        name = conversation.go_on(name, call) if name else conversation.begin(call)
        self._begun.append((name, call))
        return await self._wait(conversation, call, name)

    def _talks(self, conversation: Conversation, remote: str) -> bool:
        """Whether a call of the conversation with a remote runs: a second one beside it has a conversation of its own,
        where it need not wait for the first."""
        return any(each.remote.name == remote and not each.rests for each in conversation.calls.values())

    def _tell(self, tool: str) -> Any:
        return lambda state, text: self._progress(tool, state, text)

    async def _wait(self, conversation: Conversation, call: Call, name: str, offset: int = 0) -> Answer:
        try:
            await call.wait(self._agents.budget)
        except asyncio.CancelledError:
            self._agents.spawn(call.cancel())
            raise
        if conversation.note(name, call):
            await self._agents.conversations.save(*self._key)
        if not call.settled:
            return answers.running(call, name)
        self._agents.conversations.keep(conversation, name, call)
        return answers.answer(call, name, self._agents.mode, offset)

    # Tasks that are there already

    async def _of_task(self, conversation: Conversation, tool: str, name: str, arguments: Mapping[str, Any]) -> Answer:
        call = self._known(conversation, name)
        if call is None:
            return answers.error(f"There is no task {name[:100]}: use the id that a tool of this server has given.")
        if tool == CANCEL:
            await call.cancel()
            await call.wait(None)
            return answers.status(call, name)
        if tool == STATUS:
            if call.task_id and not call.state:
                await call.wait(5)
            return answers.status(call, name)
        offset = arguments.get("offset")
        return await self._wait(conversation, call, name, offset if isinstance(offset, int) and offset > 0 else 0)

    def _known(self, conversation: Conversation, name: str) -> Call | None:
        """The call of a task. One that nobody follows, of an earlier turn for example, is asked for again."""
        found = conversation.find(name)
        if found is None:
            return None
        call = conversation.calls.get(name)
        if call is None or (not call.followed and call.task_id and not call.ended):
            remote, task_id = self._agents.remotes.get(found[0]), call.task_id if call is not None else found[1]
            if remote is None or not task_id:
                return call
            call = Call(remote, None, self._tell(RESULT), task_id=task_id)
            conversation.go_on(name, call)
        return call

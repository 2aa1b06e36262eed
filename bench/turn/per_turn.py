"""The peer: a process of the CLI for each turn, which resumes the session of the context, as the TypeScript a2a-claude
does it; behind the same server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from a2a.server.agent_execution.agent_executor import AgentExecutor
from a2a.server.agent_execution.context import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, StreamEvent, query


class PerTurn(AgentExecutor):
    """Remembers the session of each context, and nothing else."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._sessions: dict[str, str] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """One turn, streamed."""
        contextual, said = context.context_id or "", False
        state = TaskState.TASK_STATE_FAILED
        async for message in query(prompt=_prompt(context.get_user_input()), options=self._options(contextual)):
            if isinstance(message, StreamEvent) and (text := _delta(message.event)):
                artifact = Artifact(artifact_id="response", name="response", parts=[Part(text=text)])
                await event_queue.enqueue_event(TaskArtifactUpdateEvent(artifact=artifact, append=said))
                said = True
            elif isinstance(message, ResultMessage):
                self._sessions[contextual] = message.session_id
                if not message.is_error:
                    state = TaskState.TASK_STATE_COMPLETED
        await event_queue.enqueue_event(TaskStatusUpdateEvent(status=TaskStatus(state=state)))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing cancels here."""
        raise NotImplementedError

    def _options(self, context_id: str) -> ClaudeAgentOptions:
        return ClaudeAgentOptions(
            cwd=self._workspace,
            permission_mode="acceptEdits",
            system_prompt={"type": "preset", "preset": "claude_code"},
            setting_sources=[],
            strict_mcp_config=True,
            include_partial_messages=True,
            resume=self._sessions.get(context_id),
        )


async def _prompt(text: str) -> AsyncIterator[dict[str, Any]]:
    yield {"type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": None}


def _delta(event: dict[str, Any]) -> str:
    delta = event.get("delta") or {}
    return str(delta.get("text", "")) if delta.get("type") == "text_delta" else ""

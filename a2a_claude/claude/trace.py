"""A sideband event as an artifact of the extension `urn:x-a2a:trace:v1`: the a2a transport."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from a2a_claude.claude.json_values import sendable
from a2a_claude.observe.events import Event

EXTENSION: Final = "urn:x-a2a:trace:v1"
_KEYS: Final = {
    "agent_started": "trace.lifecycle",
    "agent_finished": "trace.lifecycle",
    "agent_error": "trace.lifecycle",
    "thinking": "trace.thinking",
    "tool_call_start": "trace.mcp.start",
    "tool_call_progress": "trace.mcp.progress",
    "tool_call_end": "trace.mcp",
    "decision": "trace.decision",
    "rate_limit": "trace.rate_limit",
    "background_tasks": "trace.background_tasks",
    "context_window": "trace.context_window",
}
_STATES: Final = {"agent_started": "started", "agent_finished": "finished", "agent_error": "error"}


class TraceTransport:
    """Puts events into the stream of the turn that they are about."""

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue

    async def send(self, event: Event) -> None:
        """Publishes it as a whole artifact of its own."""
        await self._queue.enqueue_event(artifact(event))


def artifact(event: Event) -> TaskArtifactUpdateEvent:
    """One data part: whose event it is in snake case, `state` for the bookends, and the event's data beside them."""
    key = _KEYS.get(event.type, f"trace.{event.type}")
    content: dict[str, Any] = {
        "agent_id": event.origin.agent_id,
        "agent_name": event.origin.agent_name,
        "trace_id": event.origin.trace_id,
    }
    if event.origin.parent_agent_id:
        content["parent_agent_id"] = event.origin.parent_agent_id
    if event.type in _STATES:
        content["state"] = _STATES[event.type]
    part = Part(data=ParseDict(sendable({**content, **event.data}), Value()), media_type="application/json")
    part.metadata["mimeType"] = "application/json"
    made = Artifact(artifact_id=f"{key}-{uuid4()}", name=key, parts=[part], extensions=[EXTENSION])
    made.metadata.update({"traceType": key, "timestamp": event.timestamp, "eventType": event.type, "eventId": event.id})
    return TaskArtifactUpdateEvent(artifact=made, last_chunk=True)

"""a2a-sdk's own server: Starlette on uvicorn, its request handler and its store in memory. Argument: the port.

Run by the Python of the peer's own environment. The executor does what a2a_claude's scripted one does, in the fewest
events that the handler allows.
"""

# mypy: ignore-errors
from __future__ import annotations

import sys
from uuid import uuid4

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from starlette.applications import Starlette


class Scripted(AgentExecutor):
    async def execute(self, context, event_queue) -> None:
        message, ids = context.message, {"task_id": context.task_id, "context_id": context.context_id}
        chunks = int(message.metadata["script"]["chunks"]) if "script" in message.metadata else 0
        said = Message(message_id=str(uuid4()), role=Role.ROLE_AGENT, parts=[Part(text=context.get_user_input())])
        completed = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=said)
        status = TaskStatus(state=TaskState.TASK_STATE_WORKING) if chunks else completed
        task = Task(id=context.task_id, context_id=context.context_id, status=status, history=[message])
        await event_queue.enqueue_event(task)
        artifact_id = str(uuid4())
        for number in range(chunks):
            part = Part(text=f"{number} ".ljust(16, "·"))
            artifact = Artifact(artifact_id=artifact_id, name="response", parts=[part])
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(**ids, artifact=artifact, append=number > 0, last_chunk=number == chunks - 1)
            )
        if chunks:
            await event_queue.enqueue_event(TaskStatusUpdateEvent(**ids, status=completed))

    async def cancel(self, context, event_queue) -> None:
        raise NotImplementedError


def main() -> None:
    port = int(sys.argv[1])
    url = f"http://127.0.0.1:{port}/a2a/jsonrpc"
    card = AgentCard(
        name="Scripted",
        description="Answers at once.",
        version="1",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="echo", name="Echo", description="Echoes.", tags=["echo"])],
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    handler = DefaultRequestHandler(agent_executor=Scripted(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/a2a/jsonrpc")]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning", access_log=False)


main()

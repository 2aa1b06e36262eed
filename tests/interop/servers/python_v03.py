"""An agent on a2a-sdk 0.3 that does what the first word of a message says. Arguments: the port, `streaming` or not."""

# mypy: ignore-errors
from __future__ import annotations

import asyncio
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TaskState, TextPart
from a2a.utils import new_agent_text_message, new_task


class Obedient(AgentExecutor):
    async def execute(self, context, event_queue) -> None:
        task = context.current_task
        said = context.get_user_input()
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if task is not None:
            await updater.complete(new_agent_text_message(f"you said {said}"))
            return
        await event_queue.enqueue_event(new_task(context.message))
        if said.startswith("ask"):
            question = new_agent_text_message("Which one?")
            await updater.update_status(TaskState.input_required, question, final=True)
        elif said.startswith("hang"):
            await updater.update_status(TaskState.working, new_agent_text_message("thinking"))
            await asyncio.Event().wait()
        else:
            await updater.add_artifact([Part(root=TextPart(text=f"did {said}"))])
            await updater.complete()

    async def cancel(self, context, event_queue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main() -> None:
    port = int(sys.argv[1])
    card = AgentCard(
        name="Obedient",
        description="Does as told.",
        version="1",
        url=f"http://127.0.0.1:{port}/",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=sys.argv[2] == "streaming"),
        skills=[AgentSkill(id="work", name="Work", description="Works.", tags=["x"])],
    )
    handler = DefaultRequestHandler(agent_executor=Obedient(), task_store=InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


main()

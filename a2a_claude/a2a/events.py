"""Events that the server itself makes, and checks of those that an executor publishes."""

from __future__ import annotations

from a2a.server.events.event_queue import Event
from a2a.types.a2a_pb2 import Message, Part, Role, Task, TaskState, TaskStatus, TaskStatusUpdateEvent
from a2a.utils.errors import A2A_ERROR_REASONS, A2AError, InternalError, InvalidAgentResponseError

from a2a_claude.a2a.ids import new_id
from a2a_claude.store.codec import TERMINAL


def failed(reason: str, text: str) -> TaskStatusUpdateEvent:
    """`failed`, with `reason` for programs in its metadata and in its message's, and `text` for people."""
    message = Message(message_id=new_id(), role=Role.ROLE_AGENT, parts=[Part(text=text)])
    message.metadata["reason"] = reason
    event = TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_FAILED, message=message))
    event.metadata["reason"] = reason
    return event


def failed_by(error: Exception) -> TaskStatusUpdateEvent:
    """`failed` for what an executor raised. Only errors made for clients (a2a-sdk's) are quoted, never internals."""
    if isinstance(error, A2AError) and not isinstance(error, InternalError):
        return failed(A2A_ERROR_REASONS.get(type(error), "executor_failed").lower(), error.message)
    return failed("executor_failed", "The agent failed")


def canceled() -> TaskStatusUpdateEvent:
    """`canceled`."""
    return TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_CANCELED))


def completed(message: Message) -> TaskStatusUpdateEvent:
    """`completed` with a message, for an agent that answers with a bare Message after its task was shown."""
    return TaskStatusUpdateEvent(status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=message))


def ends(event: Event) -> bool:
    """Whether the event brings its task to a terminal state."""
    return isinstance(event, Task | TaskStatusUpdateEvent) and event.status.state in TERMINAL


def check_ids(event: Event, task_id: str, context_id: str) -> None:
    """InvalidAgentResponseError for an event of another task or context; absent ids are taken for the right ones."""
    if isinstance(event, Message):
        return
    claimed = event.id if isinstance(event, Task) else event.task_id
    if claimed not in ("", task_id):
        raise InvalidAgentResponseError(f"The agent published an event of task {claimed} in a turn of {task_id}")
    if event.context_id not in ("", context_id):
        raise InvalidAgentResponseError(f"The agent published an event of context {event.context_id} in {context_id}")

"""Somebody else's task does not exist, on any operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import TaskNotFoundError

from a2a_claude.a2a.lifecycle import Lifecycle
from tests.lifecycle import Caller, asynchronous, request, serving

Operation = Callable[[Lifecycle, Any, str], Awaitable[Any]]
HOOK = "https://hooks.example.com/a"

OPERATIONS: dict[str, Operation] = {
    "send": lambda handler, context, task_id: handler.send(request(task_id=task_id), context),
    "stream": lambda handler, context, task_id: anext(handler.stream(request(task_id=task_id), context)),
    "get": lambda handler, context, task_id: handler.get(GetTaskRequest(id=task_id), context),
    "cancel": lambda handler, context, task_id: handler.cancel(CancelTaskRequest(id=task_id), context),
    "subscribe": lambda handler, context, task_id: anext(
        handler.subscribe(SubscribeToTaskRequest(id=task_id), context)
    ),
    "push create": lambda handler, context, task_id: handler.on_create_task_push_notification_config(
        TaskPushNotificationConfig(task_id=task_id, id="p", url=HOOK), context
    ),
    "push get": lambda handler, context, task_id: handler.on_get_task_push_notification_config(
        GetTaskPushNotificationConfigRequest(task_id=task_id, id="p"), context
    ),
    "push list": lambda handler, context, task_id: handler.on_list_task_push_notification_configs(
        ListTaskPushNotificationConfigsRequest(task_id=task_id), context
    ),
    "push delete": lambda handler, context, task_id: handler.on_delete_task_push_notification_config(
        DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="p"), context
    ),
}


@pytest.mark.parametrize("end", ["input-required", "completed", "hang"])
@pytest.mark.parametrize("name", OPERATIONS)
@asynchronous
async def test_a_foreign_task_is_not_found(name: str, end: str) -> None:
    async with serving(drain=0.1) as lifecycle:
        alice, bob = Caller(lifecycle, "alice"), Caller(lifecycle, "bob")
        task = await alice.task(script={"end": end}, return_immediately=end == "hang")
        await OPERATIONS["push create"](lifecycle, alice.context, task["id"])
        for stranger in (bob, Caller(lifecycle)):
            with pytest.raises(TaskNotFoundError) as refusal:
                await OPERATIONS[name](lifecycle, stranger.context, task["id"])
            with pytest.raises(TaskNotFoundError) as unknown:
                await OPERATIONS[name](lifecycle, stranger.context, "0" * 36)
            assert refusal.value.message.replace(task["id"], "0" * 36) == unknown.value.message
            assert (await stranger.list())["tasks"] == []
        assert (await alice.list())["totalSize"] == 1


@asynchronous
async def test_the_same_context_id_of_two_principals_is_two_contexts() -> None:
    async with serving() as lifecycle:
        alice, bob = Caller(lifecycle, "alice"), Caller(lifecycle, "bob")
        task = await alice.task("secret", context_id="c", script={"end": "input-required"})
        other = await bob.task("hello", context_id="c")
        assert other["id"] != task["id"]
        assert [each["id"] for each in (await bob.list(context_id="c"))["tasks"]] == [other["id"]]

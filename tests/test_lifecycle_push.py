"""Webhooks: registration, limits, and what the store keeps about them."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError, PushNotificationNotSupportedError, TaskNotFoundError

from tests.lifecycle import Caller, asynchronous, serving

HOOK = "https://hooks.example.com/a"


class Hooks:
    """A caller's webhooks of one task."""

    def __init__(self, caller: Caller, task_id: str) -> None:
        self.handler, self.context, self.task_id = caller.lifecycle, caller.context, task_id

    async def create(self, **fields: Any) -> TaskPushNotificationConfig:
        config = TaskPushNotificationConfig(**{"task_id": self.task_id, "url": HOOK} | fields)
        return await self.handler.on_create_task_push_notification_config(config, self.context)

    async def get(self, config_id: str) -> TaskPushNotificationConfig:
        wanted = GetTaskPushNotificationConfigRequest(task_id=self.task_id, id=config_id)
        return await self.handler.on_get_task_push_notification_config(wanted, self.context)

    async def ids(self) -> list[str]:
        wanted = ListTaskPushNotificationConfigsRequest(task_id=self.task_id)
        page = await self.handler.on_list_task_push_notification_configs(wanted, self.context)
        return [each.id for each in page.configs]

    async def delete(self, config_id: str) -> None:
        wanted = DeleteTaskPushNotificationConfigRequest(task_id=self.task_id, id=config_id)
        await self.handler.on_delete_task_push_notification_config(wanted, self.context)


@asynchronous
async def test_a_webhook_is_stored_read_replaced_and_deleted() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        hooks = Hooks(caller, (await caller.task(script={"end": "input-required"}))["id"])
        authentication = AuthenticationInfo(scheme="Bearer", credentials="secret")
        full = await hooks.create(id="full", token="t", tenant="acme", authentication=authentication)
        anonymous = await hooks.create()
        another = await hooks.create()
        assert len({anonymous.id, another.id, ""}) == 3
        assert await hooks.get("full") == full
        assert full.authentication == authentication
        assert set(await hooks.ids()) == {"full", anonymous.id, another.id}
        await hooks.create(id="full", url=HOOK + "2")
        assert (await hooks.get("full")).url == HOOK + "2"
        assert (await hooks.get("full")).token == ""
        for _ in range(2):
            await hooks.delete("full")
        with pytest.raises(TaskNotFoundError, match="full"):
            await hooks.get("full")
        assert (await hooks.get("")).id in (anonymous.id, another.id)
        assert set(await hooks.ids()) == {anonymous.id, another.id}


@asynchronous
async def test_a_task_has_as_many_webhooks_as_it_may() -> None:
    async with serving(max_push_configs=2) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(
            script={"end": "input-required"}, task_push_notification_config=TaskPushNotificationConfig(url=HOOK)
        )
        hooks = Hooks(caller, task["id"])
        await hooks.create(id="b")
        with pytest.raises(InvalidParamsError, match="2 webhooks already"):
            await hooks.create(id="c")
        with pytest.raises(InvalidParamsError, match="2 webhooks already"):
            await caller.task(
                task_id=task["id"], task_push_notification_config=TaskPushNotificationConfig(id="d", url=HOOK)
            )
        await hooks.create(id="b", url=HOOK + "2")
        assert len(await hooks.ids()) == 2


@pytest.mark.parametrize("how", ["immediately", "blocking", "follow-up"])
@asynchronous
async def test_a_webhook_may_come_with_the_message(how: str) -> None:
    async with serving() as lifecycle:
        events: list[bool] = []
        lifecycle.observe(lambda each: events.append(each.pushes))
        caller = Caller(lifecycle, "alice", version="0.3")
        task_id = ""
        if how == "follow-up":
            task_id = (await caller.task(script={"end": "input-required"}))["id"]
            assert not any(events)
            events.clear()
        task = await caller.task(
            task_id=task_id,
            script={"end": "input-required"},
            return_immediately=how == "immediately",
            task_push_notification_config=TaskPushNotificationConfig(url=HOOK, token="t"),
        )
        assert events
        assert all(events)
        (config,) = lifecycle.store.push_configs(lifecycle.store.task(task["id"]).key)  # type: ignore[union-attr]
        assert (config.task_id, config.version) == (task["id"], "0.3")
        assert (await Hooks(caller, task["id"]).get(config.id)).token == "t"


@asynchronous
async def test_a_url_that_is_vetted_and_refused_leaves_nothing() -> None:
    async def check(url: str) -> None:
        if "internal" in url:
            raise InvalidParamsError(f"{url} is not public")

    async with serving(check_url=check) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"end": "input-required"})
        hooks = Hooks(caller, task["id"])
        for url in ("https://internal/", ""):
            with pytest.raises(InvalidParamsError):
                await hooks.create(url=url)
            with pytest.raises(InvalidParamsError):
                await caller.send(task_push_notification_config=TaskPushNotificationConfig(url=url))
        assert await hooks.ids() == []
        assert (await caller.list())["totalSize"] == 1


@asynchronous
async def test_an_agent_without_push_says_so_on_all_of_it() -> None:
    async with serving(push_notifications=False) as lifecycle:
        caller = Caller(lifecycle)
        hooks = Hooks(caller, (await caller.task())["id"])
        config = TaskPushNotificationConfig(url=HOOK)
        for call in (
            hooks.create(),
            hooks.get("x"),
            hooks.ids(),
            hooks.delete("x"),
            caller.send(task_push_notification_config=config),
        ):
            with pytest.raises(PushNotificationNotSupportedError):
                await call


@asynchronous
async def test_a_webhook_that_is_registered_late_gets_what_follows() -> None:
    async with serving() as lifecycle:
        events: list[tuple[int, bool]] = []
        lifecycle.observe(lambda each: events.append((each.state, each.pushes)))
        caller = Caller(lifecycle)
        task = await caller.task(script={"end": "input-required"})
        following = caller.subscribe(task["id"])
        await anext(following)
        hooks = Hooks(caller, task["id"])
        created = await hooks.create()
        await caller.task(task_id=task["id"], script={"end": "input-required"})
        await hooks.delete(created.id)
        await caller.task(task_id=task["id"])
        await following.aclose()
        assert [pushes for state, pushes in events if state == 6] == [False, True]
        assert events[-1] == (3, False)

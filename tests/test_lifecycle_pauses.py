"""A turn that pauses in `input-required` and goes on when it is answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.scripted import Scripted
from a2a_claude.a2a.turns import Overloaded
from a2a_claude.store import Store
from tests.lifecycle import Caller, asynchronous, limits, serving, state, status, until


def said(task: dict) -> list[str]:  # type: ignore[type-arg]
    return [each["parts"][0]["text"] for each in task["history"]]


@asynchronous
async def test_send_returns_at_each_pause_and_the_answer_goes_to_the_turn() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task("go", script={"asks": 2})
        assert (state(first), first["status"]["message"]["parts"]) == ("input-required", [{"text": "Question 1"}])
        second = await caller.task("one", task_id=first["id"])
        assert (state(second), second["status"]["message"]["parts"]) == ("input-required", [{"text": "Question 2"}])
        third = await caller.task("two", task_id=first["id"])
        assert (state(third), third["status"]["message"]["parts"]) == ("completed", [{"text": "go"}])
        assert said(third) == ["go", "Question 1", "one", "You said one", "Question 2", "two", "You said two"]
        await until(lambda: lifecycle.stats().running == 0)


@asynchronous
async def test_answering_at_once_returns_when_the_answer_is_stored() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"asks": 1})
        answered = await caller.task("one", task_id=task["id"], return_immediately=True)
        assert answered["history"][-1]["parts"] == [{"text": "one"}]
        async for last in caller.subscribe(task["id"]):
            end = last
        assert state(end["statusUpdate"]) == "completed"


@asynchronous
async def test_streams_of_messages_end_at_a_pause_and_subscriptions_at_the_end() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = [each async for each in caller.stream(script={"asks": 2})]
        assert [next(iter(each)) for each in first] == ["task", "statusUpdate"]
        assert state(first[-1]["statusUpdate"]) == "input-required"
        task_id = first[0]["task"]["id"]
        subscription = caller.subscribe(task_id)
        assert state((await anext(subscription))["task"]) == "input-required"
        for text, end in (("one", "input-required"), ("two", "completed")):
            events = [each async for each in caller.stream(text, task_id=task_id)]
            assert text in said(events[0]["task"])
            assert state(events[-1]["statusUpdate"]) == end
        rest = [state(each["statusUpdate"]) async for each in subscription]
        assert rest == ["working", "input-required", "working", "completed"]


@asynchronous
async def test_what_is_no_answer_is_refused_and_leaves_nothing() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"asks": 1})
        before = await caller.get(task["id"])
        with pytest.raises(InvalidParamsError, match="not an answer"):
            await caller.task("wrong", task_id=task["id"])
        with pytest.raises(TaskNotFoundError):
            await Caller(lifecycle, "mallory").task("one", task_id=task["id"])
        assert await caller.get(task["id"]) == before
        assert state(await caller.task("one", task_id=task["id"])) == "completed"
        with pytest.raises(UnsupportedOperationError):
            await caller.task("one", task_id=task["id"])


@asynchronous
async def test_a_follow_up_has_its_turn_after_the_paused_one() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task("go", script={"asks": 1, "end": "input-required"})
        later = asyncio.create_task(caller.task("later", task_id=task["id"]))
        await until(lambda: lifecycle.stats().queued == 1)
        answered = await caller.task("one", task_id=task["id"])
        assert state(answered) == "input-required"
        assert state(await later) == "completed"


@asynchronous
async def test_paused_turns_leave_their_places_to_other_contexts() -> None:
    async with serving(max_concurrent_tasks=1) as lifecycle:
        caller = Caller(lifecycle)
        paused = [await caller.task(context_id=f"c{each}", script={"asks": 1}) for each in range(3)]
        assert lifecycle.stats().running == 0
        same = asyncio.create_task(caller.task(context_id="c0"))
        assert state(await caller.task()) == "completed"
        assert lifecycle.stats().queued == 1, "a paused turn keeps its context"
        for each in paused:
            assert state(await caller.task("one", task_id=each["id"])) == "completed"
        assert state(await same) == "completed"
        await until(lambda: (lifecycle.stats().running, lifecycle.stats().queued) == (0, 0))


@asynchronous
async def test_a_turn_that_goes_on_counts_again() -> None:
    async with serving(max_concurrent_tasks=1, max_queued_tasks=0) as lifecycle:
        caller = Caller(lifecycle)
        paused = await caller.task(script={"asks": 1, "end": "hang"})
        await caller.task("one", task_id=paused["id"], return_immediately=True)
        await until(lambda: lifecycle.stats().running == 1)
        with pytest.raises(Overloaded):
            await caller.send()
        await caller.cancel(paused["id"])
        assert state(await caller.task()) == "completed"


@asynchronous
async def test_cancel_ends_a_paused_turn() -> None:
    async with serving(max_concurrent_tasks=1) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(context_id="c", script={"asks": 1})
        assert state(await caller.cancel(task["id"])) == "canceled"
        assert state(await caller.task(context_id="c")) == "completed"
        await until(lambda: lifecycle.stats().running == 0)


@asynchronous
async def test_a_stop_fails_what_is_paused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    async with serving(path=path, drain=3600) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"asks": 1})
        subscription = caller.subscribe(task["id"])
        await anext(subscription)
    assert [state(each["statusUpdate"]) async for each in subscription] == ["failed"]
    async with serving(path=path) as lifecycle:
        assert (await Caller(lifecycle).get(task["id"]))["metadata"]["reason"] == "server_stopped"


@pytest.mark.parametrize(("asks", "after"), [(1, "failed"), (0, "input-required")])
def test_a_crash_fails_what_is_paused_and_leaves_what_has_no_turn(tmp_path: Path, asks: int, after: str) -> None:
    @asynchronous
    async def run() -> None:
        path = tmp_path / "tasks.sqlite3"
        store = await Store.open(path)
        caller = Caller(Lifecycle(Scripted(), store, limits()))
        task = await caller.task(script={"asks": asks, "end": "input-required"})
        await store.close()  # no drain: as after a kill, the file has what was committed
        async with serving(path=path) as lifecycle:
            found = await Caller(lifecycle).get(task["id"])
            assert state(found) == after
            assert found.get("metadata", {}).get("reason") == ("server_restarted" if asks else None)

    run()


@asynchronous
async def test_an_answer_can_bring_a_webhook() -> None:
    async def check(url: str) -> None:
        return None

    async with serving(check_url=check) as lifecycle:
        caller = Caller(lifecycle)
        told = []
        lifecycle.observe(lambda record: told.append((record.pushes, record.state != record.previous)))
        task = await caller.task(script={"asks": 1})
        hook = TaskPushNotificationConfig(url="https://example.com/hook")
        await caller.task("one", task_id=task["id"], task_push_notification_config=hook)
        assert told == [(False, True), (False, True), (True, True), (True, True)]


@asynchronous
async def test_a_turn_that_returns_without_going_on_leaves_a_task_that_waits(tmp_path: Path) -> None:
    class Leaves(Scripted):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            self.here = True
            await event_queue.enqueue_event(status("input-required"))
            self.here = False

        def waits(self, task_id: str) -> bool:
            return self.here

    path = tmp_path / "tasks.sqlite3"
    async with serving(Leaves(), path) as lifecycle:
        task = await Caller(lifecycle).task()
        await until(lambda: not lifecycle._engine.running)
    async with serving(path=path) as lifecycle:
        assert state(await Caller(lifecycle).get(task["id"])) == "input-required"

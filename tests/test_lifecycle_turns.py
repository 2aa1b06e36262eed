"""Turns: one of a context at a time, contexts in parallel up to a limit, a bounded queue."""

from __future__ import annotations

import asyncio

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.utils.errors import InternalError, UnsupportedOperationError
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.a2a.turns import Overloaded, Place, Turns
from tests.lifecycle import Caller, Driven, asynchronous, serving, state, status, until


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(0, 4),
    st.lists(st.tuples(st.sampled_from(["take", "take", "leave", "withdraw"]), st.integers(0, 3)), max_size=40),
)
def test_places_follow_the_rules_whatever_comes(
    running_limit: int, queue_limit: int, steps: list[tuple[str, int]]
) -> None:
    turns = Turns(running_limit, queue_limit)
    running: list[Place] = []
    started: list[Place] = []
    waiting: list[Place] = []
    for step, context in steps:
        before = len(started)
        if step == "take":
            marks: list[bool] = []
            must_wait = any(each.context == context for each in running + waiting) or len(running) >= running_limit
            try:
                place = turns.take(context, lambda marks=marks: marks.append(True))  # type: ignore[misc]
            except Overloaded:
                assert must_wait
                assert len(waiting) >= queue_limit
                continue
            place.start = lambda place=place: started.append(place)  # type: ignore[misc]
            (running if marks else waiting).append(place)
            assert bool(marks) == place.running == (not must_wait)
        elif step == "leave" and running:
            place = running.pop(context % len(running))
            turns.leave(place)
        elif step == "withdraw" and waiting:
            place = waiting.pop(context % len(waiting))
            assert turns.withdraw(place)
        for place in started[before:]:
            assert place is min(
                (each for each in waiting if not any(other.context == each.context for other in running)),
                key=lambda each: each.arrival,
            )
            waiting.remove(place)
            running.append(place)
        assert len(running) == turns.running <= running_limit
        assert len(waiting) == turns.queued
        assert len({each.context for each in running}) == len(running)
        free = len(running) < running_limit
        assert not (free and any(each.context not in {other.context for other in running} for each in waiting))


@asynchronous
async def test_turns_of_a_context_run_one_at_a_time_in_order_of_arrival() -> None:
    running: set[str] = set()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        assert context.context_id not in running
        running.add(context.context_id or "")
        await queue.enqueue_event(status("working"))
        await asyncio.sleep(int(context.get_user_input()) % 3 / 1000)
        running.discard(context.context_id or "")
        await queue.enqueue_event(status("completed"))

    executor = Driven(turn)
    async with serving(executor, max_concurrent_tasks=3) as lifecycle:
        caller = Caller(lifecycle)
        sent = [(f"{number}", f"context {number % 4}") for number in range(40)]
        await asyncio.gather(*(caller.send(text, context_id=context) for text, context in sent))
        for context in {each for _, each in sent}:
            expected = [text for text, each in sent if each == context]
            assert [text for text in executor.started if f"context {int(text) % 4}" == context] == expected


@asynchronous
async def test_contexts_run_in_parallel_up_to_the_limit_and_the_rest_is_submitted() -> None:
    release = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        await release.wait()
        await queue.enqueue_event(status("completed"))

    executor = Driven(turn)
    async with serving(executor, max_concurrent_tasks=2, max_queued_tasks=1) as lifecycle:
        caller = Caller(lifecycle)
        tasks = [await caller.task(f"{number}", return_immediately=True) for number in range(3)]
        await until(lambda: len(executor.started) == 2)
        assert [state(await caller.get(each["id"])) for each in tasks] == ["working", "working", "submitted"]
        assert (lifecycle.stats().running, lifecycle.stats().queued) == (2, 1)
        with pytest.raises(Overloaded, match="1 tasks wait") as refusal:
            await caller.send("too many")
        assert (refusal.value.http_status, refusal.value.retry_after > 0) == (429, True)
        assert isinstance(refusal.value, InternalError)
        assert sum(lifecycle.stats().tasks.values()) == 3, "a refused message leaves no task"
        release.set()
        for each in tasks:
            while state(await caller.get(each["id"])) != "completed":
                await asyncio.sleep(0.001)
        assert executor.started == ["0", "1", "2"]


@asynchronous
async def test_contexts_of_different_principals_do_not_wait_for_each_other() -> None:
    release = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        if context.get_user_input() == "wait":
            await release.wait()
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(turn)) as lifecycle:
        await Caller(lifecycle, "alice").task("wait", context_id="c", return_immediately=True)
        assert state(await Caller(lifecycle, "bob").task("go", context_id="c")) == "completed"
        release.set()


@asynchronous
async def test_a_follow_up_waits_for_the_turn_that_runs() -> None:
    release = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        if context.get_user_input() == "one":
            await release.wait()
        await queue.enqueue_event(status("input-required"))

    executor = Driven(turn)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task("one", return_immediately=True)
        second = asyncio.create_task(caller.task("two", task_id=first["id"]))
        await until(lambda: lifecycle.stats().queued == 1)
        assert executor.started == ["one"]
        release.set()
        assert [each["parts"][0]["text"] for each in (await second)["history"]] == ["one", "two"]
        assert executor.started == ["one", "two"]


@asynchronous
async def test_a_follow_up_whose_task_ends_before_its_turn_is_refused() -> None:
    release = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        await release.wait()
        await queue.enqueue_event(status("completed"))

    executor = Driven(turn)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task("one", return_immediately=True)
        second = asyncio.create_task(caller.task("two", task_id=first["id"]))
        await until(lambda: lifecycle.stats().queued == 1)
        release.set()
        with pytest.raises(UnsupportedOperationError, match="ended before this message had its turn"):
            await second
        assert executor.started == ["one"]


@asynchronous
async def test_a_client_that_goes_away_never_cancels_the_turn() -> None:
    release = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        await release.wait()
        await queue.enqueue_event(status("completed"))

    executor = Driven(turn)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        blocking = asyncio.create_task(caller.task())
        stream = caller.stream()
        shown = (await anext(stream))["task"]
        await until(lambda: len(executor.started) == 2)
        blocking.cancel()
        await stream.aclose()
        await asyncio.sleep(0.01)
        assert lifecycle.stats().running == 2
        release.set()
        await until(lambda: lifecycle.stats().running == 0)
        assert lifecycle.stats().tasks == {"TASK_STATE_COMPLETED": 2}
        assert state(await caller.get(shown["id"])) == "completed"

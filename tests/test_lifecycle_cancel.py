"""CancelTask, and who wins when a task ends twice."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import pairwise
from pathlib import Path

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

from a2a_claude.a2a import endings
from tests.lifecycle import Caller, Driven, asynchronous, chunk, serving, state, status, until


async def hang(context: RequestContext, queue: EventQueue) -> None:
    """A turn that works until it is cancelled."""
    await queue.enqueue_event(status("working"))
    await asyncio.Event().wait()


@asynchronous
async def test_cancel_ends_a_running_turn_and_returns_the_task() -> None:
    executor = Driven(hang)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        stream = caller.stream()
        shown = (await anext(stream))["task"]
        blocking = asyncio.create_task(caller.task(task_id=shown["id"]))
        await until(lambda: lifecycle.stats().queued == 1)
        canceled = await caller.cancel(shown["id"])
        assert (canceled["id"], state(canceled)) == (shown["id"], "canceled")
        assert executor.cancelled == [shown["id"]]
        assert state([each async for each in stream][-1]["statusUpdate"]) == "canceled"
        with pytest.raises(Exception, match="ended before"):
            await blocking
        await until(lambda: lifecycle.stats().running == 0)


@asynchronous
async def test_the_context_of_a_cancelled_turn_goes_on_when_that_turn_is_really_over() -> None:
    over = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        if context.get_user_input() == "next":
            assert over.is_set()
            await queue.enqueue_event(status("completed"))
            return
        try:
            await hang(context, queue)
        finally:
            await asyncio.sleep(0.01)
            over.set()

    async with serving(Driven(turn)) as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(context_id="c", return_immediately=True)
        following = asyncio.create_task(caller.task("next", context_id="c"))
        await asyncio.sleep(0)
        await caller.cancel(shown["id"])
        assert state(await following) == "completed"


@asynchronous
async def test_a_task_cancelled_in_the_queue_never_reaches_the_executor() -> None:
    executor = Driven(hang)
    async with serving(executor, max_concurrent_tasks=1) as lifecycle:
        caller = Caller(lifecycle)
        running = await caller.task("first", return_immediately=True)
        waiting = asyncio.create_task(caller.task("second"))
        await until(lambda: lifecycle.stats().queued == 1)
        queued = next(each for each in (await caller.list())["tasks"] if each["id"] != running["id"])
        assert state(queued) == "submitted"
        assert state(await caller.cancel(queued["id"])) == "canceled"
        assert state(await waiting) == "canceled"
        await caller.cancel(running["id"])
        await until(lambda: lifecycle.stats().running == 0)
        assert (executor.started, executor.cancelled) == (["first"], [running["id"]])


@asynchronous
async def test_a_task_that_waits_for_input_can_be_cancelled() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        for end in ("input-required", "working"):
            task = await caller.task(script={"end": end})
            assert state(await caller.cancel(task["id"])) == "canceled"


@asynchronous
async def test_what_has_ended_or_is_not_there_cannot_be_cancelled() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle, "alice")
        for end in ("completed", "failed", "rejected"):
            task = await caller.task(script={"end": end})
            with pytest.raises(TaskNotCancelableError, match=end.upper()):
                await caller.cancel(task["id"])
        task = await caller.task(script={"end": "working"})
        with pytest.raises(TaskNotFoundError):
            await Caller(lifecycle, "bob").cancel(task["id"])
        await caller.cancel(task["id"])
        with pytest.raises(TaskNotCancelableError):
            await caller.cancel(task["id"])
        with pytest.raises(TaskNotFoundError):
            await caller.cancel("no-such-task")


@asynchronous
async def test_several_callers_cancel_at_once_and_one_may_go_away() -> None:
    proceed = asyncio.Event()

    async def cancel(context: RequestContext, queue: EventQueue) -> None:
        await proceed.wait()
        await queue.enqueue_event(status("canceled"))

    executor = Driven(hang, cancel)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(return_immediately=True)
        await until(lambda: bool(executor.started))
        calls = [asyncio.create_task(caller.cancel(shown["id"])) for _ in range(3)]
        await until(lambda: bool(executor.cancelled))
        calls[0].cancel()
        proceed.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(answers[0], asyncio.CancelledError)
        assert [state(each) for each in answers[1:] if isinstance(each, dict)] == ["canceled", "canceled"]
        assert executor.cancelled == [shown["id"]]


@pytest.mark.parametrize("says", ["failed", "completed"])
@asynchronous
async def test_the_end_that_an_interrupted_turn_reports_does_not_undo_the_cancellation(says: str) -> None:
    interrupted = asyncio.Event()
    reported = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        await interrupted.wait()
        await queue.enqueue_event(chunk("the last words"))
        await queue.enqueue_event(status(says))
        reported.set()

    async def cancel(context: RequestContext, queue: EventQueue) -> None:
        interrupted.set()
        await reported.wait()

    async with serving(Driven(turn, cancel)) as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(return_immediately=True)
        await until(lambda: lifecycle.stats().tasks == {"TASK_STATE_WORKING": 1})
        canceled = await caller.cancel(shown["id"])
        assert state(canceled) == "canceled"
        assert canceled["artifacts"][0]["parts"] == [{"text": "the last words"}]


@pytest.mark.parametrize("fault", ["raises", "hangs", "does nothing"])
@asynchronous
async def test_an_executor_that_cannot_cancel_is_cancelled_anyway(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "CANCEL_GRACE", 0.01)

    async def cancel(context: RequestContext, queue: EventQueue) -> None:
        if fault == "raises":
            raise RuntimeError("no")
        if fault == "hangs":
            await asyncio.Event().wait()

    executor = Driven(hang, cancel)
    async with serving(executor) as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(return_immediately=True)
        await until(lambda: lifecycle.stats().tasks == {"TASK_STATE_WORKING": 1})
        assert state(await caller.cancel(shown["id"])) == "canceled"
        await until(lambda: lifecycle.stats().running == 0)


@asynchronous
async def test_a_cancelling_executor_may_say_that_the_task_ended_otherwise() -> None:
    async def cancel(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("completed", "it was done already"))

    async with serving(Driven(hang, cancel)) as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(return_immediately=True)
        await until(lambda: lifecycle.stats().tasks == {"TASK_STATE_WORKING": 1})
        with pytest.raises(TaskNotCancelableError, match="COMPLETED"):
            await caller.cancel(shown["id"])
        assert state(await caller.get(shown["id"])) == "completed"


@pytest.mark.parametrize("path", [":memory:", "file"])
@asynchronous
async def test_whoever_ends_a_task_first_wins_and_everybody_is_told_the_same(path: str, tmp_path: Path) -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        for _ in range(int(context.get_user_input())):
            await asyncio.sleep(0)
        await queue.enqueue_event(status("completed"))

    seen: set[str] = set()
    where = path if path == ":memory:" else tmp_path / "tasks.sqlite3"
    async with serving(Driven(turn), where, max_concurrent_tasks=100) as lifecycle:
        caller = Caller(lifecycle)
        records: dict[str, list[tuple[int, int]]] = {}
        lifecycle.observe(lambda each: records.setdefault(each.task_id, []).append((each.previous, each.state)))

        async def cancel_soon(task_id: str) -> None:
            try:
                seen.add(state(await caller.cancel(task_id)))
            except TaskNotCancelableError:
                seen.add("too late")

        for delay in range(12):
            shown = await caller.task(f"{delay}", return_immediately=True)
            told = asyncio.create_task(_last_state(caller, shown["id"]))
            await asyncio.sleep(0)
            await cancel_soon(shown["id"])
            final = await caller.get(shown["id"])
            assert await told in (state(final), "over")
            assert state(final) in ("canceled", "completed")
            changes = records[shown["id"]]
            assert all(previous == state_before for (_, state_before), (previous, _) in pairwise(changes))
            assert sum(after in (3, 5) for _, after in changes) == 1
    assert seen <= {"canceled", "too late"}


async def _last_state(caller: Caller, task_id: str) -> str:
    last = "over"
    with contextlib.suppress(UnsupportedOperationError):  # it has ended before
        async for each in caller.subscribe(task_id):
            last = state(each["task"] if "task" in each else each["statusUpdate"])
    return last

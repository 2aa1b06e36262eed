"""A server that stops without a word, and a store that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.utils.errors import InternalError

from a2a_claude.a2a import endings
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.scripted import Scripted
from a2a_claude.store import Store, StoreError
from tests.lifecycle import Caller, Driven, asynchronous, chunk, limits, serving, state, status, texts, until


@asynchronous
async def test_after_a_crash_what_was_at_work_has_failed_and_what_waited_still_waits(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    crashing = Lifecycle(Scripted(), store, limits(max_concurrent_tasks=2))
    caller = Caller(crashing, "alice")
    before = {
        "completed": await caller.task(script={"chunks": 2}),
        "waiting": await caller.task(context_id="w", script={"end": "input-required"}),
        "answered": await caller.task(context_id="a", script={"end": "input-required"}),
        "left working": await caller.task(script={"end": "working"}),
        "running": await caller.task(context_id="r", script={"chunks": 1, "end": "hang"}, return_immediately=True),
        "blocking the queue": await caller.task(script={"end": "hang"}, return_immediately=True),
        "queued": await caller.task(context_id="q", return_immediately=True),
    }
    await caller.task("the answer", task_id=before["answered"]["id"], return_immediately=True)
    while not texts(await caller.get(before["running"]["id"])):
        await asyncio.sleep(0.001)
    assert crashing.stats().queued == 2
    # No drain: as after a kill, the file has what was committed.
    await store.close()

    async with serving(path=path) as lifecycle:
        caller = Caller(lifecycle, "alice")
        after = {name: await caller.get(task["id"]) for name, task in before.items()}
        assert {name: state(task) for name, task in after.items()} == {
            "completed": "completed",
            "waiting": "input-required",
            "answered": "failed",
            "left working": "failed",
            "running": "failed",
            "blocking the queue": "failed",
            "queued": "failed",
        }
        assert after["completed"] == before["completed"]
        assert after["waiting"] == before["waiting"]
        assert len(texts(after["running"])) == 1
        for task in after.values():
            if state(task) == "failed":
                assert task["metadata"]["reason"] == "server_restarted"
        assert after["answered"]["history"][-1]["parts"] == [{"text": "the answer"}]
        for context in ("r", "q"):
            assert state(await caller.task(context_id=context)) == "completed"
        assert state(await caller.task("more", task_id=before["waiting"]["id"])) == "completed"


@asynchronous
async def test_a_follow_up_that_was_answered_leaves_no_trace_of_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    async with serving(path=path) as lifecycle:
        caller = Caller(lifecycle)
        spoken = await caller.task(script={"end": "input-required"})
        await caller.task(task_id=spoken["id"], script={"end": "input-required"})
        silent = await caller.task(script={"end": "input-required"})
        await caller.task(task_id=silent["id"], script={"end": "silent"})
    async with serving(path=path) as lifecycle:
        caller = Caller(lifecycle)
        assert [state(await caller.get(each["id"])) for each in (spoken, silent)] == ["input-required"] * 2


@asynchronous
async def test_artifacts_go_on_where_they_were_after_a_restart(tmp_path: Path) -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(chunk(context.get_user_input(), append=True))
        await queue.enqueue_event(status("input-required"))

    path = tmp_path / "tasks.sqlite3"
    task_id = ""
    for text in ("one", "two", "three"):
        async with serving(Driven(turn), path) as lifecycle:
            task = await Caller(lifecycle).task(text, task_id=task_id)
            task_id = task["id"]
    assert texts(task) == ["one", "two", "three"]
    assert [each["parts"][0]["text"] for each in task["history"]] == ["one", "two", "three"]


async def _long_turn(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(status("working"))
    while True:
        await queue.enqueue_event(chunk("x" * 100_000, append=True))


def _pragma(lifecycle: Lifecycle, setting: str) -> None:
    """For all that writes: on the event loop and in the writer's thread."""
    writer = lifecycle.store._writer
    for connection in (writer._connection, writer._other):
        assert connection is not None
        connection.execute(f"PRAGMA {setting}")


@asynchronous
async def test_a_full_disk_fails_the_task_and_not_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "REPAIR_DELAYS", (0.01,))
    async with serving(Driven(_long_turn), tmp_path / "tasks.sqlite3") as lifecycle:
        caller = Caller(lifecycle)
        # SQLite's own bound on the size of the file: it runs into SQLITE_FULL as on a full disk.
        _pragma(lifecycle, "max_page_count = 200")
        stream = caller.stream()
        shown = (await anext(stream))["task"]
        with pytest.raises(InternalError, match="cannot store this task"):
            async for _ in stream:
                pass
        while state(await caller.get(shown["id"])) != "failed":
            await asyncio.sleep(0.001)
        failed = await caller.get(shown["id"])
        assert failed["metadata"] == failed["status"]["message"]["metadata"] == {"reason": "store_failed"}
        assert texts(failed)
        with pytest.raises(InternalError, match="cannot store this task"):
            await caller.send("x" * 1_000_000)
        assert (await caller.list())["totalSize"] == 1


@asynchronous
async def test_while_the_store_takes_nothing_the_server_lives_and_says_that_it_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endings, "REPAIR_DELAYS", (0.01,))
    async with serving(Driven(_long_turn), tmp_path / "tasks.sqlite3") as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(return_immediately=True)
        await until(lambda: lifecycle.stats().tasks == {"TASK_STATE_WORKING": 1})
        await lifecycle.store.check()
        _pragma(lifecycle, "query_only = ON")
        await until(lambda: lifecycle.stats().running == 0)
        for _ in range(2):
            with pytest.raises(StoreError, match=r"cannot be written: give the server's user write access"):
                await lifecycle.store.check()
        with pytest.raises(InternalError, match="cannot store this task"):
            await caller.send()
        assert state(await caller.get(shown["id"])) == "working", "nobody is told what is not stored"
        _pragma(lifecycle, "query_only = OFF")
        while state(await caller.get(shown["id"])) != "failed":
            await asyncio.sleep(0.001)
        await lifecycle.store.check()

"""Artifacts of the trace extension: which streams are told of them, in which order, and what the task keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.sideband import Sideband
from a2a_claude.a2a.versions import TRACE_EXTENSION
from a2a_claude.store import EventRecord
from tests.lifecycle import Caller, Driven, asynchronous, chunk, serving, state, status, texts, until


def trace(text: str) -> TaskArtifactUpdateEvent:
    event = chunk(text, f"trace-{text}", last_chunk=True)
    event.artifact.extensions.append(TRACE_EXTENSION)
    return event


def caller(lifecycle: Lifecycle, *, asks: bool) -> Caller:
    made = Caller(lifecycle)
    if asks:
        made.context.requested_extensions = {TRACE_EXTENSION}
    return made


def told(events: list[dict[str, Any]]) -> list[str]:
    """States and texts of artifacts, in order; the task that a stream begins with as its state and artifacts."""
    said = []
    for each in events:
        if "task" in each:
            said.append("/".join([state(each["task"]), *texts(each["task"])]))
        elif "statusUpdate" in each:
            said.append(state(each["statusUpdate"]))
        else:
            said.append(each["artifactUpdate"]["artifact"]["parts"][0]["text"])
    return said


async def work(_: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(trace("t0"))
    await queue.enqueue_event(status("working"))
    await queue.enqueue_event(trace("t1"))
    await queue.enqueue_event(chunk("a"))
    await queue.enqueue_event(trace("t2"))
    await queue.enqueue_event(status("completed"))


ALL = ["submitted", "t0", "working", "t1", "a", "t2", "completed"]
WITHOUT = ["submitted", "working", "a", "completed"]


@pytest.mark.parametrize(
    ("sideband", "asks", "stream", "kept"),
    [
        (Sideband(), False, WITHOUT, ["a"]),
        (Sideband(), True, ALL, ["a"]),
        (Sideband(always=True), False, ALL, ["a"]),
        (Sideband(stored=True), False, WITHOUT, ["t0", "t1", "a", "t2"]),
        (Sideband(stored=True), True, ALL, ["t0", "t1", "a", "t2"]),
        (Sideband(always=True, stored=True), False, ALL, ["t0", "t1", "a", "t2"]),
    ],
)
@pytest.mark.parametrize("store", ["memory", "file"])
def test_streams_that_asked_are_told_and_the_task_keeps_what_is_stored(
    sideband: Sideband, asks: bool, stream: list[str], kept: list[str], store: str, tmp_path: Path
) -> None:
    @asynchronous
    async def run() -> None:
        path = ":memory:" if store == "memory" else tmp_path / "tasks.db"
        async with serving(Driven(work), path, sideband=sideband) as lifecycle:
            observed: list[EventRecord] = []
            lifecycle.observe(observed.append)
            events = [each async for each in caller(lifecycle, asks=asks).stream()]
            assert told(events) == stream
            task = await Caller(lifecycle).get(events[0]["task"]["id"])
            assert texts(task) == kept
            # Webhooks and metrics are told of changes of the task, and of nothing else.
            assert len(observed) == len(WITHOUT) + (len(kept) - 1)
            assert not any(each.aside for each in observed)

    run()


@asynchronous
async def test_what_is_told_aside_waits_for_the_commits_before_it_and_not_for_those_after(tmp_path: Path) -> None:
    async def hurry(_: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        writes = []
        for number in range(50):
            writes.append(asyncio.create_task(queue.enqueue_event(chunk(f"a{number}", f"a{number}"))))
            await asyncio.sleep(0)  # handed to the store, not committed yet
            await queue.enqueue_event(trace(f"t{number}"))
        await asyncio.gather(*writes)
        await queue.enqueue_event(trace("last"))
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(hurry), tmp_path / "tasks.db") as lifecycle:
        events = told([each async for each in caller(lifecycle, asks=True).stream()])
        pairs = [text for number in range(50) for text in (f"a{number}", f"t{number}")]
        assert events == ["submitted", "working", *pairs, "last", "completed"]


@asynchronous
async def test_a_stream_that_joins_has_no_gap_and_nothing_twice(tmp_path: Path) -> None:
    go, told_one = asyncio.Event(), asyncio.Event()

    async def paused(_: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        await queue.enqueue_event(trace("t1"))
        await queue.enqueue_event(chunk("a"))
        told_one.set()
        await go.wait()
        write = asyncio.create_task(queue.enqueue_event(chunk("b", "b")))
        await asyncio.sleep(0)
        await queue.enqueue_event(trace("t2"))  # numbered as the change that is still to be committed
        await write
        await queue.enqueue_event(trace("t3"))
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(paused), tmp_path / "tasks.db") as lifecycle:
        first = caller(lifecycle, asks=True).stream()
        task = (await anext(first))["task"]["id"]
        await told_one.wait()
        second = caller(lifecycle, asks=True).subscribe(task)
        third = caller(lifecycle, asks=False).subscribe(task)
        begun = [await anext(second), await anext(third)]
        go.set()
        rest = [await ended(each) for each in (first, second, third)]
        assert told(begun) == ["working/a", "working/a"]
        assert rest == [
            ["working", "t1", "a", "b", "t2", "t3", "completed"],
            ["b", "t2", "t3", "completed"],
            ["b", "completed"],
        ]


async def ended(stream: AsyncGenerator[dict[str, Any], None]) -> list[str]:
    return told([each async for each in stream])


@asynchronous
async def test_after_the_end_of_the_task_nothing_is_told() -> None:
    async def late(_: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("completed"))
        await queue.enqueue_event(trace("late"))

    async with serving(Driven(late)) as lifecycle:
        assert told([each async for each in caller(lifecycle, asks=True).stream()]) == ["submitted", "completed"]
        task = await Caller(lifecycle).task()
        assert (state(task), texts(task)) == ("completed", [])
        await until(lambda: lifecycle.stats().running == 0)

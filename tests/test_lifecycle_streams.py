"""Streams: what a client sees that streams, subscribes, falls behind, or leaves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import (
    AgentCard,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    InternalError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_claude.a2a import endings, subscribers
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.turns import Overloaded
from tests.lifecycle import Caller, Driven, asynchronous, chunk, serving, state, status, texts, until


@pytest.fixture(params=[":memory:", "file"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Both kinds of store: one commits on the event loop, the other on its thread."""
    return ":memory:" if request.param == ":memory:" else tmp_path / "tasks.sqlite3"


@asynchronous
async def test_a_stream_is_the_task_and_then_its_events(path: Path | str) -> None:
    async with serving(path=path) as lifecycle:
        events = [each async for each in Caller(lifecycle).stream(script={"chunks": 3})]
        kinds = [next(iter(each)) for each in events]
        assert kinds == ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
        assert state(events[0]["task"]) == "submitted"
        assert [each["artifactUpdate"].get("append", False) for each in events[2:5]] == [False, True, True]
        assert [each["artifactUpdate"].get("lastChunk", False) for each in events[2:5]] == [False, False, True]
        assert state(events[-1]["statusUpdate"]) == "completed"


@asynchronous
async def test_a_queued_stream_shows_its_task_at_once() -> None:
    async with serving(max_concurrent_tasks=1) as lifecycle:
        caller = Caller(lifecycle)
        running = await caller.task(script={"end": "hang"}, return_immediately=True)
        stream = caller.stream()
        assert state((await anext(stream))["task"]) == "submitted"
        assert lifecycle.stats().queued == 1
        await caller.cancel(running["id"])
        assert state([each async for each in stream][-1]["statusUpdate"]) == "completed"


@pytest.mark.parametrize("end", ["input-required", "working", "auth-required"])
@asynchronous
async def test_the_stream_of_a_message_ends_with_its_turn_and_a_subscription_stays(end: str) -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = [each async for each in caller.stream(script={"end": end})]
        task_id = first[0]["task"]["id"]
        subscription = caller.subscribe(task_id)
        assert state((await anext(subscription))["task"]) == end
        second = [each async for each in caller.stream("more", task_id=task_id, script={"end": "input-required"})]
        assert (state(second[0]["task"]), state(second[-1]["statusUpdate"])) == (end, "input-required")
        assert second[0]["task"]["history"][-1]["parts"] == [{"text": "more"}]
        third = [each async for each in caller.stream("done", task_id=task_id)]
        followed = [each async for each in subscription]
        assert followed == second[1:] + third[1:]


@asynchronous
async def test_a_stream_stays_open_while_the_agent_waits_for_credentials() -> None:
    granted = asyncio.Event()

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("auth-required"))
        await granted.wait()
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(turn)) as lifecycle:
        states = []
        async for each in Caller(lifecycle).stream():
            states.append(state(each.get("task") or each["statusUpdate"]))
            if states[-1] == "auth-required":
                granted.set()
        assert states == ["submitted", "auth-required", "completed"]


@asynchronous
async def test_subscribers_see_the_same_events_in_the_same_order_without_gap_or_repeat(path: Path | str) -> None:
    count = 60

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        # Published without waiting, so that commits are under way whenever somebody subscribes.
        await asyncio.gather(*(queue.enqueue_event(chunk(f"{number}", append=True)) for number in range(count // 2)))
        for number in range(count // 2, count):
            await queue.enqueue_event(chunk(f"{number}", append=True))
            await asyncio.sleep(0)
        await queue.enqueue_event(status("completed"))

    async def follow(caller: Caller, task_id: str, after: int) -> tuple[list[str], list[dict[str, Any]]]:
        for _ in range(after):
            await asyncio.sleep(0)
        events: list[dict[str, Any]] = []
        with contextlib.suppress(UnsupportedOperationError):
            async for each in caller.subscribe(task_id):
                events.append(each)
        if not events:
            return [], []
        seen = texts(events[0]["task"])
        seen += [each["artifactUpdate"]["artifact"]["parts"][0]["text"] for each in events if "artifactUpdate" in each]
        return seen, events[1:]

    async with serving(Driven(turn), path) as lifecycle:
        caller = Caller(lifecycle)
        stream = caller.stream()
        shown = (await anext(stream))["task"]
        followers = [asyncio.create_task(follow(caller, shown["id"], after)) for after in range(0, 200, 4)]
        streamed = [each async for each in stream]
        met = 0
        for seen, events in await asyncio.gather(*followers):
            if seen or events:
                met += 1
                assert seen == [f"{number}" for number in range(count)]
                assert events == streamed[len(streamed) - len(events) :]
        assert met > 5


@asynchronous
async def test_a_subscriber_that_falls_behind_is_told_and_nobody_else_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers.Subscriber.__init__, "__defaults__", (10,))
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        begin = caller.stream(script={"chunks": 50, "delay": 0.001})
        shown = (await anext(begin))["task"]
        slow = caller.subscribe(shown["id"])
        assert "task" in await anext(slow)
        assert len([each async for each in begin]) == 52
        with pytest.raises(InternalError, match="10 events behind"):
            async for _ in slow:
                pass
        assert state(await caller.get(shown["id"])) == "completed"


@asynchronous
async def test_what_has_ended_cannot_be_subscribed_to() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task()
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await anext(caller.subscribe(task["id"]))
        with pytest.raises(TaskNotFoundError):
            await anext(caller.subscribe("no-such-task"))
        assert lifecycle.stats().subscribers == 0


@asynchronous
async def test_a_subscriber_that_leaves_is_forgotten_and_the_others_go_on() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"end": "input-required"})
        leaving, staying = caller.subscribe(task["id"]), caller.subscribe(task["id"])
        await anext(leaving)
        await anext(staying)
        assert lifecycle.stats().subscribers == 2
        await leaving.aclose()
        assert lifecycle.stats().subscribers == 1
        await caller.task(task_id=task["id"])
        assert state([each async for each in staying][-1]["statusUpdate"]) == "completed"
        assert lifecycle.stats().subscribers == 0


async def stop(lifecycle: Lifecycle, caller: Caller, task_id: str) -> None:
    await lifecycle.drain(0.0)


async def cancel(lifecycle: Lifecycle, caller: Caller, task_id: str) -> None:
    await caller.cancel(task_id)


@pytest.mark.parametrize(("end", "how"), [(stop, "failed"), (cancel, "canceled"), (None, "failed")])
def test_an_artifact_that_its_turn_leaves_open_is_closed_before_the_end(end: Any, how: str) -> None:
    begun = asyncio.Event()

    async def turn(_context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(chunk("whole", "whole", last_chunk=True))
        await queue.enqueue_event(chunk("half"))
        await queue.enqueue_event(chunk(" a word", append=True))
        begun.set()
        if end is None:
            raise RuntimeError("broken")
        await asyncio.Event().wait()

    @asynchronous
    async def run() -> None:
        async with serving(Driven(turn)) as lifecycle:
            caller = Caller(lifecycle)
            told: list[dict[str, Any]] = []

            async def listen() -> None:
                async for each in caller.stream():
                    told.append(each)

            listening = asyncio.create_task(listen())
            await begun.wait()
            [task] = (await caller.list())["tasks"]
            if end is not None:
                await end(lifecycle, caller, task["id"])
            await listening
            closing = told[-2]["artifactUpdate"]
            assert (closing["artifact"]["artifactId"], closing["append"]) == ("answer", True)
            assert closing["artifact"]["parts"] == [{"text": ""}]
            assert state(told[-1]["statusUpdate"]) == how
            updates = [each["artifactUpdate"] for each in told if "artifactUpdate" in each]
            assert [each.get("lastChunk", False) for each in updates] == [True, False, False, True]
            assert texts(await caller.get(task["id"])) == ["whole", "half", " a word"]

    run()


@pytest.mark.parametrize("then", ["ends", "fails", "hangs", "returns"])
def test_a_turn_that_is_stopped_may_say_what_it_holds_and_not_how_it_ends(
    monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    monkeypatch.setattr(endings, "STOP_GRACE", 0.05)
    begun, never = asyncio.Event(), asyncio.Event()

    async def turn(_context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        begun.set()
        try:
            await never.wait()
        except asyncio.CancelledError:
            await queue.enqueue_event(chunk("the last word", last_chunk=True))
            match then:
                case "ends":
                    await queue.enqueue_event(status("completed"))
                case "fails":
                    raise RuntimeError("broken") from None
                case "hangs":
                    await never.wait()

    @asynchronous
    async def run() -> None:
        async with serving(Driven(turn)) as lifecycle:
            caller = Caller(lifecycle)
            stream = caller.stream()
            await anext(stream)
            await begun.wait()
            await lifecycle.drain(0)
            told = [each async for each in stream]
            assert [next(iter(each)) for each in told] == ["statusUpdate", "artifactUpdate", "statusUpdate"]
            assert told[-1]["statusUpdate"]["metadata"] == {"reason": "server_stopped"}
            [task] = (await caller.list(include_artifacts=True))["tasks"]
            assert (state(task), texts(task)) == ("failed", ["the last word"])
            never.set()

    run()


@asynchronous
async def test_every_stream_ends_by_itself_when_the_server_stops() -> None:
    async def rest(stream: AsyncIterator[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each async for each in stream]

    async with serving(max_concurrent_tasks=2) as lifecycle:
        caller = Caller(lifecycle)
        idle = await caller.task(script={"end": "input-required"})
        streams = [caller.subscribe(idle["id"])]
        for script in ({"delay": 0.05, "chunks": 2}, {"end": "hang"}, {}):
            streams.append(caller.stream(script=script))
        firsts = [await anext(each) for each in streams]
        ids = [each["task"]["id"] for each in firsts]
        assert lifecycle.stats().queued == 1
        reading = [asyncio.create_task(rest(each)) for each in streams]
        waiting = asyncio.create_task(caller.send(task_id=ids[2]))
        await asyncio.sleep(0)
        await lifecycle.drain(0.5)
        ends = await asyncio.gather(*reading)
        assert ends[0] == []
        finals = [await caller.get(each) for each in ids]
        assert [state(each) for each in finals] == ["input-required", "completed", "failed", "failed"]
        assert [each.get("metadata") for each in finals[2:]] == [{"reason": "server_stopped"}] * 2
        for end in ends[2:]:
            assert end[-1]["statusUpdate"]["metadata"] == {"reason": "server_stopped"}
        with pytest.raises(Overloaded) as refusal:
            await waiting
        assert refusal.value.http_status == 503
        for refused in (caller.send(), anext(caller.stream())):
            with pytest.raises(Overloaded, match="stopping"):
                await refused
        assert state(await caller.get(idle["id"])) == "input-required"


@asynchronous
async def test_a_server_that_stops_answers_who_waits_for_a_turn_that_has_said_nothing() -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await asyncio.Event().wait()

    executor = Driven(turn)
    async with serving(executor) as lifecycle:
        waiting = asyncio.create_task(Caller(lifecycle).send())
        await until(lambda: bool(executor.started))
        await lifecycle.drain(0.01)
        with pytest.raises(Overloaded, match="stopping"):
            await waiting
        assert lifecycle.stats().tasks == {}


@asynchronous
async def test_an_agent_that_does_not_stream_says_so() -> None:
    async with serving(streaming=False) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"end": "working"})
        for call in (caller.stream(), caller.subscribe(task["id"])):
            with pytest.raises(UnsupportedOperationError, match="does not stream"):
                await anext(call)


@asynchronous
async def test_observers_get_what_is_committed_in_order_and_cannot_break_it() -> None:
    async with serving() as lifecycle:
        seen: list[tuple[str, int, int]] = []

        def broken(event: object) -> None:
            raise RuntimeError("observer")

        lifecycle.observe(broken)
        lifecycle.observe(lambda each: seen.append((each.kind, each.previous, each.state)))
        await Caller(lifecycle).task(script={"chunks": 1})
        assert seen == [("task", 0, 1), ("statusUpdate", 1, 2), ("artifactUpdate", 2, 2), ("statusUpdate", 2, 3)]


@asynchronous
async def test_the_sdks_own_face_gives_the_same() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task(script={"end": "input-required"})
        task = await lifecycle.on_get_task(GetTaskRequest(id=shown["id"]), caller.context)
        assert (task.id, task.history[0].parts[0].text) == (shown["id"], "hello")
        events = lifecycle.on_subscribe_to_task(SubscribeToTaskRequest(id=shown["id"]), caller.context)
        assert await anext(events) == task
        await events.aclose()
        page = await lifecycle.on_list_tasks(ListTasksRequest(), caller.context)
        assert (page.total_size, page.page_size, page.tasks[0].id) == (1, 50, shown["id"])


@asynchronous
async def test_what_has_ended_or_rests_is_kept_in_the_store_alone(path: Path | str) -> None:
    async with serving(path=path, max_concurrent_tasks=2) as lifecycle:
        caller = Caller(lifecycle)
        resting = await caller.task(script={"end": "input-required"})
        await caller.task(script={"end": "working"})
        await asyncio.gather(*(caller.task(script={"chunks": 2}) for _ in range(10)))
        async for _ in caller.stream(script={"chunks": 2}):
            pass
        canceled = await caller.task(script={"end": "hang"}, return_immediately=True)
        await caller.cancel(canceled["id"])
        following = caller.subscribe(resting["id"])
        await anext(following)
        await caller.task(task_id=resting["id"])
        assert len([each async for each in following]) == 1
        await until(lambda: lifecycle.stats().running == 0)
        await asyncio.sleep(0)
        assert list(lifecycle._engine.tasks) == []
        assert lifecycle._engine._background == set()


@asynchronous
async def test_the_extended_card_is_what_the_server_makes_of_it() -> None:
    request = GetExtendedAgentCardRequest()
    async with serving() as lifecycle:
        with pytest.raises(UnsupportedOperationError):
            await lifecycle.on_get_extended_agent_card(request, Caller(lifecycle).context)
    async with serving(extended_card=True) as lifecycle:
        with pytest.raises(ExtendedAgentCardNotConfiguredError):
            await lifecycle.on_get_extended_agent_card(request, Caller(lifecycle).context)
    async with serving(
        extended_card=True, make_extended_card=lambda context: AgentCard(name=context.user.user_name)
    ) as lifecycle:
        card = await lifecycle.on_get_extended_agent_card(request, Caller(lifecycle, "alice").context)
        assert card.name == "alice"

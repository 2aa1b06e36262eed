"""SendMessage: what becomes of a message, and what a caller is told about it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a.server.agent_execution import RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Message, Part, SendMessageRequest, Task, TaskStatus
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from a2a_claude.a2a.lifecycle import Stats
from tests.lifecycle import Caller, Driven, Turn, asynchronous, chunk, message, serving, state, status, texts, until


@pytest.mark.parametrize("end", ["completed", "failed", "rejected", "input-required", "auth-required", "working"])
@asynchronous
async def test_a_blocking_send_waits_until_the_turn_ends_or_is_interrupted(end: str) -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task("hi", script={"chunks": 2, "end": end})
        assert state(task) == end
        assert len(texts(task)) == 2
        assert task["history"][0]["parts"] == [{"text": "hi"}]
        assert task["history"][0]["taskId"] == task["id"]
        assert await caller.get(task["id"]) == task


@asynchronous
async def test_a_send_that_returns_immediately_shows_a_submitted_task_that_goes_on() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"delay": 0.01}, return_immediately=True)
        assert state(task) == "submitted"
        while state(task) != "completed":
            task = await caller.get(task["id"])
            await asyncio.sleep(0.001)


@asynchronous
async def test_the_agent_may_answer_with_a_message_and_no_task() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        answer = await caller.send("pong", context_id="c", script={"end": "message"})
        assert answer["message"]["parts"] == [{"text": "pong"}]
        assert answer["message"]["contextId"] == "c"
        (only,) = [each async for each in caller.stream("pong", script={"end": "message"})]
        assert only.keys() == {"message"}
        assert lifecycle.stats().tasks == {}


@asynchronous
async def test_a_message_of_an_agent_whose_task_was_shown_already_completes_it() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        shown = await caller.task("pong", script={"end": "message"}, return_immediately=True)
        last = [each async for each in caller.subscribe(shown["id"])][-1]["statusUpdate"]
        assert state(last) == "completed"
        assert last["status"]["message"]["parts"] == [{"text": "pong"}]


@asynchronous
async def test_a_follow_up_by_task_id_alone_continues_the_context_and_the_history() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task("one", context_id="c", script={"end": "input-required"})
        second = await caller.task("two", task_id=first["id"], script={"end": "input-required"})
        third = await caller.task("three", task_id=first["id"])
        assert (second["contextId"], third["contextId"], state(third)) == ("c", "c", "completed")
        said = [(each["role"], each["parts"][0]["text"]) for each in third["history"]]
        # What the agent said with its last status stays there until something follows.
        assert said == [
            ("ROLE_USER", "one"),
            ("ROLE_AGENT", "one"),
            ("ROLE_USER", "two"),
            ("ROLE_AGENT", "two"),
            ("ROLE_USER", "three"),
        ]
        assert third["status"]["message"]["parts"] == [{"text": "three"}]


@asynchronous
async def test_a_follow_up_that_does_not_fit_is_refused() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle, "alice")
        waiting = await caller.task(context_id="c", script={"end": "input-required"})
        ended = await caller.task()
        with pytest.raises(InvalidParamsError, match=r"message\.contextId.*context c"):
            await caller.send(task_id=waiting["id"], context_id="other")
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await caller.send(task_id=ended["id"])
        with pytest.raises(TaskNotFoundError):
            await caller.send(task_id="no-such-task")
        with pytest.raises(TaskNotFoundError):
            await Caller(lifecycle, "bob").send(task_id=waiting["id"])
        assert await caller.get(waiting["id"]) == waiting


@asynchronous
async def test_a_message_id_that_comes_again_is_a_message_of_its_own() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task("one", message_id="same", script={"end": "input-required"})
        again = await caller.task("two", message_id="same", task_id=first["id"], script={"end": "input-required"})
        other = await caller.task("one", message_id="same", script={"end": "input-required"})
        assert [each["parts"][0]["text"] for each in again["history"] if each["role"] == "ROLE_USER"] == ["one", "two"]
        assert other["id"] != first["id"]


@pytest.mark.parametrize(
    ("asked", "shown"), [(None, 3), (0, None), (1, 1), (2, 2), (3, 3), (999_999_999, 3)], ids=lambda each: str(each)
)
@asynchronous
async def test_history_length_bounds_every_answer(asked: int | None, shown: int | None) -> None:
    options: dict[str, Any] = {} if asked is None else {"history_length": asked}
    async with serving(max_history_length=3) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task("one", script={"end": "input-required"})
        await caller.task("two", task_id=task["id"], script={"end": "input-required"})
        answers = [await caller.task("three", task_id=task["id"], script={"end": "input-required"}, **options)]
        answers.append(await caller.get(task["id"], **options))
        stream = caller.stream("four", task_id=task["id"], script={"end": "input-required"}, **options)
        answers.append((await anext(stream))["task"])
        await stream.aclose()
        for answer in answers:
            assert (len(answer["history"]) if "history" in answer else None) == shown
        newest = await anext(caller.stream("new", **options))
        assert ("history" in newest["task"]) == (asked != 0)


@pytest.mark.parametrize("name", ["send", "get"])
@asynchronous
async def test_a_negative_history_length_is_refused(name: str) -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task()
        with pytest.raises(InvalidParamsError, match=r"historyLength: must be 0 or more"):
            await (caller.send(history_length=-1) if name == "send" else caller.get(task["id"], history_length=-1))


async def _raises(context: RequestContext, queue: EventQueue) -> None:
    raise RuntimeError("secret internals")


async def _raises_late(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(status("working"))
    raise ContentTypeNotSupportedError("only text, please")


async def _raises_internal(context: RequestContext, queue: EventQueue) -> None:
    raise InternalError("secret internals")


async def _silent(context: RequestContext, queue: EventQueue) -> None:
    return


async def _cancels_itself(context: RequestContext, queue: EventQueue) -> None:
    raise asyncio.CancelledError


async def _foreign(context: RequestContext, queue: EventQueue) -> None:
    event = status("completed")
    event.task_id = "another"
    await queue.enqueue_event(event)


async def _nan(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(status("working", rate=float("nan")))


async def _no_state(context: RequestContext, queue: EventQueue) -> None:
    event = status("working")
    event.status.state = 0  # type: ignore[assignment]
    await queue.enqueue_event(event)


async def _no_artifact_id(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(chunk("x", artifact_id=""))


async def _message_midway(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(status("working"))
    await queue.enqueue_event(message("too late"))


@pytest.mark.parametrize(
    ("turn", "reason", "text"),
    [
        (_raises, "executor_failed", "The agent failed"),
        (_raises_internal, "executor_failed", "The agent failed"),
        (_cancels_itself, "executor_failed", "The agent failed"),
        (_raises_late, "content_type_not_supported", "only text, please"),
        (_silent, "executor_ended", "The agent gave no answer"),
        (_nan, "invalid_agent_response", "JSON cannot say"),
        (_message_midway, "invalid_agent_response", "in the middle of a task"),
    ],
)
@asynchronous
async def test_a_turn_that_goes_wrong_fails_its_task_with_a_reason(turn: Turn, reason: str, text: str) -> None:
    async def speaks_first(context: RequestContext, queue: EventQueue) -> None:
        if turn is _nan:
            await queue.enqueue_event(status("working"))
        await turn(context, queue)

    async with serving(Driven(speaks_first)) as lifecycle:
        task = await Caller(lifecycle).task()
        assert state(task) == "failed"
        assert task["metadata"]["reason"] == task["status"]["message"]["metadata"]["reason"] == reason
        assert text in task["status"]["message"]["parts"][0]["text"]
        assert "secret" not in str(task)


@pytest.mark.parametrize("turn", [_foreign, _no_state, _no_artifact_id])
@asynchronous
async def test_an_invalid_first_event_is_an_error_and_leaves_no_task(turn: Turn) -> None:
    async with serving(Driven(turn)) as lifecycle:
        with pytest.raises(Exception, match=r"The agent published|needs a"):
            await Caller(lifecycle).send()
        assert lifecycle.stats().tasks == {}


@asynchronous
async def test_an_executor_may_refuse_the_request_before_its_first_word() -> None:
    async def refuses(context: RequestContext, queue: EventQueue) -> None:
        raise ContentTypeNotSupportedError("only text, please")

    async with serving(Driven(refuses)) as lifecycle:
        with pytest.raises(ContentTypeNotSupportedError, match="only text"):
            await Caller(lifecycle).send()
        with pytest.raises(ContentTypeNotSupportedError, match="only text"):
            await anext(Caller(lifecycle).stream())
        assert lifecycle.stats().tasks == {}


@asynchronous
async def test_an_executor_written_for_the_sdk_may_publish_the_task_itself() -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        assert context.message is not None
        task = context.current_task or Task(
            id=context.task_id,
            context_id=context.context_id,
            status=TaskStatus(state="TASK_STATE_SUBMITTED"),
            history=[context.message],
        )
        await queue.enqueue_event(task)
        await queue.enqueue_event(status("working", step=1))
        await queue.enqueue_event(chunk("done"))
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(turn)) as lifecycle:
        caller = Caller(lifecycle)
        for at_once in (False, True):
            shown = await caller.task(return_immediately=at_once)
            await until(lambda: not lifecycle.stats().running)
            task = await caller.get(shown["id"])
            assert (state(task), texts(task), len(task["history"])) == ("completed", ["done"], 1)
            assert task["metadata"] == {"step": 1}


@asynchronous
async def test_a_follow_up_of_a_task_in_memory_gets_the_whole_task() -> None:
    seen: list[Task | None] = []

    async def turn(context: RequestContext, queue: EventQueue) -> None:
        seen.append(context.current_task)
        await queue.enqueue_event(chunk("part"))
        await queue.enqueue_event(status("input-required", "more?"))

    async with serving(Driven(turn)) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task("one")
        await caller.task("two", task_id=task["id"])
        assert seen[0] is None
        assert seen[1] is not None
        assert [each.parts[0].text for each in seen[1].history] == ["one", "more?", "two"]
        assert seen[1].artifacts[0].parts == [Part(text="part")]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([chunk("a"), chunk("b", append=True)], ["a", "b"]),
        ([chunk("a"), chunk("b")], ["b"]),
        ([chunk("a", append=True), chunk("b", append=True)], ["a", "b"]),
        ([chunk("a"), chunk("x", "other"), chunk("b", append=True), chunk("", "empty")], ["a", "b", "x", ""]),
    ],
)
@asynchronous
async def test_artifacts_grow_and_are_replaced(events: list[Any], expected: list[str]) -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        for event in events:
            await queue.enqueue_event(event)
        await queue.enqueue_event(status("completed"))

    async with serving(Driven(turn)) as lifecycle:
        caller = Caller(lifecycle)
        told = [each["artifactUpdate"] async for each in caller.stream() if "artifactUpdate" in each]
        assert "append" not in told[0], "a client has nothing yet that the first chunk could be appended to"
        (task,) = (await caller.list(include_artifacts=True))["tasks"]
        assert texts(task) == expected


@asynchronous
async def test_events_after_the_end_are_dropped() -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("completed", "first"))
        await queue.enqueue_event(status("failed", "second"))
        await queue.enqueue_event(chunk("late"))
        raise RuntimeError("later still")

    async with serving(Driven(turn)) as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task()
        await until(lambda: not lifecycle.stats().running)
        assert await caller.get(task["id"]) == task
        assert (state(task), texts(task)) == ("completed", [])


@asynchronous
async def test_an_event_does_not_change_when_the_executor_reuses_it() -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        event = status("working", "one")
        await queue.enqueue_event(event)
        event.status.message.parts[0].text = "two"
        event.status.state = 3  # type: ignore[assignment]
        await queue.enqueue_event(event)

    async with serving(Driven(turn)) as lifecycle:
        task = await Caller(lifecycle).task()
        assert task["history"][1]["parts"] == [{"text": "one"}]
        assert task["status"]["message"]["parts"] == [{"text": "two"}]


@asynchronous
async def test_a_message_that_json_cannot_say_is_refused_before_anything_is_stored() -> None:
    async with serving() as lifecycle:
        bad = Message(message_id="m", parts=[Part(text="x")])
        bad.metadata["x"] = float("inf")
        with pytest.raises(InvalidParamsError):
            await lifecycle.send(SendMessageRequest(message=bad), Caller(lifecycle).context)
        assert lifecycle.stats() == Stats(tasks={}, queued=0, running=0, subscribers=0)


@asynchronous
async def test_the_sdks_task_updater_works() -> None:
    async def turn(context: RequestContext, queue: EventQueue) -> None:
        updater = TaskUpdater(queue, context.task_id or "", context.context_id or "")
        await updater.submit()
        await updater.start_work()
        await updater.add_artifact([Part(text="one")], artifact_id="a")
        await updater.add_artifact([Part(text="two")], artifact_id="a", append=True, last_chunk=True)
        await updater.complete(updater.new_agent_message([Part(text="done")]))

    async with serving(Driven(turn)) as lifecycle:
        task = await Caller(lifecycle).task()
        assert (state(task), texts(task)) == ("completed", ["one", "two"])
        assert task["status"]["message"]["parts"] == [{"text": "done"}]

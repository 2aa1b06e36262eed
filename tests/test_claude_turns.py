"""A message becomes a turn: which events come in which order, and how it ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Part
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError

from a2a_claude.claude.content import Fetched
from a2a_claude.claude.session import ClaudeStartFailed, FellBack, Totals
from a2a_claude.claude.turn import Turn
from a2a_claude.observe.redaction import Redactor
from tests.claude_turns import STREAMING, OneSession, background, event, room, streamed, system
from tests.fake_transport import Frame, assistant, init, result
from tests.lifecycle import Caller, asynchronous, request, state, texts, until
from tests.support import make_agent

INJECTED: dict[str, Any] = {"uuids": (), "origin": {"kind": "task-notification"}}
SCHEMA = {"claude": {"outputFormat": {"type": "json_schema", "schema": {"type": "object"}}}}


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """`task:submitted`, `working`, `artifact`, `artifact+`, `artifact+|` (appended, last), `completed`."""
    names = []
    for each in events:
        if "task" in each:
            names.append(f"task:{state(each['task'])}")
        elif "statusUpdate" in each:
            names.append(state(each["statusUpdate"]))
        else:
            update = each["artifactUpdate"]
            names.append(f"artifact{'+' * update.get('append', False)}{'|' * update.get('lastChunk', False)}")
    return names


def replayed(events: list[dict[str, Any]]) -> dict[str, str]:
    """The text of each artifact, as a client that follows `append` puts it together."""
    found: dict[str, str] = {}
    for each in events:
        if update := each.get("artifactUpdate"):
            name = update["artifact"]["artifactId"]
            text = "".join(part.get("text", "") for part in update["artifact"]["parts"])
            found[name] = found.get(name, "") * update.get("append", False) + text
    return found


def closed(events: list[dict[str, Any]]) -> bool:
    """Whether each artifact was closed by its last piece, once."""
    pieces: dict[str, list[bool]] = {}
    for each in events:
        if update := each.get("artifactUpdate"):
            pieces.setdefault(update["artifact"]["artifactId"], []).append(update.get("lastChunk", False))
    return all(marks[-1] and not any(marks[:-1]) for marks in pieces.values())


def reason(task: dict[str, Any]) -> Any:
    return task["metadata"].get("reason")


@asynchronous
async def test_a_turn_says_submitted_working_the_answer_and_completed() -> None:
    async with room([init(), assistant("hi"), result("hi")]) as served:
        events = [each async for each in Caller(served.lifecycle).stream("hello")]
        assert kinds(events) == ["task:submitted", "working", "artifact|", "completed"]
        said = events[1]["statusUpdate"]["status"]["message"]
        assert said["parts"][0]["text"] == "Processing request..."
        artifact = events[2]["artifactUpdate"]["artifact"]
        assert (artifact["name"], artifact["parts"]) == ("response", [{"text": "hi"}])
        assert "message" not in events[3]["statusUpdate"]["status"]
        assert served.prompts == [[{"type": "text", "text": "hello"}]]
        assert served.sessions.released == [True]


@asynchronous
async def test_a_stream_is_one_artifact_that_begins_appends_and_closes() -> None:
    words = ["x " * 100, "y " * 100, "z"]
    async with room(
        [init(), *streamed(*words), assistant("".join(words)), result("".join(words))], config=STREAMING
    ) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert kinds(events) == ["task:submitted", "working", "artifact", "artifact+|", "completed"]
        task = events[0]["task"]["id"]
        assert replayed(events) == {f"response-{task}-1": "".join(words)}
        assert "".join(texts(await Caller(served.lifecycle).get(task))) == "".join(words)


@asynchronous
async def test_deltas_are_told_in_time_also_when_no_more_come() -> None:
    more = asyncio.Event()
    frames = [init(), *streamed("first one")[:3], {"_wait": more}, *streamed("first one")[3:], result("first one")]
    async with room(frames, config=STREAMING) as served:
        stream = Caller(served.lifecycle).stream()
        async for each in stream:
            if "artifactUpdate" in each:
                break
        assert each["artifactUpdate"]["artifact"]["parts"] == [{"text": "first "}]
        more.set()
        assert kinds([each async for each in stream]) == ["artifact+|", "completed"]


@asynchronous
async def test_messages_before_and_after_a_tool_are_set_apart() -> None:
    frames = [init(), *streamed("I look", ".", name="a"), *streamed("Found", ".", name="b"), result("Found.")]
    async with room(frames, config=STREAMING) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert list(replayed(events).values()) == ["I look.\n\nFound."]


@asynchronous
async def test_a_message_that_the_api_had_to_begin_again_is_told_once() -> None:
    cut = [init(), *streamed("Before. ", name="a"), *streamed("half an ans" + "w" * 300, name="b", cut=True)]
    whole = {**assistant("half an answer, whole")}
    whole["message"] = {**whole["message"], "id": "c", "stop_reason": "end_turn"}
    async with room([*cut, whole, result("half an answer, whole")], config=STREAMING) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert list(replayed(events).values()) == ["Before. \n\nhalf an answer, whole"]
        assert closed(events)
        assert kinds(events)[-1] == "completed"


def cut_after(block: int, *frames: Frame) -> list[Frame]:
    """A streamed message that broke after a block, and how Claude Code asks the model to go on."""
    asked = [
        {"type": "text", "text": "Your response above was cut off mid-stream. Resume directly from where it stops."}
    ]
    return [
        *frames,
        {**event("message_stop"), "abandoned_blocks": {"from_block_index": block + 1}},
        {"type": "user", "isSynthetic": True, "parent_tool_use_id": None, "message": {"content": asked}},
    ]


@pytest.mark.parametrize("streams", [True, False])
def test_a_message_that_is_gone_on_with_after_a_cut_is_told_whole(streams: bool) -> None:
    @asynchronous
    async def run() -> None:
        # The block that broke comes again, those before it count.
        broken = [
            event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
            event("content_block_delta", index=1, delta={"type": "text_delta", "text": "lost"}),
        ]
        first, last = {**assistant("and so")}, {**assistant(" on.")}
        last["message"] = {**last["message"], "id": "msg_2"}
        frames = [*streamed("Look", ".", name="a"), *cut_after(0, *streamed("and", " so")[:-2], *broken)]
        whole = [assistant("Look."), first, cut_after(0)[-1], last]
        whole[0] = {**whole[0], "message": {**whole[0]["message"], "id": "msg_0"}}
        frames = [*frames, *streamed(" on", ".", name="c")] if streams else whole
        async with room([init(), *frames, result(" on.")], config=STREAMING if streams else None) as served:
            events = [each async for each in Caller(served.lifecycle).stream()]
            assert list(replayed(events).values()) == ["Look.\n\nand so on." if streams else "and so on."]
            assert (kinds(events)[-1], closed(events)) == ("completed", True)

    run()


@asynchronous
async def test_a_secret_is_not_told_however_the_stream_cuts_it() -> None:
    secret = "correct-horse-battery"
    pieces = ["the key is correct-", "horse", "-battery and ghp_", "0123456789abcdefghij0123 ok"]
    async with room(
        [init(), *streamed(*pieces), result("".join(pieces))], config=STREAMING, secrets=(secret,)
    ) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert list(replayed(events).values()) == ["the key is <redacted> and <redacted> ok"]


REFUSED = system("model_refusal_no_fallback")
BAD: dict[str, Any] = {"is_error": True}
API = {**BAD, "terminal_reason": "api_error"}


@pytest.mark.parametrize(
    ("before", "total", "expected"), [(5.0, 5.9, "completed"), (5.0, 6.0, "failed"), (None, 9.0, "completed")]
)
def test_a_budget_is_of_one_turn(before: float | None, total: float, expected: str) -> None:
    """Counted from what the session had cost before; where that is not told, nothing is held against it."""

    @asynchronous
    async def run() -> None:
        costs = [] if before is None else [before]
        frames = [init(), result("answer", total_cost_usd=total)]
        async with room(frames, config={"claude": {"maxBudgetUsd": 1}}, costs=costs) as served:
            task = await Caller(served.lifecycle).task()
            assert state(task) == expected
            assert task["metadata"].get("reason") == (None if expected == "completed" else "max_budget")

    run()


GAVE_UP = "error_during_execution"
FAILED: list[tuple[str, dict[str, Any], list[Frame], str]] = [
    ("turns", {"subtype": "error_max_turns", **BAD, "terminal_reason": "max_turns"}, [], "max_turns"),
    ("budget", {"subtype": "error_max_budget_usd", **BAD}, [], "max_budget"),
    ("execution", {"subtype": GAVE_UP, **BAD, "terminal_reason": None}, [], "execution_failed"),
    ("retries", {"subtype": "error_max_structured_output_retries", **BAD}, [], "structured_output_retries"),
    ("success that is an error", {**API, "api_error_status": 500}, [], "api_unavailable"),
    ("401", {**API, "api_error_status": 401}, [], "authentication_failed"),
    ("529", {**API, "api_error_status": 529}, [], "overloaded"),
    ("529, again", {**API, "api_error_status": 529}, [{**assistant(""), "error": "server_error"}], "overloaded"),
    ("error of the message", {**API}, [{**assistant("no"), "error": "billing_error"}], "billing_error"),
    ("no status", {**API}, [], "api_error"),
    ("too long", {**BAD, "terminal_reason": "prompt_too_long"}, [], "prompt_too_long"),
    ("new error", {**BAD, "subtype": "error_of_next_year", "terminal_reason": "new"}, [], "claude_error"),
    ("new subtype, no error", {"subtype": "of_next_year"}, [], "claude_error"),
    ("aborted, unasked", {**BAD, "subtype": GAVE_UP, "terminal_reason": "aborted_tools"}, [], "interrupted"),
    ("refusal, then success", {}, [REFUSED], "refusal"),
    ("refusal by its stop", {"stop_reason": "refusal"}, [], "refusal"),
    ("cut", {}, streamed("hal", cut=True), "stream_cut"),
    ("no end", {}, streamed("hal")[:-2], "stream_cut"),
    ("empty", {"result": " "}, [], "empty_result"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("members", "frames", "expected"), [each[1:] for each in FAILED], ids=[each[0] for each in FAILED]
)
@pytest.mark.parametrize("streams", [False, True])
def test_what_is_no_success_fails_with_its_reason(
    members: dict[str, Any], frames: list[Frame], expected: str, streams: bool
) -> None:
    @asynchronous
    async def run() -> None:
        config = STREAMING if streams else None
        before = [] if expected == "empty_result" else streamed("so far" + " and on" * 50, name="before")
        answer = {"text": "an answer", **({"text": members["result"]} if "result" in members else {})}
        rest = {key: value for key, value in members.items() if key != "result"}
        async with room([init(), *before, *frames, result(**answer, **rest)], config=config) as served:
            events = [each async for each in Caller(served.lifecycle).stream()]
            assert kinds(events)[-1] == "failed"
            assert closed(events)
            end = events[-1]["statusUpdate"]
            assert end["metadata"]["reason"] == end["status"]["message"]["metadata"]["reason"] == expected
            assert end["status"]["message"]["parts"][0]["text"].endswith(".")
            assert "usage" in end["metadata"]

    run()


@asynchronous
async def test_structured_output_is_a_data_part_after_the_text() -> None:
    answer = {"n": 1, "list": [None, True]}
    async with room([init(), result(json.dumps(answer), structured_output=answer)], config=SCHEMA) as served:
        task = await Caller(served.lifecycle).task()
        first, second = task["artifacts"][0]["parts"]
        assert json.loads(first["text"]) == second["data"] == answer
        assert second["metadata"] == {"mimeType": "application/json"}


@asynchronous
async def test_structured_output_that_no_client_could_parse_is_shown_as_far_as_one_can() -> None:
    deep: Any = "far down"
    for _ in range(200):
        deep = {"in": deep}
    async with room([init(), result("x", structured_output=deep)], config=SCHEMA) as served:
        task = await Caller(served.lifecycle).task()
        assert state(task) == "completed"
        data = task["artifacts"][0]["parts"][-1]["data"]
        for _ in range(24):
            data = data["in"]
        assert json.loads(data)["in"]


@asynchronous
async def test_structured_output_that_is_missing_fails_the_task() -> None:
    async with room([init(), result("just text")], config=SCHEMA) as served:
        task = await Caller(served.lifecycle).task()
        assert (state(task), reason(task)) == ("failed", "structured_output_missing")


@asynchronous
async def test_data_without_text_is_an_answer() -> None:
    async with room([init(), result("", structured_output=[1])], config=SCHEMA) as served:
        task = await Caller(served.lifecycle).task()
        assert (state(task), task["artifacts"][0]["parts"][-1]["data"]) == ("completed", [1])


@pytest.mark.parametrize(
    ("accepted", "parts"), [(["text/plain"], ["text"]), (["application/json"], ["data"]), (["*/*"], ["text", "data"])]
)
def test_the_answer_has_what_the_caller_accepts(accepted: list[str], parts: list[str]) -> None:
    @asynchronous
    async def run() -> None:
        async with room([init(), result("{}", structured_output={})], config=SCHEMA) as served:
            task = await Caller(served.lifecycle).task(accepted_output_modes=accepted)
            found = task["artifacts"][0]["parts"]
            assert [next(key for key in ("text", "data") if key in part) for part in found] == parts

    run()


@asynchronous
async def test_an_answer_that_nobody_accepts_is_refused_before_there_is_a_task() -> None:
    async with room() as served:
        with pytest.raises(ContentTypeNotSupportedError):
            await Caller(served.lifecycle).send(accepted_output_modes=["audio/ogg"])
        assert (await Caller(served.lifecycle).list())["tasks"] == []


@asynchronous
async def test_an_empty_message_is_refused_before_there_is_a_task() -> None:
    async with room() as served:
        with pytest.raises(InvalidParamsError):
            await Caller(served.lifecycle).send("  \n")
        assert served.prompts == []


@asynchronous
async def test_cancel_interrupts_closes_the_stream_and_leaves_the_process_usable() -> None:
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")
    frames = [init(), *streamed("long " * 80)[:3], {"_wait_interrupt": True}, aborted]
    async with room(frames, [init(), result("next")], config=STREAMING) as served:
        caller = Caller(served.lifecycle)
        events = []
        async for each in caller.stream(context_id="c"):
            events.append(each)
            if "artifactUpdate" in each and len(events) == 3:
                task = await caller.cancel(events[0]["task"]["id"])
                assert state(task) == "canceled"
        assert kinds(events)[-1] == "canceled"
        assert closed(events)
        assert served.sessions.released == [True]
        assert texts(await caller.task(context_id="c")) == ["next"]


@asynchronous
async def test_cancel_ends_a_turn_whose_process_has_not_started() -> None:
    started, never = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        await never.wait()

    async with room(before_acquire=wait) as served:
        caller = Caller(served.lifecycle)
        task = await caller.task(return_immediately=True)
        await started.wait()
        assert state(await caller.cancel(task["id"])) == "canceled"
        assert served.prompts == []


@asynchronous
async def test_the_prompt_timeout_interrupts_and_fails_the_task() -> None:
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")
    frames = [init(), *streamed("so far")[:3], {"_wait_interrupt": True}, aborted]
    async with room(frames, config={**STREAMING, "timeouts": {"prompt": 50}}) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        end = events[-1]["statusUpdate"]
        assert end["metadata"]["reason"] == "timeout"
        assert end["status"]["message"]["parts"][0]["text"] == "Prompt timed out after 50ms."
        assert closed(events)
        assert served.sessions.released == [True]


@pytest.mark.parametrize("bound", [0, -1])
def test_no_prompt_timeout_is_no_bound(bound: int) -> None:
    @asynchronous
    async def run() -> None:
        async with room([init(), {"_sleep": 0.05}, result("done")], config={"timeouts": {"prompt": bound}}) as served:
            assert state(await Caller(served.lifecycle).task()) == "completed"

    run()


@asynchronous
async def test_a_process_that_dies_fails_the_task_and_is_not_used_again() -> None:
    frames = [init(), *streamed("half" * 100)[:3], {"_exit": -9}]
    async with room(frames, config=STREAMING) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert events[-1]["statusUpdate"]["metadata"]["reason"] == "claude_lost"
        assert closed(events)
        assert served.sessions.released == [False]


@asynchronous
async def test_a_process_that_cannot_start_fails_the_task() -> None:
    async with room(fails=ClaudeStartFailed("no such program", detail="internals")) as served:
        task = await Caller(served.lifecycle).task()
        assert (state(task), reason(task)) == ("failed", "claude_start_failed")
        assert "internals" not in json.dumps(task)


@asynchronous
async def test_a_conversation_that_is_lost_is_told() -> None:
    lost = FellBack("old", "transcript_lost", "")
    async with room([init(), result("hi")], fell_back=lost) as served:
        task = await Caller(served.lifecycle).task()
        assert task["metadata"]["sessionLost"] == "transcript_lost"
        assert any("could not be continued" in each["parts"][0]["text"] for each in task["history"])


@asynchronous
async def test_usage_is_on_the_end_and_counted() -> None:
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7}
    first = [init(), assistant("a"), result("a", usage=usage, total_cost_usd=0.75, duration_api_ms=90, num_turns=2)]
    async with room(first, before=Totals(0.5, 60)) as served:
        found = (await Caller(served.lifecycle).task())["metadata"]["usage"]
        assert (found["inputTokens"], found["outputTokens"], found["cacheReadInputTokens"]) == (3, 5, 7)
        assert (found["costUsd"], found["model"], found["numTurns"]) == (0.25, "claude-fake", 2)
        assert found["apiDurationMs"] == 30
        assert [each.cost for each in served.spent] == [0.25]


@asynchronous
async def test_a_task_is_held_round_by_round_until_nothing_runs() -> None:
    frames = [
        init(), background(("b1", "local_bash")), assistant("started"), result("started"),
        init(), background(), background(("b2", "local_agent")), result("deploying", **INJECTED),
        init(), background(), assistant("done"), result("done", **INJECTED),
    ]  # fmt: skip
    async with room(frames) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert kinds(events) == [
            "task:submitted", "working", "artifact|", "working", "artifact|", "working", "artifact|", "completed",
        ]  # fmt: skip
        held = events[3]["statusUpdate"]
        assert held["status"]["message"]["parts"][0]["text"] == "started"
        assert held["metadata"]["backgroundTasks"] == [{"taskId": "b1", "type": "local_bash", "description": "does b1"}]
        assert events[-1]["statusUpdate"]["metadata"]["backgroundTasks"] == []


@asynchronous
async def test_rounds_that_stream_have_an_artifact_each() -> None:
    frames = [
        init(), background(("b1", "local_bash")), *streamed("one", name="m1"), result("one"),
        init(), background(), *streamed("two", name="m2"), result("two", **INJECTED),
    ]  # fmt: skip
    async with room(frames, config=STREAMING) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        task = events[0]["task"]["id"]
        assert replayed(events) == {f"response-{task}-1": "one", f"response-{task}-2": "two"}
        assert closed(events)


@pytest.mark.parametrize(
    ("config", "stopped"),
    [
        ({"features": {"holdTaskForBackgroundWork": False}}, ["b1"]),
        ({"claude": {"background": {"hold": ["local_agent"]}}}, ["b1"]),
        ({"claude": {"background": {"hold": [], "atEnd": "leave"}}}, []),
    ],
)
def test_work_that_does_not_hold_is_named_and_stopped_or_left(config: dict[str, Any], stopped: list[str]) -> None:
    @asynchronous
    async def run() -> None:
        async with room([init(), background(("b1", "local_bash")), result("started")], config=config) as served:
            task = await Caller(served.lifecycle).task()
            assert state(task) == "completed"
            [named] = task["metadata"]["backgroundTasks"]
            assert (named["taskId"], named["stopped"]) == ("b1", bool(stopped))
            assert served.sessions.session is not None
            assert served.sessions.session.stopped == stopped

    run()


@asynchronous
async def test_a_held_task_without_progress_is_released() -> None:
    config = {"claude": {"background": {"idleTimeout": 50}}, "timeouts": {"prompt": 0}}
    async with room([init(), background(("b1", "local_bash")), result("serving")], config=config) as served:
        task = await Caller(served.lifecycle).task()
        assert (state(task), reason(task)) == ("completed", "background_idle")
        assert task["metadata"]["backgroundTasks"][0]["taskId"] == "b1"
        assert served.sessions.released == [True]


@pytest.mark.parametrize(("code", "expected"), [(0, None), (1, "claude_lost")])
def test_a_process_that_ends_in_good_order_between_rounds_has_answered(code: int, expected: str | None) -> None:
    @asynchronous
    async def run() -> None:
        frames = [init(), background(("b1", "local_bash")), result("started"), {"_exit": code}]
        async with room(frames) as served:
            task = await Caller(served.lifecycle).task()
            assert (state(task), reason(task)) == ("failed" if expected else "completed", expected)
            assert texts(task) == ["started"]
            assert [each["stopped"] for each in task["metadata"]["backgroundTasks"]] == [True]
            assert served.sessions.released == [False]

    run()


@pytest.mark.parametrize("end", [[result("an answer")], [{"_exit": 0}], [{"_exit": -9}], [{"_raise": "broken"}]])
def test_a_cancelled_task_ends_once_however_its_turn_does(end: list[Frame]) -> None:
    @asynchronous
    async def run() -> None:
        async with room([init(), *streamed("so far")[:3], {"_wait_interrupt": True}, *end], config=STREAMING) as served:
            caller = Caller(served.lifecycle)
            events = []
            async for each in caller.stream():
                events.append(each)
                if "artifactUpdate" in each and len(events) == 3:
                    await caller.cancel(events[0]["task"]["id"])
            assert [each for each in kinds(events) if "artifact" not in each] == [
                "task:submitted",
                "working",
                "canceled",
            ]
            assert closed(events)

    run()


@asynchronous
async def test_a_later_round_that_fails_fails_the_task() -> None:
    frames = [
        init(), background(("b1", "local_bash")), result("started"),
        init(), background(), result(is_error=True, terminal_reason="api_error", api_error_status=500, **INJECTED),
    ]  # fmt: skip
    async with room(frames) as served:
        task = await Caller(served.lifecycle).task()
        assert (state(task), reason(task), texts(task)) == ("failed", "api_unavailable", ["started"])


@asynchronous
async def test_cancel_of_a_held_task_stops_its_background_work() -> None:
    config = {"claude": {"background": {"atEnd": "leave"}}}
    async with room([init(), background(("b1", "local_bash")), result("started")], config=config) as served:
        caller = Caller(served.lifecycle)
        task = await caller.task(return_immediately=True)
        held = False
        async for each in caller.subscribe(task["id"]):
            if not held and "backgroundTasks" in json.dumps(each):
                held = True
                await caller.cancel(task["id"])
        assert state(await caller.get(task["id"])) == "canceled"
        assert served.sessions.session is not None
        assert served.sessions.session.stopped == ["b1"]


def limit(status: str, **members: Any) -> Frame:
    info = {"status": status, **members}
    return {"type": "rate_limit_event", "uuid": "r", "session_id": "s", "rate_limit_info": info}


@asynchronous
async def test_a_rate_limit_ends_the_turn_with_what_is_known_of_it() -> None:
    used: dict[str, Any] = {"usage": {"output_tokens": 7}, "total_cost_usd": 0.25}
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming", **used)
    told = limit("rejected", rateLimitType="five_hour", resetsAt=4_102_444_800)
    frames = [init(), *streamed("so far " * 50)[:3], told, {"_wait_interrupt": True}, aborted]
    async with room(frames, [init(), result("again")], config=STREAMING) as served:
        caller = Caller(served.lifecycle)
        events = [each async for each in caller.stream(context_id="c")]
        end = events[-1]["statusUpdate"]
        assert kinds(events)[-1] == "failed"
        assert closed(events)
        assert {
            key: end["metadata"][key] for key in ("reason", "source", "rateLimitType", "resetsAt", "resetsAtIso")
        } == {
            "reason": "rate_limit",
            "source": "rate_limit_event",
            "rateLimitType": "five_hour",
            "resetsAt": 4_102_444_800_000,
            "resetsAtIso": "2100-01-01T00:00:00.000Z",
        }
        assert (end["metadata"]["usage"]["outputTokens"], end["metadata"]["usage"]["costUsd"]) == (7, 0.25)
        assert "(5-hour limit). It resets at 2100-01-01T00:00:00.000Z." in end["status"]["message"]["parts"][0]["text"]
        assert texts(await caller.task(context_id="c")) == ["again"]


@asynchronous
async def test_warnings_of_a_rate_limit_do_not_end_the_turn() -> None:
    retry = system("api_retry", error="rate_limit", attempt=1, max_retries=3, retry_delay_ms=5)
    async with room([init(), limit("allowed_warning"), retry, limit("allowed"), result("fine")]) as served:
        assert state(await Caller(served.lifecycle).task()) == "completed"


@asynchronous
async def test_what_a_sub_agent_says_is_no_answer() -> None:
    inner = {**event("content_block_delta", delta={"type": "text_delta", "text": "inner"}), "parent_tool_use_id": "t"}
    async with room([init(), inner, *streamed("outer"), result("outer")], config=STREAMING) as served:
        events = [each async for each in Caller(served.lifecycle).stream()]
        assert list(replayed(events).values()) == ["outer"]


@asynchronous
async def test_a_stopped_server_interrupts_its_turns_and_gives_the_session_back() -> None:
    aborted = result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming")
    async with room([init(), assistant("x"), {"_wait_interrupt": True}, aborted]) as served:
        caller = Caller(served.lifecycle)
        task = await caller.task(return_immediately=True)
        await until(lambda: bool(served.prompts))
        await served.lifecycle.drain(0)
        assert reason(await caller.get(task["id"])) == "server_stopped"
        assert len(served.sessions.released) == 1


@asynchronous
async def test_a_held_task_ends_when_its_work_is_over_and_claude_says_no_more() -> None:
    frames = [init(), background(("b1", "local_bash")), result("started"), background()]
    sessions = OneSession((frames,))
    session = await sessions.acquire("c", "", "t")
    published: list[Any] = []

    async def publish(each: Any) -> None:
        published.append(each)

    turn = Turn(
        session,
        make_agent().config,
        publish,
        Redactor(),
        stop=asyncio.Event(),
        artifact_id=lambda number: f"a{number}",
        settle_seconds=0.01,
    )
    ending = await turn.run([{"type": "text", "text": "go"}])
    assert (ending.failure, ending.healthy, ending.metadata) == (None, True, {"backgroundTasks": []})
    assert len(published) == 2
    await sessions.shutdown(1)


@asynchronous
async def test_a_file_that_does_not_come_does_not_outlast_the_prompt_timeout() -> None:
    class Silent:
        def check(self, url: str) -> None:
            pass

        async def get(self, url: str, most: int) -> Fetched:
            await asyncio.Event().wait()
            raise AssertionError

    config = {"server": {"limits": {"fetchFileUrls": True}}, "timeouts": {"prompt": 50}}
    async with room(config=config, remote_files=Silent()) as served:
        asked = request("see")
        asked.message.parts.append(Part(url="https://example.org/a.txt"))
        caller = Caller(served.lifecycle)
        await served.lifecycle.send(asked, caller.context)
        [task] = (await caller.list())["tasks"]
        assert (state(task), reason(task)) == ("failed", "timeout")
        assert served.sessions.released == []


HALF = "\ud83d"  # of a pair: JSON has it, UTF-8 has not


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"in": found}
    return found


def using(name: str, arguments: Any, content: Any) -> list[Frame]:
    """A call of a tool and what it gave."""
    asked = [{"type": "tool_use", "id": "t", "name": name, "input": arguments}]
    given = [{"type": "tool_result", "tool_use_id": "t", "content": content}]
    return [
        {**assistant(""), "message": {**assistant("")["message"], "content": asked}},
        {"type": "user", "parent_tool_use_id": None, "message": {"role": "user", "content": given}},
    ]


def described(text: str) -> list[Frame]:
    """Work in the background that a turn waits for."""
    work = {"task_id": "b1", "task_type": "local_bash", "description": text}
    return [
        system("background_tasks_changed", tasks=[work]),
        result("begun"),
        init(),
        background(),
        result("done", **INJECTED),
    ]


DEEP = nested(900)  # Python's own parser takes no more
ABORTED = result(subtype=GAVE_UP, is_error=True, terminal_reason="aborted_streaming")
ANY_JSON: list[tuple[str, list[Frame], str | None]] = [
    ("half a pair in an answer", [assistant(HALF), result(HALF)], None),
    ("half a pair in a stream", [*streamed("a", HALF), result(HALF)], None),
    ("half a pair in a description", described(HALF), None),
    (
        "half a pair in a limit",
        [limit("rejected", rateLimitType=HALF), {"_wait_interrupt": True}, ABORTED],
        "rate_limit",
    ),
    ("half a pair in an error", [result(is_error=True, terminal_reason=HALF)], "claude_error"),
    ("half a pair in data", [result("", structured_output={HALF: HALF})], None),
    ("deep data", [result("", structured_output=DEEP)], None),
    ("a deep call", [*using("Bash", DEEP, "x"), result("x")], None),
    ("a deep list", [*using("TodoWrite", {"todos": [{"content": DEEP}]}, "x"), result("x")], None),
    ("a deep result", [*using("mcp__a__b", {}, [DEEP, {"type": DEEP}]), result("x")], None),
    ("deep denials", [result("x", permission_denials=[DEEP, {"tool_name": DEEP, "tool_input": DEEP}])], None),
]


@pytest.mark.parametrize(("frames", "expected"), [row[1:] for row in ANY_JSON], ids=[row[0] for row in ANY_JSON])
@pytest.mark.parametrize("streams", [False, True])
def test_no_json_that_a_model_can_write_breaks_its_turn(
    frames: list[Frame], expected: str | None, streams: bool
) -> None:
    @asynchronous
    async def run() -> None:
        config = STREAMING if streams else None
        async with room([init(), *frames], [init(), result("next")], config=config) as served:
            caller = Caller(served.lifecycle)
            task = await caller.task(context_id="c")
            assert (state(task), task["metadata"].get("reason")) == ("failed" if expected else "completed", expected)
            assert texts(await caller.task(context_id="c")) == ["next"]

    run()


SAID = [init(), assistant("I look."), assistant("Half of it is there.")]
KEPT = "I look.\n\nHalf of it is there."
SHORT = {"timeouts": {"prompt": 500}}
HOLDS = {"claude": {"background": {"hold": ["*"]}}}
ENDS: list[tuple[str, list[Frame], dict[str, Any], str, list[str]]] = [
    ("answer", [result("Half of it is there.")], {}, "", ["Half of it is there."]),
    ("no answer", [result("")], {}, "empty_result", [KEPT]),
    ("no data", [result("Half of it is there.")], SCHEMA, "structured_output_missing", [KEPT]),
    ("API", [result("API Error: 500", is_error=True, api_error_status=500)], {}, "api_unavailable", [KEPT]),
    ("process", [{"_exit": -9}], {}, "claude_lost", [KEPT]),
    ("timeout", [{"_wait_interrupt": True}, ABORTED], SHORT, "timeout", [KEPT]),
    ("timeout, and a clean end", [{"_wait_interrupt": True}, {"_exit": 0}], SHORT, "timeout", [KEPT]),
    ("timeout between rounds", [background(("b1", "x")), result("begun")], {**SHORT, **HOLDS}, "timeout", ["begun"]),
    ("limit", [limit("rejected"), {"_wait_interrupt": True}, ABORTED], {}, "rate_limit", []),
    (
        "limit, and no process after it",
        [limit("rejected"), {"_wait_interrupt": True}, {"_exit": 1}],
        {},
        "rate_limit",
        [],
    ),
    ("limit, and an error of its end", [limit("rejected"), {"_exit": -9}], {}, "rate_limit", []),
    ("refusal", [REFUSED, result("no")], {}, "refusal", []),
]


@pytest.mark.parametrize(
    ("frames", "config", "expected", "kept"), [row[1:] for row in ENDS], ids=[row[0] for row in ENDS]
)
def test_without_a_stream_what_was_said_is_told_when_no_answer_comes(
    frames: list[Frame], config: dict[str, Any], expected: str, kept: list[str]
) -> None:
    @asynchronous
    async def run() -> None:
        async with room([*SAID, *frames], config=config) as served:
            events = [each async for each in Caller(served.lifecycle).stream()]
            assert list(replayed(events).values()) == kept
            assert closed(events)
            assert kinds(events)[-1] == ("failed" if expected else "completed")
            assert events[-1]["statusUpdate"]["metadata"].get("reason", "") == expected

    run()

"""From an A2A caller to the API and back: the server's lifecycle, the executor, the real CLI, an API on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from a2a.types.a2a_pb2 import Part

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.claude import client as clients
from a2a_claude.claude import turn as turns
from a2a_claude.claude.executor import ClaudeExecutor
from a2a_claude.claude.sessions import Pool
from a2a_claude.observe.redaction import Redactor
from tests.claude_support import make_processes, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import Caller, asynchronous, request, serving, state, texts

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SLOW = "python3 -c 'import time; time.sleep(30)'"


@asynccontextmanager
async def served(
    folder: Path, config: dict[str, Any] | None = None, path: Path | str = ":memory:", **how: Any
) -> AsyncIterator[tuple[Lifecycle, FakeAPI]]:
    require_cli()

    api = FakeAPI().start()
    processes = make_processes(folder, api, config, **how)
    pool = Pool(processes)
    try:
        async with serving(ClaudeExecutor(processes.config, pool, Redactor()), path) as lifecycle:
            yield lifecycle, api
    finally:
        await pool.shutdown(5)
        api.shutdown()


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": "Bash", "input": {"command": command, "description": "d", **more}}]}


@asynchronous
async def test_a_turn_and_its_follow_up_answer_in_one_session(tmp_path: Path) -> None:
    async with served(tmp_path) as (lifecycle, api):
        caller = Caller(lifecycle)
        slow = {"pre_delay": 0.5}
        script = directive({**bash("echo from the tool"), **slow}, {"text": "first", **slow})
        task = await caller.task(script, context_id="c")
        assert (state(task), texts(task)) == ("completed", ["first"])
        usage = task["metadata"]["usage"]
        assert usage["outputTokens"] > 0
        assert usage["costUsd"] > 0
        again = await caller.task(directive({"text": "second"}), context_id="c")
        assert texts(again) == ["second"]
        for figure in ("costUsd", "apiDurationMs"):  # Claude Code counts both for the session
            assert 0 < again["metadata"]["usage"][figure] < usage[figure]
        assert "from the tool" in str(api.messages[-1]["body"]["messages"])


@asynchronous
async def test_a_stream_that_the_api_cuts_is_told_once_and_whole(tmp_path: Path) -> None:
    text = "words of a long answer " * 40
    async with served(tmp_path, {"features": {"streamArtifactChunks": True}}) as (lifecycle, _):
        for turn in ({"text": text, "chunks": 20}, {"text": text, "chunks": 20, "cut": 1}):
            events = [each async for each in Caller(lifecycle).stream(directive(turn))]
            updates = [each["artifactUpdate"] for each in events if "artifactUpdate" in each]
            said = ""
            for each in updates:
                said = said * each.get("append", False) + "".join(part["text"] for part in each["artifact"]["parts"])
            assert said.strip() == text.strip()
            assert len({each["artifact"]["artifactId"] for each in updates}) == 1
            assert [each.get("lastChunk", False) for each in updates] == [False] * (len(updates) - 1) + [True]
            assert state(events[-1]["statusUpdate"]) == "completed"


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_is_cut_and_gone_on_with_is_told_whole(tmp_path: Path, streams: bool) -> None:
    @asynchronous
    async def run() -> None:
        async with served(tmp_path, {"features": {"streamArtifactChunks": streams}}) as (lifecycle, _):
            for cut in ({"stop_reason": "max_tokens"}, {"no_end": 1}):
                task = await Caller(lifecycle).task(directive({"text": "Half an ans", **cut}, {"text": "wer."}))
                assert (state(task), "".join(texts(task))) == ("completed", "Half an answer."), cut

    run()


def children() -> list[str]:
    """The processes that this one has started and that still run."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@asynchronous
async def test_a_budget_ends_the_turn_that_spends_it_and_no_process(tmp_path: Path) -> None:
    dear = {**bash("python3 -c 'import time; time.sleep(1)'"), "usage": {"output_tokens": 100_000}}
    async with served(tmp_path, claude={"maxBudgetUsd": 0.5}) as (lifecycle, api):
        caller = Caller(lifecycle)
        assert texts(await caller.task(directive({"text": "cheap"}), context_id="c")) == ["cheap"]
        processes = children()
        task = await caller.task(directive(dear, {"text": "never"}), context_id="c")
        assert (state(task), task["metadata"]["reason"]) == ("failed", "max_budget")
        assert len(api.messages) == 2
        at_the_end = {"text": "dear", "usage": {"output_tokens": 100_000}}
        assert (await caller.task(directive(at_the_end), context_id="c"))["metadata"]["reason"] == "max_budget"
        assert texts(await caller.task(directive({"text": "cheap again"}), context_id="c")) == ["cheap again"]
        assert children() == processes


@asynchronous
async def test_agents_hooks_effort_and_bounds_of_the_config_are_claudes(tmp_path: Path) -> None:
    hook = {"matcher": "Bash", "hooks": [{"type": "command", "command": "touch hooked"}]}
    critic = {"description": "Criticises what was written.", "prompt": "Be strict."}
    claude = {
        "model": "claude-sonnet-5-5",
        "effort": "low",
        "maxTurns": 2,
        "hooks": {"PreToolUse": [hook]},
        "agents": {"critic": critic},
    }
    async with served(tmp_path, claude=claude) as (lifecycle, api):
        caller = Caller(lifecycle)
        assert texts(await caller.task(directive(bash("true"), {"text": "done"}), context_id="c")) == ["done"]
        assert (tmp_path / "workspace" / "hooked").exists()
        body = api.messages[0]["body"]
        assert (body["model"], body["output_config"]["effort"]) == ("claude-sonnet-5-5", "low")
        assert critic["description"] in str(body)
        task = await caller.task(directive(bash("true")), context_id="c")
        assert (state(task), task["metadata"]["reason"]) == ("failed", "max_turns")
        assert texts(await caller.task(directive({"text": "next"}), context_id="c")) == ["next"]


@asynchronous
async def test_without_credentials_a_turn_fails_and_says_so(tmp_path: Path) -> None:
    async with served(tmp_path, credentials={}) as (lifecycle, api):
        task = await Caller(lifecycle).task(directive({"text": "never"}))
        assert (state(task), task["metadata"]["reason"]) == ("failed", "authentication_failed")
        assert api.messages == []


@asynchronous
async def test_a_session_has_the_title_of_the_config(tmp_path: Path) -> None:
    async with served(tmp_path, session={"titlePrefix": "a2a: "}) as (lifecycle, _):
        await Caller(lifecycle).task(directive({"text": "hello"}), context_id="context-1")
        transcripts = list((tmp_path / "state/claude/home/.claude/projects").rglob("*.jsonl"))
        assert '"customTitle":"a2a: context-1"' in "".join(each.read_text() for each in transcripts)


BROKEN: list[dict[str, Any]] = [
    {"cut": 1},
    {"no_end": 1},
    {"no_end": 2},
    {"sse_error": {"type": "api_error", "message": "broken"}},
]


@pytest.mark.parametrize("streaming", [False, True])
def test_half_an_answer_is_no_answer_however_it_is_told(tmp_path: Path, streaming: bool) -> None:
    @asynchronous
    async def run() -> None:
        async with served(tmp_path, {"features": {"streamArtifactChunks": streaming}}) as (lifecycle, _):
            for number, how in enumerate(BROKEN):
                broken = {"text": "half an answer", "only_streams": True, **how}
                task = await Caller(lifecycle).task(directive(broken), context_id=str(number))
                assert (state(task), task["metadata"]["reason"][:3]) == ("failed", "api"), how

    run()


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"status": 401}, "authentication_failed"),
        ({"status": 429}, "rate_limit"),
        ({"status": 500}, "api_unavailable"),
        ({"status": 529}, "overloaded"),
        ({"text": "no", "stop_reason": "refusal"}, "refusal"),
        ({"text": ""}, "empty_result"),
    ],
)
def test_a_failure_of_the_api_is_a_failed_task_with_its_reason_and_in_the_log(
    tmp_path: Path, turn: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    @asynchronous
    async def run() -> None:
        async with served(tmp_path) as (lifecycle, _):
            caller = Caller(lifecycle)
            task = await caller.task(directive(turn), context_id="c")
            assert (state(task), task["metadata"]["reason"]) == ("failed", reason)
            assert f"Task {task['id']} failed: {reason}" in caplog.text
            assert texts(await caller.task(directive({"text": "again"}), context_id="c")) == ["again"]

    run()


@asynchronous
async def test_a_limit_of_a_subscription_is_told_with_all_that_is_known(tmp_path: Path) -> None:
    def headers(status: str, claim: str, used: str) -> dict[str, str]:
        told = {"status": status, "reset": "4102444800", "representative-claim": claim, "5h-utilization": used}
        return {f"anthropic-ratelimit-unified-{name}": value for name, value in told.items()}

    async with served(tmp_path, credentials={"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-token"}) as (lifecycle, _):
        caller = Caller(lifecycle)
        limited = {"status": 429, "headers": headers("rejected", "five_hour", "1.0")}
        task = await caller.task(directive({"text": "I look.", **bash("true")}, limited), context_id="c")
        told = task["metadata"]
        assert (state(task), told["reason"], told["source"]) == ("failed", "rate_limit", "rate_limit_event")
        assert (told["rateLimitType"], told["resetsAtIso"]) == ("five_hour", "2100-01-01T00:00:00.000Z")
        assert told["usage"]["outputTokens"] > 0
        assert texts(task) == []
        near = {"text": "next", "headers": headers("allowed_warning", "five_hour", "0.9")}
        assert texts(await caller.task(directive(near), context_id="c")) == ["next"]


@asynchronous
async def test_cancel_in_a_tool_ends_it_and_the_context_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path) as (lifecycle, _):
        caller = Caller(lifecycle)
        begun = tmp_path / "workspace" / "begun"
        task = await caller.task(directive(bash(f"touch begun; {SLOW}")), context_id="c", return_immediately=True)
        while not begun.exists():
            await asyncio.sleep(0.05)
        assert state(await caller.cancel(task["id"])) == "canceled"
        assert texts(await caller.task(directive({"text": "next"}), context_id="c")) == ["next"]


@asynchronous
async def test_a_task_waits_for_its_background_work(tmp_path: Path) -> None:
    work = bash("python3 -c 'import time; time.sleep(1)'; echo built", run_in_background=True)
    work["tools"][0]["input"]["description"] = "builds \ud83d"  # half a pair, which a model can write
    async with served(tmp_path) as (lifecycle, _):
        task = await Caller(lifecycle).task(directive(work, {"text": "building"}, {"text": "built"}))
        assert state(task) == "completed"
        assert texts(task)[0] == "building"
        assert len(task["artifacts"]) == 2
        assert task["metadata"]["backgroundTasks"] == []


@asynchronous
async def test_work_of_a_type_that_does_not_hold_is_named_and_ended(tmp_path: Path) -> None:
    work = bash("python3 -m http.server 0", run_in_background=True)
    async with served(tmp_path, claude={"background": {"hold": ["local_agent"]}}) as (lifecycle, _):
        task = await Caller(lifecycle).task(directive(work, {"text": "serving"}))
        assert (state(task), texts(task)) == ("completed", ["serving"])
        [left] = task["metadata"]["backgroundTasks"]
        assert (left["type"], left["stopped"]) == ("local_bash", True)


SERVER = "import os, time; print(os.getpid(), file=open('pid', 'w'), flush=True)\nwhile 1: print('/'); time.sleep(0.05)"


@pytest.mark.parametrize("end", ["stop", "leave"])
def test_a_server_in_the_background_holds_no_task_for_ever(tmp_path: Path, end: str) -> None:
    """However much it prints, and without a bound of the prompt."""

    @asynchronous
    async def run() -> None:
        background = {"idleTimeout": 1000, "atEnd": end}
        async with served(tmp_path, {"timeouts": {"prompt": 0}}, claude={"background": background}) as (lifecycle, _):
            caller = Caller(lifecycle)
            work = bash(f'python3 -uc "{SERVER}"', run_in_background=True)
            task = await caller.task(directive(work, {"text": "serving"}), context_id="c")
            assert (state(task), task["metadata"]["reason"]) == ("completed", "background_idle")
            assert texts(task) == ["serving"]
            [named] = task["metadata"]["backgroundTasks"]
            assert (named["type"], named["stopped"]) == ("local_bash", end == "stop")
            pid = int((tmp_path / "workspace" / "pid").read_text())
            if end == "stop":
                with contextlib.suppress(psutil.NoSuchProcess):  # gone already
                    psutil.Process(pid).wait(10)
            assert texts(await caller.task(directive({"text": "next"}), context_id="c")) == ["next"]
            assert psutil.pid_exists(pid) is (end == "leave")
        assert not psutil.pid_exists(pid)

    run()


@pytest.mark.parametrize("end", ["timeout", "background_idle", "claude_lost"])
def test_a_cli_that_never_answers_again_ends_with_its_turn(
    tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped by a signal: an interrupt gets no answer either. `claude_lost`: no bound of the config ends it."""
    monkeypatch.setattr(turns, "INTERRUPT_SECONDS", 1)
    monkeypatch.setattr(clients, "SILENT_SECONDS", 0.5 if end == "claude_lost" else 60)
    held = end == "background_idle"
    config = {"timeouts": {"prompt": 4000 if end == "timeout" else 0}}

    @asynchronous
    async def run() -> None:
        background = {"idleTimeout": 1000, "atEnd": "leave"}
        async with served(tmp_path, config, claude={"background": background}) as (lifecycle, _):
            caller = Caller(lifecycle)
            work = bash(f"touch begun; {SLOW}", **({"run_in_background": True} if held else {}))
            task = await caller.task(directive(work, {"text": "working"}), context_id="c", return_immediately=True)
            begun = tmp_path / "workspace" / "begun"
            while not ("backgroundTasks" in task.get("metadata", {}) if held else begun.exists()):
                await asyncio.sleep(0.05)
                task = await caller.get(task["id"])
            [cli] = [each for each in psutil.Process().children(recursive=True) if each.name() == "claude"]
            cli.suspend()
            async for _ in caller.subscribe(task["id"]):
                pass
            task = await caller.get(task["id"])
            assert (state(task), task["metadata"]["reason"]) == ("completed" if held else "failed", end)
            assert [each["stopped"] for each in task["metadata"].get("backgroundTasks", [])] == [True] * held
            assert not cli.is_running()
            assert texts(await caller.task(directive({"text": "next"}), context_id="c")) == ["next"]

    run()


@asynchronous
async def test_images_and_files_reach_the_model(tmp_path: Path) -> None:
    asked = request(directive({"text": "seen"}))
    asked.message.parts.append(Part(raw=PNG, media_type="image/png"))
    asked.message.parts.append(Part(raw=b"%PDF", filename="paper.pdf"))
    async with served(tmp_path) as (lifecycle, api):
        caller = Caller(lifecycle)
        await lifecycle.send(asked, caller.context)
        content = str(api.messages[-1]["body"]["messages"])
        assert "image/png" in content
        assert "paper.pdf" in content


@asynchronous
async def test_a_file_that_claude_writes_for_its_caller_goes_with_the_answer_of_each_turn(tmp_path: Path) -> None:
    async def turn(caller: Caller, name: str) -> dict[str, Any]:
        write = {"name": "Write", "input": {"file_path": f"OUT/{name}", "content": name}}
        last = r"(?s)/[^ \"]+/out(?= are)(?!.*/out are)"
        script = directive({"tools": [write], "find": {"OUT": last}}, {"text": "done"})
        return await caller.task(script, context_id="c")

    async with served(tmp_path) as (lifecycle, _):
        caller = Caller(lifecycle)
        for name in ("a.md", "b.md"):
            task = await turn(caller, name)
            assert (state(task), task["artifacts"][0]["parts"]) == ("completed", [{"text": "done"}])
            [part] = task["artifacts"][1]["parts"]
            assert (part["filename"], part["mediaType"]) == (name, "text/markdown")
            assert b64decode(part["raw"]) == name.encode()


@asynchronous
async def test_json_nested_deeper_than_a_parser_takes_costs_its_turn_alone(tmp_path: Path) -> None:
    deep = '{"in":' * 10_000 + "1" + "}" * 10_000
    async with served(tmp_path) as (lifecycle, _):
        caller = Caller(lifecycle)
        script = directive({"tools": [{"name": "Bash", "input": deep}]}, {"text": "done"})
        task = await caller.task(script, context_id="c")
        assert (state(task), task["metadata"]["reason"]) == ("failed", "claude_lost")
        assert texts(await caller.task(directive({"text": "next"}), context_id="c")) == ["next"]


@asynchronous
async def test_structured_output_comes_as_data(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    config = {"outputFormat": {"type": "json_schema", "schema": schema}}
    async with served(tmp_path, claude=config) as (lifecycle, _):
        given = {"tools": [{"name": "StructuredOutput", "input": {"n": 5}}]}
        task = await Caller(lifecycle).task(directive(given, {"text": "done"}))
        assert task["artifacts"][0]["parts"][-1]["data"] == {"n": 5}
        plain = await Caller(lifecycle).task(directive({"text": "just text"}))
        assert (state(plain), plain["metadata"]["reason"]) == ("failed", "structured_output_missing")

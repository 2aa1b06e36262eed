"""Approvals from an A2A caller to the real CLI and back: the server's lifecycle, the executor, an API on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError, UnsupportedOperationError

from a2a_claude.a2a.lifecycle import Lifecycle
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import Caller, asynchronous, state, texts
from tests.test_claude_end_to_end import bash, served

ASK: dict[str, Any] = {"permissionMode": "default", "approvals": "inputRequired", "allowedTools": []}
QUESTIONS = [
    {
        "question": "Which database?",
        "header": "Database",
        "multiSelect": False,
        "options": [{"label": "PostgreSQL", "description": "a server"}, {"label": "SQLite", "description": "a file"}],
    },
    {
        "question": "Which tables?",
        "header": "Tables",
        "multiSelect": True,
        "options": [{"label": "users", "description": "u"}, {"label": "orders", "description": "o"}],
    },
]


@asynccontextmanager
async def asking(folder: Path, document: dict[str, Any] | None = None, **claude: Any) -> AsyncIterator[Asked]:
    async with served(folder, document, claude=ASK | claude) as (lifecycle, api):
        yield Asked(folder, lifecycle, api)


class Asked:
    """An agent that asks; `caller` is its owner."""

    def __init__(self, folder: Path, lifecycle: Lifecycle, api: FakeAPI) -> None:
        self.workspace, self.lifecycle, self.api = folder / "workspace", lifecycle, api
        self.caller = Caller(lifecycle, "alice")

    async def begin(self, *turns: dict[str, Any], **how: Any) -> dict[str, Any]:
        """The task at its first pause."""
        task = await self.caller.task(directive(*turns), **how)
        assert state(task) == "input-required", task
        return task

    async def answer(self, task: dict[str, Any], *answers: dict[str, Any], text: str = "") -> dict[str, Any]:
        """The task at its next pause, or its end."""
        return await self.caller.answer(task["id"], *answers, text=text)

    def tool_results(self) -> str:
        """What the model was told of its tools last."""
        return str(self.api.messages[-1]["body"]["messages"])


def request_of(task: dict[str, Any]) -> dict[str, Any]:
    [request] = task["metadata"]["approvals"]
    found: dict[str, Any] = request
    return found


@asynchronous
async def test_allowed_and_denied(tmp_path: Path) -> None:
    async with asking(tmp_path) as asked:
        task = await asked.begin(bash("touch a"), bash("touch b"), {"text": "done"})
        first = request_of(task)
        assert (first["kind"], first["tool"], first["input"]["command"]) == ("permission", "Bash", "touch a")
        assert [each["id"] for each in first["choices"]] == ["allow", "allowSession", "deny"]
        assert first["choices"][1]["grants"] == ["Bash(touch a *)"]
        assert f"`{first['id']} allow`" in task["status"]["message"]["parts"][0]["text"]
        assert not (asked.workspace / "a").exists()

        task = await asked.answer(task, {"id": first["id"], "choice": "allow"})
        assert (asked.workspace / "a").exists()
        second = request_of(task)
        assert task["metadata"]["decided"] == [{"id": first["id"], "tool": "Bash", "choice": "allow", "by": "caller"}]

        task = await asked.answer(task, {"id": second["id"], "choice": "deny"}, text="not that one")
        assert (state(task), texts(task)) == ("completed", ["done"])
        assert task["metadata"]["approvals"] == []
        assert not (asked.workspace / "b").exists()
        assert "The caller said no. The caller says: not that one" in asked.tool_results()


@asynchronous
async def test_allowed_for_the_conversation_and_edited(tmp_path: Path) -> None:
    async with asking(tmp_path) as asked:
        task = await asked.begin(bash("touch a"), bash("touch b"), {"text": "done"}, context_id="c")
        request = request_of(task)
        task = await asked.answer(
            task, {"id": request["id"], "choice": "allowSession", "input": {"command": "touch edited"}}
        )
        assert (asked.workspace / "edited").exists()
        assert not (asked.workspace / "a").exists()
        # `touch a *` is granted, `touch b` is not.
        task = await asked.answer(task, {"id": request_of(task)["id"], "choice": "deny"})
        again = await asked.caller.task(directive(bash("touch a"), {"text": "again"}), context_id="c")
        assert (state(again), texts(again)) == ("completed", ["again"])
        assert (asked.workspace / "a").exists()
        assert not list(asked.workspace.rglob("settings*.json")), "nothing is kept beyond the conversation"


@asynchronous
async def test_questions_are_answered_by_choice_and_in_words(tmp_path: Path) -> None:
    ask = {"tools": [{"name": "AskUserQuestion", "input": {"questions": QUESTIONS}}]}
    one = {"tools": [{"name": "AskUserQuestion", "input": {"questions": QUESTIONS[:1]}}]}
    async with asking(tmp_path) as asked:
        task = await asked.begin(ask, one, {"text": "done"})
        request = request_of(task)
        assert (request["kind"], [each["question"] for each in request["questions"]]) == (
            "question",
            ["Which database?", "Which tables?"],
        )
        assert "PostgreSQL / SQLite" in task["status"]["message"]["parts"][0]["text"]
        wrong: list[Any] = [["x"], {"Which?": "x"}, {"Database": ["a", "b"]}, {"Database": ""}, [1, 2], "SQLite", {}]
        for answers in wrong:
            with pytest.raises(InvalidParamsError, match=f"answers to request {request['id']}"):
                await asked.answer(task, {"id": request["id"], "answers": answers})
        task = await asked.answer(
            task, {"id": request["id"], "answers": {"Database": "sqlite", "Which tables?": ["users", "my own"]}}
        )
        assert '"Which database?"="SQLite"' in asked.tool_results()
        assert '"Which tables?"="users, my own"' in asked.tool_results()
        task = await asked.answer(task, text=f"{request_of(task)['id']} neither of them")
        assert "neither of them" in asked.tool_results()
        assert state(task) == "completed"


def writes_plan(text: str) -> dict[str, Any]:
    """Claude writes its plan where the CLI has told it to."""
    return {
        "find": {"PLAN_FILE": r"/[^ \"]+/plans/[a-z-]+\.md"},
        "tools": [{"name": "Write", "input": {"file_path": "PLAN_FILE", "content": text}}],
    }


EXIT_PLAN: dict[str, Any] = {"tools": [{"name": "ExitPlanMode", "input": {}}]}


@asynchronous
async def test_a_plan_is_an_artifact_and_its_approval_starts_the_work(tmp_path: Path) -> None:
    work = {"tools": [{"name": "Write", "input": {"file_path": "done.txt", "content": "x"}}]}
    async with asking(tmp_path, permissionMode="plan") as asked:
        turns = (writes_plan("# The plan"), EXIT_PLAN, EXIT_PLAN, work, {"text": "built"})
        task = await asked.begin(*turns, context_id="c")
        request = request_of(task)
        assert (request["kind"], [each["id"] for each in request["choices"]]) == (
            "plan",
            ["allow", "allowEdits", "deny"],
        )
        [plan] = task["artifacts"]
        assert (plan["artifactId"], plan["name"], texts(task)) == (request["artifactId"], "plan", ["# The plan"])

        task = await asked.answer(task, text="deny")
        assert (state(task), len(task["artifacts"])) == ("input-required", 2)
        assert not (asked.workspace / "done.txt").exists()
        task = await asked.answer(task, {"id": request_of(task)["id"], "choice": "allowEdits"})
        assert (state(task), texts(task)[-1]) == ("completed", "built")
        assert (asked.workspace / "done.txt").exists()

        # What was approved is that plan: the next one begins in plan mode.
        task = await asked.begin(EXIT_PLAN, {"text": "x"}, context_id="c")
        assert request_of(task)["kind"] == "plan"


@asynchronous
async def test_requests_at_once_have_an_id_each(tmp_path: Path) -> None:
    fetches = [{"name": "WebFetch", "input": {"url": f"http://127.0.0.1:{port}/x", "prompt": "p"}} for port in (1, 2)]
    async with asking(tmp_path) as asked:
        task = await asked.begin({"tools": fetches}, {"text": "done"})
        while len(task["metadata"]["approvals"]) < 2:  # the first one pauses the task already
            await asyncio.sleep(0.02)
            task = await asked.caller.get(task["id"])
        first, second = task["metadata"]["approvals"]
        assert first["id"] != second["id"]
        for unclear in ("allow", "deny", "yes"):
            with pytest.raises(InvalidParamsError, match=f"answer to {first['id']} \\(WebFetch\\), {second['id']}"):
                await asked.answer(task, text=unclear)
        task = await asked.answer(task, {"id": second["id"], "choice": "deny"})
        assert state(task) == "input-required"
        assert [each["id"] for each in task["metadata"]["approvals"]] == [first["id"]]
        with pytest.raises(InvalidParamsError, match="waits for an answer"):
            await asked.answer(task, text="allow")  # it may have been meant for the other one
        task = await asked.answer(task, text=f"{first['id']} deny")
        assert state(task) == "completed"
        assert [each["choice"] for each in task["metadata"]["decided"]] == ["deny", "deny"]


@asynchronous
async def test_sub_agents_inside_claude_ask_too(tmp_path: Path) -> None:
    work = directive(bash("touch from-sub-agent"), {"text": "sub"})
    agent = {"description": "x", "prompt": work, "subagent_type": "general-purpose"}
    async with asking(tmp_path) as asked:
        task = await asked.begin({"tools": [{"name": "Agent", "input": agent}]}, {"text": "done"})
        request = request_of(task)
        assert request["agentId"]
        task = await asked.answer(task, {"id": request["id"], "choice": "allow"})
        assert state(task) == "completed"
        assert (asked.workspace / "from-sub-agent").exists()


@asynchronous
async def test_no_answer_in_time_denies(tmp_path: Path) -> None:
    async with asking(tmp_path, {"timeouts": {"approval": 300, "prompt": 60_000}}) as asked:
        turns = (bash("touch late"), {"text": "went on without"})
        events = [each async for each in asked.caller.stream(directive(*turns))]
        one = request_of(events[-1]["statusUpdate"])["id"]
        task_id = events[0]["task"]["id"]
        while state(task := await asked.caller.get(task_id)) in ("input-required", "working"):
            await asyncio.sleep(0.05)
        assert (state(task), texts(task)) == ("completed", ["went on without"])
        assert task["metadata"]["decided"] == [{"id": one, "tool": "Bash", "choice": "deny", "by": "timeout"}]
        assert "Bash: denied, nobody answered in time." in str(task["history"])
        assert "Nobody answered within 0.3 seconds" in asked.tool_results()
        with pytest.raises(UnsupportedOperationError):
            await asked.answer(task, {"id": one, "choice": "allow"})
        assert not (asked.workspace / "late").exists()


@asynchronous
async def test_cancel_while_paused_leaves_a_context_that_goes_on(tmp_path: Path) -> None:
    async with asking(tmp_path) as asked:
        task = await asked.begin(bash("touch a"), {"text": "done"}, context_id="c")
        one = request_of(task)["id"]
        assert state(await asked.caller.cancel(task["id"])) == "canceled"
        with pytest.raises(UnsupportedOperationError):
            await asked.answer(task, {"id": one, "choice": "allow"})
        assert texts(await asked.caller.task(directive({"text": "next"}), context_id="c")) == ["next"]
        assert not (asked.workspace / "a").exists()


@asynchronous
async def test_turns_that_wait_leave_processes_to_others(tmp_path: Path) -> None:
    document = {"server": {"limits": {"maxConcurrentTasks": 1}}, "session": {"maxLiveClients": 2, "spareClients": 0}}
    async with asking(tmp_path, document) as asked:
        task = await asked.begin(bash("touch a"), {"text": "done"})
        other = await asked.caller.task(directive(bash("touch b"), {"text": "other"}))
        assert (state(other), texts(other)) == ("completed", ["other"])
        assert "Nobody can be asked now" in asked.tool_results()
        assert state(await asked.answer(task, {"id": request_of(task)["id"], "choice": "allow"})) == "completed"


POLICY = [
    {"tool": "Bash", "argument": {"command": "touch ok*"}, "decision": "allow"},
    {"tool": "Bash", "argument": {"command": "*secret*"}, "decision": "deny"},
    {"tool": "AskUserQuestion", "decision": "deny"},
]


@pytest.mark.parametrize("approvals", ["deny", "inputRequired"])
def test_the_policy_decides_first(tmp_path: Path, approvals: str) -> None:
    @asynchronous
    async def run() -> None:
        async with asking(tmp_path, approvals=approvals, approvalPolicy=POLICY) as asked:
            turns = (bash("touch ok"), bash("touch secret"), bash("touch ok; touch chained"), {"text": "done"})
            task = await asked.caller.task(directive(*turns))
            assert (asked.workspace / "ok").exists()
            if approvals == "inputRequired":
                one = request_of(task)
                assert one["input"]["command"] == "touch ok; touch chained"
                with pytest.raises(InvalidParamsError, match="policy denies this input"):
                    await asked.answer(task, {"id": one["id"], "choice": "allow", "input": {"command": "touch secret"}})
                task = await asked.answer(task, {"id": one["id"], "choice": "deny"})
            assert (state(task), texts(task)) == ("completed", ["done"])
            assert sorted(each.name for each in asked.workspace.glob("[a-z]*")) == ["ok"]
            assert "policy does not allow" in asked.tool_results()
            offered = [each["name"] for each in asked.api.messages[-1]["body"]["tools"]]
            assert ("AskUserQuestion" in offered) is (approvals == "inputRequired")

    run()


@asynchronous
async def test_an_agent_that_does_not_ask_takes_such_data_for_a_prompt(tmp_path: Path) -> None:
    async with served(tmp_path) as (lifecycle, api):
        asked = Asked(tmp_path, lifecycle, api)
        assert state(await asked.answer({"id": ""}, {"id": "x"}, text=directive({"text": "fine"}))) == "completed"

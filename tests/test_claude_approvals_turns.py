"""Approvals without a CLI: what is no answer, answers that come twice or too late, and time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import SendMessageRequest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.claude.approvals import Approvals
from a2a_claude.observe.redaction import Redactor
from tests.claude_turns import Room, background, room
from tests.fake_transport import Frame, assistant, init, result
from tests.lifecycle import Caller, asynchronous, read, state, texts, until
from tests.support import make_agent

SUGGESTION = {"type": "addRules", "behavior": "allow", "destination": "localSettings"}


def asks(command: str = "touch a", **more: Any) -> Frame:
    """A permission request of the CLI."""
    rule = {"toolName": "Bash", "ruleContent": "touch *"}
    return {
        "_ask": {
            "subtype": "can_use_tool",
            "tool_name": "Bash",
            "input": {"command": command},
            "tool_use_id": "x",
            "permission_suggestions": [SUGGESTION | {"rules": [rule]}],
            **more,
        }
    }


class Asked:
    def __init__(self, room: Room) -> None:
        self.room, self.caller = room, Caller(room.lifecycle, "alice")

    @property
    def told(self) -> list[Any]:
        """What the CLI was answered."""
        return [each["response"] for each in self.room.sessions.transport.answers]

    async def answer(self, task: dict[str, Any], *answers: Any, text: str = "") -> dict[str, Any]:
        return await self.caller.answer(task["id"], *answers, text=text)


@asynccontextmanager
async def asking(*frames: Frame, **document: Any) -> AsyncIterator[Asked]:
    config = {"claude": {"approvals": "inputRequired", **document.pop("claude", {})}, **document}
    async with room([init(), *frames, assistant("done"), result("done")], [init(), result("next")], config=config) as r:
        yield Asked(r)


def first(task: dict[str, Any]) -> str:
    found: str = task["metadata"]["approvals"][0]["id"]
    return found


@asynchronous
async def test_what_decides_nothing() -> None:
    async with asking(asks(), asks("touch b")) as asked:
        task = await asked.caller.task("go")
        one = first(task)
        before = await asked.caller.get(task["id"])
        wrong: list[tuple[Any, str]] = [
            ({"id": "00000000", "choice": "allow"}, f"no request '00000000' in this turn: open: {one}"),
            ({"id": one, "choice": "yes"}, "can be answered with: allow, allowSession, deny"),
            ({"id": one}, "can be answered with"),
            ({"choice": "allow"}, r"approvals\[0\]\.id: the id"),
            ({"id": one, "choise": "allow"}, r"approvals\[0\]\.choise: not known"),
            ({"id": one, "choice": True}, r"approvals\[0\]\.choice: a text"),
            ({"id": one, "choice": "allow", "input": "x"}, r"approvals\[0\]\.input: an object"),
            ("allow", r"approvals\[0\]: an object"),
        ]
        for answer, why in wrong:
            with pytest.raises(InvalidParamsError, match=why):
                await asked.answer(task, answer)
            # One that is right does not count beside one that is wrong.
            with pytest.raises(InvalidParamsError):
                await asked.answer(task, {"id": one, "choice": "allow"}, answer)
        for text in ("please go on", "yes", "allow it", "00000000 allow", f"{one} yes", f"allow {one}"):
            with pytest.raises(InvalidParamsError):
                await asked.answer(task, text=text)
        with pytest.raises(TaskNotFoundError):
            await Caller(asked.room.lifecycle, "bob").answer(task["id"], {"id": one, "choice": "allow"})
        with pytest.raises(InvalidParamsError, match="by its taskId"):
            await asked.answer({"id": ""}, {"id": one, "choice": "allow"})
        assert (await asked.caller.get(task["id"]), asked.told) == (before, [])

        task = await asked.answer(task, text="Allow.")
        two = first(task)
        with pytest.raises(InvalidParamsError, match=rf"{one} is decided already: allow \(caller\)"):
            await asked.answer(task, {"id": one, "choice": "deny"})
        with pytest.raises(InvalidParamsError, match=two):
            await asked.answer(task, text="allow")  # sent twice: it was not meant for the second request
        assert [each["behavior"] for each in asked.told] == ["allow"]
        task = await asked.answer(task, text=f" {two}: Deny! ")
        assert (state(task), [each["behavior"] for each in asked.told]) == ("completed", ["allow", "deny"])
        with pytest.raises(UnsupportedOperationError):
            await asked.answer(task, {"id": two, "choice": "allow"})


@asynchronous
async def test_answers_at_once_decide_once() -> None:
    async with asking(asks()) as asked:
        task = await asked.caller.task("go")
        answers = [asked.answer(task, {"id": first(task), "choice": each}) for each in ["deny", *["allow"] * 9]]
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert [type(each) for each in found] == [dict, *[InvalidParamsError] * 9]
        assert [each["behavior"] for each in asked.told] == ["deny"]


@asynchronous
async def test_an_answer_that_is_late_is_refused_while_the_turn_goes_on() -> None:
    goes_on = asyncio.Event()
    async with asking(asks(), {"_wait": goes_on}, timeouts={"approval": 1}) as asked:
        events = [each async for each in asked.caller.stream("go")]
        task = {"id": events[0]["task"]["id"]}
        one = first(events[-1]["statusUpdate"])
        await until(lambda: bool(asked.told))
        with pytest.raises(InvalidParamsError, match="No request is open any more"):
            await asked.answer(task, text="allow")
        for answers, text in (([], f"{one} allow"), ([{"id": one, "choice": "allow"}], ""), ([{"id": one}], "allow")):
            with pytest.raises(InvalidParamsError, match=r"decided already: deny \(timeout\)"):
                await asked.answer(task, *answers, text=text)
        assert state(await asked.caller.get(task["id"])) == "working"
        goes_on.set()
        async for _ in asked.caller.subscribe(task["id"]):
            pass
        assert texts(await asked.caller.get(task["id"])) == ["done"]


@asynchronous
async def test_the_time_of_the_prompt_stands_still_while_the_caller_thinks() -> None:
    async with asking(asks(), timeouts={"prompt": 2000}) as asked:
        task = await asked.caller.task("go")
        await asyncio.sleep(2.5)
        task = await asked.answer(task, text="allow")
        assert (state(task), texts(task)) == ("completed", ["done"])


@asynchronous
async def test_a_request_that_claude_takes_back_is_no_longer_open() -> None:
    goes_on = asyncio.Event()
    async with asking({"_wait": goes_on}) as asked:
        running = asyncio.create_task(asked.caller.task("go"))
        transport = asked.room.sessions.transport
        await until(lambda: bool(asked.room.prompts))
        transport.feed({"type": "control_request", "request_id": "r", "request": asks()["_ask"]})
        task = await running
        transport.feed({"type": "control_cancel_request", "request_id": "r"})
        async for event in asked.caller.subscribe(task["id"]):
            found = event.get("statusUpdate") or event["task"]
            if state(found) == "working":
                break
        assert found["metadata"]["approvals"] == []
        assert found["metadata"]["decided"][0]["by"] == "withdrawn"
        with pytest.raises(InvalidParamsError, match="withdrawn"):
            await asked.answer(task, {"id": first(task), "choice": "allow"})
        goes_on.set()
        async for _ in asked.caller.subscribe(task["id"]):
            pass


@asynchronous
async def test_a_round_that_ends_meanwhile_leaves_the_task_paused() -> None:
    goes_on = asyncio.Event()
    async with asking({"_wait": goes_on}) as asked:
        running = asyncio.create_task(asked.caller.task("go"))
        transport = asked.room.sessions.transport
        await until(lambda: bool(asked.room.prompts))
        transport.feed(background(("w", "local_agent")))
        transport.feed({"type": "control_request", "request_id": "r", "request": asks(agent_id="w")["_ask"]})
        task = await running
        goes_on.set()  # the round of the main conversation ends, its sub-agent waits
        async for event in asked.caller.subscribe(task["id"]):
            if "statusUpdate" in event:
                break
        task = await asked.caller.get(task["id"])
        assert (state(task), texts(task)) == ("input-required", ["done"])
        assert task["metadata"]["backgroundTasks"]
        assert task["metadata"]["approvals"][0]["agentId"] == "w"
        canceled = await asked.caller.cancel(task["id"])
        assert (state(canceled), canceled["metadata"]["approvals"]) == ("canceled", [])


@asynchronous
async def test_secrets_are_not_shown_and_what_is_too_long_is_named() -> None:
    token = "ghp_" + "a1B2" * 9
    command = f"curl -H 'Authorization: Bearer {token}' http://127.0.0.1:1 # {'x' * 30_000}"
    more = {"title": f"Use {token}", "decision_reason": f"password={token}", "description": token}
    async with asking(asks(command, **more)) as asked:
        task = await asked.caller.task("go")
        assert token not in str(task)
        [shown] = task["metadata"]["approvals"]
        assert shown["truncated"] == ["input.command"]
        assert len(shown["input"]["command"]) == 20_000
        assert "<redacted>" in shown["input"]["command"]
        await asked.answer(task, text="allow")
        assert asked.told[0]["updatedInput"]["command"] == command


@pytest.mark.parametrize(
    ("rules", "tool", "suggestions", "offered"),
    [
        ([], "Bash", ["addRules", "setMode", "addDirectories"], ["Bash(touch *)"]),
        ([], "Write", ["setMode"], ["edits of files"]),
        ([], "Read", ["addDirectories"], ["/elsewhere"]),
        ([], "Bash", [], None),
        ([], "Bash", ["dangerous"], None),
        (
            [{"tool": "Bash", "decision": "allow", "argument": {"command": "x"}}],
            "Bash",
            ["addRules"],
            ["Bash(touch *)"],
        ),
        # The CLI would not ask any more, and these rules not be heard.
        ([{"tool": "Bash", "decision": "deny", "argument": {"command": "x"}}], "Bash", ["addRules"], None),
        ([{"tool": "*", "decision": "ask"}], "Write", ["setMode"], None),
        ([{"tool": "Edit", "decision": "deny"}], "Write", ["setMode"], None),
        ([{"tool": "WebFetch", "decision": "deny"}], "Write", ["setMode"], ["edits of files"]),
    ],
)
def test_what_can_be_allowed_for_a_conversation(
    rules: list[dict[str, Any]], tool: str, suggestions: list[str], offered: list[str] | None
) -> None:
    known = {
        "addRules": SUGGESTION | {"rules": [{"toolName": "Bash", "ruleContent": "touch *"}]},
        "setMode": {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        "addDirectories": {"type": "addDirectories", "directories": ["/elsewhere"], "destination": "session"},
        "dangerous": {"type": "setMode", "mode": "bypassPermissions", "destination": "userSettings"},
    }
    more: dict[str, Any] = {"tool_name": tool, "permission_suggestions": [known[each] for each in suggestions]}

    @asynchronous
    async def run() -> None:
        async with asking(asks(**more), claude={"approvalPolicy": rules}) as asked:
            task = await asked.caller.task("go")
            choices = {each["id"]: each.get("grants") for each in task["metadata"]["approvals"][0]["choices"]}
            assert choices.get("allowSession") == offered
            await asked.answer(task, text="allow" if offered is None else "allowSession")
            [told] = asked.told
            assert {each["destination"] for each in told.get("updatedPermissions", [])} <= {"session"}
            assert bool(told.get("updatedPermissions")) is (offered is not None)

    run()


@asynchronous
async def test_an_agent_that_does_not_ask_takes_such_data_for_a_prompt() -> None:
    async with asking(claude={"approvals": "deny"}) as asked:
        task = await asked.answer({"id": ""}, {"id": "x", "choice": "allow"})
        assert state(task) == "completed"
        assert '"choice": "allow"' in str(asked.room.prompts)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(["allow", "deny", "answer"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "choice", "answers", "input", "message", "approvals"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(max_examples=200)
@given(JSON, st.booleans(), st.sampled_from(["permission", "question", "plan"]))
def test_hostile_answers_are_refused_and_never_break(value: Any, known: bool, kind: str) -> None:
    questions = {"questions": [{"question": "Which?", "header": "W", "options": [{"label": "a"}, 5]}, {"question": ""}]}
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "permission": ("Bash", {"command": "ls"}),
        "question": ("AskUserQuestion", questions),
        "plan": ("ExitPlanMode", {"plan": "p"}),
    }
    tool, arguments = calls[kind]

    @asynchronous
    async def run() -> None:
        from claude_agent_sdk import ToolPermissionContext

        async def publish(event: Any) -> None:
            return None

        approvals = Approvals(make_agent({"claude": {"approvals": "inputRequired"}}).config, publish, Redactor(), bool)
        request = approvals._opened(tool, arguments, ToolPermissionContext())
        answers = [each | {"id": request.id} if known and isinstance(each, dict) else each for each in [value]]
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"data": {"approvals": answers}}]}
        params = ParseDict({"message": message}, SendMessageRequest())
        try:
            taken = approvals.answer(params.message)
        except InvalidParamsError:
            taken = False
        assert request.decided.done() is taken

    run()


def shape(value: Any) -> Any:
    """JSON with what is different each time left out."""
    if isinstance(value, dict):
        ids = ("taskId", "contextId", "messageId")
        return {
            key: "…" if key in ("timestamp", "expiresAt") else shape(each)
            for key, each in value.items()
            if key not in ids
        }
    if isinstance(value, list):
        return [shape(each) for each in value]
    return re.sub(r"\b[0-9a-f]{8}\b", "…", value) if isinstance(value, str) else value


@asynchronous
async def test_the_json_of_the_documentation_is_what_is_sent() -> None:
    page = (Path(__file__).parent.parent / "docs" / "approvals.md").read_text("utf-8")
    asked_for, answered = (json.loads(each) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    about = {"description": "Install dependencies", "decision_reason": "This command requires approval"}
    rule = {"toolName": "Bash", "ruleContent": "npm install *"}
    more: dict[str, Any] = {"input": {"command": "npm install", "description": "Install dependencies"}, **about}
    more["permission_suggestions"] = [SUGGESTION | {"rules": [rule]}]
    async with asking(asks(**more)) as asked:
        events = [each async for each in asked.caller.stream("go")]
        assert shape(events[-1]) == shape(asked_for)
        message = answered["message"] | {"taskId": events[0]["task"]["id"]}
        message["parts"][0]["data"]["approvals"][0]["id"] = first(events[-1]["statusUpdate"])
        params = ParseDict({"message": message}, SendMessageRequest())
        assert state(read((await asked.room.lifecycle.send(params, asked.caller.context)).json)) == "completed"
        assert asked.told[0]["behavior"] == "allow"

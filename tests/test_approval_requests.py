"""What the model wrote as a tool's input is shown as any client can read it, whatever it is."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from a2a.types.a2a_pb2 import Task, TaskState
from claude_agent_sdk import ToolPermissionContext

from a2a_claude.claude import translate
from a2a_claude.claude.approval_answers import Answer, outcome
from a2a_claude.claude.approval_requests import Request, describe
from a2a_claude.observe.redaction import Redactor
from tests.lifecycle import asynchronous

SECRET = "hunter2-hunter2-hunter2"


def nested(levels: int, inner: Any = "x") -> Any:
    value = inner
    for _ in range(levels):
        value = {"a": value}
    return value


def described(tool: str, arguments: dict[str, Any], **context: Any) -> Request:
    return describe("deadbeef", tool, arguments, ToolPermissionContext(**context), Redactor([SECRET]), 1e9)


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        ({"command": "echo \ud800"}, {"command": "echo ?"}),
        ({"\udc00": 1}, {"?": 1}),
        ({"a": nested(5)}, {"a": nested(5)}),
        ({"a": nested(50)}, {"a": nested(9, orjson.dumps(nested(41)).decode())}),
        ({"a": nested(50, SECRET)}, {"a": nested(9, orjson.dumps(nested(41, "<redacted>")).decode())}),
        ({"a": nested(100_000)}, {"a": nested(9, "(nested too deep to be shown)")}),
    ],
    ids=["half a pair", "half a pair in a name", "nested", "nested deep", "nested deep with a secret", "too deep"],
)
@asynchronous
async def test_an_input_can_be_sent_stored_and_read_again(arguments: dict[str, Any], shows: dict[str, Any]) -> None:
    request = described("Bash", arguments, title="\ud800", description="d\ud800")
    status = translate.status(TaskState.TASK_STATE_INPUT_REQUIRED, request.text, {"approvals": [request.shown]})
    task = Task(id="t", status=status.status, metadata=status.metadata)
    assert Task.FromString(task.SerializeToString()) == task
    assert request.shown["input"] == shows
    assert request.shown["description"] == "d?"
    assert request.arguments is arguments  # what is allowed is what was asked for


@pytest.mark.parametrize(
    "question",
    [{"options": 5}, {"options": {"a": 1}}, {"options": ["a"]}, {"options": [{"label": {}}]}, {"header": []}],
    ids=str,
)
@asynchronous
async def test_questions_that_are_none_are_asked_about_as_a_tool(question: dict[str, Any]) -> None:
    request = described("AskUserQuestion", {"questions": [{"question": "q", **question}]})
    assert request.kind == "permission"
    assert outcome(request, Answer("deadbeef", said="deny"))[0] == "deny"

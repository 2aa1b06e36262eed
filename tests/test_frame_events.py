"""The frames of a turn as sideband events: which come, what is in them, and what is never in them."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.claude.frame_events import Frames
from a2a_claude.claude.todos import TodoLists, Todos
from a2a_claude.claude.tool_calls import Kinds
from a2a_claude.claude.trace import artifact
from a2a_claude.observe.events import Event, Origin
from a2a_claude.observe.redaction import REDACTED, Redactor
from tests.claude_turns import background, system
from tests.support import make_agent

Frame = dict[str, Any]
ORIGIN = Origin("reviewer", "Reviewer", "trace", "task", "context")
SECRET = "correct-horse-battery"


def frames(
    features: Frame | None = None, servers: tuple[str, ...] = ("files", "a__b"), todos: Todos | None = None
) -> Frames:
    config = make_agent({"features": features or {}}).config
    return Frames(config, Redactor([SECRET]), Kinds(servers), todos or Todos())


def read(told: Frames, *given_frames: Frame) -> list[tuple[str, Frame]]:
    return [each for frame in given_frames for each in told.read(frame)]


def said(*blocks: Frame, **more: Any) -> Frame:
    message = {"id": "m", "model": "claude-x", "content": list(blocks), **more}
    return {"type": "assistant", "parent_tool_use_id": None, "message": message}


def call(name: str, item: str = "t1", **arguments: Any) -> Frame:
    return said({"type": "tool_use", "id": item, "name": name, "input": arguments})


def gave(content: Any, item: str = "t1", *, error: bool = False, **more: Any) -> Frame:
    block = {"type": "tool_result", "tool_use_id": item, "content": content, "is_error": error}
    return {"type": "user", "parent_tool_use_id": None, "message": {"role": "user", "content": [block]}, **more}


BACKEND = {"backend": "claude"}
TABLE: list[tuple[str, list[Frame], list[tuple[str, Frame]]]] = [
    ("started", [system("init", model="claude-x")] * 2, [("agent_started", {**BACKEND, "model": "claude-x"})]),
    ("thinking", [said({"type": "thinking", "thinking": "hm"})], [("thinking", {"content": "hm"})]),
    (
        "shell",
        [call("Bash", command="ls"), gave("a\nb")],
        [
            ("tool_call_start", {**BACKEND, "toolKind": "shell", "command": "ls", "itemId": "t1"}),
            ("tool_call_end", {**BACKEND, "itemId": "t1", "output": "a\nb", "status": "completed"}),
        ],
    ),
    (
        "builtin that fails",
        [call("WebFetch", url="http://x"), gave([{"type": "text", "text": "no"}, {"type": "image"}], error=True)],
        [
            ("tool_call_start", {**BACKEND, "toolKind": "builtin", "tool": "WebFetch", "itemId": "t1"}),
            ("tool_call_end", {**BACKEND, "itemId": "t1", "output": "no\n[image]", "status": "error"}),
        ],
    ),
    (
        "mcp",
        [call("mcp__files__read_it"), call("mcp__a__b__c__d"), call("mcp__other__x")],
        [
            ("tool_call_start", {**BACKEND, "toolKind": "mcp", "server": server, "tool": tool, "itemId": "t1"})
            for server, tool in (("files", "read_it"), ("a__b", "c__d"), ("other", "x"))
        ],
    ),
    (
        "another agent",
        [call("mcp__a2a-subagents__reviewer__review")],
        [
            (
                "tool_call_start",
                {
                    **BACKEND,
                    "toolKind": "a2a_subagent",
                    "server": "a2a-subagents",
                    "tool": "reviewer__review",
                    "delegation": True,
                    "itemId": "t1",
                },
            )
        ],
    ),
    (
        "files",
        [
            call("Write", file_path="/w/a", content=SECRET),
            call("Edit", file_path="/w/b", old_string="x", new_string=SECRET),
            call("NotebookEdit", notebook_path="/w/c", new_source=SECRET),
        ],
        [
            ("decision", {**BACKEND, "kind": "file_change", "changes": [{"path": path, "kind": kind}], "itemId": "t1"})
            for path, kind in (("/w/a", "write"), ("/w/b", "edit"), ("/w/c", "edit"))
        ],
    ),
    (
        "todo list as a whole",
        [call("TodoWrite", todos=[{"content": "a", "status": "completed"}, {"content": "b", "status": "pending"}])],
        [
            (
                "decision",
                {
                    **BACKEND,
                    "kind": "todo_list",
                    "items": [{"text": "a", "completed": True}, {"text": "b", "completed": False}],
                },
            )
        ],
    ),
    (
        "denied, told twice",
        [
            system("permission_denied", tool_name="WebFetch", tool_use_id="t1", message="Not granted."),
            {"type": "result", "permission_denials": [{"tool_name": "WebFetch", "tool_use_id": "t1"}]},
        ],
        [
            (
                "decision",
                {
                    **BACKEND,
                    "kind": "permission_denied",
                    "tool": "WebFetch",
                    "message": "Not granted.",
                    "itemId": "t1",
                },
            )
        ],
    ),
    (
        "denied by a hook",
        [{"type": "result", "permission_denials": [{"tool_name": "Bash", "tool_use_id": "t2"}]}],
        [
            (
                "decision",
                {
                    **BACKEND,
                    "kind": "permission_denied",
                    "tool": "Bash",
                    "message": "The call was denied.",
                    "itemId": "t2",
                },
            )
        ],
    ),
    (
        "rate limit, tried again",
        [system("api_retry", error="rate_limit", attempt=1, max_retries=10, retry_delay_ms=500)],
        [
            (
                "rate_limit",
                {
                    **BACKEND,
                    "status": "warning",
                    "action": "retrying",
                    "retry": {"attempt": 1, "maxRetries": 10, "delayMs": 500},
                },
            )
        ],
    ),
    (
        "rate limit, near and reached",
        [
            {
                "type": "rate_limit_event",
                "rate_limit_info": {
                    "status": "allowed_warning",
                    "rateLimitType": "five_hour",
                    "resetsAt": 9_999_999_999,
                    "utilization": 0.9,
                },
            },
            {**said(), "error": "rate_limit"},
        ],
        [
            (
                "rate_limit",
                {
                    **BACKEND,
                    "status": "warning",
                    "action": "warning",
                    "rateLimitType": "five_hour",
                    "resetsAt": 9_999_999_999_000,
                    "utilization": 0.9,
                },
            ),
            (
                "rate_limit",
                {
                    **BACKEND,
                    "status": "rejected",
                    "action": "ended_turn",
                    "rateLimitType": "five_hour",
                    "resetsAt": 9_999_999_999_000,
                },
            ),
        ],
    ),
    ("another retry", [system("api_retry", error="server_error", attempt=1)], []),
    (
        "background",
        [background(("b1", "local_bash")), background(("b1", "local_bash")), background()],
        [
            (
                "background_tasks",
                {
                    **BACKEND,
                    "count": 1,
                    "tasks": [{"taskId": "b1", "type": "local_bash", "description": "does b1"}],
                },
            ),
            ("background_tasks", {**BACKEND, "count": 0, "tasks": []}),
        ],
    ),
    (
        "context window",
        [
            said(usage={"input_tokens": 10, "cache_read_input_tokens": 20, "output_tokens": 5}),
            {"type": "result", "modelUsage": {"claude-x": {"contextWindow": 200_000}}},
            system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 30, "post_tokens": 7}),
        ],
        [
            ("context_window", {**BACKEND, "model": "claude-x", "usedTokens": 30, "contextWindow": 200_000}),
            (
                "context_window",
                {**BACKEND, "model": "claude-x", "compacted": "auto", "usedTokens": 7, "tokensBefore": 30},
            ),
        ],
    ),
    (
        "a sub-agent inside the CLI",
        [{**call("Bash", command="ls"), "parent_tool_use_id": "t0"}, {**gave("x"), "parent_tool_use_id": "t0"}],
        [],
    ),
    (
        "what is not known",
        [{"type": "tool_progress"}, {"type": "system"}, {}, said({"type": "text", "text": "hi"})],
        [],
    ),
]


@pytest.mark.parametrize(("given_frames", "events"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_frames_become_events(given_frames: list[Frame], events: list[tuple[str, Frame]]) -> None:
    assert read(frames(), *given_frames) == events


# Rows that have events of the feature, too.
TOOLS = {"shell", "builtin that fails", "mcp", "another agent"}
RATES = {"rate limit, tried again", "rate limit, near and reached"}
ALIKE = {"emitToolEvents": TOOLS, "emitRateLimitEvents": RATES} | {
    name: set() for name in ("emitThinkingEvents", "emitFileChangeEvents", "emitTodoEvents", "emitBackgroundTaskEvents")
}


@pytest.mark.parametrize(
    ("feature", "row"),
    [
        ("emitThinkingEvents", "thinking"),
        ("emitToolEvents", "shell"),
        ("emitToolEvents", "mcp"),
        ("emitFileChangeEvents", "files"),
        ("emitTodoEvents", "todo list as a whole"),
        ("emitRateLimitEvents", "rate limit, tried again"),
        ("emitBackgroundTaskEvents", "background"),
    ],
)
def test_a_feature_turns_its_events_off_and_no_others(feature: str, row: str) -> None:
    off = frames({feature: False})
    for name, given_frames, events in TABLE:
        if name == row:
            assert read(off, *given_frames) == []
        elif name not in ALIKE[feature]:
            assert read(frames({feature: False}), *given_frames) == events


@pytest.mark.parametrize("tool", ["Read", "Edit", "Write", "NotebookEdit", "Grep"])
def test_what_a_file_holds_is_never_told(tool: str) -> None:
    content = "the content of the file\n" * 3
    told = read(frames(), call(tool, file_path="/w/a", old_string=content, new_string=content, content=content))
    told += read(frames(), call(tool), gave(content))
    failed = f"<tool_use_error>String to replace not found.\nString: {content}</tool_use_error>"
    one = frames()
    told += read(one, call(tool), gave(failed, error=True))
    assert "the content" not in json.dumps(told)
    assert told[-1][1]["output"] == "String to replace not found."
    assert f"[file content: {len(content)} characters]" in [data.get("output") for _, data in told]


def test_texts_are_redacted_and_bounded() -> None:
    long = f"{SECRET} " + "word " * 5000
    told = read(
        frames(),
        said({"type": "thinking", "thinking": long}),
        call("Bash", command=f"curl --token {SECRET} " + "x " * 1000),
        gave(long),
        call("Write", file_path=f"/w/{SECRET}"),
        call("TodoWrite", todos=[{"content": f"use {SECRET}", "status": "pending"}]),
        system(
            "background_tasks_changed",
            tasks=[{"task_id": "b1", "task_type": "local_bash", "description": f"curl --token {SECRET}"}],
        ),
        system("permission_denied", tool_name="x", tool_use_id="t9", message=f"token={SECRET}"),
        call(f"mcp__files__{SECRET}"),
        {"type": "result", "errors": [SECRET]},
    )
    assert SECRET not in json.dumps(told)
    assert json.dumps(told).count(REDACTED) >= 8
    texts = dict(reversed(told))
    note = f"… [{len(long)} characters]"
    assert texts["thinking"]["content"].endswith(note)
    assert len(texts["tool_call_end"]["output"]) <= 10_000 + len(note)
    assert len(texts["tool_call_start"]["command"]) < 550


def test_empty_thoughts_are_no_event_and_are_explained_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert read(frames(), *[said({"type": "thinking", "thinking": ""})] * 3) == []
    assert [record.message for record in caplog.records if "claude.thinking.display" in record.message] != []
    assert len(caplog.records) == 1


def test_a_todo_list_is_put_together_and_goes_on_in_the_next_turn() -> None:
    lists = TodoLists()
    made = {"task": {"id": "1", "subject": "look"}}

    def listed(*given_frames: Frame) -> list[list[tuple[str, bool]]]:
        told = read(frames(todos=lists.of("c")), *given_frames)
        return [
            [(each["text"], each["completed"]) for each in data["items"]]
            for _, data in told
            if data.get("kind") == "todo_list"
        ]

    assert listed(call("TaskCreate", subject="look"), gave("ok", tool_use_result=made)) == [[("look", False)]]
    done = {"success": True, "taskId": "1"}
    assert listed(call("TaskUpdate", taskId="1", status="completed"), gave("ok", tool_use_result=done)) == [
        [("look", True)]
    ]
    unknown = {"success": True, "taskId": "7"}
    assert listed(call("TaskUpdate", taskId="7", status="pending"), gave("ok", tool_use_result=unknown)) == [
        [("look", True), ("#7", False)]
    ]
    assert listed(call("TaskUpdate", taskId="7", status="deleted"), gave("ok", tool_use_result=unknown)) == [
        [("look", True)]
    ]
    assert listed(call("TaskUpdate", taskId="1"), gave("no", error=True, tool_use_result="Error: no")) == []
    assert read(frames(todos=lists.of("other")), call("TodoWrite", todos="no list"))[0:] == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "content",
        "usage",
        "model",
        "id",
        "name",
        "input",
        "thinking",
        "tool_use_id",
        "todos",
        "message",
        "tasks",
        "status",
    ]
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["assistant", "user", "system", "result", "rate_limit_event"])},
            optional={
                "subtype": st.sampled_from(
                    ["init", "api_retry", "permission_denied", "compact_boundary", "background_tasks_changed"]
                ),
                "message": st.fixed_dictionaries(
                    {
                        "content": JSON
                        | st.lists(
                            st.dictionaries(KEYS, JSON, max_size=4).map(lambda block: {**block, "type": "tool_use"})
                            | st.dictionaries(KEYS, JSON, max_size=4).map(
                                lambda block: {**block, "type": "tool_result"}
                            )
                        )
                    }
                )
                | JSON,
                "error": JSON,
                "model": JSON,
                "tasks": JSON,
                "rate_limit_info": JSON,
                "permission_denials": JSON,
                "modelUsage": JSON,
                "compact_metadata": JSON,
                "tool_use_result": JSON,
                "errors": JSON,
            },
        ),
        max_size=4,
    )
)
@settings(max_examples=150, deadline=None)
def test_no_frame_breaks_a_turn_and_every_event_can_be_sent(given_frames: list[Frame]) -> None:
    for kind, data in read(frames(), *given_frames):
        event = Event(kind, ORIGIN, data)
        json.dumps(event.envelope(), allow_nan=False).encode()
        assert artifact(event).artifact.parts

"""Every row of the table in docs/events.md, as an official client sees it of the real CLI with an API on loopback.

The client of the current release asks by A2A-Extensions, that of A2A v0.3 by X-A2A-Extensions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.claude_support import KEY, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.interop.drivers import KINDS, Kind, driving
from tests.interop.shapes import SHAPES
from tests.serving import ROOT, Served, environment, serving

TRACE = "urn:x-a2a:trace:v1"
CONTENT = "what-the-file-holds"
CURRENT, OLD = (next(each for each in KINDS if each.release == release) for release in ("1.3", "0.3.26"))
HEADERS = {"1.0": "A2A-Extensions", "0.3": "X-A2A-Extensions"}


PAGE = (ROOT / "docs" / "events.md").read_text("utf-8")
PAYLOADS = json.loads(PAGE.partition("<!-- payloads:")[2].partition("```json")[2].partition("```")[0])
ENVELOPE = {"agent_id", "agent_name", "trace_id", "state"}


def shape(data: dict[str, Any]) -> tuple[Any, ...]:
    """What tells a payload from another: its members, and which kind it is of."""
    state = {"state"} if data.get("toolKind") and "itemId" not in data else set()
    return (data.get("toolKind"), data.get("kind"), frozenset(data) - (ENVELOPE - state))


def tool(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "input": arguments}]}


def bash(command: str, **more: Any) -> dict[str, Any]:
    return tool("Bash", command=command, description="d", **more)


def work(secret: str, answer: str) -> str:
    """The API remembers how often it has failed a turn, so each caller has an answer of its own."""
    return directive(
        {"thinking": f"It says password={secret}.", **bash(f"echo --token {secret} | tee log; seq 4000")},
        tool("mcp__files__environment", name="HOME"),
        tool("mcp__a2a-subagents__reviewer__review", message="look"),
        tool("Write", file_path="new.txt", content=CONTENT),
        tool("Read", file_path="new.txt"),
        tool("TaskCreate", subject="look", description="d"),
        tool("WebFetch", url="http://127.0.0.1:9/", prompt="p"),
        bash("sleep 0.2", run_in_background=True),
        {"status": 429, "fail_times": 1, "text": "built"},
        {"text": answer},
    )


@dataclass
class Stage:
    """The served agent, and its API."""

    served: Served
    api: FakeAPI


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    require_cli()
    folder = tmp_path_factory.mktemp("table")
    api = FakeAPI().start()
    workspace = folder / "workspace"
    workspace.mkdir()
    skill = {"id": "review", "name": "Review", "description": "Reviews.", "tags": ["code"]}
    card = {"name": "Reviewer", "description": "Reviews.", "version": "1", "skills": [skill]}
    with ExitStack() as stack:
        stack.callback(api.shutdown)
        (folder / "remote").mkdir()
        remote = stack.enter_context(serving(folder / "remote", agentCard=card))
        own = environment(
            ANTHROPIC_BASE_URL=api.url,
            ANTHROPIC_API_KEY=KEY,
            CLAUDE_CODE_MAX_RETRIES="2",
        )
        document: dict[str, Any] = {
            "agentCard": {"name": "The Engineer", "description": "Works.", "version": "1"},
            "claude": {
                "workingDirectory": str(workspace),
                "allowedTools": ["Bash", "Read", "mcp__files__*", "TaskCreate"],
            },
            "mcp": {"files": {"type": "stdio", "command": sys.executable, "args": [str(ROOT / "tests/mcp_server.py")]}},
            "subAgents": {"agents": [{"name": "reviewer", "agentCardUrl": remote.url}]},
        }
        yield Stage(
            stack.enter_context(serving(folder, "--executor", "claude", environ=own, **document)),
            api,
        )


def seen(stage: Stage, kind: Kind, text: str, *, asks: bool) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The artifacts of a message's stream, and the task afterwards."""
    with driving(kind, stage.served.url) as call:
        call("card")
        if asks:
            call("headers", {HEADERS[kind.protocol]: TRACE})
        events = call("stream", SHAPES[kind.shape].send(text))
        updates = [each.get("artifactUpdate", each) for each in events]
        artifacts = [each["artifact"] for each in updates if "artifact" in each]
        first = events[0].get("task", events[0])
        return artifacts, call("get", {"id": first["id"]})


def told(artifacts: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """The events: type, name of the artifact, data."""
    found = [each for each in artifacts if TRACE in each.get("extensions", [])]
    return [(each["metadata"]["eventType"], each["name"], each["parts"][0]["data"]) for each in found]


@pytest.mark.parametrize("kind", [CURRENT, OLD], ids=str)
def test_a_client_that_asks_sees_every_row_of_the_table(stage: Stage, kind: Kind) -> None:
    secret = "hunter2000000"
    artifacts, task = seen(stage, kind, work(secret, f"done for {kind}"), asks=True)
    events = told(artifacts)
    by_type: dict[str, list[dict[str, Any]]] = {}
    for name, _, data in events:
        by_type.setdefault(name, []).append(data)

    # The names: docs/events.md lists them, and no others.
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert documented == set(PAYLOADS)
    assert set(by_type) == documented - {"agent_error"}
    names = {kind: name for kind, name, _ in events}
    assert names == {
        "agent_started": "trace.lifecycle",
        "agent_finished": "trace.lifecycle",
        "thinking": "trace.thinking",
        "tool_call_start": "trace.mcp.start",
        "tool_call_progress": "trace.mcp.progress",
        "tool_call_end": "trace.mcp",
        "decision": "trace.decision",
        "rate_limit": "trace.rate_limit",
        "background_tasks": "trace.background_tasks",
        "context_window": "trace.context_window",
    }
    assert len({each["artifactId"] for each in artifacts}) == len(artifacts) - _appended(artifacts)

    # The payloads that the page shows: for each there is a real one with the same members.
    for name, samples in PAYLOADS.items():
        shapes = [shape(data) for data in by_type.get(name, ())]
        assert [each for each in samples if by_type.get(name) and shape(each) not in shapes] == []

    # The envelope, and the bookends: once a task, though the CLI began several rounds.
    assert {data["agent_id"] for _, _, data in events} == {"the-engineer"}
    assert {data["trace_id"] for _, _, data in events} == {task["contextId"]}
    assert [data["state"] for data in by_type["agent_started"]] == ["started"]
    assert by_type["agent_started"][0]["model"]
    [finished] = by_type["agent_finished"]
    assert finished["state"] == "finished"
    assert finished["usage"]["output_tokens"] > 0
    assert finished["totalCostUsd"] > 0
    assert finished["numTurns"] > 5
    assert [events[0][0], events[-1][0]] == ["agent_started", "agent_finished"]

    # Tools.
    starts, ends = by_type["tool_call_start"], {each["itemId"]: each for each in by_type["tool_call_end"]}
    kinds = [each["toolKind"] for each in starts]
    assert kinds[:3] == ["shell", "mcp", "a2a_subagent"]
    assert {"builtin", "shell"} <= set(kinds[3:])
    assert starts[0]["command"] == "echo --token <redacted> | tee log; seq 4000"
    assert (starts[1]["server"], starts[1]["tool"]) == ("files", "environment")
    assert (starts[2]["tool"], starts[2]["delegation"]) == ("reviewer__review", True)
    assert all(each["itemId"] in ends for each in starts)
    output = ends[starts[0]["itemId"]]["output"]
    assert (len(output) < 10_040, output.endswith(" characters]")) == (True, True)
    assert {each["state"] for each in by_type["tool_call_progress"]} >= {"completed"}
    assert [each["status"] for each in ends.values()].count("error") == 1  # what was denied

    # Decisions.
    decisions = {each["kind"]: each for each in by_type["decision"]}
    [change] = decisions["file_change"]["changes"]
    assert (change["path"].rpartition("/")[2], change["kind"]) == ("new.txt", "write")
    assert decisions["todo_list"]["items"] == [{"text": "look", "completed": False}]
    assert decisions["permission_denied"]["tool"] == "WebFetch"

    # What goes on around it.
    assert by_type["rate_limit"][0]["action"] == "retrying"
    assert by_type["rate_limit"][0]["retry"]["attempt"] == 1
    counts = [each["count"] for each in by_type["background_tasks"]]
    assert (counts[0], counts[-1]) == (1, 0)
    assert by_type["background_tasks"][0]["tasks"][0]["type"] == "local_bash"
    assert all(each["usedTokens"] > 0 and each["contextWindow"] > 1000 for each in by_type["context_window"])

    # What is never told, and what the task keeps.
    everything = json.dumps(events)
    assert secret not in everything
    assert CONTENT not in everything
    assert {each["name"] for each in task["artifacts"]} == {"response"}


def _appended(artifacts: list[dict[str, Any]]) -> int:
    """Pieces of an artifact after its first."""
    names = [each["artifactId"] for each in artifacts if each["name"] == "response"]
    return len(names) - len(set(names))


@pytest.mark.parametrize("kind", [CURRENT, OLD], ids=str)
def test_a_client_that_does_not_ask_sees_none_of_it(stage: Stage, kind: Kind) -> None:
    artifacts, task = seen(stage, kind, directive(bash("echo hi"), {"text": "done"}), asks=False)
    assert [each["name"] for each in artifacts] == ["response"]
    assert [each["name"] for each in task["artifacts"]] == ["response"]


@pytest.mark.parametrize(
    ("turn", "reason"),
    [({"status": 401}, "authentication_failed"), ({"text": "no", "stop_reason": "refusal"}, "refusal")],
)
def test_a_failure_is_the_last_event_and_there_is_no_other_end(stage: Stage, turn: dict[str, Any], reason: str) -> None:
    artifacts, _ = seen(stage, CURRENT, directive(turn), asks=True)
    events = told(artifacts)
    assert [name for name, _, _ in events].count("agent_finished") == 0
    name, artifact, data = events[-1]
    assert (name, artifact, data["state"], data["reason"]) == ("agent_error", "trace.lifecycle", "error", reason)
    assert shape(data) == shape(PAYLOADS[name][0])

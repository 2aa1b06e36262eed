"""Our own agents delegate to each other: real servers with the real CLI, one behind a token, and one that obeys."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.claude_support import KEY, processes_with, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.remote_agents import Bare, Obedient, bare, card, obedient
from tests.serving import PATIENCE, Served, environment, serving

# New ones each time: other runs on this machine have theirs in their processes.
TOKENS = {each: f"token-for-the-{each.lower()}-{uuid.uuid4()}" for each in ("ENGINEER", "REVIEWER")}
V1 = {"Content-Type": "application/json", "A2A-Version": "1.0"}
ENGINEER, REVIEWER = ({**V1, "Authorization": f"Bearer {each}"} for each in TOKENS.values())
AUTH = {"auth": {"bearer": {"tokensVariable": "TOKENS"}}}


@contextlib.contextmanager
def agent(folder: Path, name: str, api: FakeAPI, **config: Any) -> Iterator[Served]:
    """An agent that Claude answers, for callers with the token of its name."""
    require_cli()
    workspace = folder / name / "workspace"
    workspace.mkdir(parents=True)
    given = environment(
        ANTHROPIC_BASE_URL=api.url,
        ANTHROPIC_API_KEY=KEY,
        CLAUDE_CODE_MAX_RETRIES="0",
        TOKENS=f"caller:{TOKENS[name.upper()]}",
        **{f"{each}_TOKEN": token for each, token in TOKENS.items()},
    )
    skill = {"id": "review", "name": "Review", "description": "Reviews code.", "tags": ["code"]}
    document: dict[str, Any] = {
        "agentCard": {"name": name.title(), "description": "d", "version": "1", "skills": [skill]},
        "server": AUTH,
        "session": {"spareClients": 0},
        **config,
        "claude": {"workingDirectory": str(workspace), **config.get("claude", {})},
    }
    with serving(folder / name, "--executor", "claude", environ=given, **document) as served:
        yield served


def remote(name: str, url: str, bearer: str = "") -> dict[str, Any]:
    auth = {"auth": {"mode": "bearer", "token": bearer}} if bearer else {}
    return {"name": name, "agentCardUrl": url, **auth}


@dataclass
class Team:
    """An engineer, who may call a reviewer (of another server) and a clerk (who obeys); the reviewer may call back."""

    engineer: Served
    reviewer: Served
    clerk: Obedient
    api: FakeAPI
    folder: Path


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    api = FakeAPI().start()
    with contextlib.ExitStack() as stack:
        front: Bare = stack.enter_context(bare())  # where the engineer will be
        nobody = stack.enter_context(bare())
        served, clerk = stack.enter_context(obedient())
        back = {"agents": [remote("engineer", front.url, bearer="${ENGINEER_TOKEN}")]}
        reviewer = stack.enter_context(agent(folder, "reviewer", api, subAgents=back))
        remotes = [
            remote("reviewer", reviewer.url, bearer="${REVIEWER_TOKEN}"),
            remote("clerk", served.url),
            remote("ghost", nobody.url),
        ]
        engineer = stack.enter_context(
            agent(
                folder,
                "engineer",
                api,
                subAgents={"agents": remotes},
                claude={"disallowedTools": ["mcp__a2a-subagents__task_cancel"]},
            )
        )
        front.behind = engineer.url
        front.serve_card(card(front.url, ("JSONRPC", "1.0"), name="Engineer"))
        yield Team(engineer, reviewer, clerk, api, folder)
    api.shutdown()


def rpc(served: Served, method: str, params: dict[str, Any], headers: dict[str, str] = ENGINEER) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=headers, timeout=PATIENCE).json()
    result: dict[str, Any] = answer["result"]
    return result


def send(team: Team, *turns: dict[str, Any], context_id: str = "", **configuration: Any) -> dict[str, Any]:
    """A task of the engineer, whose model plays these turns."""
    parts = [{"text": directive(*turns)}]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts, "contextId": context_id}
    params = {"message": message, "configuration": configuration}
    task: dict[str, Any] = rpc(team.engineer, "SendMessage", params)["task"]
    return task


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": f"mcp__a2a-subagents__{tool}", "input": arguments}


def given(team: Team) -> list[Any]:
    """What the engineer's model was given last for its tool calls."""
    for request in reversed(team.api.messages):
        content = request["body"]["messages"][-1]["content"]
        found = [each for each in content if isinstance(each, dict) and each.get("type") == "tool_result"]
        if found:
            return [each["content"] for each in found]
    raise AssertionError("no tool was called")


def test_an_agent_delegates_to_one_behind_a_token_and_to_another_side_by_side(team: Team) -> None:
    asked = directive({"text": "looks good"})
    both = [call("reviewer__review", message=asked), call("clerk__work", message="this")]
    task = send(team, {"tools": both}, {"text": "done"})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert given(team) == [[{"type": "text", "text": "looks good"}], [{"type": "text", "text": "did this"}]]


def test_the_conversation_with_a_remote_goes_on_with_ours(team: Team) -> None:
    context = send(team, {"tools": [call("clerk__work", message="one")]}, {"text": "done"})["contextId"]
    send(team, {"tools": [call("clerk__work", message="two")]}, {"text": "done"}, context_id=context)
    assert team.clerk.seen[-2]["contextId"] == team.clerk.seen[-1]["contextId"]


def test_files_of_an_answer_are_put_into_the_workspace_and_images_are_shown(team: Team) -> None:
    send(team, {"tools": [call("clerk__work", message="parts")]}, {"text": "done"})
    [blocks] = given(team)
    text, image, *_, file = blocks
    assert text["text"].startswith("Grüße 🎉\n\n")
    assert image["type"] == "image"
    path = re.search(r"is at (\S+)", file["text"])
    assert path is not None
    assert path[1].startswith(str(team.folder / "engineer" / "workspace" / ".a2a"))
    assert Path(path[1]).read_bytes() == b"\0\1"


def test_agents_that_call_each_other_in_a_circle_are_told(team: Team) -> None:
    back = directive({"tools": [call("engineer__message", message="and you?")]}, {"text": "the engineer declines"})
    task = send(team, {"tools": [call("reviewer__review", message=back)]}, {"text": "done"})
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    results = [str(each["body"]["messages"][-1]) for each in team.api.messages]
    told = "The agents call each other in a circle: Engineer → Reviewer → Engineer."
    assert sum(told in each for each in results) == 1
    assert given(team) == [[{"type": "text", "text": "the engineer declines"}]]


def test_a_remote_that_is_down_is_told_in_the_card_of_the_server_and_stops_nobody(team: Team) -> None:
    ready = httpx.get(f"{team.engineer.url}/ready", headers=ENGINEER)
    assert ready.status_code == 200
    assert ready.json()["degraded"] == {"subAgents": "1 of 3 agents are not available"}
    metrics = httpx.get(f"{team.engineer.url}/metrics", headers=ENGINEER).text
    assert 'a2a_claude_sub_agents{name="ghost",status="unavailable"} 1' in metrics
    assert 'a2a_claude_sub_agents{name="reviewer",status="available"} 1' in metrics
    send(team, {"tools": [call("ghost__message", message="are you there?")]}, {"text": "done"})
    assert "it answered HTTP 404" in str(given(team))


def test_disallowed_tools_win(team: Team) -> None:
    send(team, {"tools": [call("task_cancel", task_id="clerk-1")]}, {"text": "done"})
    assert "No such tool available" in str(given(team))
    offered = {each["name"] for each in team.api.messages[-1]["body"]["tools"]}
    assert "mcp__a2a-subagents__task_cancel" not in offered
    assert {"mcp__a2a-subagents__task_status", "mcp__a2a-subagents__reviewer__review"} <= offered


def test_cancelling_a_task_cancels_what_it_has_delegated(team: Team) -> None:
    slow = directive({"text": "never", "hang": 60})
    task = send(team, {"tools": [call("reviewer__review", message=slow)]}, returnImmediately=True)

    def states() -> list[str]:
        tasks = rpc(team.reviewer, "ListTasks", {}, REVIEWER)["tasks"]
        return [each["status"]["state"] for each in tasks]

    def until(state: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while state not in states():
            assert time.monotonic() < deadline, states()
            time.sleep(0.05)

    until("TASK_STATE_WORKING")
    rpc(team.engineer, "CancelTask", {"id": task["id"]})
    until("TASK_STATE_CANCELED")
    assert "TASK_STATE_WORKING" not in states()


def test_no_token_is_in_a_process_a_file_or_a_log(team: Team) -> None:
    """The environment that a server was started with has it, and its supervisors', which nobody can read; none else."""
    send(team, {"tools": [call("reviewer__review", message="hello")]}, {"text": "done"})
    secrets = [each.encode() for each in TOKENS.values()]
    supervisors = processes_with("claude/supervisor")
    assert set(processes_with("_bundled/claude")) - set(supervisors)
    servers = {team.engineer.process.pid, team.reviewer.process.pid, *supervisors}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            assert not any(each in (process / "cmdline").read_bytes() for each in secrets)
            environ = (process / "environ").read_bytes()
            assert int(process.name) in servers or not any(each in environ for each in secrets)
    for path in team.folder.rglob("*"):
        if path.is_file() and path.name != "agent.yaml":
            assert not any(each in path.read_bytes() for each in secrets), path
    for served in (team.engineer, team.reviewer):
        assert not any(each.decode() in line for each in secrets for line in served.raw)
    assert not any(each.decode() in json.dumps(request["body"]) for each in secrets for request in team.api.messages)

"""MCP servers of an agent, stdio and Streamable HTTP on the `mcp` package, under the real CLI."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.claude.executor import ClaudeExecutor
from a2a_claude.claude.mcp import hooks, mcp_json, outside, tool_name
from a2a_claude.claude.mcp_servers import Servers
from a2a_claude.claude.processes import Processes
from a2a_claude.claude.session import OptionsError
from a2a_claude.claude.sessions import Pool
from a2a_claude.observe.redaction import Redactor
from tests.claude_support import make_processes, processes_with, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import Caller, asynchronous, serving, state, texts
from tests.mcp_tools import TOKEN
from tests.support import make_agent
from tests.test_claude_serve import claude

PROGRAM = str(Path(__file__).with_name("mcp_tools.py"))


def stdio(how: str = "tools", **more: Any) -> dict[str, Any]:
    return {"type": "stdio", "command": sys.executable, "args": [PROGRAM, how], **more}


def call(tool: str, server: str = "t", **arguments: Any) -> dict[str, Any]:
    return {"tools": [{"name": f"mcp__{server}__{tool}", "input": arguments}]}


class Room:
    """A served agent: its lifecycle, the API, and its processes."""

    def __init__(self, lifecycle: Lifecycle, api: FakeAPI, processes: Processes) -> None:
        self.caller, self.api, self.processes = Caller(lifecycle), api, processes

    async def say(self, *turns: dict[str, Any], context: str = "c") -> dict[str, Any]:
        return dict(await self.caller.task(directive(*turns), context_id=context))

    @property
    def results(self) -> list[str]:
        """What the tools gave, as the model was told last."""
        content = [each["content"] for each in self.api.messages[-1]["body"]["messages"] if each["role"] == "user"]
        blocks = [block for each in content if isinstance(each, list) for block in each]
        return [json.dumps(block["content"]) for block in blocks if block["type"] == "tool_result"]

    @property
    def tools(self) -> set[str]:
        """The tools of MCP servers that the model was shown last."""
        return {name for each in self.api.messages[-1]["body"]["tools"] if (name := each["name"]).startswith("mcp__")}


@asynccontextmanager
async def served(folder: Path, servers: dict[str, Any], **claude: Any) -> AsyncIterator[Room]:
    require_cli()
    api = FakeAPI().start()
    # Without tool search, the tools stand in the request as they are.
    variables = {"ENABLE_TOOL_SEARCH": "false"}
    settings = {"allowedTools": ["Read", *(f"mcp__{name}" for name in servers)], **claude}
    hidden = [folder / "secret"]
    processes = make_processes(folder, api, {"mcp": servers}, claude=settings, variables=variables, hidden=hidden)
    pool = Pool(processes)
    try:
        async with serving(ClaudeExecutor(processes.config, pool, Redactor())) as lifecycle:
            yield Room(lifecycle, api, processes)
    finally:
        await pool.shutdown(5)
        api.shutdown()


@pytest.fixture
def http_server(tmp_path: Path) -> Iterator[str]:
    """The URL of a Streamable HTTP server."""
    place = tmp_path / "port"
    with subprocess.Popen([sys.executable, PROGRAM, "http", str(place)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        yield f"http://127.0.0.1:{place.read_text()}/mcp"
        process.kill()


@asynchronous
async def test_tools_of_a_stdio_server_are_called(tmp_path: Path) -> None:
    async with served(tmp_path, {"t": stdio(), "unused": stdio(enabled=False)}) as room:
        task = await room.say(call("echo", text="around the world"), call("huge", length=2_000_000), {"text": "done"})
        assert (state(task), texts(task)) == ("completed", ["done"])
        assert "around the world" in room.results[0]
        assert 0 < len(room.results[1]) < 100_000  # the rest is in a file that Claude may read
        assert "mcp__t__echo" in room.tools
        assert not any("unused" in each for each in room.tools)
        assert "mcpServers" not in task["metadata"]
        assert room.processes.servers.states() == {("t", "connected"): 1.0}
        assert room.processes.servers.problem() == ""


def test_tools_of_an_http_server_are_called_with_its_headers(tmp_path: Path, http_server: str) -> None:
    @asynchronous
    async def run() -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with served(tmp_path, {"web": {"type": "http", "url": http_server, "headers": headers}}) as room:
            await room.say(call("echo", "web", text="over http"), {"text": "done"})
            assert "over http" in room.results[0]
            assert not processes_with(TOKEN)

    run()


def test_servers_that_fail_or_hang_at_the_start_are_told_and_the_others_work(
    tmp_path: Path, http_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    @asynchronous
    async def run() -> None:
        secret = "sk-the-wrong-one-of-mcp"
        servers = {
            "t": stdio(startupTimeoutSec=600),
            "hangs": stdio("hangs", startupTimeoutSec=0.5),
            "ends": stdio("fails", env={"TOKEN": secret}),
            "absent": {"type": "stdio", "command": "/does/not/exist"},
            "closed": {"type": "http", "url": http_server, "headers": {"Authorization": f"Bearer {secret}"}},
        }
        async with served(tmp_path, servers) as room:
            task = await room.say(call("echo", text="still here"), {"text": "done"})
            assert state(task) == "completed"
            assert "still here" in room.results[0]
            told = {each["name"]: each["status"] for each in task["metadata"]["mcpServers"]}
            assert set(told) == {"hangs", "ends", "absent", "closed"}
            assert told["hangs"] == "timeout"
            assert "connected" not in told.values()
            states = dict(room.processes.servers.states())
            assert states.keys() == {*told.items(), ("t", "connected")}
            assert room.processes.servers.problem() == "4 of 5 servers are not available"
        for name in told:
            assert f"MCP server {name} is not available" in caplog.text
        assert secret not in caplog.text

    with caplog.at_level(logging.DEBUG, "a2a_claude"):
        run()


@asynchronous
async def test_a_tool_that_hangs_and_a_server_that_dies_cost_their_calls_alone(tmp_path: Path) -> None:
    async with served(tmp_path, {"t": stdio(toolTimeoutSec=1), "u": stdio(toolTimeoutSec=600)}) as room:
        alive = call("echo", "u", text="alive")
        task = await room.say(call("stall"), alive, call("die"), alive, {"text": "done"})
        assert (state(task), texts(task)) == ("completed", ["done"])
        assert "timed out" in room.results[0]
        assert "alive" not in room.results[2]
        assert all("alive" in each for each in room.results[1::2])
        again = await room.say(alive, {"text": "again"})
        assert "alive" in room.results[-1]
        assert {each["name"] for each in again["metadata"].get("mcpServers", ())} <= {"t"}


FILTERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "some": ({"enabledTools": ["echo", "grow"]}, {"echo", "grow"}),
    "most": ({"disabledTools": ["mark", "die"]}, {"echo", "stall", "huge", "grow"}),
    "both": ({"enabledTools": ["echo", "mark"], "disabledTools": ["mark"]}, {"echo"}),
    "none": ({"enabledTools": []}, set()),
}


@asynchronous
async def test_filtered_tools_are_neither_seen_nor_run(tmp_path: Path) -> None:
    mark = tmp_path / "called"
    async with served(tmp_path, {name: stdio(**filters) for name, (filters, _) in FILTERS.items()}) as room:
        task = await room.say(*(call("mark", name, path=str(mark)) for name in FILTERS), {"text": "done"})
        assert state(task) == "completed"
        assert room.tools == {f"mcp__{name}__{tool}" for name, (_, seen) in FILTERS.items() for tool in seen}
        assert not mark.exists()


@asynchronous
async def test_a_tool_that_is_listed_later_is_refused_and_then_hidden_and_other_settings_stay(tmp_path: Path) -> None:
    mark, secret, hooked = tmp_path / "called", tmp_path / "secret", tmp_path / "hooked"
    secret.write_text("s3cret-of-the-server")
    command = {"type": "command", "command": f"touch {hooked}"}
    own = {"PreToolUse": [{"matcher": "mcp__t__grow", "hooks": [command]}]}
    late, read = call("late", path=str(mark)), {"tools": [{"name": "Read", "input": {"file_path": str(secret)}}]}
    async with served(tmp_path, {"t": stdio(enabledTools=["grow"])}, hooks=own) as room:
        await room.say(call("grow"), late, read, {"text": "done"})
        assert hooked.exists()
        await room.say(late, read, {"text": "done"})
        assert room.tools == {"mcp__t__grow"}
        assert not mark.exists()
        assert "s3cret" not in str(room.results)


def test_a_server_tells_of_them_before_the_first_turn(tmp_path: Path) -> None:
    session = {"spareClients": 0}  # so that no process is started ahead
    with claude(tmp_path, mcp={"ends": stdio("fails")}, session=session) as (server, api):
        server.wait_for("MCP server ends is not available")
        ready = httpx.get(f"{server.url}/ready")
        assert ready.status_code == 200
        assert ready.json()["degraded"] == {"mcp": "1 of 1 servers are not available"}
        metrics = httpx.get(f"{server.url}/metrics").text
        assert 'a2a_claude_mcp_servers{name="ends",status="failed"} 1' in metrics
        assert api.messages == []


# Without the CLI


def config(servers: dict[str, Any]) -> Any:
    return make_agent({"mcp": servers}).config.mcp


def test_bounds_of_tools_go_to_their_server_in_milliseconds() -> None:
    servers = config({"a": stdio(toolTimeoutSec=2.5), "b": stdio(toolTimeoutSec=0.2), "c": stdio()})
    bounds = {name: each.get("timeout") for name, each in mcp_json(servers)["mcpServers"].items()}
    assert bounds == {"a": 2500, "b": 1000, "c": None}


def test_two_servers_whose_tools_have_the_same_names_are_refused() -> None:
    with pytest.raises(OptionsError, match=r"mcp\.a_b and mcp\.a\.b"):
        mcp_json(config({"a.b": stdio(), "a_b": stdio()}))
    mcp_json(config({"a.b": stdio(enabled=False), "a_b": stdio()}))


def test_tools_are_named_as_claude_names_them() -> None:
    assert tool_name("a.b", "read file") == "mcp__a_b__read_file"
    server = config({"a": stdio(enabledTools=["x.y"])})["a"]
    assert outside("a", server, ["x.y", "z z"]) == ["mcp__a__z_z"]
    assert outside("a", config({"a": stdio()})["a"], ["x"]) == []


@asynchronous
async def test_the_guard_of_a_server_leaves_the_tools_of_others_alone() -> None:
    (guard,) = hooks(config({"a": stdio(enabledTools=["x"]), "a__b": stdio()}))["PreToolUse"]
    assert guard.on_failure == "block"
    only: Any = guard.hooks[0]
    decided = {tool: await only({"tool_name": tool}, None, None) for tool in ("mcp__a__x", "mcp__a__y", "mcp__a__b__y")}
    assert {tool for tool, each in decided.items() if each} == {"mcp__a__y"}
    assert hooks(config({"a": stdio(disabledTools=["x"])})) == {}


def test_a_change_is_logged_once_and_what_is_not_known_yet_is_no_problem(caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers(config({"a": stdio(), "b": stdio()}))
    assert servers.problem() == ""
    with caplog.at_level(logging.INFO, "a2a_claude"):
        for state_, detail in [("failed", "gone"), ("failed", "gone"), ("pending", ""), ("connected", "")]:
            servers.note("a", state_, detail)
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
    assert servers.problem() == ""

"""The tools for other agents in the real CLI: beside servers of the config, in each permission mode, under a policy."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb

from a2a_claude.claude.approval_policy import may_restrict
from a2a_claude.claude.approvals import Approvals
from a2a_claude.claude.sessions import Pool
from a2a_claude.config.model import ApprovalRule
from a2a_claude.observe.redaction import Redactor
from a2a_claude.subagents.service import SubAgents
from tests.claude_support import answered, make_processes, require_cli, tool_results
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.remote_agents import bare, card, obedient
from tests.support import make_agent

PREFIX = "mcp__a2a-subagents__"
SERVER = str(Path(__file__).parent / "mcp_server.py")


class Agent:
    """A pool whose processes may call one remote."""

    def __init__(self, agents: SubAgents, pool: Pool, api: FakeAPI, config: Any) -> None:
        self.agents, self._pool, self._api, self._config = agents, pool, api, config

    async def turn(self, *calls: tuple[str, dict[str, Any]]) -> list[str]:
        """What the model gets for its calls of tools."""
        session = await self._pool.acquire("c", "me", str(uuid.uuid4()))
        message = pb.Message(message_id="m")
        delegation = self.agents.delegation(message, task_id="t", context_id="c", owner="me", progress=lambda *_: None)

        async def blocks(parts: Any) -> list[dict[str, Any]]:
            return [{"type": "text", "text": each.text} for each in parts]

        async def publish(_event: Any) -> None:
            """Nobody reads it."""

        approvals = Approvals(self._config, publish, Redactor(), lambda: True)
        session.calls, session.ask = (delegation, blocks), approvals.ask
        tools = [{"name": name, "input": arguments} for name, arguments in calls]
        received = await answered(session, directive({"tools": tools}, {"text": "done"}))
        await self._pool.release(session, healthy=True)
        return tool_results(received)

    @property
    def offered(self) -> set[str]:
        """The tools of the last request to the model."""
        return {each["name"] for each in self._api.messages[-1]["body"]["tools"]}


@contextlib.asynccontextmanager
async def calling(folder: Path, url: str, mcp: dict[str, Any] | None = None, **claude: Any) -> AsyncIterator[Agent]:
    require_cli()
    api = FakeAPI().start()
    document = {"subAgents": {"agents": [{"name": "clerk", "agentCardUrl": url}]}, "mcp": mcp or {}}
    agents = SubAgents(make_agent(document).config, None)
    await agents.open()
    claude = {"allowedTools": [], **claude}
    processes = make_processes(folder, api, document, claude=claude, delegates=agents)
    pool = Pool(processes, None)
    try:
        yield Agent(agents, pool, api, processes.config)
    finally:
        await pool.shutdown(3)
        await agents.close(3)
        api.shutdown()


HELLO = (f"{PREFIX}clerk__work", {"message": "hello"})
DID = "[{'type': 'text', 'text': 'did hello'}]"
DENY = {"tool": "mcp__a2a-subagents__*", "decision": "deny", "argument": {"message": "*secret*"}}
MODES: list[tuple[str, dict[str, Any], str]] = [
    ("acceptEdits", {}, DID),
    ("dontAsk", {"permissionMode": "dontAsk"}, DID),
    ("plan mode calls nobody", {"permissionMode": "plan"}, "Cannot call .* while in plan mode"),
    ("a policy that denies something else", {"approvalPolicy": [DENY]}, DID),
    (
        "a policy that denies it",
        {"approvalPolicy": [{**DENY, "argument": {"message": "hel*"}}]},
        "The agent's policy does not allow this use",
    ),
    ("a caller who could be asked is not", {"approvals": "inputRequired"}, DID),
    ("disallowed", {"disallowedTools": [HELLO[0]]}, "No such tool available"),
]


@pytest.mark.parametrize(("claude", "wanted"), [each[1:] for each in MODES], ids=[each[0] for each in MODES])
@asynchronous
async def test_the_tools_are_allowed_without_being_named_unless_something_speaks_against_it(
    tmp_path: Path, claude: dict[str, Any], wanted: str
) -> None:
    with obedient() as (served, executor):
        async with calling(tmp_path, served.url, **claude) as agent:
            [result] = await agent.turn(HELLO)
            assert len(executor.seen) == (wanted == DID)
            if wanted == DID:
                assert result == DID
            else:
                with pytest.raises(AssertionError, match=wanted):
                    raise AssertionError(result)


@asynchronous
async def test_they_are_beside_the_servers_of_the_config_and_are_not_searched_for(tmp_path: Path) -> None:
    stdio = {"type": "stdio", "command": sys.executable, "args": [SERVER], "env": {"SECRET": "kept"}}
    with obedient() as (served, _):
        async with calling(tmp_path, served.url, {"t": stdio}, allowedTools=["mcp__t"]) as agent:
            results = await agent.turn(HELLO, ("mcp__t__environment", {"name": "SECRET"}))
            assert results == [DID, "[{'type': 'text', 'text': 'kept'}]"]
            assert f"{PREFIX}clerk__work" in agent.offered


@asynchronous
async def test_a_remote_that_comes_back_has_its_tools_in_the_process_that_runs(tmp_path: Path) -> None:
    with obedient() as (served, _), bare() as front:
        async with calling(tmp_path, front.url) as agent:
            [result] = await agent.turn((f"{PREFIX}clerk__message", {"message": "hello"}))
            assert "could not be asked" in result
            front.behind = served.url
            front.serve_card(card(front.url, ("JSONRPC", "1.0")))
            await agent.agents.remotes["clerk"].probe()
            assert await agent.turn(HELLO) == [DID]


@asynchronous
async def test_a_call_that_takes_long_is_a_task_and_a_remote_that_dies_is_an_error_for_claude(tmp_path: Path) -> None:
    with obedient() as (served, executor), bare() as front:
        front.serve_card(card(front.url, ("JSONRPC", "1.0")))
        front.answers["POST", "/a2a/jsonrpc"] = lambda _handler: None
        async with calling(tmp_path, front.url) as agent:
            [result] = await agent.turn(HELLO)
            assert result.startswith("The agent clerk could not be asked: the connection broke")
            del front.answers["POST", "/a2a/jsonrpc"]
            front.behind = served.url
            agent.agents.budget = 0.1
            [result] = await agent.turn((HELLO[0], {"message": "hang"}))
            assert "The task clerk-2 of the agent clerk" in result
            executor.gone_on.set()
            agent.agents.budget = None
            assert await agent.turn((f"{PREFIX}task_result", {"task_id": "clerk-2"})) == [
                "[{'type': 'text', 'text': 'at last'}]"
            ]


@asynchronous
async def test_a_call_that_is_interrupted_is_cancelled_at_the_remote(tmp_path: Path) -> None:
    with obedient() as (served, executor):
        async with calling(tmp_path, served.url) as agent:
            turn = asyncio.create_task(agent.turn((f"{PREFIX}clerk__work", {"message": "hang"})))
            assert await asyncio.to_thread(executor.begun.wait, 30)
            [held] = agent._pool._capacity.live.values()
            assert await held.client.interrupt(10)
            await turn
            while not executor.canceled:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("tool", "decision", "may"),
    [
        ("*", "deny", True),
        ("mcp__*", "ask", True),
        ("mcp__a2a-subagents__clerk__work", "ask", True),
        ("mcp__a2a-subagents__c?erk__*", "deny", True),
        ("mcp__a2a-subagents__*", "allow", False),
        ("mcp__other__*", "deny", False),
        ("Bash", "deny", False),
        ("?ash", "deny", True),
    ],
)
def test_a_policy_that_may_speak_against_a_tool_is_asked(tool: str, decision: Any, may: bool) -> None:
    rule = ApprovalRule(tool=tool, decision=decision, argument={})
    assert may_restrict([rule], PREFIX) is may

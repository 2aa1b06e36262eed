"""How the MCP servers of the agent are: waited for before a turn, told in the log, the metrics and `/ready`.

The CLI has one bound for the start of all servers, and its first turn waits for each of them. So each process has a
`Gate`: a server that is not there within its own bound is turned off in that process, and a tool that Claude must not
see is denied as soon as the server has listed it. `Servers` is what all of it comes to, over all processes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from a2a_claude.claude.mcp import enabled, outside
from a2a_claude.config.model import McpServer, McpServerStdio
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

CONTROL_SECONDS: Final = 5.0
"""A control request is answered in milliseconds, or never."""
_POLL_SECONDS: Final = 0.1
_LONGEST_DETAIL: Final = 300

Control = Callable[[dict[str, Any], float], Awaitable[Mapping[str, Any] | None]]


class Servers:
    """The state of each server as it was last seen.

    The states are Claude Code's `pending`, `connected`, `failed` and `needs-auth`, and our `timeout`.
    """

    def __init__(self, servers: Mapping[str, McpServer], secrets: Iterable[str] = ()) -> None:
        """`secrets` are values that no log shows, besides those of the servers themselves."""
        self.used = enabled(servers)
        self._states = dict.fromkeys(self.used, "pending")
        self._redactor = Redactor([*secrets, *(each for server in self.used.values() for each in _secrets(server))])

    def note(self, name: str, state: str, detail: str = "") -> None:
        """A process sees the server so; `detail` is for the log."""
        before = self._states.get(name)
        if state in (before, "pending", "disabled"):
            return
        self._states[name] = state
        if state == "connected":
            logger.info("MCP server %s is connected", name)
        else:
            why = self._redactor.text(detail)[:_LONGEST_DETAIL] or "no reason was given"
            logger.warning("MCP server %s is not available (%s): %s", name, state, why)

    def states(self) -> dict[tuple[str, ...], float]:
        """1 for each name and its state: the samples of a gauge."""
        return dict.fromkeys(self._states.items(), 1.0)

    def problem(self) -> str:
        """What `/ready` says of them; empty when all are there, or have not been asked yet."""
        lost = sum(state not in ("connected", "pending") for state in self._states.values())
        return f"{lost} of {len(self._states)} servers are not available" if lost else ""


class Gate:
    """The servers of one process, whose first turn has to wait for them."""

    def __init__(self, servers: Servers, control: Control, denied: tuple[str, ...], bound: float) -> None:
        """`control` asks the CLI; `denied` are the rules that its settings have already; `bound` is in seconds and for
        servers without a bound of their own."""
        self._servers, self._control, self._bound = servers, control, bound
        self._denied = list(denied)
        self._late: set[str] = set()
        self._settling = asyncio.create_task(self._settle(), name="mcp-gate")

    async def ready(self) -> None:
        """Before a turn: returns when each server is there or given up, and no forbidden tool can be seen."""
        if not self._settling.done():
            await asyncio.wait({self._settling})
        elif (found := await self._look()) is not None:
            await self._hide(found)

    def close(self) -> None:
        """The process is gone."""
        self._settling.cancel()

    async def _settle(self) -> None:
        began = time.monotonic()
        while (found := await self._look()) is not None:
            passed = time.monotonic() - began
            pending = [name for name, seen in found.items() if seen.get("status") == "pending"]
            late = [name for name in pending if passed >= self._bound_of(name)]
            for name in late:
                await self._give_up(name)
            if len(late) == len(pending):
                await self._hide(found)
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _look(self) -> dict[str, Mapping[str, Any]] | None:
        """What the CLI says of our servers; None when it does not answer."""
        answer = await self._control({"subtype": "mcp_status"}, CONTROL_SECONDS)
        if answer is None:
            return None
        listed = answer.get("mcpServers") or []
        found = {str(each.get("name")): each for each in listed if each.get("name") in self._servers.used}
        for name, each in found.items():
            if name not in self._late:
                self._servers.note(name, str(each.get("status")), str(each.get("error") or ""))
        return found

    async def _give_up(self, name: str) -> None:
        self._late.add(name)
        await self._control({"subtype": "mcp_toggle", "serverName": name, "enabled": False}, CONTROL_SECONDS)
        bound = self._bound_of(name)
        self._servers.note(name, "timeout", f"it did not start within {bound:g} s (mcp.{name}.startupTimeoutSec)")

    async def _hide(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        rules = [
            rule
            for name, each in found.items()
            for rule in outside(
                name, self._servers.used[name], [str(tool.get("name")) for tool in each.get("tools") or ()]
            )
        ]
        if missing := sorted(set(rules) - set(self._denied)):
            self._denied += missing
            settings = {"permissions": {"deny": self._denied}}
            await self._control({"subtype": "apply_flag_settings", "settings": settings}, CONTROL_SECONDS)

    def _bound_of(self, name: str) -> float:
        return self._servers.used[name].startup_timeout_sec or self._bound


def _secrets(server: McpServer) -> Iterable[str]:
    values = server.env.values() if isinstance(server, McpServerStdio) else server.headers.values()
    for value in values:
        yield value
        yield value.rpartition(" ")[2]

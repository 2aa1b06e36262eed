"""The tools of other agents for Claude: an MCP server in this process, one for each CLI.

The CLI asks it over its control protocol, so nothing of it is in argv but its name, and no credential leaves the
server. A process starts before it has a turn; the turn that has it says for whom it calls.

`build_tool_server` is private to the SDK, which is pinned: its public sibling cannot change the list of tools.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from claude_agent_sdk._internal._mcp_compat import build_tool_server
from claude_agent_sdk.types import McpSdkServerConfig
from mcp.types import CallToolResult
from mcp.types import Tool as McpTool

from a2a_claude import __version__
from a2a_claude.claude.content import Block
from a2a_claude.claude.delegates import SERVER, Delegates, Tool
from a2a_claude.claude.session import Calls

CONTROL_SECONDS: Final = 5.0
# What the CLI may wait beyond the time in which a call is answered; it has one bound for all tools of a server.
_MARGIN_SECONDS: Final = 60.0
_MAX_MILLISECONDS: Final = 2**31 - 1
# So many tools are in each prompt; with more, Claude has to search them first.
_ALWAYS: Final = 30
# Our own bound is smaller than what the CLI would put into a file instead.
_MAX_CHARACTERS: Final = 200_000

Control = Callable[[dict[str, Any], float], Awaitable[dict[str, Any] | None]]


class DelegateServer:
    """The server of one process. `turn` is set while a turn has the process: its calls, and how parts become blocks."""

    def __init__(self, delegates: Delegates) -> None:
        self._delegates = delegates
        self.turn: Calls | None = None
        self._seen: list[Tool] = []
        self._listed: list[McpTool] = []
        self._server = build_tool_server(SERVER, __version__, self._listed, self._call)

    @property
    def config(self) -> McpSdkServerConfig:
        """For `ClaudeAgentOptions.mcp_servers`."""
        self._list()
        seconds = self._delegates.seconds + _MARGIN_SECONDS
        config = {
            "type": "sdk",
            "name": SERVER,
            "instance": self._server,
            "timeout": _MAX_MILLISECONDS if math.isinf(seconds) else min(_MAX_MILLISECONDS, round(seconds * 1000)),
            "alwaysLoad": len(self._seen) <= _ALWAYS,
            "disableAutoBackground": True,
        }
        return cast(McpSdkServerConfig, config)  # whose type lacks what the CLI knows besides

    async def refresh(self, control: Control) -> None:
        """Before a turn: the CLI lists the tools again when they have changed."""
        self._delegates.refresh()
        if list(self._delegates.tools()) != self._seen:
            self._list()
            for on in (False, True):  # it reconnects to no server in this process
                toggle = {"subtype": "mcp_toggle", "serverName": SERVER, "enabled": on}
                await control(toggle, CONTROL_SECONDS)

    def _list(self) -> None:
        self._seen = list(self._delegates.tools())
        self._listed[:] = map(_listed, self._seen)  # the very list that the server answers with

    async def _call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        if self.turn is None:
            return _result([{"type": "text", "text": "No task is being worked on."}], failed=True)
        delegation, blocks = self.turn
        answer = await delegation.call(tool, arguments)
        return _result([_content(each) for each in await blocks(answer.parts)], failed=answer.failed)


def _listed(tool: Tool) -> McpTool:
    listed = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": dict(tool.schema),
        "annotations": {"readOnlyHint": tool.reads},
        "_meta": {"anthropic/maxResultSizeChars": _MAX_CHARACTERS},
    }
    return McpTool.model_validate(listed)


def _content(block: Block) -> dict[str, Any]:
    """A block of the Messages API as one of MCP."""
    if block["type"] == "image":
        return {"type": "image", "data": block["source"]["data"], "mimeType": block["source"]["media_type"]}
    return {"type": "text", "text": block["text"]}


def _result(content: list[dict[str, Any]], *, failed: bool) -> CallToolResult:
    return CallToolResult.model_validate({"content": content, "isError": failed})

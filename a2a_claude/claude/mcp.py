"""An agent's `mcp` servers as the CLI wants them, and the bounds of their tools.

The file is what `--mcp-config` names, https://code.claude.com/docs/en/mcp. In argv its headers and variables would be
read by everybody, so it is a file of ours alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, cast

from claude_agent_sdk import HookMatcher
from claude_agent_sdk.types import HookContext, HookEvent, HookInput, SyncHookJSONOutput

from a2a_claude.claude.environment import KEPT_FOR_MCP
from a2a_claude.claude.session import OptionsError
from a2a_claude.config.model import McpServer, McpServerStdio

# The CLI ignores a shorter bound.
_LEAST_TOOL_MS: Final = 1000
_OUTSIDE_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")


def enabled(servers: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """The servers that are used."""
    return {name: server for name, server in servers.items() if server.enabled}


def tool_name(server: str, tool: str = "") -> str:
    """What Claude calls a tool, and how the names of all tools of a server begin."""
    return f"mcp__{_OUTSIDE_NAMES.sub('_', server)}__{_OUTSIDE_NAMES.sub('_', tool)}"


def mcp_json(servers: Mapping[str, McpServer]) -> dict[str, Any]:
    """The content of `mcp.json` for the servers that are used.

    Raises:
        OptionsError: Claude could not tell the tools of two servers apart.
    """
    used = enabled(servers)
    by_prefix: dict[str, str] = {}
    for name in used:
        other = by_prefix.setdefault(tool_name(name), name)
        if other != name:
            raise OptionsError(f"mcp.{name} and mcp.{other} are one name to Claude: rename one")
    return {"mcpServers": {name: _entry(server) for name, server in used.items()}}


def disabled_tools(servers: Mapping[str, McpServer]) -> list[str]:
    """Rules that keep the `disabledTools` of the servers from Claude."""
    return [tool_name(name, tool) for name, server in enabled(servers).items() for tool in server.disabled_tools or ()]


def outside(name: str, server: McpServer, tools: Iterable[str]) -> list[str]:
    """Rules that keep from Claude those of a server's `tools` that are not among its `enabledTools`."""
    if server.enabled_tools is None:
        return []
    return sorted({tool_name(name, tool) for tool in tools} - {tool_name(name, tool) for tool in server.enabled_tools})


def hooks(servers: Mapping[str, McpServer]) -> dict[HookEvent, list[HookMatcher]]:
    """Hooks that refuse a call of a tool outside `enabledTools`.

    Claude does not see those tools (`outside`), but a server may list new ones at any time.
    """
    used = enabled(servers)
    prefixes = [tool_name(name) for name in used]
    guarded = {
        tool_name(name): frozenset(tool_name(name, tool) for tool in server.enabled_tools)
        for name, server in used.items()
        if server.enabled_tools is not None
    }
    matchers = [
        HookMatcher(matcher=f"{prefix}.*", hooks=[_only(prefix, allowed, prefixes)], on_failure="block")
        for prefix, allowed in guarded.items()
    ]
    return {"PreToolUse": matchers} if matchers else {}


def _only(prefix: str, allowed: Collection[str], prefixes: Collection[str]) -> Any:
    async def only(data: HookInput, _tool_use: str | None, _context: HookContext) -> SyncHookJSONOutput:
        tool = str(cast(Mapping[str, Any], data).get("tool_name"))
        # mcp__a__b__c is a tool of a__b, when there is such a server.
        mine = max((each for each in prefixes if tool.startswith(each)), key=len, default="") == prefix
        if not mine or tool in allowed:
            return {}
        return {
            "hookSpecificOutput": {
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": f"{tool} is not one of the tools that this agent may use.",
            }
        }

    return only


def _entry(server: McpServer) -> dict[str, Any]:
    bounds = {} if server.tool_timeout_sec is None else {"timeout": _milliseconds(server.tool_timeout_sec)}
    if isinstance(server, McpServerStdio):
        kept = {KEPT_FOR_MCP: " ".join(server.env)} if server.env else {}
        return {
            "type": "stdio",
            "command": server.command,
            "args": list(server.args),
            "env": {**server.env, **kept},
            **bounds,
        }
    return {"type": "http", "url": server.url, "headers": dict(server.headers), **bounds}


def _milliseconds(seconds: float) -> int:
    return max(_LEAST_TOOL_MS, round(seconds * 1000))

"""An agent's `mcp` servers as the CLI wants them.

The file is what `--mcp-config` names, https://code.claude.com/docs/en/mcp. In argv its headers and variables would be
read by everybody, so it is a file of ours alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from a2a_claude.claude.environment import KEPT_FOR_MCP
from a2a_claude.config.model import McpServer, McpServerStdio


def enabled(servers: Mapping[str, McpServer]) -> dict[str, McpServer]:
    """The servers that are used."""
    return {name: server for name, server in servers.items() if server.enabled}


def mcp_json(servers: Mapping[str, McpServer]) -> dict[str, Any]:
    """The content of `mcp.json` for the servers that are used."""
    return {"mcpServers": {name: _entry(server) for name, server in enabled(servers).items()}}


def disabled_tools(servers: Mapping[str, McpServer]) -> list[str]:
    """Rules that keep tools of the servers from Claude."""
    return [f"mcp__{name}__{tool}" for name, server in enabled(servers).items() for tool in server.disabled_tools or ()]


def _entry(server: McpServer) -> dict[str, Any]:
    if isinstance(server, McpServerStdio):
        kept = {KEPT_FOR_MCP: " ".join(server.env)} if server.env else {}
        return {
            "type": "stdio",
            "command": server.command,
            "args": list(server.args),
            "env": {**server.env, **kept},
        }
    return {"type": "http", "url": server.url, "headers": dict(server.headers)}

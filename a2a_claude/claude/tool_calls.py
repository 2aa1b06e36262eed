"""What an event says of a tool call: which kind of tool, and of its output what may be told.

The content of files is never told: of what a file tool gives, only how much it is, and of its errors the first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from a2a_claude.claude.delegates import SERVER
from a2a_claude.claude.mcp import tool_name

CHANGES: Final = {"Edit": "edit", "MultiEdit": "edit", "NotebookEdit": "edit", "Write": "write"}
"""Tools that change a file, and the kind of change."""
_SHOW_FILES: Final = frozenset({*CHANGES, "Read", "NotebookRead", "Grep"})
_TAGS: Final = re.compile(r"</?tool_use_error>")
_MCP: Final = "mcp__"


class Kinds:
    """Kinds of tools. `servers` are the names of the MCP servers in the config."""

    def __init__(self, servers: Iterable[str]) -> None:
        # mcp__a__b__c is a tool of a__b, when there is such a server.
        self._servers = sorted({*servers, SERVER}, key=len, reverse=True)

    def kind(self, name: str) -> dict[str, Any]:
        """`toolKind` with what names the tool in it."""
        if name == "Bash":
            return {"toolKind": "shell"}
        if not name.startswith(_MCP):
            return {"toolKind": "builtin", "tool": name}
        server, tool = self._split(name)
        if server == SERVER:
            return {"toolKind": "a2a_subagent", "server": server, "tool": tool, "delegation": True}
        return {"toolKind": "mcp", "server": server, "tool": tool}

    def _split(self, name: str) -> tuple[str, str]:
        for server in self._servers:
            if name.startswith(prefix := tool_name(server)):
                return server, name.removeprefix(prefix)
        server, _, tool = name.removeprefix(_MCP).partition("__")
        return server, tool


def change(tool: str, arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """The {path, kind} of a call that changes a file; None for any other call."""
    kind = CHANGES.get(tool)
    if kind is None:
        return None
    path = arguments.get("notebook_path") if tool == "NotebookEdit" else arguments.get("file_path")
    return {"path": path if isinstance(path, str) else "", "kind": kind}


def output(tool: str, content: object, *, failed: bool) -> str:
    """What may be told of the content of a `tool_result`."""
    text = _text(content)
    if tool not in _SHOW_FILES:
        return text
    if failed:
        return _TAGS.sub("", text).strip().partition("\n")[0]
    return f"[file content: {len(text)} characters]"


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(_block(each) for each in blocks if isinstance(each, Mapping))


def _block(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"[{block.get('type')}]"

"""What an agent does while it works, as lines for a person: sideband events (docs/events.md), and what a turn cost."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

TRACE: Final = "urn:x-a2a:trace:v1"
LONGEST: Final = 200
# Whatever moves the cursor, changes colours or writes right to left: an agent's words must not forge a terminal's.
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` with its control characters shown as escapes; line ends and tabs stay."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)


def line(event: str, data: Mapping[str, Any]) -> str:
    """One line about a sideband event, empty when there is nothing to tell."""
    match event:
        case "thinking":
            return _said("thinking", data.get("content"))
        case "tool_call_start":
            return _said(_tool(data), data.get("command") or data.get("server"))
        case "tool_call_end" if data.get("status") == "error":
            return _said("failed", data.get("output"))
        case "decision":
            return _decision(data)
        case "rate_limit":
            kind = data.get("rateLimitType") or "limit"
            return _said("rate limit", f"{kind}: {data.get('status')}, {data.get('action')}")
        case "background_tasks":
            names = [str(each.get("description")) for each in _objects(data.get("tasks"))]
            return _said("background", ", ".join(names) or "nothing runs any more")
        case "context_window" if data.get("compacted"):
            return _said("context", f"compacted to {_number(data.get('usedTokens'))} tokens")
        case "agent_error":
            return _said("error", data.get("message") or data.get("error"))
    return ""


def cost(usage: object) -> str:
    """What a turn used, from the metadata of its last status; empty when it does not tell."""
    if not isinstance(usage, Mapping):
        return ""
    tokens = [f"{_number(usage[key])} {name}" for key, name in _TOKENS.items() if usage.get(key)]
    told = [f"{' + '.join(tokens)} tokens"] if tokens else []
    if isinstance(money := usage.get("costUsd"), int | float):
        told.append(f"${money:.4f}")
    if isinstance(spent := usage.get("durationMs"), int | float):
        told.append(f"{spent / 1000:.1f} s")
    if isinstance(model := usage.get("model"), str):
        told.append(model)
    return printable(", ".join(told))


_TOKENS: Final = {
    "inputTokens": "in",
    "cacheCreationInputTokens": "cached",
    "cacheReadInputTokens": "from cache",
    "outputTokens": "out",
}


def _tool(data: Mapping[str, Any]) -> str:
    return "Bash" if data.get("toolKind") == "shell" else str(data.get("tool") or "tool")


def _decision(data: Mapping[str, Any]) -> str:
    match data.get("kind"):
        case "file_change":
            return _said("file", ", ".join(str(each.get("path")) for each in _objects(data.get("changes"))))
        case "todo_list":
            listed = _objects(data.get("items"))
            done = sum(each.get("completed") is True or each.get("status") == "completed" for each in listed)
            return _said("todo", f"{done} of {len(listed)} done")
        case "permission_denied":
            return _said("denied", f"{data.get('tool')}: {data.get('message')}")
    return ""


def _objects(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; an agent may send anything."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _said(what: str, more: object) -> str:
    text = " ".join(str(more).split()) if more else ""
    cut = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return printable(f"[{what}] {cut}".rstrip())


def _number(value: object) -> str:
    return f"{value:,.0f}" if isinstance(value, int | float) else "?"

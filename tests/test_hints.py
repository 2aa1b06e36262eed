"""Hints for the mistakes that people make: what is written instead is accepted."""

from __future__ import annotations

from pathlib import Path

import pytest

from a2a_claude.config.diagnostics import Diagnostic
from a2a_claude.config.loader import load_fleet

MISTAKES: dict[str, tuple[str, str, str]] = {
    "a line that is indented too deep": (
        "claude:\n  permissionMode: plan\n   allowedTools: [Read]\n",
        "indent it like the line above",
        "claude:\n  permissionMode: plan\n  allowedTools: [Read]\n",
    ),
    "text with a colon, on two lines": (
        "agentCard:\n  description: Reviews\n    code: all of it\n",
        "quote the whole text",
        'agentCard:\n  description: "Reviews\n    code: all of it"\n',
    ),
    "text with a colon, on one line": (
        "agentCard:\n  name: Review: code\n",
        "quote the value: 'Review: code'",
        "agentCard:\n  name: 'Review: code'\n",
    ),
    "the braces of a template": (
        "agentCard:\n  name: {{ name }}\n",
        'needs quotes: "{{ … }}"',
        'agentCard:\n  name: "{{ name }}"\n',
    ),
    "a date": (
        "agentCard:\n  version: 2026-01-31\n",
        'quote it: "2026-01-31"',
        'agentCard:\n  version: "2026-01-31"\n',
    ),
    "an octal number": ("server:\n  port: 0o755\n", "the number in decimal", "server:\n  port: 493\n"),
    "a number in quotes": ('claude:\n  maxTurns: "5"\n', "without quotes", "claude:\n  maxTurns: 5\n"),
    "a word for no number": ("claude:\n  maxTurns: none\n", "for example 50", "claude:\n  maxTurns: 50\n"),
    "true or false in quotes": (
        'features:\n  streamArtifactChunks: "true"\n',
        "without quotes",
        "features:\n  streamArtifactChunks: true\n",
    ),
    "a number for true or false, in quotes": (
        'features:\n  streamArtifactChunks: "1"\n',
        "for example true",
        "features:\n  streamArtifactChunks: true\n",
    ),
    "a part of a key": (
        "claude:\n  tools: [Read]\n",
        "did you mean 'allowedTools'?",
        "claude:\n  allowedTools: [Read]\n",
    ),
    "a key without its capital": ("claude:\n  maxturns: 3\n", "did you mean 'maxTurns'?", "claude:\n  maxTurns: 3\n"),
    "a key of another place": (
        "permissionMode: plan\nserver: {}\n",
        "permissionMode belongs at claude.permissionMode",
        "claude: {permissionMode: plan}\nserver: {}\n",
    ),
    "a key that is at home in many places": (
        "server:\n  auth: {type: bearer}\n",
        "known keys: allowUnauthenticated, bearer,",
        "server:\n  auth: {bearer: {tokensVariable: CALLERS}}\n",
    ),
    "a key of the other kind of MCP server": (
        "mcp:\n  files: {type: http, url: 'https://mcp.example.com', command: npx}\n",
        "command goes with type: stdio",
        "mcp:\n  files: {type: stdio, command: npx}\n",
    ),
    "a permission rule without its end": (
        'claude:\n  allowedTools: ["Bash(git"]\n',
        '"Bash(git diff:*)"',
        'claude:\n  allowedTools: ["Bash(git:*)"]\n',
    ),
    "a list of one, without brackets": (
        "extends: ../_layers/base.yaml\n",
        "write extends: [../_layers/base.yaml]",
        "extends: [../_layers/base.yaml]\n",
    ),
}


def errors(folder: Path, text: str) -> list[Diagnostic]:
    agent = folder / "agents" / "reviewer" / "agent.yaml"
    agent.parent.mkdir(parents=True, exist_ok=True)
    (folder / "agents" / "_layers").mkdir(exist_ok=True)
    (folder / "agents" / "_layers" / "base.yaml").write_text("logging: {level: debug}\n", "utf-8")
    agent.write_text(text, "utf-8")
    return [each for each in load_fleet([agent]).diagnostics if each.severity == "error"]


@pytest.mark.parametrize(("wrong", "hint", "right"), MISTAKES.values(), ids=MISTAKES)
def test_a_hint_says_what_to_write_and_that_is_accepted(wrong: str, hint: str, right: str, tmp_path: Path) -> None:
    hints = [each.hint for each in errors(tmp_path, wrong)]
    assert any(hint in each for each in hints), hints
    assert errors(tmp_path, right) == []


def test_a_file_of_another_tool_is_told_so_and_no_more(tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "reviewer" / "agent.yaml"
    errors(tmp_path, "mcpServers: {files: {command: npx}}\n")
    assert [each.rule for each in load_fleet([agent]).diagnostics] == ["not-an-agent"]

"""An agent's `claude` settings become the SDK's options and the CLI's arguments, exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from a2a_claude.claude.environment import Environment
from a2a_claude.claude.options import MAX_LINE, Start, check, options
from a2a_claude.claude.session import OptionsError
from tests.support import make_agent

NO_ENVIRONMENT = Environment({})
# What every process gets: `cwd` and `--setting-sources` stand apart since they have values of their own.
ALWAYS = ["--output-format", "stream-json", "--verbose", "--strict-mcp-config", "--input-format", "stream-json"]
DEFAULTS = ["--permission-mode", "acceptEdits", "--setting-sources=", "--thinking", "adaptive"]
SUMMARIES = ["--thinking-display", "summarized"]


def built(document: dict[str, Any], folder: Path, environment: Environment = NO_ENVIRONMENT, **start: Any) -> Any:
    claude = {"workingDirectory": str(folder), **document.pop("claude", {})}
    config = make_agent({"claude": claude, **document}).config
    return options(config, environment, folder, Start(**start))


def arguments(chosen: Any) -> list[str]:
    transport = SubprocessCLITransport(prompt="", options=chosen)
    transport._cli_path = "claude"
    return transport._build_command()[1:]


ARGUMENTS: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    # what, config below claude, arguments that come, arguments of the defaults that go
    ("nothing", {}, [], []),
    ("model", {"model": "sonnet"}, ["--model", "sonnet"], []),
    ("fallback", {"fallbackModel": "haiku"}, ["--fallback-model", "haiku"], []),
    ("effort", {"effort": "xhigh"}, ["--effort", "xhigh"], []),
    ("mode", {"permissionMode": "plan"}, ["--permission-mode", "plan"], DEFAULTS[:2]),
    ("allowed", {"allowedTools": ["Read", "Bash(git log:*)"]}, ["--allowedTools", "Read,Bash(git log:*)"], []),
    ("disallowed", {"disallowedTools": ["Write", "Bash"]}, ["--disallowedTools", "Write,Bash"], []),
    ("append", {"systemPromptAppend": "Be brief."}, ["--append-system-prompt", "Be brief."], []),
    ("prompt", {"customSystemPrompt": "You translate."}, ["--system-prompt", "You translate."], []),
    ("sources", {"settingSources": ["project"]}, ["--setting-sources=project"], ["--setting-sources="]),
    ("turns", {"maxTurns": 7}, ["--max-turns", "7"], []),
    ("budget, which the server sees to", {"maxBudgetUsd": 1.5}, [], []),
    (
        "budget of another CLI",
        {"maxBudgetUsd": 1.5, "executablePathOverride": "/bin/sh"},
        ["--max-budget-usd", "1.5"],
        [],
    ),
    ("directories", {"additionalDirectories": ["/a", "/b c"]}, ["--add-dir", "/a", "--add-dir", "/b c"], []),
    ("all skills", {"skills": "all"}, ["--allowedTools", "Skill"], []),
    ("some skills", {"skills": ["pdf", "x:y"]}, ["--allowedTools", "Skill(pdf),Skill(x:y)"], []),
    (
        "schema",
        {"outputFormat": {"type": "json_schema", "schema": {"type": "object"}}},
        ["--json-schema", '{"type": "object"}'],
        [],
    ),
    (
        "sandbox",
        {"sandbox": {"enabled": True}},
        ["--settings", '{"sandbox": {"failIfUnavailable": true, "enabled": true}}'],
        [],
    ),
    (
        "hooks",
        {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}},
        [
            "--settings",
            '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}',
        ],
        [],
    ),
    (
        "plugins",
        {
            "marketplaces": {"own": {"source": {"source": "directory", "path": "/m"}, "autoUpdate": False}},
            "enabledPlugins": {"lint@own": True},
        },
        [
            "--settings",
            '{"extraKnownMarketplaces": {"own": {"source": {"source": "directory", "path": "/m"},'
            ' "autoUpdate": false}}, "enabledPlugins": {"lint@own": true}}',
        ],
        [],
    ),
    ("thinking off", {"thinking": {"type": "disabled"}}, ["--thinking", "disabled"], [*DEFAULTS[3:], *SUMMARIES]),
    (
        "thinking with a budget",
        {"thinking": {"type": "enabled", "budgetTokens": 2048}},
        ["--max-thinking-tokens", "2048"],
        DEFAULTS[3:],
    ),
    ("thinking without a budget", {"thinking": {"type": "enabled"}}, [], []),
    (
        "thoughts left out",
        {"thinking": {"type": "adaptive", "display": "omitted"}},
        ["--thinking-display", "omitted"],
        SUMMARIES,
    ),
]


@pytest.mark.parametrize(("claude", "come", "go"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_arguments_of_the_cli(claude: dict[str, Any], come: list[str], go: list[str], tmp_path: Path) -> None:
    expected = [*ALWAYS, *DEFAULTS, *SUMMARIES]
    for each in go:
        expected.remove(each)
    assert sorted(arguments(built({"claude": claude}, tmp_path))) == sorted([*expected, *come])


def test_without_thinking_events_thinking_is_left_to_the_config(tmp_path: Path) -> None:
    features = {"emitThinkingEvents": False}
    assert built({"features": features}, tmp_path).thinking is None
    adaptive = {"thinking": {"type": "adaptive"}}
    assert built({"claude": adaptive, "features": features}, tmp_path).thinking == {"type": "adaptive"}


def test_options_that_are_no_arguments(tmp_path: Path) -> None:
    chosen = built({}, tmp_path, Environment({"HOME": "/h"}))
    assert chosen.cwd == str(tmp_path)
    assert chosen.env == {"HOME": "/h"}
    assert chosen.max_buffer_size == MAX_LINE == 64 * 1024 * 1024
    assert chosen.verbatim_prompts is True
    assert chosen.include_partial_messages is False
    assert built({"features": {"streamArtifactChunks": True}}, tmp_path).include_partial_messages is True


@pytest.mark.parametrize("prompt", [{}, {"systemPromptAppend": "x"}, {"customSystemPrompt": "x"}])
def test_a_changed_prompt_takes_effect_in_resumed_sessions(prompt: dict[str, Any], tmp_path: Path) -> None:
    chosen = built({"claude": prompt}, tmp_path, resume="11111111-1111-4111-8111-111111111111")
    assert chosen.system_prompt["snapshot"] is False
    assert "--resume=11111111-1111-4111-8111-111111111111" in arguments(chosen)


@pytest.mark.parametrize("key", ["systemPromptAppend", "customSystemPrompt"])
def test_a_long_prompt_goes_by_file(key: str, tmp_path: Path) -> None:
    text = "é" * 60_000  # 120 kB: the kernel's bound is in bytes
    chosen = built({"claude": {key: text}}, tmp_path)
    flag = "--append-system-prompt-file" if key == "systemPromptAppend" else "--system-prompt-file"
    command = arguments(chosen)
    file = Path(command[command.index(flag) + 1])
    assert file.read_text(encoding="utf-8") == text
    assert file.stat().st_mode & 0o777 == 0o600
    assert max(map(len, command)) < 1000
    assert chosen.system_prompt["snapshot"] is False


MCP: dict[str, dict[str, Any]] = {
    "github": {"type": "http", "url": "https://mcp.test/", "headers": {"Authorization": "Bearer s3cret-header"}},
    "files": {"type": "stdio", "command": "serve", "args": ["-v"], "env": {"TOKEN": "s3cret-env"}},
    "unused": {"type": "stdio", "command": "never", "enabled": False},
}


def test_mcp_servers_go_by_a_file_of_ours_alone(tmp_path: Path) -> None:
    command = arguments(built({"mcp": MCP}, tmp_path))
    assert "s3cret" not in " ".join(command)
    file = Path(command[command.index("--mcp-config") + 1])
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == {
        "mcpServers": {
            "github": {"type": "http", "url": MCP["github"]["url"], "headers": MCP["github"]["headers"]},
            "files": {
                "type": "stdio",
                "command": "serve",
                "args": ["-v"],
                "env": {"TOKEN": "s3cret-env", "A2A_CLAUDE_KEPT": "TOKEN"},
            },
        }
    }


def test_disabled_tools_of_mcp_servers_are_disallowed(tmp_path: Path) -> None:
    servers = {"files": {"type": "stdio", "command": "serve", "disabledTools": ["rm", "mv"]}}
    chosen = built({"claude": {"disallowedTools": ["Write"]}, "mcp": servers}, tmp_path)
    assert chosen.disallowed_tools == ["Write", "mcp__files__rm", "mcp__files__mv"]


def test_settings_with_a_secret_do_not_stand_in_the_arguments(tmp_path: Path) -> None:
    environment = Environment({"ANTHROPIC_API_KEY": "s3cret"}, private=frozenset({"ANTHROPIC_API_KEY"}))
    source = {"source": "git", "url": "https://x:s3cret@git.test/m.git"}
    chosen = built({"claude": {"marketplaces": {"own": {"source": source}}}}, tmp_path, environment)
    assert "s3cret" not in " ".join(arguments(chosen))
    assert json.loads(Path(chosen.settings).read_text())["extraKnownMarketplaces"]["own"]["source"] == source


def test_what_cannot_be_hidden_is_denied_to_the_tools(tmp_path: Path) -> None:
    sandbox = {"enabled": True, "filesystem": {"denyRead": ["/own"]}}
    chosen = built({"claude": {"sandbox": sandbox}}, tmp_path, denied=("/run/secrets", "/odd(name)"))
    settings = json.loads(chosen.settings)
    assert settings["permissions"] == {"deny": ["Read(//run/secrets)", "Read(//run/secrets/**)"]}
    assert settings["sandbox"]["filesystem"]["denyRead"] == ["/own", "/run/secrets", "/odd(name)"]


def test_sub_agents_inside_claude(tmp_path: Path) -> None:
    agents = {"critic": {"description": "Criticises.", "prompt": "Be strict.", "tools": ["Read"], "maxTurns": 3}}
    (critic,) = built({"claude": {"agents": agents}}, tmp_path).agents.values()
    assert (critic.description, critic.prompt, critic.tools, critic.maxTurns) == (
        "Criticises.",
        "Be strict.",
        ["Read"],
        3,
    )
    assert critic.model is None


@pytest.mark.parametrize("rule", ["Read,Bash", "Read Bash", "Bash(a),Write", "Bash(f(x) y)", "Bash(a", "(a)", "a)"])
def test_a_rule_that_the_cli_would_split_is_refused(rule: str, tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"claude\.allowedTools"):
        built({"claude": {"allowedTools": [rule]}}, tmp_path)


@pytest.mark.parametrize("rule", ["Bash(git add a, b)", "mcp__x__*", "Bash(npm run test:*)", "WebFetch(domain:a.test)"])
def test_a_rule_with_a_comma_in_parentheses_is_one_rule(rule: str, tmp_path: Path) -> None:
    assert built({"claude": {"allowedTools": [rule]}}, tmp_path).allowed_tools == [rule]


BYPASS = {"permissionMode": "bypassPermissions"}
REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"workingDirectory": ""}, 1000, "workingDirectory is not set"),
    ({"workingDirectory": "relative"}, 1000, "must be absolute"),
    ({"workingDirectory": "/does/not/exist"}, 1000, "does not exist"),
    ({"workingDirectory": "/etc/passwd"}, 1000, "is not a folder"),
    ({"customSystemPrompt": "a", "systemPromptAppend": "b"}, 1000, "exclude each other"),
    (BYPASS, 1000, "dangerouslyAllowBypassPermissions"),
    ({**BYPASS, "dangerouslyAllowBypassPermissions": True}, 0, "as root"),
    ({"executablePathOverride": "/does/not/exist"}, 1000, "executablePathOverride"),
    ({"executablePathOverride": "/etc/passwd"}, 1000, "executablePathOverride"),
]


@pytest.mark.parametrize(("claude", "uid", "message"), REFUSED, ids=[row[2] for row in REFUSED])
def test_what_cannot_be_served_stops_the_start(claude: dict[str, Any], uid: int, message: str) -> None:
    config = make_agent({"claude": {"workingDirectory": "/", **claude}}).config
    with pytest.raises(OptionsError, match=message):
        check(config.claude, uid)


def test_bypass_with_consent_is_served_to_other_users_than_root() -> None:
    claude = {"workingDirectory": "/", **BYPASS, "dangerouslyAllowBypassPermissions": True}
    check(make_agent({"claude": claude}).config.claude, uid=1000)


def test_a_file_that_waits_in_the_place_of_ours_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    os.symlink(victim, tmp_path / "mcp.json")
    with pytest.raises(OSError):  # noqa: PT011 - ELOOP
        built({"mcp": MCP}, tmp_path)
    assert victim.read_text() == "mine"

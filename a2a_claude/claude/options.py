"""An agent's `claude` settings as options of the SDK, each with what the SDK or the CLI would make of it by itself.

The SDK's own defaults are no server's: an unset prompt is an empty one, a sandbox that cannot start is left out, a
changed prompt is ignored when a session is resumed, the whole config stands in argv for everybody to read. What the
CLI makes of each option is in its reference, https://code.claude.com/docs/en/cli-reference.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from claude_agent_sdk import AgentDefinition, CanUseTool, ClaudeAgentOptions
from claude_agent_sdk.types import McpSdkServerConfig, SystemPromptCustom, SystemPromptPreset, ThinkingConfig

from a2a_claude.claude.approval_policy import hidden_tools, may_restrict
from a2a_claude.claude.budget import is_watched
from a2a_claude.claude.environment import Environment
from a2a_claude.claude.mcp import disabled_tools, enabled, hooks, mcp_json, tool_name
from a2a_claude.claude.session import OptionsError
from a2a_claude.claude.workspace_files import is_inside
from a2a_claude.config.model import (
    Claude,
    ClaudeAgent,
    Config,
    ThinkingAdaptive,
    ThinkingDisabled,
)

MAX_LINE: Final = 64 << 20
"""Bytes of one message of the CLI; a tool's output is one."""
_MAX_ARGUMENT: Final = 96 << 10
"""Bytes of an argument; Linux has 128 KiB for one (MAX_ARG_STRLEN, execve(2))."""
_ENVIRONMENTS: Final = ("Read(//proc/*/environ)", "Read(//proc/*/task/*/environ)")
"""A `*` is one level of a path. In a sandbox Claude Code looks for what a `**` matches and mounts over each."""
# Claude Code drops a mount where the patterns are the same; `/proc` alone leaves some.
_ALLOWED_IN_SANDBOX: Final = ("/proc", "/proc/*/environ", "/proc/*/task/*/environ")
_RULE: Final = re.compile(r"[^\s,()]+(?:\((?P<inner>.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Start:
    """How one process starts: the session it resumes, the paths that its tools may not read, what listens to it.

    `servers` are MCP servers in this process (`create_sdk_mcp_server`), by name. `additions` are for the system prompt,
    `plugin` is the folder of one. A session that is not `kept` leaves no transcript; with `commands` a prompt that
    begins with a slash is a command of the CLI: never one of a caller.
    """

    resume: str | None = None
    denied: tuple[str, ...] = ()
    stderr: Callable[[str], None] | None = None
    ask: CanUseTool | None = None
    servers: Mapping[str, McpSdkServerConfig] = field(default_factory=dict)
    additions: tuple[str, ...] = ()
    plugin: Path | None = None
    kept: bool = True
    commands: bool = False


def options(config: Config, environment: Environment, folder: Path, start: Start = Start()) -> ClaudeAgentOptions:
    """The options of one process of the agent.

    `folder` (0700, of this process alone) takes the files that are too long or too secret for argv: `mcp.json`, which
    is of no use to the CLI once it has connected, `prompt.txt`, `settings.json`.

    Raises:
        OptionsError: a setting that the CLI would misread.
    """
    claude = config.claude
    check(claude)
    prompt, extra = _prompt(claude, start.additions, folder)
    if enabled(config.mcp):
        # Beside `mcp_servers`, which the SDK writes into argv: the CLI takes the flag more than once.
        extra["mcp-config"] = str(_write(folder / "mcp.json", json.dumps(mcp_json(config.mcp))))
    if start.ask is not None:
        # The SDK tells this to a transport that it makes itself, and to no other.
        extra["permission-prompt-tool"] = "stdio"
    if not start.kept:
        extra["no-session-persistence"] = None
    schema = claude.output_format.schema if claude.output_format else None
    if schema is not None and len(json.dumps(schema)) > _MAX_ARGUMENT:
        raise OptionsError(f"claude.outputFormat.schema is longer than {_MAX_ARGUMENT >> 10} KiB")
    return ClaudeAgentOptions(
        cwd=claude.working_directory,
        cli_path=claude.executable_path_override,
        env=dict(environment.variables),
        model=claude.model,
        fallback_model=claude.fallback_model,
        effort=claude.effort,
        thinking=_thinking(config),
        output_format={"type": "json_schema", "schema": dict(schema)} if schema is not None else None,
        permission_mode=claude.permission_mode,
        allowed_tools=[*_rules(claude.allowed_tools, "claude.allowedTools"), *_allowed(claude, start.servers)],
        disallowed_tools=_rules(
            [*claude.disallowed_tools, *disabled_tools(config.mcp), *hidden_tools(claude)], "claude.disallowedTools"
        ),
        system_prompt=prompt,
        extra_args=extra,
        setting_sources=list(claude.setting_sources),
        settings=_settings(claude, environment, folder, start.denied),
        max_turns=claude.max_turns,
        max_budget_usd=None if is_watched(claude) else claude.max_budget_usd,
        add_dirs=list(claude.additional_directories),
        agents={name: _agent(each) for name, each in claude.agents.items()} or None,
        skills=_skills(claude.skills),
        plugins=[{"type": "local", "path": str(start.plugin)}] if start.plugin else [],
        mcp_servers=dict(start.servers),
        hooks=hooks(config.mcp) or None,
        strict_mcp_config=True,
        include_partial_messages=config.features.stream_artifact_chunks,
        max_buffer_size=MAX_LINE,
        verbatim_prompts=not start.commands,
        resume=start.resume,
        stderr=start.stderr,
        can_use_tool=start.ask,
    )


def check(claude: Claude, uid: int | None = None) -> None:
    """What stops a start before any process does. `uid` is this process's unless given.

    Raises:
        OptionsError: the first thing that is wrong.
    """
    folder = claude.working_directory
    if not folder:
        raise OptionsError("claude.workingDirectory is not set: set it, WORKSPACE_DIR or --workspace")
    if not os.path.isabs(folder):
        raise OptionsError(f"claude.workingDirectory must be absolute, and {folder} is not")
    if not os.path.exists(folder):
        told = f"claude.workingDirectory {folder} does not exist: create it, or set WORKSPACE_DIR"
        raise OptionsError(told, passes=True)  # it may be on a mount
    if not os.path.isdir(folder):
        raise OptionsError(f"claude.workingDirectory {folder} is not a folder")
    if not is_inside(claude.context_file):
        raise OptionsError(f"claude.contextFile {claude.context_file} is not a path inside the workspace")
    if claude.custom_system_prompt and claude.system_prompt_append:
        raise OptionsError("claude.customSystemPrompt and claude.systemPromptAppend exclude each other")
    if claude.permission_mode == "bypassPermissions":
        if not claude.dangerously_allow_bypass_permissions:
            raise OptionsError("bypassPermissions needs claude.dangerouslyAllowBypassPermissions: true")
        if (os.geteuid() if uid is None else uid) == 0:
            raise OptionsError("Claude refuses bypassPermissions as root: serve as another user")
    executable = claude.executable_path_override
    if executable and not (os.path.isfile(executable) and os.access(executable, os.X_OK)):
        told = f"claude.executablePathOverride {executable} is not a program that can be run"
        raise OptionsError(told, passes=not os.path.exists(executable))  # an update may be on its way


def _prompt(
    claude: Claude, additions: tuple[str, ...], folder: Path
) -> tuple[SystemPromptPreset | SystemPromptCustom, dict[str, str | None]]:
    preset: SystemPromptPreset = {"type": "preset", "preset": "claude_code", "snapshot": False}
    text = "\n\n".join(filter(None, (claude.custom_system_prompt or claude.system_prompt_append, *additions)))
    if not text:
        return preset, {}
    if len(text.encode()) > _MAX_ARGUMENT:
        flag = "system-prompt-file" if claude.custom_system_prompt else "append-system-prompt-file"
        # The preset names no prompt in argv, so the file's is the only one, and `snapshot` is still told.
        return preset, {flag: str(_write(folder / "prompt.txt", text))}
    if claude.custom_system_prompt:
        return {"type": "custom", "prompt": text, "snapshot": False}, {}
    return {**preset, "append": text}, {}


def _thinking(config: Config) -> ThinkingConfig | None:
    """Thinking events need a summary of the thoughts; what the config says of `display` wins."""
    configured = config.claude.thinking
    summarize = config.features.emit_thinking_events
    if configured is None:
        return {"type": "adaptive", "display": "summarized"} if summarize else None
    if isinstance(configured, ThinkingDisabled):
        return {"type": "disabled"}
    display = configured.display or ("summarized" if summarize else None)
    thinking: dict[str, Any] = {"type": "adaptive"}
    # `enabled` without a budget leaves the amount to Claude, which is what adaptive is.
    if not isinstance(configured, ThinkingAdaptive) and configured.budget_tokens is not None:
        thinking = {"type": "enabled", "budget_tokens": configured.budget_tokens}
    return cast(ThinkingConfig, {**thinking, "display": display} if display else thinking)


def _rules(rules: tuple[str, ...] | list[str], where: str) -> list[str]:
    """The CLI splits one argument into rules at commas and spaces outside parentheses; none of ours may split."""
    for rule in rules:
        found = _RULE.fullmatch(rule)
        _, closed, rest = rule.partition(")")
        if found is None or (closed and re.search(r"[\s,]", rest)):
            raise OptionsError(f"{where}: {rule!r} is not one rule: write Tool or Tool(what it may do)")
    return list(rules)


def _allowed(claude: Claude, servers: Iterable[str]) -> list[str]:
    """Rules that allow the tools of servers in this process, which the config has asked for elsewhere. Where a policy
    may speak against one of them it is asked for each call (`Approvals.ask`)."""
    return [f"mcp__{name}" for name in servers if not may_restrict(claude.approval_policy, tool_name(name))]


def _settings(claude: Claude, environment: Environment, folder: Path, denied: tuple[str, ...]) -> str | None:
    settings: dict[str, Any] = {}
    if claude.marketplaces:
        settings["extraKnownMarketplaces"] = {name: _present(each) for name, each in claude.marketplaces.items()}
    if claude.enabled_plugins:
        settings["enabledPlugins"] = dict(claude.enabled_plugins)
    if hooks := _present(claude.hooks):
        settings["hooks"] = hooks
    if claude.sandbox is not None:
        settings["sandbox"] = _sandbox(claude.sandbox, denied, bool(environment.exposed))
    if claude.setting_sources and (prefix := environment.variables.get("CLAUDE_CODE_SHELL_PREFIX")):
        settings["env"] = {"CLAUDE_CODE_SHELL_PREFIX": prefix}  # theirs has less to say
    if rules := denials(environment, denied):
        settings["permissions"] = {"deny": rules}
    if not settings:
        return None
    text = json.dumps(settings)
    # In argv nobody can change them; a file is for what must not, or cannot, be there.
    if len(text) > _MAX_ARGUMENT or any(secret in text for secret in environment.secrets):
        return str(_write(folder / "settings.json", text))
    return text


def denials(environment: Environment, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Rules by which no tool reads the paths, nor the CLI's own environment where something is in it, and none changes
    the shell prefix."""
    # The CLI itself may look into its own environment, and its tools for files are it.
    exposed = _ENVIRONMENTS if environment.exposed else ()
    # Of a rule's path // is the root; https://code.claude.com/docs/en/permissions
    rules = (f"Read(/{path}{below})" for path in paths if not set(path) & set("()*\\") for below in ("", "/**"))
    kept = (f"Edit(/{path}/**)" for path in environment.kept)
    return (*rules, *kept, *exposed)


def is_sandboxed(claude: Claude) -> bool:
    """Whether Claude Code's own sandbox confines shell commands: a block of `claude.sandbox` may also switch it off."""
    return claude.sandbox is not None and claude.sandbox.get("enabled") is True


def _sandbox(configured: Mapping[str, Any], denied: tuple[str, ...], exposed: bool) -> dict[str, Any]:
    sandbox = {"failIfUnavailable": True, **configured}
    filesystem = dict(configured.get("filesystem") or {})
    unread = filesystem.get("denyRead", [])
    if exposed and not {"/", "/proc"} & {each.rstrip("/") or "/" for each in unread}:
        # The sandbox's `/proc` is its own. Without this the rules of `denials` are mounts in it, one for each process
        # of the host, and a command fails when one of them ends meanwhile.
        filesystem["allowRead"] = [*filesystem.get("allowRead", []), *_ALLOWED_IN_SANDBOX]
    if denied:
        filesystem["denyRead"] = [*unread, *denied]
    return {**sandbox, "filesystem": filesystem} if filesystem else sandbox


def _agent(agent: ClaudeAgent) -> AgentDefinition:
    def listed(values: tuple[str, ...] | None) -> list[str] | None:
        return None if values is None else list(values)

    return AgentDefinition(
        description=agent.description,
        prompt=agent.prompt,
        tools=listed(agent.tools),
        disallowedTools=listed(agent.disallowed_tools),
        model=agent.model,
        skills=listed(agent.skills),
        memory=agent.memory,
        mcpServers=cast("list[str | dict[str, Any]] | None", listed(agent.mcp_servers)),
        initialPrompt=agent.initial_prompt,
        maxTurns=agent.max_turns,
        background=agent.background,
        effort=agent.effort,
        permissionMode=agent.permission_mode,
    )


def _skills(skills: Any) -> Any:
    return list(skills) if isinstance(skills, list | tuple) else skills


_CAMEL: Final = {"install_location": "installLocation", "auto_update": "autoUpdate"}
_EVENT: Final = re.compile(r"(?:^|_)([a-z])")


def _present(value: Any) -> Any:
    """A typed part of the config as the JSON it was read from, without what is unset."""
    if hasattr(value, "__slots__"):
        named = {name: _present(getattr(value, name)) for name in value.__slots__}
        return {_json_name(value, name): each for name, each in named.items() if each not in (None, [], {})}
    if isinstance(value, Mapping):
        return {key: _present(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_present(each) for each in value]
    return value


def _json_name(value: Any, name: str) -> str:
    if type(value).__name__ == "Hooks":  # named like the CLI's events: PreToolUse
        return _EVENT.sub(lambda found: found[1].upper(), name)
    return _CAMEL.get(name, name)


def _write(path: Path, text: str) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path

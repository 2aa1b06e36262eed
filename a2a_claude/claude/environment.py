"""What the CLI's environment is, and what of it the agent's shell does not get.

Three rings. The server's environment stays in the server. The CLI gets an allow-list of it, its own switches, its
credentials and `claude.env`. What the CLI starts (shell, hooks, MCP servers) gets the same without the credentials:
API key and OAuth token never are in the CLI's environment (it reads them once from a descriptor), and a prefix before
each command, `CLAUDE_CODE_SHELL_PREFIX`, takes the other ones away.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from a2a_claude.config.model import Config

Find = Callable[[str], str | None]

# What any program may know.
_PLAIN: Final = frozenset(
    [
        "PATH",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "USER",
        "LOGNAME",
        "SHELL",
        "TMPDIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "NIX_SSL_CERT_FILE",
        "GIT_SSL_CAINFO",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
    ]
)
# Switches of Claude Code without a prefix of their own.
_SWITCHES: Final = frozenset(
    [
        "BASH_DEFAULT_TIMEOUT_MS",
        "BASH_MAX_TIMEOUT_MS",
        "BASH_MAX_OUTPUT_LENGTH",
        "MCP_TIMEOUT",
        "MCP_TOOL_TIMEOUT",
        "MAX_MCP_OUTPUT_TOKENS",
        "MAX_THINKING_TOKENS",
        "ENABLE_TOOL_SEARCH",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
        "DISABLE_AUTOUPDATER",
        "DISABLE_PROMPT_CACHING",
        "DISABLE_COST_WARNINGS",
        "API_TIMEOUT_MS",
        "VERTEX_REGION",
    ]
)
_SWITCH_PREFIXES: Final = ("ANTHROPIC_", "CLAUDE_CODE_", "VERTEX_REGION_", "DISABLE_PROMPT_CACHING_")
# Of the process that started the server, if that was Claude Code itself.
_NOT_OURS: Final = ("CLAUDE_CODE_SESSION", "CLAUDE_CODE_CHILD", "CLAUDE_CODE_MESSAGING", "CLAUDE_CODE_SSE_PORT")
# A cloud's variables are Claude's own when Claude is told to use that cloud.
_CLOUDS: Final = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_MANTLE": ("AWS_",),
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "GCE_METADATA_", "CLOUDSDK_", "CLOUD_ML_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_", "IDENTITY_", "MSI_"),
    "CLAUDE_CODE_ENABLE_TELEMETRY": ("OTEL_",),
}
# Read once from a descriptor instead of the environment.
DESCRIPTORS: Final = {
    "ANTHROPIC_API_KEY": "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    "CLAUDE_CODE_OAUTH_TOKEN": "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
}
# Any of these logs Claude in.
CREDENTIALS: Final = (
    *DESCRIPTORS,
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "ANTHROPIC_CUSTOM_HEADERS",
    "AWS_BEARER_TOKEN_BEDROCK",
)
_DEFAULT_CREDENTIALS: Final = ("ANTHROPIC_API_KEY",)
KEPT_FOR_MCP: Final = "A2A_CLAUDE_KEPT"
_SERVER_SECONDS: Final = 30.0  # Claude Code's own bound for MCP servers to start


@dataclass(frozen=True, slots=True)
class Environment:
    """What the CLI gets.

    `variables`; among them `descriptors` (descriptor's variable -> variable) and `private` ones, which the agent's
    shell does not get. `credentials` are the names of those that are set. `kept` are folders that the agent must not
    change: its shell prefix is there.
    """

    variables: Mapping[str, str]
    descriptors: Mapping[str, str] = field(default_factory=dict)
    private: frozenset[str] = frozenset()
    credentials: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Environment({sorted(self.variables)})"

    @property
    def exposed(self) -> frozenset[str]:
        """Private variables that are in the CLI's own environment, where `/proc` shows them to its user."""
        return frozenset(self.private & self.variables.keys() - set(self.descriptors.values()))

    @property
    def secrets(self) -> frozenset[str]:
        """The values that may be shown nowhere."""
        return frozenset(self.variables[name] for name in self.private if self.variables.get(name))


def environment(
    config: Config, find: Find, inherited: Mapping[str, str], home: Path, *, by_descriptor: bool = True
) -> Environment:
    """The environment of the agent's CLI.

    `find` looks secrets up (files first, see `config.variables.lookup`); a blank one counts as unset. `home` becomes
    HOME, and `.claude` in it CLAUDE_CONFIG_DIR. Without `by_descriptor` (a CLI that is a script of the operator's) all
    credentials are variables.
    """
    claude = config.claude
    switches = {name: value for name, value in inherited.items() if value and _is_switch(name)}
    cloud = {name for name in inherited if name.startswith(_cloud_prefixes(switches))}
    given = {name: value for name in _credential_names(claude.credentials) if (value := (find(name) or "").strip())}
    variables = {name: value for name, value in inherited.items() if name in _PLAIN or name.startswith("LC_")}
    variables |= {name: value for name, value in switches.items() if name not in CREDENTIALS}
    variables |= {name: inherited[name] for name in sorted(cloud)} | given
    variables.setdefault("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
    variables.setdefault("DISABLE_AUTOUPDATER", "1")
    variables |= _of_config(config, server_seconds(inherited))
    variables |= {"HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude")}
    variables |= claude.env
    private = (cloud | set(given) | set(DESCRIPTORS.values())) - set(claude.env)
    descriptors = {DESCRIPTORS[name]: name for name in given if by_descriptor and name in DESCRIPTORS.keys() & private}
    return Environment(variables, descriptors, frozenset(private), tuple(sorted(given)))


def shell_prefix(private: Iterable[str], fence: Iterable[str] = ()) -> str:
    """A POSIX shell script that runs its argument in bash without these variables; `fence` is a command before that.

    Claude Code puts it before shell commands, hooks and stdio MCP servers alike. A server whose own config sets such a
    variable names it in $A2A_CLAUDE_KEPT.
    """
    names, before = " ".join(sorted(private)), "".join(f"{shlex.quote(each)} " for each in fence)
    return f"""#!/bin/sh
for name in {names}; do
  case " ${KEPT_FOR_MCP} " in *" $name "*) ;; *) unset "$name" ;; esac
done
unset name {KEPT_FOR_MCP}
if [ -x /bin/bash ]; then exec {before}/bin/bash -c "$1"; fi
exec {before}"$(command -v bash || command -v sh)" -c "$1"
"""


def _is_switch(name: str) -> bool:
    return (name in _SWITCHES or name.startswith(_SWITCH_PREFIXES)) and not name.startswith(_NOT_OURS)


def _cloud_prefixes(switches: Mapping[str, str]) -> tuple[str, ...]:
    on = [
        switch for switch in _CLOUDS if switches.get(switch, "").strip().lower() not in ("", "0", "false", "no", "off")
    ]
    return tuple({prefix for switch in on for prefix in _CLOUDS[switch]})


def _credential_names(declared: tuple[str, ...]) -> Iterable[str]:
    """Whoever names the credentials gets these alone: a stray API key must not change who is billed."""
    return declared if declared != _DEFAULT_CREDENTIALS else CREDENTIALS


def server_seconds(inherited: Mapping[str, str]) -> float:
    """How long an MCP server may take to start when the config says nothing: MCP_TIMEOUT, or Claude Code's bound."""
    given = inherited.get("MCP_TIMEOUT", "")
    return int(given) / 1000 if given.isdecimal() and int(given) > 0 else _SERVER_SECONDS


def _of_config(config: Config, default: float) -> dict[str, str]:
    variables = {}
    if config.claude.marketplaces:
        variables["CLAUDE_CODE_SYNC_PLUGIN_INSTALL"] = "1"
    # The CLI has one bound for all servers: the most patient one's. `mcp_servers` ends the others'.
    bounds = [server.startup_timeout_sec or default for server in config.mcp.values() if server.enabled]
    if bounds:
        variables["MCP_TIMEOUT"] = str(round(max(bounds) * 1000))
    return variables


def write_shell_prefix(environment: Environment, path: Path, fence: Iterable[str] = ()) -> Environment:
    """Writes the prefix to `path` (0700), whose folder is its own, and gives the environment that names it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o700)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(shell_prefix(environment.private, fence))
    variables = {**environment.variables, "CLAUDE_CODE_SHELL_PREFIX": shlex.quote(str(path))}
    return replace(environment, variables=variables, kept=(str(path.parent),))

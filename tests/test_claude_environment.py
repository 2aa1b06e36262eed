"""Who sees which variable: the server, the CLI, and what the CLI starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.environment import Environment, environment, write_shell_prefix
from a2a_claude.config.variables import lookup
from tests.support import make_agent

SERVER = {
    "PATH": "/usr/bin",
    "LANG": "C.UTF-8",
    "LC_TIME": "de_DE.UTF-8",
    "HTTPS_PROXY": "http://proxy:3128",
    "DATABASE_URL": "postgresql://u:p@h/db",
    "PUSH_TOKEN": "s3cret",
    "HOME": "/root",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_SESSION_ID": "outer",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "GOOGLE_APPLICATION_CREDENTIALS": "/gcp.json",
    "ANTHROPIC_BASE_URL": "http://gateway",
    "CLAUDE_CODE_MAX_RETRIES": "2",
}


def chosen(
    variables: dict[str, str] | None = None, claude: dict[str, Any] | None = None, by_descriptor: bool = True
) -> Environment:
    config = make_agent({"claude": claude or {}}).config
    inherited = {**SERVER, **(variables or {})}
    return environment(config, lookup(inherited), inherited, Path("/agent/home"), by_descriptor=by_descriptor)


def test_the_cli_gets_an_allow_list_and_a_home_of_its_own() -> None:
    assert dict(chosen().variables) == {
        "PATH": "/usr/bin",
        "LANG": "C.UTF-8",
        "LC_TIME": "de_DE.UTF-8",
        "HTTPS_PROXY": "http://proxy:3128",
        "HOME": "/agent/home",
        "CLAUDE_CONFIG_DIR": "/agent/home/.claude",
        "ANTHROPIC_BASE_URL": "http://gateway",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def test_what_the_config_gives_comes_last() -> None:
    found = chosen(claude={"env": {"PATH": "/opt/bin", "EDITOR": "ed", "DISABLE_AUTOUPDATER": "0"}}).variables
    assert (found["PATH"], found["EDITOR"], found["DISABLE_AUTOUPDATER"]) == ("/opt/bin", "ed", "0")


CREDENTIALS: list[tuple[str, dict[str, Any] | None, dict[str, str], set[str]]] = [
    ("the API key", None, {"ANTHROPIC_API_KEY": "k"}, {"ANTHROPIC_API_KEY"}),
    ("a token, without naming it", None, {"CLAUDE_CODE_OAUTH_TOKEN": "t"}, {"CLAUDE_CODE_OAUTH_TOKEN"}),
    ("a blank key is none", None, {"ANTHROPIC_API_KEY": " "}, set()),
    (
        "a stray key does not change who is billed",
        {"credentials": ["CLAUDE_CODE_OAUTH_TOKEN"]},
        {"CLAUDE_CODE_OAUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"},
        {"CLAUDE_CODE_OAUTH_TOKEN"},
    ),
    ("the host logs in", {"credentials": []}, {"ANTHROPIC_API_KEY": "k"}, set()),
]


@pytest.mark.parametrize(
    ("claude", "given", "names"), [row[1:] for row in CREDENTIALS], ids=[row[0] for row in CREDENTIALS]
)
def test_credentials(claude: dict[str, Any] | None, given: dict[str, str], names: set[str]) -> None:
    found = chosen(given, claude)
    assert set(found.credentials) == names
    assert {name for name in given if name in found.variables} == names
    assert set(found.descriptors.values()) == names
    assert names <= found.private


def test_a_blank_file_is_no_credential_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "ANTHROPIC_API_KEY").write_text("\n")
    (tmp_path / "CLAUDE_CODE_OAUTH_TOKEN").write_text("token\n")
    found = chosen({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert found.credentials == ("CLAUDE_CODE_OAUTH_TOKEN",)
    assert found.variables["CLAUDE_CODE_OAUTH_TOKEN"] == "token"
    assert "CREDENTIALS_DIRECTORY" not in found.variables


@pytest.mark.parametrize(
    ("switch", "name"),
    [
        ("CLAUDE_CODE_USE_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
        ("CLAUDE_CODE_USE_VERTEX", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_a_clouds_variables_are_claudes_when_it_uses_that_cloud(switch: str, name: str) -> None:
    assert name not in chosen().variables
    assert name not in chosen({switch: "0"}).variables
    found = chosen({switch: "1"})
    assert found.variables[name] == SERVER[name]
    assert name in found.private


def test_a_script_in_claudes_place_gets_variables() -> None:
    found = chosen({"ANTHROPIC_API_KEY": "k"}, by_descriptor=False)
    assert found.descriptors == {}
    assert found.variables["ANTHROPIC_API_KEY"] == "k"
    assert "ANTHROPIC_API_KEY" in found.private


def test_it_does_not_show_values() -> None:
    assert "s3cret" not in repr(chosen({"ANTHROPIC_API_KEY": "s3cret"}))


@pytest.mark.parametrize(
    ("bounds", "inherited", "expected"),
    [
        ((5, 20), {}, "20000"),
        ((5, None), {}, "30000"),
        ((5, None), {"MCP_TIMEOUT": "2000"}, "5000"),
        ((None, None), {"MCP_TIMEOUT": "60000"}, "60000"),
    ],
)
def test_the_cli_waits_for_the_most_patient_mcp_server(
    bounds: tuple[float | None, ...], inherited: dict[str, str], expected: str
) -> None:
    servers = {f"s{n}": {"type": "stdio", "command": "a", "startupTimeoutSec": each} for n, each in enumerate(bounds)}
    config = make_agent({"mcp": servers}).config
    assert environment(config, lambda _: None, inherited, Path("/h")).variables["MCP_TIMEOUT"] == expected


def test_plugins_are_installed_before_the_first_turn() -> None:
    marketplaces = {"own": {"source": {"source": "directory", "path": "/m"}}}
    config = make_agent({"claude": {"marketplaces": marketplaces}}).config
    found = environment(config, lambda _: None, {}, Path("/h")).variables
    assert found["CLAUDE_CODE_SYNC_PLUGIN_INSTALL"] == "1"


@pytest.mark.parametrize(("kept", "shown"), [("", "unset"), ("AWS_SECRET_ACCESS_KEY", "aws")])
def test_the_shell_prefix_takes_credentials_away(kept: str, shown: str, tmp_path: Path) -> None:
    made = write_shell_prefix(chosen({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu"}), tmp_path / "it's a prefix")
    command = 'echo "${AWS_SECRET_ACCESS_KEY-unset} ${AWS_REGION-unset} ${LANG} ${name-unset} ${A2A_CLAUDE_KEPT-unset}"'
    # As Claude Code does: the prefix, and the command as one quoted argument.
    run = subprocess.run(
        ["/bin/sh", "-c", f"{made.variables['CLAUDE_CODE_SHELL_PREFIX']} '{command}'"],
        env={**made.variables, "A2A_CLAUDE_KEPT": kept, "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == [shown, "unset", "C.UTF-8", "unset", "unset"]

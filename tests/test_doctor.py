"""`a2a-claude doctor` says what is there, what is not, and what to do."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from a2a_claude.cli import main

KEY = "sk-ant-api03-never-shown"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent that can be served; the caller is in its folder's parent."""
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "WORKSPACE_DIR", "PORT", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workspace").mkdir()
    folder = tmp_path / "agents" / "one"
    folder.mkdir(parents=True)
    write(folder, "")
    return folder


def write(folder: Path, claude: str, port: int = 0) -> None:
    workspace = folder.parent.parent / "workspace"
    with socket.socket() as trying:
        trying.bind(("127.0.0.1", 0))
        free = port or trying.getsockname()[1]
    text = f"server: {{port: {free}}}\nclaude:\n  workingDirectory: {workspace}\n{claude}"
    (folder / "agent.yaml").write_text(text)


def doctor(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments], env=dict(environment))


def test_versions_of_what_serves_are_named(agent: Path) -> None:
    output = doctor().output
    for name in ("a2a-claude", "Python", "a2a-sdk", "claude-agent-sdk", "falcon", "granian", "git", "nix", "docker"):
        assert name in output
    assert "CLI" in output


def test_an_agent_that_can_be_served_has_no_problem(agent: Path) -> None:
    run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert "agent one" in run.output
    assert "credentials: ANTHROPIC_API_KEY" in run.output
    assert "is free" in run.output
    assert "can be read and written" in run.output
    assert KEY not in run.output
    assert run.exit_code == ("no CLI" in run.output)


def test_a_credential_in_a_file_counts_and_a_blank_one_does_not(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "ANTHROPIC_API_KEY").write_text(" \n")
    run = doctor("one", CREDENTIALS_DIRECTORY=str(tmp_path))
    assert run.exit_code == 1
    assert "!!  no credential of Claude is there: ANTHROPIC_API_KEY" in run.output
    (tmp_path / "ANTHROPIC_API_KEY").write_text(KEY)
    assert "credentials: ANTHROPIC_API_KEY" in doctor("one", CREDENTIALS_DIRECTORY=str(tmp_path)).output


def test_a_port_in_use_is_told(agent: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        write(agent, "", taken.getsockname()[1])
        run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert run.exit_code == 1
    assert "Address already in use" in run.output
    assert "hint: stop what listens there" in run.output


@pytest.mark.parametrize(
    ("claude", "told"),
    [
        ("  executablePathOverride: /does/not/exist\n", "is not a program that can be run"),
        ("  additionalDirectories: ['${NOT_SET_ANYWHERE}']\n", "NOT_SET_ANYWHERE is not set"),
        ("  nonsense: 1\n", "is not one valid agent"),
    ],
)
def test_what_would_stop_the_start_is_told(claude: str, told: str, agent: Path) -> None:
    write(agent, claude)
    run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert run.exit_code == 1
    assert told in run.output


def test_an_agent_that_is_not_there(agent: Path) -> None:
    assert doctor("two").exit_code == 2

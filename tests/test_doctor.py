"""`a2a-claude doctor` says what is there, what is not, and what to do."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from a2a_claude.cli import main

KEY = "sk-ant-api03-never-shown"
PROGRAMS = ("git", "systemd", "docker", "docker compose", "podman", "kubectl", "nix", "bubblewrap", "socat")


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


def write(folder: Path, claude: str, port: int = 0, server: str = "") -> int:
    """Writes the agent's config; gives its port."""
    workspace = folder.parent.parent / "workspace"
    with socket.socket() as trying:
        trying.bind(("127.0.0.1", 0))
        free: int = port or trying.getsockname()[1]
    text = f"server: {{port: {free}, {server}}}\nclaude:\n  workingDirectory: {workspace}\n{claude}"
    (folder / "agent.yaml").write_text(text)
    return free


def doctor(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments], env=dict(environment))


def test_versions_of_what_serves_are_named(agent: Path) -> None:
    output = doctor().output
    for name in ("a2a-claude", "Python", "a2a-sdk", "claude-agent-sdk", "falcon", "granian", *PROGRAMS):
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


def test_a_file_of_a_secret_that_is_there_and_cannot_be_read_is_told(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "ANTHROPIC_API_KEY").mkdir()  # as Docker makes it of a file that it does not find
    (tmp_path / "CALLERS").write_bytes(b"\xff")
    write(agent, "", server="auth: {bearer: {tokensVariable: CALLERS}}")
    output = doctor("one", CREDENTIALS_DIRECTORY=str(tmp_path)).output
    hint = "\n    hint: make it a file of the user who serves\n"
    assert f"!!  the secret {tmp_path}/ANTHROPIC_API_KEY cannot be read: Is a directory{hint}" in output
    assert f"!!  the secret {tmp_path}/CALLERS cannot be read: Not UTF-8 text{hint}" in output


def test_a_port_in_use_is_told(agent: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        write(agent, "", taken.getsockname()[1])
        run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert run.exit_code == 1
    assert "Address already in use" in run.output
    assert "hint: another program listens there; set server.port or --port" in run.output


@pytest.mark.parametrize(
    ("hostname", "told"),
    [
        (
            "192.0.2.1",
            "cannot listen on 192.0.2.1 port {}: Cannot assign requested address\n    hint: set server.hostname",
        ),
        (
            "nowhere.invalid",
            "nowhere.invalid cannot be resolved: Name or service not known\n    hint: set server.hostname",
        ),
    ],
)
def test_an_address_that_is_not_this_machines_is_told(hostname: str, told: str, agent: Path) -> None:
    port = write(agent, "", server=f"hostname: {hostname}, auth: {{allowUnauthenticated: true}}")
    output = doctor("one", ANTHROPIC_API_KEY=KEY).output
    assert f"!!  {told.format(port)}" in output
    assert "\n    hint: set server.hostname\n" in output


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("hostname: 0.0.0.0", "refusing to listen on 0.0.0.0 without authentication"),
        ("auth: {bearer: {tokensVariable: CALLERS}}", "variable CALLERS is not set: put lines like principal:token"),
        ("auth: {bearer: {tokensFile: /no/tokens}}", "/no/tokens: No such file or directory: make it a file"),
        ("tls: {certificateFile: /no/crt, keyFile: /no/key}", "server.tls.certificateFile /no/crt cannot be read"),
    ],
)
def test_what_would_keep_callers_out_or_let_all_of_them_in_is_told(server: str, told: str, agent: Path) -> None:
    write(agent, "", server=server)
    run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert f"!!  {told}" in run.output
    assert run.exit_code == 1


def test_a_key_that_the_card_is_to_be_signed_with_is_looked_for(agent: Path) -> None:
    write(agent, "agentCard: {signing: {enabled: true, privateKeyJwkEnvVar: CARD_KEY}}\n")
    assert "!!  agentCard.signing needs the variable CARD_KEY" in doctor("one", ANTHROPIC_API_KEY=KEY).output
    run = doctor("one", ANTHROPIC_API_KEY=KEY, CARD_KEY="secret-and-no-key")
    assert "!!  CARD_KEY holds no private JWK" in run.output
    assert "secret-and-no-key" not in run.output


def test_tokens_of_callers_in_a_file_are_found(agent: Path, tmp_path: Path) -> None:
    write(agent, "", server="auth: {bearer: {tokensVariable: CALLERS}}")
    (tmp_path / "CALLERS").write_text("alice:alice-has-a-token-of-her-own\n")
    output = doctor("one", ANTHROPIC_API_KEY=KEY, CREDENTIALS_DIRECTORY=str(tmp_path)).output
    assert "CALLERS" not in output
    assert "alice" not in output


def test_a_sandbox_whose_programs_are_not_there_is_told_unless_claude_may_do_without(
    agent: Path, tmp_path: Path
) -> None:
    path = programs(tmp_path / "bin", socat="socat by Gerhard Rieger")
    write(agent, "  sandbox: {enabled: true}\n")
    told = "!!  claude.sandbox is on and bwrap not there: no session would start\n    hint: apt-get install bubblewrap"
    assert told in doctor("one", ANTHROPIC_API_KEY=KEY, PATH=path).output
    write(agent, "  sandbox: {enabled: true, failIfUnavailable: false}\n")
    assert "claude.sandbox is on" not in doctor("one", ANTHROPIC_API_KEY=KEY, PATH=path).output


def test_a_cli_of_ones_own_that_does_not_run_is_told_by_its_key(agent: Path, tmp_path: Path) -> None:
    path = programs(tmp_path / "bin", claude="")
    write(agent, f"  executablePathOverride: {path}/claude\n")
    output = doctor("one", ANTHROPIC_API_KEY=KEY).output
    assert (
        f"!!  Claude's CLI {path}/claude does not run\n    hint: look at what `{path}/claude --version` says" in output
    )
    assert "correct claude.executablePathOverride" in output


@pytest.mark.parametrize(
    ("claude", "told"),
    [
        ("  executablePathOverride: /does/not/exist\n", "is not a program that can be run"),
        ("  additionalDirectories: ['${NOT_SET_ANYWHERE}']\n", "NOT_SET_ANYWHERE is not set"),
        ("  nonsense: 1\n", "is not one valid agent"),
        ("store: {type: postgresql, url: 'postgresql://db/a'}\n", "store.type postgresql is not served"),
    ],
)
def test_what_would_stop_the_start_is_told(claude: str, told: str, agent: Path) -> None:
    write(agent, claude)
    run = doctor("one", ANTHROPIC_API_KEY=KEY)
    assert run.exit_code == 1
    assert told in run.output


def test_an_agent_that_is_not_there(agent: Path) -> None:
    assert doctor("two").exit_code == 2


def programs(folder: Path, **said: str) -> str:
    """A PATH with programs that print what is said."""
    folder.mkdir()
    for name, text in said.items():
        (folder / name).write_text(f"#!/bin/sh\necho '{text}'\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_a_program_that_is_too_old_says_for_what(tmp_path: Path) -> None:
    path = programs(
        tmp_path / "bin", systemctl="systemd 247 (247.3-7)", podman="podman version 5.4.2", nix="nix (Nix) 2.8.0"
    )
    output = doctor(PATH=path).output
    assert "--  systemd: systemd 247 (247.3-7)\n    hint: it is older than 252, which is needed to run" in output
    assert "ok  podman: podman version 5.4.2" in output
    assert "ok  nix: nix (Nix) 2.8.0" in output
    assert "--  docker is not there (needed to build the rendered Dockerfile)" in output


def test_a_clock_that_cannot_be_right_or_that_nothing_sets_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = programs(tmp_path / "bin", timedatectl="no")
    assert "and nothing keeps it set\n    hint: set it" in doctor(PATH=path).output
    monkeypatch.setattr("time.time", lambda: 0.0)
    run = doctor(PATH=path)
    assert run.exit_code == 1
    assert "!!  the clock says 1970-01-01T00:00:00Z, which is before" in run.output


def test_the_state_folder_is_the_one_that_serve_takes(agent: Path, tmp_path: Path) -> None:
    free = "GiB are free"
    for arguments, environment, told in (
        ((), {"XDG_STATE_HOME": f"{tmp_path}/xdg"}, f"the state folder {tmp_path}/xdg/a2a-claude/one can be made, "),
        ((), {"STATE_DIRECTORY": str(tmp_path)}, f"the state folder {tmp_path} can be written, "),
        (("--state-dir", "state"), {}, f"the state folder {tmp_path}/state can be made, "),
    ):
        output = doctor("one", *arguments, ANTHROPIC_API_KEY=KEY, **environment).output
        assert told in output
        assert free in output


def test_a_state_folder_that_cannot_be_made_is_told(agent: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = doctor("one", "--state-dir", "file/state", ANTHROPIC_API_KEY=KEY)
    assert run.exit_code == 1
    assert f"!!  the state folder {tmp_path}/file/state cannot be made by this user\n    hint: give it" in run.output


@pytest.mark.parametrize(("mebibytes", "mark"), [(50, "!!"), (500, "--"), (5000, "ok")])
def test_a_disk_that_is_nearly_full_is_told(
    mebibytes: int, mark: str, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = mebibytes << 20
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(total=free, used=0, free=free))
    assert f"{mark}  the state folder" in doctor("one", ANTHROPIC_API_KEY=KEY).output

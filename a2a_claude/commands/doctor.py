"""`a2a-claude doctor`: is everything there to serve, and what to do when it is not?"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import click

from a2a_claude import __version__, listening
from a2a_claude.commands import host
from a2a_claude.commands.common import INVALID, fail
from a2a_claude.commands.host import Finding
from a2a_claude.commands.naming import agent_path, state_folder
from a2a_claude.config.agent import Agent

_RUNTIME = ("a2a-sdk", "claude-agent-sdk", "falcon", "granian")
_MARKS = {"ok": "ok", "note": "--", "problem": "!!"}


@click.command()
@click.argument("path", required=False, type=click.Path())
@click.option("--state-dir", type=click.Path(), help="Where tasks are kept, as for serve.")
def command(path: str | None, state_dir: str | None) -> None:
    """Look at this machine, and at what the agent at PATH needs to be served on it. Exits 1 when something is missing.

    PATH is as for serve. Of credentials only the names are shown.
    """
    findings = [*_machine(), host.clock(), *_claude(), *host.programs()]
    if path is not None:
        findings += _agent(path, state_dir)
    for each in findings:
        click.echo(f"{_MARKS[each.level]}  {each.text}")
        if each.hint:
            click.echo(f"    hint: {each.hint}")
    problems = sum(each.level == "problem" for each in findings)
    click.echo(f"{problems} problem{'' if problems == 1 else 's'}")
    raise SystemExit(INVALID if problems else 0)


def _machine() -> Iterator[Finding]:
    yield Finding(
        "ok", f"a2a-claude {__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    )
    for name in _RUNTIME:
        try:
            yield Finding("ok", f"{name} {version(name)}")
        except PackageNotFoundError:
            yield Finding("problem", f"{name} is not installed", "pip install 'a2a-claude[runtime]'")
    if os.geteuid() == 0:
        yield Finding("note", "you are root: Claude refuses permissionMode bypassPermissions, and its shell is root's")


def bundled_cli() -> Path | None:
    """The CLI that comes with the SDK; None when the SDK is not installed or has none for this platform."""
    found = find_spec("claude_agent_sdk")
    path = Path(found.origin).parent / "_bundled" / "claude" if found and found.origin else None
    return path if path and path.is_file() else None


def _claude(override: str | None = None) -> Iterator[Finding]:
    path = Path(override) if override else bundled_cli()
    if path is None:
        if find_spec("claude_agent_sdk"):
            hint = "use a platform that has one (glibc, not musl), or set claude.executablePathOverride"
            yield Finding("problem", "claude-agent-sdk has no CLI for this platform", hint)
        return
    told = host.first_line([str(path), "--version"])
    if told is None:
        hint = f"look at what `{path} --version` says, and " + (
            "correct claude.executablePathOverride" if override else "reinstall claude-agent-sdk"
        )
        yield Finding("problem", f"Claude's CLI {path} does not run", hint)
    else:
        yield Finding("ok", f"Claude's CLI {told}, {path}")


def _agent(path: str, state_dir: str | None) -> Iterator[Finding]:
    from a2a_claude.config.loader import Options, load_fleet
    from a2a_claude.config.resolution import resolved
    from a2a_claude.config.variables import lookup, unreadable

    target = agent_path(path)
    if not os.path.exists(target):
        fail(f"no agent is named {path}", "give a name in agents/, an agent's folder or its file")
    fleet = load_fleet([target], Options(None, (), os.environ))
    if len(fleet.loaded) != 1 or fleet.loaded[0].agent is None:
        yield Finding("problem", f"{target} is not one valid agent", f"a2a-claude validate {path}")
        return
    for file, why in unreadable(os.environ, fleet.loaded[0].agent.secrets).items():
        yield Finding("problem", f"the secret {file} cannot be read: {why}", "make it a file of the user who serves")
    find = lookup(os.environ)
    agent, problems = resolved(fleet.loaded[0], find)
    for each in problems:
        yield Finding("problem" if each.severity == "error" else "note", each.message, each.hint or "")
    if agent is None:
        return
    yield Finding("ok", f"agent {agent.name}")
    if find_spec("claude_agent_sdk"):
        yield from _served(agent, {name: bool((find(name) or "").strip()) for name in _credential_names(agent)})
    yield from host.folder(state_folder(state_dir, agent.name), "the state folder")
    if agent.config.store.type == "postgresql":
        hint = "set store.type: sqlite, and one replica"
        yield Finding("problem", "store.type postgresql is not served by this version", hint)
    yield from _port(agent)
    if find_spec("granian"):
        yield from _callers(agent, find)


def _credential_names(agent: Agent) -> list[str]:
    return sorted({*agent.config.claude.credentials, "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"})


def _served(agent: Agent, present: dict[str, bool]) -> Iterator[Finding]:
    from a2a_claude.claude.options import check
    from a2a_claude.claude.session import OptionsError

    claude = agent.config.claude
    try:
        check(claude)
    except OptionsError as error:
        yield Finding("problem", str(error))
    workspace = claude.working_directory
    if os.path.isdir(workspace):
        rights = os.R_OK | os.X_OK | (os.W_OK if agent.writes_workspace else 0)
        what = "read and written" if agent.writes_workspace else "read"
        if os.access(workspace, rights):
            yield Finding("ok", f"the workspace {workspace} can be {what}")
        else:
            hint = "give this user the rights, or serve as the user who owns it"
            yield Finding("problem", f"the workspace {workspace} cannot be {what} by this user", hint)
    override = claude.executable_path_override
    if override and os.access(override, os.X_OK):  # else it is told already
        yield from _claude(override)
    sandbox = claude.sandbox or {}
    absent = " and ".join(each for each in ("bwrap", "socat") if not shutil.which(each))
    if absent and sandbox.get("enabled") and sandbox.get("failIfUnavailable", True):
        hint = "apt-get install bubblewrap socat, or leave claude.sandbox out"
        yield Finding("problem", f"claude.sandbox is on and {absent} not there: no session would start", hint)
    names = [name for name, there in present.items() if there]
    clouds = [name for name in ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX") if os.environ.get(name)]
    if names or clouds or not claude.credentials:
        yield Finding("ok", f"credentials: {', '.join([*names, *clouds]) or 'the host itself logs in'}")
    else:
        missing = " or ".join(claude.credentials)
        hint = f"set {missing}, or a file of that name in $CREDENTIALS_DIRECTORY or /run/secrets; blank counts as unset"
        yield Finding("problem", f"no credential of Claude is there: {missing}", hint)
    yield _hiding()


def _hiding() -> Finding:
    from a2a_claude.claude.supervisor import landlock

    if sys.platform == "linux" and landlock.abi() >= 2:
        return Finding("ok", f"Landlock (ABI {landlock.abi()}) hides the server's state and credentials from the agent")
    return Finding(
        "note", "without Landlock (Linux 5.19) the agent's shell can read the server's state and credentials"
    )


def _port(agent: Agent) -> Iterator[Finding]:
    server = agent.config.server
    try:
        listening.bind(server.hostname, server.port).close()
    except listening.ListenError as error:
        yield Finding("problem", *str(error).split("; ", 1))
    else:
        yield Finding("ok", f"{server.hostname} port {server.port} is free")


def _callers(agent: Agent, find: Callable[[str], str | None]) -> Iterator[Finding]:
    """Whether callers may be let in as the config says: authentication, certificate, the card's key."""
    from a2a_claude.a2a.edge import ExposureError, check_exposure, make_edge
    from a2a_claude.a2a.http_server import tls_settings
    from a2a_claude.a2a.signing import SigningError, signer_for
    from a2a_claude.a2a.tokens import TokenError
    from a2a_claude.config.resolution import Variables

    server, variables = agent.config.server, Variables(find)
    checks: list[Callable[[], object]] = [
        lambda: make_edge(server, variables),
        lambda: signer_for(agent.config.agent_card.signing, variables),
    ]
    if not server.auth.allow_unauthenticated:  # with it, the check is a warning in a log
        checks.append(lambda: check_exposure(server))
    if tls := server.tls:
        checks.append(lambda: tls_settings(tls))
    for check in checks:
        try:
            check()
        except (ExposureError, listening.ListenError, SigningError, TokenError) as error:
            yield Finding("problem", str(error))

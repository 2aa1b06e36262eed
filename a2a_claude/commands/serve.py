"""`a2a-claude serve`: an agent answers over A2A."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands.common import CONFIG, INVALID, USAGE, _profile, fail, report
from a2a_claude.commands.naming import agent_path, state_folder
from a2a_claude.commands.runtime import require_runtime
from a2a_claude.config.agent import Agent
from a2a_claude.config.diagnostics import Diagnostic, tidy
from a2a_claude.config.loader import Loaded, Options, load_fleet
from a2a_claude.config.resolution import OF_CLAUDE, Variables, resolved
from a2a_claude.config.variables import lookup

logger = logging.getLogger(__name__)

EXECUTORS = ("claude", "scripted", "scripted-working")
# Flag -> config path, and whether the value may hold references (then its dollars are doubled: a flag is literal).
_FLAGS: dict[str, tuple[str, bool]] = {
    "hostname": ("server.hostname", False),
    "advertise_host": ("server.advertiseHost", False),
    "workspace": ("claude.workingDirectory", True),
    "model": ("claude.model", True),
    "permission_mode": ("claude.permissionMode", False),
    "agent_name": ("agentCard.name", False),
    "agent_description": ("agentCard.description", False),
    "stream_artifacts": ("features.streamArtifactChunks", False),
    "log_level": ("logging.level", False),
}


@click.command()
@click.argument("path", required=False, type=click.Path())
@click.option("--config", "-c", type=click.Path(), help="Config file: the same as PATH.")
@click.option("--agent-json", type=click.Path(), help="The same, and wins over --config.")
@click.option(
    "--executor", metavar="NAME", default="claude", help="claude (the default), or scripted, which needs no API key."
)
@click.option("--port", "-p", type=click.IntRange(0, 65535), help="server.port; 0 takes a free one.")
@click.option("--hostname", help="server.hostname, the address to listen on.")
@click.option("--advertise-host", help="server.advertiseHost, the host in the card.")
@click.option("--workspace", "--working-dir", "-w", type=click.Path(), help="claude.workingDirectory.")
@click.option("--model", "-m", help="claude.model.")
@click.option("--permission-mode", help="claude.permissionMode.")
@click.option("--agent-name", help="agentCard.name.")
@click.option("--agent-description", help="agentCard.description.")
@click.option("--stream-artifacts/--no-stream-artifacts", default=None, help="features.streamArtifactChunks.")
@click.option("--log-level", help="logging.level: debug, info, warn or error.")
@click.option("--state-dir", type=click.Path(), help="Where tasks are kept; $STATE_DIRECTORY unless set.")
@click.option("--profile", callback=_profile, metavar="NAME", help="Lay the files of this profile over the others.")
@click.option("--set", "settings", multiple=True, metavar="PATH=VALUE", help="Set one value, over every file.")
def command(
    path: str | None,
    config: str | None,
    agent_json: str | None,
    executor: str,
    port: int | None,
    state_dir: str | None,
    profile: str | None,
    settings: tuple[str, ...],
    **flags: Any,
) -> None:
    """Serve one agent: a name in agents/, an agent's folder or file, or a compiled agent.json.

    Flags win over --set, that over the environment, that over the files. Exits 0 after SIGTERM or SIGINT, 78 when the
    config or the host must change before it can start, 1 for what may pass by itself, 2 for a wrong command line.
    """
    if path and (config or agent_json):
        raise click.UsageError("give the agent as PATH or by --config, not both")
    target = _target(path or agent_json or config)
    if executor not in EXECUTORS:
        fail(f"no executor is named {executor}", f"there is {', '.join(EXECUTORS)}")
    require_runtime()
    chosen = tuple(_as_settings(flags)) + ((f"server.port={port}",) if port else ())
    loaded, found = _load(target, Options(profile, (*settings, *chosen), os.environ))
    find = lookup(os.environ)
    agent, problems = resolved(loaded, find, without=frozenset() if executor == "claude" else OF_CLAUDE)
    found = [*found, *problems]
    if agent is None or any(each.severity == "error" for each in found):
        report(found, "text", strict=False)
        raise SystemExit(CONFIG)
    raise SystemExit(_run(agent, executor, state_folder(state_dir, agent.name), port, find, found))


def _target(given: str | None) -> Path:
    if given is None:
        fail("no agent is given", "give a name in agents/, an agent's folder or its file")
    target = agent_path(str(given))
    if not os.path.exists(target):
        fail(f"no agent is named {given}", "give a name in agents/, an agent's folder or its file")
    return target


def _as_settings(flags: Mapping[str, Any]) -> Iterator[str]:
    for name, (path, refers) in _FLAGS.items():
        value = flags[name]
        if value is None:
            continue
        if name == "log_level":
            value = value.lower()
        if refers:
            value = value.replace("$", "$$")
        yield f"{path}={json.dumps(value, ensure_ascii=False)}"


def _load(target: Path, options: Options) -> tuple[Loaded, list[Diagnostic]]:
    fleet = load_fleet([target], options)
    # A flag that repeats the config is no mistake.
    found = [each for each in fleet.diagnostics if each.rule != "no-effect" or each.span.source.path is not None]
    if not fleet.loaded or (len(fleet.loaded) == 1 and fleet.loaded[0].agent is None):
        report(found, "text", strict=False)
        raise SystemExit(CONFIG)
    if len(fleet.loaded) > 1:
        names = ", ".join(each.file.name for each in fleet.loaded)
        fail(f"{target} holds several agents: {names}", "a server serves one: name it")
    return fleet.loaded[0], found


def _run(
    agent: Agent,
    executor: str,
    state: Path,
    port: int | None,
    find: Callable[[str], str | None],
    found: list[Diagnostic],
) -> int:
    from a2a_claude.observe import logs
    from a2a_claude.observe.redaction import Redactor

    settings = agent.config.logging
    secrets = [value for name in agent.secrets if (value := find(name))]
    logs.configure(settings.level, logs.chosen_form(settings.format, os.environ, sys.stderr), Redactor(secrets))
    for each in tidy(found):
        if each.severity == "warning":
            logger.warning("%s: %s (%s)", each.span, each.message, each.code)

    import uvloop

    from a2a_claude.a2a.scripted import Scripted
    from a2a_claude.runtime import StartError
    from a2a_claude.server import Place, Server

    async def serve() -> int:
        scripted = Scripted("working" if executor == "scripted-working" else "completed")
        does = None if executor == "claude" else scripted
        return await Server(agent, does, Place(state, port), Variables(find)).run()

    try:
        return uvloop.run(serve())
    except StartError as error:
        logger.error("%s", error)
        return INVALID if error.passes else CONFIG


__all__ = ["USAGE", "command"]

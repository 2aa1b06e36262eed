"""`a2a-claude init`: a commented agent to start from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from a2a_claude.commands.common import fail
from a2a_claude.config.layers import AGENT_NAME, Files, find
from a2a_claude.config.loader import load_fleet
from a2a_claude.config.scalars import resolve_plain
from a2a_claude.package_data import folder

FIRST_PORT = 3030


@click.command()
@click.argument("name")
@click.option("--agents", "agents", default="agents", type=click.Path(path_type=Path), show_default=True)
def command(name: str, agents: Path) -> None:
    """Write agents/NAME/agent.yaml, a commented agent that validates, on a port that no other agent has."""
    if not AGENT_NAME.match(name):
        fail(f"{name!r} cannot name an agent", "use a lower case letter, then letters, digits and hyphens, at most 63")
    place = agents / name
    if os.path.lexists(place):
        fail(f"{place} is there already", "choose another name")
    schema = folder("schema") / "agent.draft-07.schema.json"
    text = (folder("templates") / "init" / "agent.yaml").read_text("utf-8")
    text = text.replace("@NAME@", _written(name)).replace("@TITLE@", _written(name.replace("-", " ").capitalize()))
    text = text.replace("@PORT@", str(_free_port(agents)))
    in_project = schema.is_relative_to(Path.cwd())
    text = text.replace("@SCHEMA@", os.path.relpath(schema, place) if in_project else "agent.schema.json")
    try:
        place.mkdir(parents=True)
        (place / "agent.yaml").write_text(text, "utf-8")
        (place / "agent.yaml").write_text(_without_repetition(place / "agent.yaml"), "utf-8")
    except OSError as problem:
        fail(f"{place} cannot be written: {problem.strerror}", "choose another folder with --agents")
    click.echo(f"{place / 'agent.yaml'} written; check it with: a2a-claude validate {place}")
    if not in_project:
        click.echo(f"for editors that complete and check: a2a-claude schema --draft 7 > {place / 'agent.schema.json'}")


def _written(text: str) -> str:
    """Text as a YAML value: an agent may be named `yes` or `null`."""
    return text if resolve_plain(text) == (text, None) else f'"{text}"'


def _without_repetition(path: Path) -> str:
    """The agent's text, with a comment for each line that says what agents/defaults.yaml says already."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    for each in load_fleet([path]).diagnostics:
        if each.rule == "no-effect" and each.span.source.path == path.absolute():
            line = lines[each.span.line]
            lines[each.span.line] = line.replace(line.lstrip(), f"# {line.strip()} (as all agents here)\n")
    return "".join(lines)


def _free_port(agents: Path) -> int:
    if not agents.is_dir() or not find(agents, Files())[0]:
        return FIRST_PORT
    documents = [each.document for each in load_fleet([agents]).loaded]
    taken = {each.get("server", {}).get("port") for each in documents if isinstance(each.get("server"), dict)}
    return next(port for port in range(FIRST_PORT, 65536) if port not in taken)

"""`a2a-claude show`: the resolved config of an agent."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands.common import INVALID, config_options, fail, load, report
from a2a_claude.config.layers import AGENT_NAME
from a2a_claude.config.loader import Loaded
from a2a_claude.config.node import Entry, Node, dotted
from a2a_claude.config.node import Path as ConfigPath


@click.command()
@click.argument("agent")
@click.option("--agents", "folder", default="agents", type=click.Path(), show_default=True, help="The agents folder.")
@click.option("--origins", is_flag=True, help="Print each value with the layer and line that it comes from.")
@config_options
def command(
    agent: str, folder: str, origins: bool, profile: str | None, settings: tuple[str, ...], form: str, strict: bool
) -> None:
    """Print the config that AGENT (a name in agents/, or a path) ends up with: layers merged, defaults filled in.

    References to variables stay as they are written. With --origins each value stands beside the layer that won, and
    the layers that it overrode.
    """
    named = AGENT_NAME.match(agent) is not None and os.path.lexists(Path(folder) / agent)
    if not named and not (agent and os.path.lexists(agent)):
        fail(f"no agent is named {agent}", f"give a name in {folder}/, or a path")
    fleet = load([str(Path(folder) / agent) if named else agent], profile, settings)
    if not report(fleet.diagnostics, form, strict, aside=True):
        raise SystemExit(INVALID)
    if len(fleet.loaded) != 1:
        fail(f"{len(fleet.loaded)} agents are at {agent}", "show one of them")
    for loaded in fleet.loaded:
        if origins:
            for line in _origins(loaded):
                click.echo(line)
        else:
            click.echo(json.dumps(loaded.document, indent=2, ensure_ascii=False, sort_keys=True))


def _origins(loaded: Loaded) -> Iterator[str]:
    for path, value in _leaves(loaded.document):
        yield f"{dotted(path)} = {json.dumps(value, ensure_ascii=False)}  # {_origin(loaded.root, path)}"


def _leaves(value: Any, path: ConfigPath = ()) -> Iterator[tuple[ConfigPath, Any]]:
    """Each value with its path; a list is one value, since layers replace it whole."""
    if isinstance(value, dict) and value:
        for key, each in sorted(value.items()):
            yield from _leaves(each, (*path, key))
    else:
        yield path, value


def _origin(root: Node, path: ConfigPath) -> str:
    found = root.find(path)
    if not isinstance(found, Entry):
        return "default"
    text = str(found.node.span)
    previous = found.previous
    while previous is not None:
        text += f", over {previous.node.span}"
        previous = previous.previous
    return text

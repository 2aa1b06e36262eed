"""`a2a-claude status`: which agents run in the background."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from a2a_claude.commands import background
from a2a_claude.commands.healthcheck import ask

if TYPE_CHECKING:
    from a2a_claude.instances import Place

NOT_RUNNING = 3  # as `systemctl status` and the LSB have it


@click.command()
@click.argument("agent", required=False)
@background.state_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(agent: str | None, state_dir: str | None, as_json: bool) -> None:
    """Say whether AGENT runs in the background and is ready; every agent that start has started, without one.

    Exits 3 when AGENT does not run, 1 when it runs and is not ready.
    """
    found = [background.place(agent, state_dir)] if agent else background.places()
    states = [_state(each) for each in found]
    for each in states:
        click.echo(json.dumps(each) if as_json else _line(each))
    if not states:
        click.echo("no agent was started here: a2a-claude start AGENT", err=True)
    if agent:
        raise SystemExit(NOT_RUNNING if "pid" not in states[0] else 1 if states[0]["problem"] else 0)


def _state(where: Place) -> dict[str, Any]:
    instance = where.running()
    if instance is None:
        return {"agent": where.name, "running": False, "log": str(where.log)}
    problem = _problem(where, instance.url)
    since = datetime.fromtimestamp(instance.created, UTC).isoformat(timespec="seconds")
    return {
        "agent": where.name,
        "running": True,
        "pid": instance.pid,
        "since": since,
        "url": instance.url,
        "problem": problem,
        "log": str(where.log),
    }


def _problem(where: Place, url: str) -> str:
    """What is wrong with the server at `url`, empty when nothing is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError):
        host = port = None
    if not host or not port:
        return f"{where.folder / 'instance.json'} has no address that can be asked: a2a-claude restart {where.name}"
    return ask(host, port, parts.scheme == "https", True, 4.0)


def _line(state: dict[str, Any]) -> str:
    if not state["running"]:
        return f"{state['agent']}: not running"
    ready = f"not ready: {state['problem']}" if state["problem"] else "ready"
    return f"{state['agent']}: running since {state['since']}, process {state['pid']}, {state['url']}, {ready}"

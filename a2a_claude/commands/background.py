"""What the commands share that start, find and stop agents in the background."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from a2a_claude.commands.common import fail
from a2a_claude.commands.naming import agent_path, state_base
from a2a_claude.commands.progress import printable
from a2a_claude.commands.runtime import require_runtime

if TYPE_CHECKING:
    from a2a_claude.instances import Place

STOP_SECONDS = 60.0
START_SECONDS = 60.0


def state_option(command: Any) -> Any:
    """`--state-dir`, as of serve."""
    return click.option("--state-dir", type=click.Path(), help="Its state folder, where that was given to start.")(
        command
    )


def place(agent: str, state_dir: str | None) -> Place:
    """Where an agent keeps its state: by its name, its folder or its file. The config need not be valid.

    It need not be there either, when the agent has a state: who removes an agent can still stop it. Exits 2 when no
    single agent is named.
    """
    require_runtime()
    from a2a_claude.instances import Place

    target = agent_path(agent)
    name = agent
    if os.path.exists(target):
        from a2a_claude.config.layers import Files, find

        found, _ = find(target, Files())
        if len(found) != 1:
            fail(f"{agent} is not one agent", "give a name in agents/, an agent's folder or its file")
        name = found[0].name
    elif os.sep in agent or not name.strip(".") or not _state(name, state_dir).exists():
        fail(f"no agent is named {agent}", "give a name in agents/, an agent's folder or its file")
    return Place(name, _state(name, state_dir))


def _state(name: str, state_dir: str | None) -> Path:
    return Path(state_dir).absolute() if state_dir else state_base() / name


def places() -> list[Place]:
    """The agents of this user that were ever started in the background."""
    require_runtime()
    from a2a_claude.instances import places as below

    return below(state_base())


def start(where: Place, arguments: list[str], timeout: float) -> None:
    """Starts an agent and says where it is; exits 1 with the end of its log when it does not start.

    SIGINT and SIGTERM end the server that was begun; exits 130 or 143 then.
    """
    from a2a_claude.instances import InstanceError

    came: list[int] = []
    for each in (signal.SIGINT, signal.SIGTERM):
        # An exception from a handler could come between the fork and the knowledge of it.
        signal.signal(each, lambda number, _: came.append(number))
    try:
        instance = where.start(arguments, timeout, lambda: bool(came))
    except InstanceError as error:
        head, *log = str(error).splitlines()
        click.echo("\n".join([f"a2a-claude: {where.name} did not start: {head}", *map(readable, log)]), err=True)
        raise SystemExit(128 + came[0] if came else 1) from None
    click.echo(f"{where.name}: started, process {instance.pid}, {instance.url}, log {where.log}")


def stop(where: Place, timeout: float) -> None:
    """Stops an agent that runs, and says so."""
    instance = where.running()
    if instance is None:
        click.echo(f"{where.name}: not running")
    elif where.stop(instance, timeout):
        click.echo(f"{where.name}: stopped")
    else:
        click.echo(f"{where.name}: did not stop within {timeout:g} s and was killed; its tasks are kept")


def readable(line: str) -> str:
    """A line of a server's log for a person; one that is no record of ours as it is, without control characters."""
    try:
        record = json.loads(line)
        head = f"{record.pop('time')} {record.pop('level').upper():<7} {record.pop('message')}"
    except (ValueError, KeyError, AttributeError, TypeError):
        return printable(line)
    record.pop("logger", None)
    error = record.pop("error", None)
    rest = " ".join(f"{key}={value}" for key, value in record.items())
    # Callers choose some of these words: they must neither move the cursor nor look like a line of ours.
    first = printable(f"{head}  {rest}".rstrip()).replace("\n", "\\n")
    return f"{first}\n{_indented(printable(str(error)))}" if error else first


def _indented(text: str) -> str:
    return "\n".join(f"  {each}" for each in text.splitlines())

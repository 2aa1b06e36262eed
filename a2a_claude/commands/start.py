"""`a2a-claude start`: an agent is served in the background."""

from __future__ import annotations

import click

from a2a_claude.commands import background


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("agent")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[SERVE OPTIONS]...")
@background.state_option
@click.option("--timeout", type=float, default=background.START_SECONDS, show_default=True, help="Seconds to wait.")
def command(agent: str, arguments: tuple[str, ...], state_dir: str | None, timeout: float) -> None:
    """Serve AGENT in the background, for a person's own machine; hosts use the systemd unit.

    AGENT and the options are those of serve. Returns when the server is ready, or says why it is not (exit code 1). An
    agent that runs already is left alone.
    """
    where = background.place(agent, state_dir)
    with where.locked():
        if running := where.running():
            click.echo(f"{where.name}: already running, process {running.pid}, {running.url}")
        else:
            background.start(where, [agent, *arguments], timeout)

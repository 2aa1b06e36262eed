"""`a2a-claude stop`: an agent in the background ends."""

from __future__ import annotations

import click

from a2a_claude.commands import background


@click.command()
@click.argument("agent")
@background.state_option
@click.option(
    "--timeout", type=float, default=background.STOP_SECONDS, show_default=True, help="Seconds before it is killed."
)
def command(agent: str, state_dir: str | None, timeout: float) -> None:
    """Stop AGENT, which start has started. Running turns have the agent's timeouts.shutdown to end."""
    where = background.place(agent, state_dir)
    with where.locked():
        background.stop(where, timeout)

"""`a2a-claude restart`: an agent in the background ends and starts again."""

from __future__ import annotations

import click

from a2a_claude.commands import background


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("agent")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[SERVE OPTIONS]...")
@background.state_option
@click.option("--timeout", type=float, default=background.START_SECONDS, show_default=True, help="Seconds to wait.")
def command(agent: str, arguments: tuple[str, ...], state_dir: str | None, timeout: float) -> None:
    """Stop AGENT, if it runs, and start it again: with its last options unless new ones are given."""
    where = background.place(agent, state_dir)
    with where.locked():
        background.stop(where, timeout)
        last = where.recorded()
        background.start(where, [agent, *(arguments or last[1:])], timeout)

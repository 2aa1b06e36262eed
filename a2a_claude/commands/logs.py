"""`a2a-claude logs`: what an agent in the background has logged."""

from __future__ import annotations

import contextlib

import click

from a2a_claude.commands import background


@click.command()
@click.argument("agent")
@background.state_option
@click.option("--follow", "-f", is_flag=True, help="Go on as it logs more, until Ctrl-C.")
@click.option("--lines", "-n", type=click.IntRange(0), default=50, show_default=True, help="How many lines.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are in the file.")
def command(agent: str, state_dir: str | None, follow: bool, lines: int, as_json: bool) -> None:
    """Print the end of the log of AGENT, which start has started. Exits 1 when there is none."""
    where = background.place(agent, state_dir)
    if not where.log.exists():
        click.echo(f"a2a-claude: {where.log} does not exist\n  hint: a2a-claude start {agent}", err=True)
        raise SystemExit(1)
    shown = str if as_json else background.readable
    following = where.follow() if follow else iter(())
    for line in where.tail(lines) if lines else ():
        click.echo(shown(line))
    with contextlib.suppress(KeyboardInterrupt):
        for line in following:
            click.echo(shown(line))

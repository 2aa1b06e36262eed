"""`a2a-claude logs`: what an agent in the background has logged."""

from __future__ import annotations

import contextlib
import json

import click

from a2a_claude.commands import background
from a2a_claude.commands.progress import printable


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
    shown = str if as_json else _readable
    following = where.follow() if follow else iter(())
    for line in where.tail(lines) if lines else ():
        click.echo(shown(line))
    with contextlib.suppress(KeyboardInterrupt):
        for line in following:
            click.echo(shown(line))


def _readable(line: str) -> str:
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

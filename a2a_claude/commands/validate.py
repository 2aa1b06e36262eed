"""`a2a-claude validate`: is this config right?"""

from __future__ import annotations

import click

from a2a_claude.commands.common import INVALID, config_options, load, report


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@config_options
def command(paths: tuple[str, ...], profile: str | None, settings: tuple[str, ...], form: str, strict: bool) -> None:
    """Check the agents at PATHS: an agents folder, an agent's folder or a file. agents/ when none is given.

    Exits 0 when all is right, 1 when a config is invalid, 2 when it cannot be read at all.
    """
    fleet = load(paths, profile, settings)
    if not report(fleet.diagnostics, form, strict):
        raise SystemExit(INVALID)
    if form == "text":
        names = ", ".join(each.file.name for each in fleet.loaded)
        click.echo(f"{len(fleet.loaded)} agent{'s' if len(fleet.loaded) != 1 else ''} valid: {names}")

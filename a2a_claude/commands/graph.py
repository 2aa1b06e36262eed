"""`a2a-claude graph`: the fleet as a page, or as a graph for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from a2a_claude.commands.common import INVALID, fail, layer_options, load, report
from a2a_claude.graph import text
from a2a_claude.graph.model import graph_of
from a2a_claude.graph.page import as_html

_FORMS = {"html": as_html, "mermaid": text.as_mermaid, "dot": text.as_dot, "json": text.as_json}
_ENDINGS = {".html": "html", ".htm": "html", ".mmd": "mermaid", ".dot": "dot", ".gv": "dot", ".json": "json"}


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("-o", "--output", type=click.Path(), help="The file to write; standard output when none is given.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(_FORMS)),
    help="As the output's name ends, html when that says nothing.",
)
@layer_options
def command(
    paths: tuple[str, ...], output: str | None, form: str | None, profile: str | None, settings: tuple[str, ...]
) -> None:
    """Show who listens where, who calls whom, with which permissions and secrets, in the agents at PATHS.

    The page is one file that loads nothing and runs no script. It names secrets and holds none.
    """
    fleet = load(paths, profile, settings)
    if not report([each for each in fleet.diagnostics if each.severity == "error"], "text", strict=False):
        raise SystemExit(INVALID)
    made = _FORMS[form or _ENDINGS.get(Path(output or "").suffix.lower(), "html")](graph_of(fleet.agents))
    if output is None:
        click.echo(made, nl=False)
        return
    try:
        Path(output).write_text(made, "utf-8")
    except OSError as problem:
        fail(f"{output} cannot be written: {problem.strerror}", "choose another file with -o")
    click.echo(f"{output}: {len(fleet.agents)} agent{'' if len(fleet.agents) == 1 else 's'}")

"""`a2a-claude schema`: the published JSON Schema."""

from __future__ import annotations

import click

from a2a_claude.package_data import folder

_FILES = {"2020-12": "agent.schema.json", "7": "agent.draft-07.schema.json"}


@click.command()
@click.option("--draft", type=click.Choice(list(_FILES)), default="2020-12", show_default=True)
def command(draft: str) -> None:
    """Print the JSON Schema of an agent config. Editors (yaml-language-server among them) want --draft 7.

    \b
    Point an editor at it by the first line of a config:
        # yaml-language-server: $schema=agent.schema.json
    """
    click.echo((folder("schema") / _FILES[draft]).read_text("utf-8"), nl=False)

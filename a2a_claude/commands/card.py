"""`a2a-claude card`: what an agent says of itself."""

from __future__ import annotations

import json

import click

from a2a_claude.commands.remote import run, token_of, token_option


@click.command()
@click.argument("url")
@token_option
def command(url: str, token: str | None) -> None:
    """Print the card of the agent at URL as JSON."""

    async def work() -> int:
        from a2a_claude.a2a.client import fetch_card

        click.echo(json.dumps(await fetch_card(url, token_of(token)), indent=2, ensure_ascii=False))
        return 0

    run(work)

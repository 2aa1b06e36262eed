"""`a2a-claude cancel`: stop a task."""

from __future__ import annotations

import click

from a2a_claude.commands.remote import run, token_of, token_option


@click.command()
@click.argument("url")
@click.argument("task")
@token_option
def command(url: str, task: str, token: str | None) -> None:
    """Cancel TASK of the agent at URL."""

    async def work() -> int:
        from a2a_claude.a2a.client import connect, state_name

        async with connect(url, token_of(token)) as remote:
            click.echo(state_name((await remote.cancel(task)).status.state))
        return 0

    run(work)

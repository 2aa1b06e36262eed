"""What the commands share that talk to an agent: its URL, a token, and how a failure is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands.common import INVALID
from a2a_claude.commands.runtime import require_runtime

token_option = click.option(
    "--token",
    envvar="A2A_CLAUDE_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Bearer token; @FILE reads it from a file.",
)


def token_of(given: str | None) -> str | None:
    """The token itself. UsageError when its file cannot be read."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"the token's file {given[1:]} cannot be read: {error}") from None


def run(work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Runs `work` and exits with its code; 1 and what the agent said when it fails, 130 after Ctrl-C."""
    require_runtime()
    from a2a_claude.a2a.client import CallError

    try:
        code = asyncio.run(work())
    except CallError as error:
        click.echo(f"a2a-claude: {error}", err=True)
        if error.status == HTTPStatus.UNAUTHORIZED:
            click.echo("  hint: give a token that the agent knows: --token, or $A2A_CLAUDE_TOKEN", err=True)
        code = INVALID
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)

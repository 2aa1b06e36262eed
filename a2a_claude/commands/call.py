"""`a2a-claude call`: a message to an agent, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands import approving
from a2a_claude.commands.conversation import Conversation
from a2a_claude.commands.progress import TRACE, printable
from a2a_claude.commands.remote import run, token_of, token_option


@click.command()
@click.argument("url")
@click.argument("text")
@click.option("--task", "task_id", default="", metavar="ID", help="Continue this task.")
@click.option("--context", "context_id", default="", metavar="ID", help="Start a task in this context.")
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Attach a file.",
)
@click.option("--json", "as_lines", is_flag=True, help="Print each event as a line of JSON.")
@click.option("--quiet", "-q", is_flag=True, help="Do not tell what the agent does on the way, nor what it cost.")
@token_option
def command(
    url: str,
    text: str,
    task_id: str,
    context_id: str,
    files: tuple[Path, ...],
    as_lines: bool,
    quiet: bool,
    token: str | None,
) -> None:
    """Send TEXT to the agent at URL and print what it answers as it comes; TEXT - reads it from standard input.

    Its text goes to standard output; tool calls, thoughts, costs, states and ids to standard error. What it asks is
    answered at the prompt when standard input is a terminal. Exits 0 when the task is completed or asks for more, 1
    when it ends otherwise. Ctrl-C cancels the task.
    """
    asks = text != "-" and not as_lines and sys.stdin.isatty()
    text = sys.stdin.read() if text == "-" else text

    async def work() -> int:
        from a2a_claude.a2a.client import connect

        conversation = Conversation(as_lines=as_lines, quiet=quiet, answers=asks)
        async with connect(url, token_of(token), extensions=[] if quiet else [TRACE]) as remote:
            try:
                async for event in remote.send(text, files=files, task_id=task_id, context_id=context_id):
                    conversation.show(event)
                while asks and (requests := conversation.requests):
                    answers = _ask(requests)
                    async for event in remote.send(task_id=conversation.task_id, data={"approvals": answers}):
                        conversation.show(event)
            except (asyncio.CancelledError, KeyboardInterrupt):
                await _give_up(remote, conversation)
                raise
        return conversation.end()

    run(work)


def _ask(requests: list[Any]) -> list[dict[str, Any]]:
    """Asks while nothing else goes on; Ctrl-C at the prompt is a KeyboardInterrupt, as everywhere."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return approving.ask(requests)
    except click.Abort:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, before)


async def _give_up(remote: Any, conversation: Conversation) -> None:
    """Nobody reads the answer any more, so nobody should pay for it."""
    if not conversation.task_id:
        return
    from a2a_claude.a2a.client import CallError, state_name

    with contextlib.suppress(CallError):
        task = await remote.cancel(conversation.task_id)
        click.echo(printable(f"[{state_name(task.status.state)}] task {conversation.task_id}"), err=True)

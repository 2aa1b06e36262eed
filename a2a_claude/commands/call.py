"""`a2a-claude call`: a message to an agent, and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import click

from a2a_claude.commands.common import INVALID
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
@token_option
def command(
    url: str, text: str, task_id: str, context_id: str, files: tuple[Path, ...], as_lines: bool, token: str | None
) -> None:
    """Send TEXT to the agent at URL and print what it answers as it comes; TEXT - reads it from standard input.

    Its text goes to standard output, states and ids to standard error. Exits 0 when the task is completed or asks for
    more, 1 when it ends otherwise. Ctrl-C cancels the task.
    """
    text = sys.stdin.read() if text == "-" else text

    async def work() -> int:
        from a2a_claude.a2a.client import connect

        conversation = Conversation(as_lines)
        async with connect(url, token_of(token)) as remote:
            try:
                async for event in remote.send(text, files=files, task_id=task_id, context_id=context_id):
                    conversation.show(event)
            except asyncio.CancelledError:
                await _give_up(remote, conversation)
                raise
        return conversation.end()

    run(work)


async def _give_up(remote: Any, conversation: Conversation) -> None:
    """Nobody reads the answer any more, so nobody should pay for it."""
    if not conversation.task_id:
        return
    from a2a_claude.a2a.client import CallError, state_name

    with contextlib.suppress(CallError):
        task = await remote.cancel(conversation.task_id)
        click.echo(f"[{state_name(task.status.state)}] task {conversation.task_id}", err=True)


class Conversation:
    """Prints the events of one message, and knows how it went."""

    def __init__(self, as_lines: bool) -> None:
        self._as_lines = as_lines
        self._state = 0
        self._said = False  # something stands on standard output
        self._open = False  # and its last line has no end yet
        self.task_id = ""
        self._context_id = ""
        self._last_task: Any = None

    def show(self, event: Any) -> None:
        """One StreamResponse."""
        from a2a_claude.a2a.client import as_json

        if self._as_lines:
            click.echo(json.dumps(as_json(event), ensure_ascii=False))
        match event.WhichOneof("payload"):
            case "message":
                self._say(event.message.parts)
            case "task":
                self.task_id, self._context_id = event.task.id, event.task.context_id
                self._last_task = event.task
                self._change(event.task.status.state)
            case "status_update":
                update = event.status_update
                self.task_id, self._context_id = update.task_id, update.context_id
                self._last_task = None
                self._change(update.status.state)
                self._tell(update.status)
            case "artifact_update":
                self._last_task = None
                self._say(event.artifact_update.artifact.parts, ends=event.artifact_update.last_chunk)

    def end(self) -> int:
        """What is left to say, and the exit code."""
        from a2a_claude.a2a.client import has_ended, state_name

        if self._last_task is not None:  # the only thing that came: the agent does not stream
            for artifact in self._last_task.artifacts:
                self._say(artifact.parts)
            self._tell(self._last_task.status)
        self._break()
        if not self.task_id:
            return 0
        name = state_name(self._state)
        if not self._as_lines:
            click.echo(f"task {self.task_id} in context {self._context_id}: {name}", err=True)
            if not has_ended(self._state):
                click.echo(f"  hint: answer it with --task {self.task_id}", err=True)
        return 0 if name in ("completed", "input-required", "auth-required", "working", "submitted") else INVALID

    def _change(self, state: int) -> None:
        from a2a_claude.a2a.client import state_name

        if state != self._state and not self._as_lines and state_name(state) == "working":
            self._break()
            click.echo("[working]", err=True)
        self._state = state

    def _tell(self, status: Any) -> None:
        # An agent that has said it in an artifact often says it in its last word again.
        from a2a_claude.a2a.client import has_ended, texts

        if not status.HasField("message"):
            return
        if has_ended(status.state):
            if not self._said or state_failed(status.state):
                self._say(status.message.parts)
        elif not self._as_lines and (text := texts(status.message.parts).strip()):
            self._break()
            click.echo(text, err=status.state == 2)  # progress is no answer, a question is

    def _say(self, parts: Any, ends: bool = True) -> None:
        from a2a_claude.a2a.client import texts

        text = texts(parts)
        if self._as_lines or not text:
            return
        click.echo(text, nl=False)
        self._said, self._open = True, not text.endswith("\n")
        if ends:
            self._break()

    def _break(self) -> None:
        if self._open:
            click.echo()
            self._open = False


def state_failed(state: int) -> bool:
    """Whether a task in this state did not do what it was asked."""
    from a2a_claude.a2a.client import has_ended, state_name

    return has_ended(state) and state_name(state) != "completed"

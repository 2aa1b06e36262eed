"""Shows a person, or a program, what an agent says to one message."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click

from a2a_claude.commands import progress
from a2a_claude.commands.approving import can_ask
from a2a_claude.commands.common import INVALID
from a2a_claude.commands.progress import printable


class Conversation:
    """Prints the events of a task, and knows how it went. The answer goes to standard output, all else to standard
    error; `as_lines` prints each event as JSON instead, `quiet` leaves out what happens on the way, `answers` what is
    asked for at the prompt anyway."""

    def __init__(self, *, as_lines: bool = False, quiet: bool = False, answers: bool = False) -> None:
        self._as_lines, self._quiet, self._answers = as_lines, quiet, answers
        self._plain = sys.stdout.isatty()
        self._state = 0
        self._said = False  # something stands on standard output
        self._open = False  # and its last line has no end yet
        self.task_id = ""
        self._context_id = ""
        self._last_task: Any = None
        self._asked: Any = None
        self._usage: Any = None

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
                self._told(event.task)
                self._change(event.task.status.state)
            case "status_update":
                update = event.status_update
                self.task_id, self._context_id = update.task_id, update.context_id
                self._last_task = None
                self._told(update)
                self._change(update.status.state)
                self._tell(update.status)
            case "artifact_update":
                self._last_task = None
                self._add(event.artifact_update)

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """The requests for approval that are open."""
        from a2a_claude.a2a.client import state_name

        asks = state_name(self._state) == "input-required" and isinstance(self._asked, list)
        return list(filter(can_ask, self._asked)) if asks else []

    def end(self) -> int:
        """What is left to say, and the exit code."""
        from a2a_claude.a2a.client import has_ended, state_name

        if self._last_task is not None:  # the only thing that came: the agent does not stream
            for artifact in self._last_task.artifacts:
                if progress.TRACE not in artifact.extensions:
                    self._say(artifact.parts)
            self._tell(self._last_task.status)
        self._break()
        if not self.task_id:
            return 0
        name = state_name(self._state)
        if not self._as_lines:
            if not self._quiet and (cost := progress.cost(self._usage)):
                click.echo(cost, err=True)
            click.echo(printable(f"task {self.task_id} in context {self._context_id}: {name}"), err=True)
            if not has_ended(self._state):
                click.echo(printable(f"  hint: answer it with --task {self.task_id}"), err=True)
        return 0 if name in ("completed", "input-required", "auth-required", "working", "submitted") else INVALID

    def _told(self, about: Any) -> None:
        from a2a_claude.a2a.client import as_json

        if about.HasField("metadata"):
            metadata = as_json(about.metadata)
            self._asked = metadata.get("approvals", self._asked)
            self._usage = metadata.get("usage", self._usage)

    def _change(self, state: int) -> None:
        from a2a_claude.a2a.client import state_name

        if state != self._state and not self._quiet and state_name(state) == "working":
            self._aside("[working]")
        self._state = state

    def _add(self, update: Any) -> None:
        from a2a_claude.a2a.client import as_json

        artifact = update.artifact
        if progress.TRACE not in artifact.extensions:
            self._say(artifact.parts, ends=update.last_chunk)
        elif not self._quiet:
            kind = as_json(artifact.metadata).get("eventType")
            for part in artifact.parts:
                data = as_json(part.data) if part.HasField("data") else None
                if isinstance(data, dict) and (text := progress.line(str(kind), data)):
                    self._aside(text)

    def _tell(self, status: Any) -> None:
        # An agent that has said it in an artifact often says it in its last word again.
        from a2a_claude.a2a.client import has_ended, state_name, texts

        if not status.HasField("message") or (self._answers and self.requests):
            return
        if has_ended(status.state):
            if not self._said or state_name(status.state) != "completed":
                self._say(status.message.parts)
        elif not self._as_lines and (text := texts(status.message.parts).strip()):
            self._break()
            asks = state_name(status.state) != "working"
            click.echo(printable(text) if asks or self._plain else text, err=not asks)

    def _aside(self, text: str) -> None:
        if not self._as_lines:
            self._break()
            click.echo(text, err=True)

    def _say(self, parts: Any, ends: bool = True) -> None:
        from a2a_claude.a2a.client import texts

        text = texts(parts)
        if self._as_lines or not text:
            return
        click.echo(printable(text) if self._plain else text, nl=False)
        self._said, self._open = True, not text.endswith("\n")
        if ends:
            self._break()

    def _break(self) -> None:
        if self._open:
            click.echo()
            self._open = False

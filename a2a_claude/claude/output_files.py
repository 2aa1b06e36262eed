"""Files that the agent hands to its caller: what is new in the task's `out/` folder when a turn has completed.

The prompt tells Claude of the folder. What is in there was put there on purpose; nothing else of the workspace leaves
it. The agent may have been talked into anything, so a link, or anything but a plain file, is left where it is.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent

from a2a_claude.claude.content import Outputs
from a2a_claude.claude.task_folders import TaskFolders
from a2a_claude.config.media_types import UNKNOWN, of_name
from a2a_claude.config.model import Config, Limits

ARTIFACT: Final = "files"
_MOST_NAMES: Final = 10_000
_MOST_TOLD: Final = 20
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SNIFFED: Final = 64 * 1024

Mark = tuple[int, int, int, int]


class LeftOut(Exception):
    """A file is not handed out; the text is why, for programs."""


@dataclass(slots=True)
class Found:
    """`parts` to publish; `left_out` has the names of what is not handed out, and why."""

    parts: list[Part] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def event(self) -> TaskArtifactUpdateEvent:
        """The artifact."""
        artifact = Artifact(artifact_id=f"{ARTIFACT}-{uuid4()}", name=ARTIFACT, parts=self.parts)
        return TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True)


def wanted(config: Config) -> bool:
    """Whether Claude is told of the folder: the config wants it, and Claude can write something at all."""
    claude = config.claude
    writes = claude.permission_mode != "plan" and not {"Write", "Bash"} <= set(claude.disallowed_tools)
    return config.features.output_files and writes and bool(claude.working_directory)


def promised(config: Config) -> tuple[str, ...]:
    """The media types of files that the card names as output."""
    if not wanted(config):
        return ()
    card = config.agent_card
    modes = [*card.default_output_modes, *(mode for skill in card.skills for mode in skill.output_modes)]
    return tuple(dict.fromkeys(each for each in modes if each != "text"))


class OutputFiles:
    """The files of one turn. Its methods wait for the disk."""

    def __init__(
        self, folders: TaskFolders, task_id: str, limits: Limits, outputs: Outputs, secret: Callable[[str], Any]
    ) -> None:
        """`secret` tells whether there is a secret of the server in a text (bytes as Latin-1)."""
        self._folders, self._task_id, self._limits = folders, task_id, limits
        self._outputs, self._secret = outputs, secret
        self._before: dict[str, Mark] = {}

    def open(self) -> str:
        """Makes the folder, and gives what Claude is told of it; empty when there can be none."""
        try:
            path = self._folders.make_out(self._task_id)
            folder = self._folders.open_out(self._task_id)
        except OSError:
            return ""  # a workspace that is only read
        try:
            # An earlier turn of the task has handed these out.
            for name in _names(folder):
                self._before[name] = _mark(os.stat(name, dir_fd=folder, follow_symlinks=False))
        finally:
            os.close(folder)
        return _notice(path, self._outputs)

    def collect(self) -> Found:
        """What is new in it."""
        found = Found()
        try:
            folder = self._folders.open_out(self._task_id)
        except OSError:
            return found
        room = max(self._limits.max_body_bytes, self._limits.max_file_bytes)
        try:
            for name in _names(folder):
                try:
                    part = self._part(folder, name, found, room)
                except LeftOut as why:
                    if len(found.left_out) < _MOST_TOLD:
                        told = "" if self._secret(name) else _shown(name)
                        found.left_out.append({"name": told, "reason": str(why)})
                else:
                    if part is not None:
                        room -= len(part.raw)
                        found.parts.append(part)
        finally:
            os.close(folder)
        return found

    def _part(self, folder: int, name: str, found: Found, room: int) -> Part | None:
        try:
            seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if self._before.get(name) == _mark(seen):
                return None
            if not stat.S_ISREG(seen.st_mode) or seen.st_nlink > 1:
                raise LeftOut("not_a_file")
            if len(found.parts) >= self._limits.max_parts:
                raise LeftOut("too_many")
            content = _read(folder, name, min(room, self._limits.max_file_bytes))
        except OSError:
            raise LeftOut("unreadable") from None
        media_type = _media_type(name, content)
        if not self._outputs.takes(media_type):
            raise LeftOut("not_accepted")
        if self._secret(content.decode("latin-1")) or self._secret(name):
            raise LeftOut("secret")
        return Part(raw=content, filename=_shown(name), media_type=media_type)


def _notice(path: Path, outputs: Outputs) -> str:
    only = f" Its caller takes {', '.join(outputs.modes)} only." if outputs.modes else ""
    return (
        f"<system-reminder>Files directly in {path} are sent along with your answer, and no others. "
        f"Put a file there when the request asks for one.{only}</system-reminder>"
    )


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(each.name for each in islice(entries, _MOST_NAMES))


def _mark(seen: os.stat_result) -> Mark:
    return seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


def _read(folder: int, name: str, most: int) -> bytes:
    with os.fdopen(os.open(name, _OPEN, dir_fd=folder), "rb") as file:
        seen = os.fstat(file.fileno())  # what was looked at before may have been replaced
        if not stat.S_ISREG(seen.st_mode) or seen.st_nlink > 1:
            raise LeftOut("not_a_file")
        if seen.st_size > most or len(content := file.read(most + 1)) > most:
            raise LeftOut("too_large")
    return content


def _media_type(name: str, content: bytes) -> str:
    found = of_name(name)
    if found != UNKNOWN or b"\0" in content[:_SNIFFED]:
        return found
    try:
        content[:_SNIFFED].decode()
    except UnicodeDecodeError as error:
        # A character that the end of the sample cuts is no error.
        return "text/plain" if error.end == _SNIFFED and error.start > _SNIFFED - 4 else UNKNOWN
    return "text/plain"


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")

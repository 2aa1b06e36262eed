"""`TaskFolders`: a task's own folder in the workspace, `.a2a/<task>/`; files for its caller are in `out/` there.

The agent can change anything in it, so nothing is followed or overwritten on the way. Which folders were made is noted
with the agent's own state: they go when their task goes, also after a crash, and never with another agent's.
"""

from __future__ import annotations

import contextlib
import os
import re
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import uuid4

FOLDER: Final = ".a2a"
OUT: Final = "out"
_INSIDE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 100
_AT_ONCE: Final = 1000


class TaskFolders:
    """The folders below `workspace`. `notes` is where it is written down which there are; None: nowhere."""

    def __init__(self, workspace: Path, notes: Path | None = None) -> None:
        self._workspace, self._notes = workspace, notes
        if notes is not None:
            notes.mkdir(mode=0o700, parents=True, exist_ok=True)

    def place(self, task_id: str, name: str, content: bytes) -> Path:
        """Writes a file into the task's folder, and gives its path; OSError when it cannot be written."""
        folder = self._enter(task_id, make=True)
        try:
            while not _write_once(name, content, folder):
                name = _number(name)
        finally:
            os.close(folder)
        return self._workspace / FOLDER / task_id / name

    def make_out(self, task_id: str) -> Path:
        """Makes the folder for the caller's files, and gives its path; OSError when it cannot be made."""
        os.close(self._enter(task_id, OUT, make=True))
        return self._workspace / FOLDER / task_id / OUT

    def open_out(self, task_id: str) -> int:
        """A descriptor of it, for the caller to close; OSError when it is not there, or is no folder any more."""
        return self._enter(task_id, OUT)

    def tidy(self, task_id: str) -> None:
        """Removes what is empty of a task's folder."""
        with contextlib.suppress(OSError):
            folder = self._enter(task_id)
            try:
                with contextlib.suppress(OSError):
                    os.rmdir(OUT, dir_fd=folder)
            finally:
                os.close(folder)
            self._leave(task_id)

    def noted(self) -> list[str]:
        """The tasks that have folders."""
        return sorted(os.listdir(self._notes)) if self._notes is not None else []

    def remove(self, task_id: str) -> None:
        """Removes the folder of a task with all that is in it."""
        with contextlib.suppress(OSError):
            above = self._enter()
            try:
                _remove_folder(task_id, above)
            finally:
                os.close(above)
        self._forget(task_id)

    def _enter(self, *steps: str, make: bool = False) -> int:
        """A descriptor of `.a2a/<steps>`. `.a2a` ignores itself, so that no commit takes it along (gitignore(5))."""
        at = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for depth, step in enumerate((FOLDER, *steps)):
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, 0o700, dir_fd=at)
                at, before = os.open(step, _INSIDE, dir_fd=at), at
                os.close(before)
                if make and depth == 0:
                    _write_once(".gitignore", b"*\n", at)
                    self._note(steps[0])
        except BaseException:
            os.close(at)
            raise
        return at

    def _leave(self, task_id: str) -> None:
        above = self._enter()
        try:
            os.rmdir(task_id, dir_fd=above)
        finally:
            os.close(above)
        self._forget(task_id)

    def _note(self, task_id: str) -> None:
        if self._notes is not None:
            (self._notes / task_id).touch(mode=0o600)

    def _forget(self, task_id: str) -> None:
        if self._notes is not None:
            (self._notes / task_id).unlink(missing_ok=True)


def safe_name(name: str, number: int) -> str:
    """A file name without folders, spaces and surprises; `file-<number>` when nothing is left of it."""
    plain = _NAME.sub("_", re.split(r"[/\\]", name)[-1]).strip("._-")
    stem, dot, suffix = plain.rpartition(".")
    if len(plain) > _LONGEST_NAME:
        plain = f"{stem[: _LONGEST_NAME - 20]}{dot}{suffix[:19]}" if dot else plain[:_LONGEST_NAME]
    while len(plain.encode()) > 2 * _LONGEST_NAME:
        plain = plain[1:]
    return plain.strip("._-") or f"file-{number}"


def _write_once(name: str, content: bytes, folder: int) -> bool:
    try:
        found = os.open(name, _NEW, 0o600, dir_fd=folder)
    except FileExistsError:
        return False
    with os.fdopen(found, "wb") as file:
        file.write(content)
    return True


def _number(name: str) -> str:
    """`a.txt`, `1-a.txt`, `2-a.txt`"""
    counted = re.match(r"(\d+)-(.*)", name)
    return f"{int(counted[1]) + 1}-{counted[2]}" if counted else f"1-{name}"


def _remove_folder(name: str, above: int) -> None:
    """Removes a folder with all that is in it, and follows no links; OSError when something cannot be removed.

    Folders inside it come up to its own level first: as `shutil.rmtree` works, with a call and a descriptor for each
    level, an agent could nest them until either runs out.
    """
    folder = os.open(name, _INSIDE, dir_fd=above)
    try:
        while entries := _entries(folder):
            for entry, is_folder in entries:
                if is_folder:
                    _flatten(entry, folder)
                else:
                    os.unlink(entry, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)


def _flatten(name: str, above: int) -> None:
    folder = os.open(name, _INSIDE, dir_fd=above)
    try:
        while entries := _entries(folder):
            for entry, is_folder in entries:
                if is_folder:
                    os.rename(entry, str(uuid4()), src_dir_fd=folder, dst_dir_fd=above)
                else:
                    os.unlink(entry, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)


def _entries(folder: int) -> list[tuple[str, bool]]:
    with os.scandir(folder) as found:
        return [(each.name, each.is_dir(follow_symlinks=False)) for each in islice(found, _AT_ONCE)]

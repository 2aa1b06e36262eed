"""Files of the server in the workspace, where the agent can change anything: no link is followed on the way."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final
from uuid import uuid4

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def is_inside(place: str) -> bool:
    """Whether a relative path stays below the folder that it is relative to."""
    path = PurePosixPath(place)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


class WorkspaceFiles:
    """Files below a folder, by their paths in it, for which `is_inside` holds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, place: str, limit: int) -> bytes | None:
        """A file's content; None when there is none, or what is there is no plain file, or longer than `limit` bytes.

        Raises:
            OSError: it is there and cannot be read.
        """
        try:
            with self._parent(place) as (parent, name), open(os.open(name, _READ, dir_fd=parent), "rb") as file:
                content = file.read(limit + 1)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise
        return content if len(content) <= limit else None

    def exists(self, place: str) -> bool:
        """Whether anything is there, a link that leads nowhere included."""
        try:
            with self._parent(place) as (parent, name):
                os.stat(name, dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def write(self, place: str, content: bytes, mode: int = 0o644) -> None:
        """Puts a file there, whole or not at all, in the place of what is there.

        Raises:
            OSError: it cannot be written; a folder on the way is a link, for example.
        """
        with self._parent(place, make=True) as (parent, name):
            new = f".{uuid4().hex}"
            try:
                with open(os.open(new, _NEW, mode, dir_fd=parent), "wb") as file:
                    file.write(content)
                os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(new, dir_fd=parent)
                raise

    def remove(self, place: str) -> None:
        """Removes a file, and the folders that it leaves empty; nothing happens when it is gone already.

        Raises:
            OSError: it cannot be removed.
        """
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            with self._parent(place) as (parent, name):
                os.unlink(name, dir_fd=parent)
            for above in list(PurePosixPath(place).parents)[:-1]:
                try:
                    with self._parent(str(above)) as (parent, name):
                        os.rmdir(name, dir_fd=parent)
                except OSError:
                    return  # not empty

    @contextlib.contextmanager
    def _parent(self, place: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *folders, name = PurePosixPath(place).parts
        at = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for step in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(step, 0o755, dir_fd=at)
                at, before = os.open(step, _FOLDER, dir_fd=at), at
                os.close(before)
            yield at, name
        finally:
            os.close(at)

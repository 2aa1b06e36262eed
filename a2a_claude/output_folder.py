"""The output folder: read without following links, written as a whole, one compile at a time."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from a2a_claude.config.layers import AGENT_NAME

MANIFEST = "manifest.json"
FLEET_FILES = frozenset({"compose.yaml", "kustomization.yaml"})
"""What targets render for all agents together, in the output folder itself."""
_STAGING = ".staging-"


class OutputError(Exception):
    """The output folder cannot be read or written. `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class Folder:
    """Reads files of the output folder without following links: a pull request may have planted some."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self._is_there: dict[str, bool] = {}

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at `path`, None when it is not there; OutputError for a link or an unreadable file."""
        place = os.path.join(self.path, path)
        if not self._has(os.path.dirname(path)):
            return None
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as problem:
            reason = "it is a link" if problem.errno == errno.ELOOP else problem.strerror
            raise OutputError(f"{place} cannot be read: {reason}", "move it away") from None
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OutputError(f"{place} is no plain file", "move it away")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError as problem:
            raise OutputError(f"{place} cannot be read: {problem.strerror}", "move it away") from None
        finally:
            os.close(descriptor)

    def manifest(self) -> dict[str, Any]:
        """The record of the last compile, empty when there is none. Raises OutputError when it is no such record."""
        data = self.read(MANIFEST)
        content = {} if data is None else _manifest(data)
        if content is None:
            place = self.path / MANIFEST
            raise OutputError(f"{place} is not a manifest of a2a-claude", "delete it, compile with --force")
        return content

    def interrupted(self) -> set[tuple[str, str]]:
        """The files, by path and digest, that compiles were about to write when they were killed."""
        found: set[tuple[str, str]] = set()
        for name in self._stagings():
            content = _manifest(self.read(f"{name}/{MANIFEST}") or b"") or {}
            found |= {(path, entry["sha256"]) for path, entry in content.get("outputs", {}).items()}
        return found

    def replace(self, wanted: Mapping[str, bytes], manifest: bytes, removed: Iterable[str]) -> None:
        """Writes `wanted` and the manifest, and removes files. Raises OSError.

        Everything is staged in the folder first, so that a failure (a full disk, say) changes nothing. Who is killed
        midway leaves behind the manifest of what it was about to write: the next compile knows those files for its own.
        """
        leftovers = self._stagings()
        staging = tempfile.mkdtemp(prefix=_STAGING, dir=self.path)
        try:
            _stage(os.path.join(staging, MANIFEST), manifest)
            # A new agent's folder is staged as it will be, and moved as one.
            new = {name for name in map(_agent, wanted) if not os.path.lexists(os.path.join(self.path, name))}
            for parent in {os.path.dirname(path) for path in wanted}:
                os.makedirs(os.path.join(staging if _agent(parent) in new else self.path, parent), exist_ok=True)
            staged = {}
            for number, (path, data) in enumerate(wanted.items()):
                if _agent(path) in new:
                    _stage(os.path.join(staging, path), data)
                else:
                    staged[path] = _stage(f"{staging}/{number}", data)
            staged[MANIFEST] = _stage(os.path.join(staging, "last"), manifest)
            for name in new:
                os.rename(os.path.join(staging, name), os.path.join(self.path, name))
            for path, file in staged.items():
                os.replace(file, os.path.join(self.path, path))
            for path in removed:
                _remove(self.path, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        for name in leftovers:
            shutil.rmtree(self.path / name, ignore_errors=True)

    def is_clean(self) -> bool:
        """Whether no killed compile left anything behind."""
        return not self._stagings()

    def _stagings(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.path) if name.startswith(_STAGING))
        except OSError:
            return []

    def _has(self, parent: str) -> bool:
        if parent not in self._is_there:
            place = os.path.join(self.path, parent) if parent else str(self.path)
            if os.path.realpath(place) != os.path.join(self._real, parent).rstrip("/"):
                raise OutputError(f"{place} is a link", "remove the link")
            if os.path.lexists(place) and not os.path.isdir(place):
                raise OutputError(f"{place} is no folder", "move it away")
            self._is_there[parent] = os.path.isdir(place)
        return self._is_there[parent]


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Makes the folder and keeps other compiles out, from the plan until it is written. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as problem:
        raise OutputError(f"{path} cannot be made: {problem.strerror}", "choose another folder with -o") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _manifest(data: bytes) -> dict[str, Any] | None:
    """A manifest, None when it is none: somebody may have written it to have other files overwritten or removed."""
    try:
        content = json.loads(data)
        good = all(_is_ours(path) and _is_entry(entry) for path, entry in content["outputs"].items())
        digests = [digest for files in content["layers"].values() for digest in files.values()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return content if good and all(isinstance(each, str) for each in digests) else None


def _is_entry(entry: Any) -> bool:
    return set(entry) == {"sha256", "target"} and all(isinstance(each, str) for each in entry.values())


def _is_ours(path: str) -> bool:
    """Whether a compile can have made a file at `path`."""
    name, *below = path.split("/")
    if path in FLEET_FILES:
        return True
    return AGENT_NAME.match(name) is not None and bool(below) and not {"", ".", ".."} & {*below} and path.isprintable()


def _agent(path: str) -> str:
    """The agent that a path in the output folder belongs to; a file of the fleet belongs to none and is its own."""
    return path.split("/", 1)[0]


def _stage(name: str, data: bytes) -> str:
    with open(name, "wb", buffering=0) as file:
        # One write may write less, and then says why by the next.
        while data := data[file.write(data) or 0 :]:
            pass
    return name


def _remove(folder: Path, path: str) -> None:
    (folder / path).unlink(missing_ok=True)
    parent = (folder / path).parent
    while parent != folder and not any(parent.iterdir()):
        parent.rmdir()
        parent = parent.parent

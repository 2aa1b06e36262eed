"""Renders agents into a `deploy/` tree, keeps its manifest, and tells stale files from edited ones."""

from __future__ import annotations

import difflib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from a2a_claude import __version__
from a2a_claude.config.agent import Agent
from a2a_claude.config.schema import SCHEMA_VERSION
from a2a_claude.targets import TARGETS, renderer

MANIFEST = "manifest.json"
State = Literal["new", "same", "stale", "edited", "gone"]


class OutputError(Exception):
    """The output folder cannot be read or written. `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Output:
    """A file to be written: its bytes and the target it belongs to."""

    data: bytes
    target: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def render(agent: Agent, targets: Iterable[str]) -> dict[str, Output]:
    """The files of one agent by path in the output folder. Raises Unrenderable for a value that a format cannot hold.

    The files that the agent ships belong to the target `config`.
    """
    outputs = {}
    for target in targets:
        for artifact in renderer(target)(agent):
            outputs[f"{agent.name}/{artifact.path}"] = Output(artifact.text.encode(), target)
        if target == "config":
            for path, source in agent.files.items():
                outputs[f"{agent.name}/{path}"] = Output(source.read_bytes(), target)
    return outputs


class Folder:
    """Reads files of the output folder without following links out of it: a pull request may have planted some."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = path.resolve()
        self._is_there: dict[str, bool] = {}

    def read(self, path: str) -> bytes | None:
        """The bytes of the file at `path`, None when it is not there; OutputError for a link or an unreadable file."""
        place = os.path.join(self.path, path)
        if not self._has(os.path.dirname(path)):
            return None
        try:
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as problem:
            reason = "it is a link" if problem.errno == errno.ELOOP else problem.strerror
            raise OutputError(f"{place} cannot be read: {reason}", "move it away") from None

    def _has(self, parent: str) -> bool:
        if parent not in self._is_there:
            real = (self.path / parent).resolve()
            if not real.is_relative_to(self._real):
                raise OutputError(f"{self.path / parent} is a link out of {self.path}", "remove the link")
            self._is_there[parent] = real.is_dir()
        return self._is_there[parent]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a compile speaks of: every agent, or only those compiled; every target, or some."""

    agents: frozenset[str] | None
    targets: frozenset[str]

    def covers(self, path: str, target: str) -> bool:
        return (self.agents is None or path.split("/", 1)[0] in self.agents) and (
            target in self.targets or target not in TARGETS
        )


@dataclass(slots=True)
class Plan:
    """What a compile would change in `folder`.

    `outputs` are the files to be there; `recorded` is the manifest's record of the last compile; `states` tells of each
    path whether it is new, the same, stale (as compiled before), edited by hand, or gone from the outputs.
    """

    folder: Path
    agents: Mapping[str, Agent]
    outputs: dict[str, Output]
    recorded: dict[str, Any]
    scope: Scope
    states: dict[str, State] = field(default_factory=dict)

    def paths(self, *states: State) -> list[str]:
        return sorted(path for path, state in self.states.items() if state in states)

    @property
    def edited(self) -> list[str]:
        """Files that somebody changed since they were compiled, or that no compile made."""
        return self.paths("edited")

    @property
    def gone(self) -> list[str]:
        """Files of the last compile that no agent has any more."""
        return self.paths("gone")

    def manifest(self, pruned: bool) -> bytes:
        """The manifest after the compile; files that are gone stay recorded until they are removed."""
        kept = self.recorded.get("outputs", {})
        outputs = {
            path: entry
            for path, entry in kept.items()
            if not self.scope.covers(path, entry["target"]) or (path in self.gone and not pruned)
        }
        outputs |= {path: {"sha256": each.digest, "target": each.target} for path, each in self.outputs.items()}
        known = {path.split("/", 1)[0] for path in outputs}
        layers = {name: files for name, files in self.recorded.get("layers", {}).items() if name in known}
        layers |= {name: dict(agent.layers) for name, agent in self.agents.items()}
        content = {
            "schema": SCHEMA_VERSION,
            "tool": __version__,
            "layers": dict(sorted(layers.items())),
            "outputs": dict(sorted(outputs.items())),
        }
        return orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def plan(folder: Path, agents: Iterable[Agent], outputs: dict[str, Output], scope: Scope) -> Plan:
    """Compares `outputs` with what is in `folder`. Raises OutputError when the folder cannot be trusted or read."""
    disk = Folder(folder)
    made = Plan(folder, {agent.name: agent for agent in agents}, outputs, _manifest(disk), scope)
    recorded = made.recorded.get("outputs", {})
    for path, output in outputs.items():
        there = disk.read(path)
        if there is None:
            made.states[path] = "new"
        elif there == output.data:
            made.states[path] = "same"
        else:
            compiled = recorded.get(path, {}).get("sha256") == hashlib.sha256(there).hexdigest()
            made.states[path] = "stale" if compiled else "edited"
    for path, entry in recorded.items():
        if path not in outputs and scope.covers(path, entry["target"]) and disk.read(path) is not None:
            made.states[path] = "gone"
    return made


def _manifest(folder: Folder) -> dict[str, Any]:
    data = folder.read(MANIFEST)
    if data is None:
        return {}
    try:
        content = json.loads(data)
        entries = content["outputs"].items()
        if all(set(entry) == {"sha256", "target"} and _inside(path) for path, entry in entries):
            return dict(content)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise OutputError(f"{folder.path / MANIFEST} is not a manifest of a2a-claude", "delete it, compile with --force")


def _inside(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/")


def write(made: Plan, prune: bool = False) -> int:
    """Makes the folder what the plan says and gives the number of files changed.

    Everything is staged beside the folder first, so that a failure (a full disk, say) changes nothing. Raises
    OutputError.
    """
    wanted = {path: made.outputs[path].data for path in made.paths("new", "stale", "edited")}
    manifest = made.manifest(prune)
    if Folder(made.folder).read(MANIFEST) != manifest:
        wanted[MANIFEST] = manifest
    try:
        made.folder.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=made.folder))
        try:
            staged = {path: _stage(f"{staging}/{number}", data) for number, (path, data) in enumerate(wanted.items())}
            for parent in {os.path.dirname(path) for path in staged}:
                os.makedirs(os.path.join(made.folder, parent), exist_ok=True)
            for path, file in staged.items():  # the manifest is the last of them
                os.replace(file, os.path.join(made.folder, path))
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        if prune:
            _remove(made.folder, made.gone)
    except OSError as problem:
        raise OutputError(
            f"{made.folder} cannot be written: {problem.strerror}", "check its rights and space"
        ) from None
    return len(wanted.keys() - {MANIFEST}) + (len(made.gone) if prune else 0)


def _stage(name: str, data: bytes) -> str:
    with open(name, "wb", buffering=0) as file:
        file.write(data)
    return name


def _remove(folder: Path, paths: Iterable[str]) -> None:
    for path in paths:
        (folder / path).unlink(missing_ok=True)
        parent = (folder / path).parent
        while parent != folder and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent


def diff(made: Plan) -> Iterator[str]:
    """A unified diff from what is in the folder to what would be compiled, file by file."""
    disk = Folder(made.folder)
    for path in made.paths("new", "stale", "edited", "gone"):
        before = _lines(disk.read(path))
        after = _lines(made.outputs[path].data if path in made.outputs else None)
        old = str(made.folder / path) if made.states[path] != "new" else "/dev/null"
        new = f"compiled/{path}" if path in made.outputs else "/dev/null"
        for line in difflib.unified_diff(before, after, old, new):
            yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _lines(data: bytes | None) -> list[str]:
    return (data or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)

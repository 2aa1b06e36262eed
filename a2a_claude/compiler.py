"""Renders agents into a `deploy/` tree, keeps its manifest, and tells stale files from edited ones."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from a2a_claude import __version__
from a2a_claude.config.agent import Agent
from a2a_claude.config.credentials import mask_line
from a2a_claude.config.schema import SCHEMA_VERSION
from a2a_claude.output_folder import MANIFEST, Folder, OutputError
from a2a_claude.targets import TARGETS, fleet_renderer, renderer

State = Literal["new", "same", "stale", "edited", "gone"]


@dataclass(frozen=True, slots=True)
class Output:
    """A file to be written: its bytes and the target it belongs to."""

    data: bytes
    target: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def render(agent: Agent, targets: Iterable[str]) -> dict[str, Output]:
    """The files of one agent by path in the output folder. Raises Unrenderable for a value that a format cannot hold,
    and OutputError for a file to ship that cannot be read any more.

    The files that the agent ships belong to the target `config`.
    """
    outputs = {}
    for target in targets:
        for artifact in renderer(target)(agent):
            outputs[f"{agent.name}/{artifact.path}"] = Output(artifact.text.encode(), target)
        if target == "config":
            for path, source in agent.files.items():
                try:
                    outputs[f"{agent.name}/{path}"] = Output(source.read_bytes(), target)
                except OSError as problem:
                    raise OutputError(f"{source.name} cannot be read: {problem.strerror}", "compile again") from None
    return outputs


def render_fleet(agents: Collection[Agent], targets: Iterable[str]) -> dict[str, Output]:
    """The files that all agents have together, by path in the output folder; none when there are no agents."""
    outputs = {}
    for target in targets:
        if agents and (render_all := fleet_renderer(target)):
            for artifact in render_all(agents):
                outputs[artifact.path] = Output(artifact.text.encode(), target)
    return outputs


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
    path whether it is new, the same, stale (as compiled before), edited by hand, or gone from the outputs. `touched`
    are those that are gone, but that somebody changed since they were compiled.
    """

    folder: Path
    agents: Mapping[str, Agent]
    outputs: dict[str, Output]
    recorded: dict[str, Any]
    scope: Scope
    states: dict[str, State] = field(default_factory=dict)
    touched: set[str] = field(default_factory=set)

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

    def removed(self, prune: bool, force: bool) -> list[str]:
        """The gone files that are removed: those that somebody changed only by force."""
        return [path for path in self.gone if prune and (force or path not in self.touched)]

    def manifest(self, removed: Iterable[str] = ()) -> bytes:
        """The manifest after the compile; files that are gone stay recorded until they are removed."""
        left = set(self.gone).difference(removed)
        outputs = {
            path: entry
            for path, entry in self.recorded.get("outputs", {}).items()
            if not self.scope.covers(path, entry["target"]) or path in left
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
    made = Plan(folder, {agent.name: agent for agent in agents}, outputs, disk.manifest(), scope)
    recorded = made.recorded.get("outputs", {})
    interrupted = disk.interrupted()

    def compiled(path: str, data: bytes) -> bool:
        digest = hashlib.sha256(data).hexdigest()
        return digest == recorded.get(path, {}).get("sha256") or (path, digest) in interrupted

    for path, output in outputs.items():
        there = disk.read(path)
        if there is None:
            made.states[path] = "new"
        elif there == output.data:
            made.states[path] = "same"
        else:
            made.states[path] = "stale" if compiled(path, there) else "edited"
    for path, entry in recorded.items():
        if path not in outputs and scope.covers(path, entry["target"]) and (there := disk.read(path)) is not None:
            made.states[path] = "gone"
            if not compiled(path, there):
                made.touched.add(path)
    return made


def write(made: Plan, prune: bool = False, force: bool = False) -> int:
    """Makes the folder what the plan says and gives the number of files changed. Raises OutputError."""
    disk = Folder(made.folder)
    removed = made.removed(prune, force)
    wanted = {path: made.outputs[path].data for path in made.paths("new", "stale", "edited")}
    manifest = made.manifest(removed)
    try:
        if wanted or removed or not disk.is_clean() or disk.read(MANIFEST) != manifest:
            made.folder.mkdir(parents=True, exist_ok=True)
            disk.replace(wanted, manifest, removed)
    except OSError as problem:
        raise OutputError(
            f"{made.folder} cannot be written: {problem.strerror}", "check its rights and space"
        ) from None
    return len(wanted) + len(removed)


def diff(made: Plan) -> Iterator[str]:
    """A unified diff from what is in the folder to what would be compiled, file by file, credentials masked.

    The manifest is shown when it alone differs: otherwise it only repeats that others do.
    """
    disk = Folder(made.folder)
    different = made.paths("new", "stale", "edited", "gone")
    for path in different:
        before = _lines(disk.read(path))
        after = _lines(made.outputs[path].data if path in made.outputs else None)
        yield from _differences(before, after, made, path)
    if not different and is_outdated(made):
        yield from _differences(_lines(disk.read(MANIFEST)), _lines(made.manifest()), made, MANIFEST)


def is_outdated(made: Plan) -> bool:
    """Whether the manifest does not say what the next compile would: a layer changed, but no output."""
    return Folder(made.folder).read(MANIFEST) != made.manifest()


def _differences(before: list[str], after: list[str], made: Plan, path: str) -> Iterator[str]:
    old = str(made.folder / path) if before else "/dev/null"
    new = f"compiled/{path}" if after else "/dev/null"
    for line in difflib.unified_diff(before, after, old, new):
        body, end = (line[:-1], "\n") if line.endswith("\n") else (line, "\n\\ No newline at end of file\n")
        yield body[:1] + mask_line(body[1:]) + end


def _lines(data: bytes | None) -> list[str]:
    # By line feeds alone: a form feed or a line separator in a value ends no line of the file.
    lines = (data or b"").decode("utf-8", "backslashreplace").split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

"""Finding agents and their files, and merging them: mappings merge, lists and scalars replace, null removes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from a2a_claude.config.credentials import mask
from a2a_claude.config.diagnostics import Diagnostic, Span, error, has_errors, warning
from a2a_claude.config.node import Entry, Node, dotted
from a2a_claude.config.node import Path as ConfigPath
from a2a_claude.config.reader import read_file
from a2a_claude.config.source import Source

AGENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")
ONLY_IN_FILES = ("extends", "$schema")
"""Keys that speak of the file they stand in, and are not part of the merged document."""
_ENDINGS = (".yaml", ".yml", ".json")
MAX_EXTENDS = 32
_CONFIG_NAMES = (*(f"agent{ending}" for ending in _ENDINGS), "config.json")


@dataclass(frozen=True, slots=True)
class AgentFile:
    """The config file of the agent `name` in the agents folder `root`."""

    name: str
    path: Path
    root: Path


@dataclass(slots=True)
class Files:
    """Reads each file once, however many agents it is a layer of. `shown` gives the path that a user sees."""

    base: Path = field(default_factory=Path.cwd)
    read: dict[Path, tuple[Node | None, list[Diagnostic]]] = field(default_factory=dict)
    limits: dict[Path, Path] = field(default_factory=dict)
    checked: dict[str, list[Diagnostic]] = field(default_factory=dict)
    resolved: dict[Path, Path] = field(default_factory=dict)
    placed: dict[Source, str] = field(default_factory=dict)

    def shown(self, path: Path) -> str:
        """The path relative to where the command runs, when it is below; a service runs in `/`, which says nothing."""
        relative = os.path.relpath(path, self.base)
        return str(path) if relative.startswith("..") or self.base == Path(self.base.anchor) else relative

    def get(self, path: Path) -> tuple[Node | None, list[Diagnostic]]:
        if path not in self.read:
            self.read[path] = read_file(path, self.shown(path))
        return self.read[path]

    def limit(self, root: Path) -> Path:
        """The project's root, which layers must not leave: the nearest folder above with `.git`, else the parent."""
        if root not in self.limits:
            real = self.real(root)
            marked = (each for each in (real, *real.parents) if os.path.exists(each / ".git"))
            above = real.parent if real.parent != Path(real.anchor) else real  # the whole machine is no project
            self.limits[root] = next(marked, above)
        return self.limits[root]

    def in_project(self, source: Source, root: Path) -> str:
        """The path of a source from the project's root, the same wherever the command runs."""
        if source.path is None:
            return source.name
        if source not in self.placed:
            self.placed[source] = Path(os.path.relpath(self.real(source.path), self.limit(root))).as_posix()
        return self.placed[source]

    def real(self, path: Path) -> Path:
        """`path` without symbolic links; the path itself when it leads nowhere."""
        if path not in self.resolved:
            try:
                self.resolved[path] = Path(os.path.realpath(path))
            except (OSError, ValueError):  # too long, or holds a NUL
                self.resolved[path] = path
        return self.resolved[path]

    def where(self, span: Span, root: Path) -> str:
        """`file:line:column` of a span, from the project's root."""
        return f"{self.in_project(span.source, root)}:{span.line + 1}:{span.column + 1}"

    def start(self, path: Path) -> Span:
        """The beginning of a file or folder, for what concerns it as a whole."""
        node = self.read.get(path, (None, []))[0]
        return Span(node.source if node else Source(self.shown(path), "", path), 0, 0, 0, 0)


def find(target: Path, files: Files) -> tuple[list[AgentFile], list[Diagnostic]]:
    """The agents at `target`: an agents folder, the folder of one agent, or its file."""
    if os.path.lexists(target) and not os.path.isdir(target):
        return _named(target, files)
    if not os.path.isdir(target):
        hint = "give an agents folder, an agent's folder or its file"
        return [], [error("unreadable-file", "there is no such file or folder", files.start(target), hint)]
    own, diagnostics = config_file(target, files)
    if own is not None or diagnostics:
        found, named = _named(own, files) if own else ([], [])
        return found, [*diagnostics, *named]
    agents: list[AgentFile] = []
    for folder in (target / name for name in _listed(target, files, diagnostics) if name[0] not in "_."):
        if not folder.is_dir():
            continue
        path, problems = config_file(folder, files)
        diagnostics += problems
        if path is not None:
            found, problems = _named(path, files)
            agents += found
            diagnostics += problems
        elif not problems and any(name.endswith(_ENDINGS) for name in _listed(folder, files, diagnostics)):
            hint = "name it agent.yaml, or let the folder's name begin with _ when it only holds layers"
            diagnostics.append(warning("no-config", "no agent config in this folder", files.start(folder), hint))
    if not agents and not has_errors(diagnostics):
        hint = "a2a-claude init NAME writes one"
        diagnostics.append(error("no-agents", "no agents in this folder", files.start(target), hint))
    return agents, diagnostics


def _listed(folder: Path, files: Files, diagnostics: list[Diagnostic]) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as problem:
        message = f"cannot be read: {problem.strerror}"
        diagnostics.append(error("unreadable-file", message, files.start(folder), "check its rights"))
        return []


def config_file(folder: Path, files: Files) -> tuple[Path | None, list[Diagnostic]]:
    """The config file of an agent's folder; an error naming them all when several could be it."""
    there = [folder / name for name in _CONFIG_NAMES if os.path.lexists(folder / name)]
    if len(there) > 1:
        names = " and ".join(files.shown(each) for each in there)
        message = f"{names} could both be the agent's config"
        return None, [error("two-configs", message, files.start(there[1]), "keep one of them")]
    return (there[0] if there else None), []


def _named(path: Path, files: Files) -> tuple[list[AgentFile], list[Diagnostic]]:
    path = Path(os.path.abspath(path))
    name = path.parent.name
    if AGENT_NAME.match(name):
        return [AgentFile(name, path, path.parent.parent)], []
    message = f"the folder {name!r} names the agent, and cannot"
    hint = "use a lower case letter, then letters, digits and hyphens, at most 63 characters"
    return [], [error("agent-name", message, files.start(path), hint)]


@dataclass(slots=True)
class Layers:
    """The layers of one agent, lowest first, and what is wrong with them. `broken`: one of them could not be read."""

    nodes: list[Node] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    profile_files: int = 0
    broken: bool = False


def layers_of(agent: AgentFile, profile: str | None, files: Files) -> Layers:
    """Every file that the agent is made of: defaults, what they and it extend, its own, then the profile's."""
    found = Layers()
    limit = files.limit(agent.root)
    plan = [_one_of(agent.root, "defaults", files, found), agent.path]
    if profile is not None:
        overlays = [
            _one_of(agent.root, f"defaults.{profile}", files, found),
            _one_of(agent.path.parent, f"{agent.path.stem}.{profile}", files, found),
        ]
        found.profile_files = sum(each is not None for each in overlays)
        plan += overlays
    seen: list[Path] = []
    for path in plan:
        if path is not None:
            _collect(path, limit, files, found, seen, ())
    return found


def _one_of(folder: Path, stem: str, files: Files, found: Layers) -> Path | None:
    there = [folder / f"{stem}{ending}" for ending in _ENDINGS if os.path.lexists(folder / f"{stem}{ending}")]
    if len(there) > 1:
        names = " and ".join(files.shown(each) for each in there)
        found.diagnostics.append(
            error("two-configs", f"{names} could both be this layer", files.start(there[1]), "keep one of them")
        )
    return there[0] if there else None


def _collect(path: Path, limit: Path, files: Files, found: Layers, seen: list[Path], chain: tuple[Path, ...]) -> None:
    """Adds what `path` extends, then `path`; a file reached twice keeps its first, lower place."""
    real = files.real(path)
    if real in seen:
        return
    if not real.is_relative_to(limit):
        # Its lines would be shown beside whatever is wrong with them.
        message = f"a link out of the project ({limit.name}/)"
        hint = "put the file itself here; the configs of a project stand in it"
        found.diagnostics.append(error("unreadable-file", message, files.start(path), hint))
        found.broken = True
        return
    node, diagnostics = files.get(path)
    found.diagnostics += diagnostics
    found.broken |= node is None
    if node is not None:
        for item in _extended(node, found):
            base = Path(os.path.normpath(path.parent / str(item.value)))
            if problem := _refusal(base, item, limit, files, (*chain, real)):
                found.diagnostics.append(problem)
            else:
                _collect(base, limit, files, found, seen, (*chain, real))
    seen.append(real)
    if node is not None:
        found.nodes.append(node)


def _extended(node: Node, found: Layers) -> Iterator[Node]:
    entry = node.value.get("extends") if isinstance(node.value, dict) else None
    if entry is None or entry.node.value is None:
        return
    for item in entry.node.value if isinstance(entry.node.value, list) else [entry.node]:
        if isinstance(item.value, str) and item is not entry.node:
            yield item
        else:
            message = "extends must be a list of paths"
            path = item.value if isinstance(item.value, str) else "../_layers/base.yaml"
            found.diagnostics.append(error("wrong-type", message, item.span, f"write extends: [{mask(path)}]"))


def _refusal(base: Path, item: Node, limit: Path, files: Files, chain: tuple[Path, ...]) -> Diagnostic | None:
    real = files.real(base)
    if real in chain:
        loop = " -> ".join(files.shown(each) for each in (*chain[chain.index(real) :], real))
        return error("extends-cycle", f"files extend each other in a circle: {loop}", item.span, "break the circle")
    if len(chain) > MAX_EXTENDS:
        message = f"more than {MAX_EXTENDS} files extend each other"
        return error("too-deep", message, item.span, "extend them from one file, as a list")
    if str(item.value).startswith("/") or "://" in str(item.value) or not real.is_relative_to(limit):
        message = f"{item.value} is outside the project ({limit.name}/)"
        return error("extends-outside", message, item.span, "extend files of this project, by relative path")
    there = os.path.exists(base)
    if base.suffix not in _ENDINGS or not there:
        message = f"{item.value} is no YAML or JSON file" if there else f"{files.shown(base)} does not exist"
        return error("extends-missing", message, item.span, "paths are relative to the file that extends")
    return None


def merge(layers: list[Node], diagnostics: list[Diagnostic]) -> Node:
    """One document from layers, lowest first. Overrides that change nothing are added to `diagnostics` as warnings."""
    document = Node({}, Source("", ""), 0, 0, 0, 0)
    for layer in layers:
        document = _merged(document, layer, (), diagnostics)
    return document


def _merged(base: Node, over: Node, path: ConfigPath, diagnostics: list[Diagnostic]) -> Node:
    if not isinstance(base.value, dict) or not isinstance(over.value, dict):
        return over
    out = dict(base.value)
    for key, entry in over.value.items():
        if not path and key in ONLY_IN_FILES:
            continue
        before = out.get(key)
        if before is None:
            out[key] = entry
        elif isinstance(before.node.value, dict) and isinstance(entry.node.value, dict):
            node = _merged(before.node, entry.node, (*path, key), diagnostics)
            out[key] = Entry(entry.key, node, before)
        else:
            if _same(before.node, entry.node):
                place = (("already set here", before.node.span),)
                message = f"{dotted((*path, key))} already has this value"
                diagnostics.append(warning("no-effect", message, entry.node.span, "remove it from this layer", place))
            out[key] = Entry(entry.key, entry.node, before)
    return Node(out, over.source, over.line, over.column, over.end_line, over.end_column)


def _same(one: Node, other: Node) -> bool:
    """Whether two values are the same, and written in two places."""
    a, b = one.plain(), other.plain()
    return one is not other and type(a) is type(b) and a == b

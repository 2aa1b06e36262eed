"""From config files to checked agents: the one entry to everything in this room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from a2a_claude.config import checks, fleet, layers
from a2a_claude.config.agent import Agent
from a2a_claude.config.diagnostics import Diagnostic, has_errors, warning
from a2a_claude.config.inspection import Mention, inspect
from a2a_claude.config.layers import AgentFile, Files
from a2a_claude.config.model import Config
from a2a_claude.config.node import Entry, Node
from a2a_claude.config.overrides import environment_layer, setting_layer
from a2a_claude.config.schema import root_shape
from a2a_claude.config.shipped import ship
from a2a_claude.config.validation import validate
from a2a_claude.config.variables import collect


@dataclass(frozen=True, slots=True)
class Options:
    """What is laid over the files: a profile, `--set` options, and the environment when an agent is served."""

    profile: str | None = None
    settings: tuple[str, ...] = ()
    environ: Mapping[str, str] | None = None


DEFAULTS = Options()
_FORM_RULES = frozenset({"wrong-type", "not-allowed", "out-of-range", "bad-format", "bad-url", "relative-path"})


@dataclass(slots=True)
class Loaded:
    """What became of one agent's files. `root` has the positions of `document`; no `agent` when there are errors."""

    file: AgentFile
    root: Node
    document: dict[str, Any]
    diagnostics: list[Diagnostic]
    mentions: list[Mention] = field(default_factory=list)
    profile_files: int = 0
    agent: Agent | None = None


@dataclass(slots=True)
class Fleet:
    """Agents loaded together, sorted by name, with everything that is wrong."""

    loaded: list[Loaded]
    diagnostics: list[Diagnostic]

    @property
    def agents(self) -> list[Agent]:
        return [each.agent for each in self.loaded if each.agent is not None]


def load_fleet(targets: Iterable[Path], options: Options = DEFAULTS, only: Iterable[str] = ()) -> Fleet:
    """Every agent at `targets` (agents folders, agents' folders or files); of them `only` those named, when any is."""
    files = Files()
    found: dict[Path, AgentFile] = {}
    diagnostics: list[Diagnostic] = []
    for target in targets:
        agents, problems = layers.find(target, files)
        diagnostics += problems
        found |= {agent.path.resolve(): agent for agent in agents}
    wanted = set(only)
    chosen = sorted((each for each in found.values() if not wanted or each.name in wanted), key=lambda each: each.name)
    loaded = [load(each, files, options) for each in chosen]
    for each in loaded:
        diagnostics += each.diagnostics
    diagnostics += fleet.check(loaded)
    if loaded and options.profile is not None and not any(each.profile_files for each in loaded):
        hint = (
            f"name it agent.{options.profile}.yaml beside an agent, or defaults.{options.profile}.yaml beside them all"
        )
        message = f"no file belongs to the profile {options.profile}"
        diagnostics.append(warning("unused-profile", message, files.start(chosen[0].path), hint))
    return Fleet(loaded, diagnostics)


def load(file: AgentFile, files: Files, options: Options = DEFAULTS) -> Loaded:
    """One agent from its files. Nothing is raised for bad input: every problem is a diagnostic."""
    found = layers.layers_of(file, options.profile, files)
    diagnostics = list(found.diagnostics)
    lower = found.nodes[:-1]
    nodes = [*found.nodes, *(environment_layer(options.environ) if options.environ is not None else [])]
    root = layers.merge(nodes, diagnostics)
    if found.broken:
        return Loaded(file, root, {}, diagnostics, profile_files=found.profile_files)
    for setting in options.settings:
        root = _set(root, setting, diagnostics)
    for layer in lower:
        diagnostics += _layer_problems(layer, files)
    inspection = inspect(root, root_shape())
    stripped = root_shape().strip(root.plain())
    diagnostics += [*inspection.diagnostics, *validate(root, stripped)]
    document = root_shape().complete(stripped)
    diagnostics += checks.check(root, document)
    shipped, problems = ship(root, document, files.limit(file.root))
    diagnostics += problems
    diagnostics = _without_echoes(diagnostics)
    loaded = Loaded(file, root, document, diagnostics, inspection.mentions, found.profile_files)
    if not has_errors(diagnostics):
        loaded.agent = Agent(
            name=file.name,
            config=Config.load(document),
            document=document,
            variables=collect(document, root, inspection.mentions, lambda span: files.where(span, file.root)),
            files=shipped,
            layers={files.in_project(node.source, file.root): node.source.digest for node in found.nodes},
        )
    return loaded


def _without_echoes(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Without complaints about the type or form of a value that could not be read in the first place."""
    unread = {
        each.span for each in diagnostics if each.rule in ("ambiguous-scalar", "number-range", "control-character")
    }
    return [each for each in diagnostics if each.span not in unread or each.rule not in _FORM_RULES]


def _set(root: Node, setting: str, diagnostics: list[Diagnostic]) -> Node:
    layer, problems = setting_layer(setting)
    diagnostics += problems
    if layer is None:
        return root
    before = root_shape().complete(root_shape().strip(root.plain()))
    merged = layers.merge([root, layer], [])
    if root_shape().complete(root_shape().strip(merged.plain())) == before:
        message = "this option changes nothing: the value is the same without it"
        diagnostics.append(warning("no-effect", message, layer.span, "leave it out"))
    return merged


def _layer_problems(layer: Node, files: Files) -> list[Diagnostic]:
    """What is wrong with a lower layer by itself: a layer above may hide it from this agent, not from the next one.

    Keys may be missing, since other layers have them.
    """
    if layer.source.name not in files.checked:
        content = Node(
            {key: entry for key, entry in _entries(layer) if key not in layers.ONLY_IN_FILES}, layer.source, 0, 0, 0, 0
        )
        problems = [*inspect(content, root_shape()).diagnostics]
        problems += validate(content, root_shape().strip(content.plain()))
        files.checked[layer.source.name] = [each for each in problems if each.rule != "missing-key"]
    return files.checked[layer.source.name]


def _entries(node: Node) -> Iterable[tuple[str, Entry]]:
    return node.value.items() if isinstance(node.value, dict) else ()

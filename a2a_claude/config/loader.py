"""From config files to checked agents: the one entry to everything in this room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from a2a_claude.config import checks, fleet, layers
from a2a_claude.config.agent import Agent
from a2a_claude.config.diagnostics import Diagnostic, Span, error, has_errors, warning
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
_UNREAD = frozenset({"ambiguous-scalar", "number-range", "control-character", "key-not-string", "literal-credential"})
_FORM_RULES = frozenset(
    {
        "wrong-type",
        "not-allowed",
        "out-of-range",
        "bad-format",
        "bad-url",
        "relative-path",
        "unknown-key",
        "unknown-model",
    }
)


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
    found: dict[str, AgentFile] = {}
    diagnostics: list[Diagnostic] = []
    for target in targets:
        agents, problems = layers.find(target, files)
        diagnostics += problems
        for agent in agents:
            first = found.setdefault(agent.name, agent)
            if files.real(first.path.parent) != files.real(agent.path.parent):
                message = f"two agents are named {agent.name}: {files.shown(first.path)} is the other"
                diagnostics.append(error("two-configs", message, files.start(agent.path), "rename the folder of one"))
    wanted = set(only)
    chosen = sorted((each for each in found.values() if not wanted or each.name in wanted), key=lambda each: each.name)
    loaded = [load(each, files, options) for each in chosen]
    idle = Counter(each.span for one in loaded for each in one.diagnostics if each.rule == "no-effect")
    diagnostics += [
        each
        for one in loaded
        for each in one.diagnostics
        # An option is idle when it changes no agent.
        if each.rule != "no-effect" or each.span.source.path is not None or idle[each.span] == len(loaded)
    ]
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
    root = layers.merge(found.nodes, diagnostics)
    if options.environ is not None:  # whoever sets the environment need not know what the files say
        root = layers.merge([root, *environment_layer(options.environ)], [])
    # Where a layer cannot be read, the others are judged one by one: together they would lack what it holds.
    covered = bool(options.settings) or options.environ is not None
    for layer in found.nodes if found.broken or covered else found.nodes[:-1]:
        diagnostics += _layer_problems(layer, files)
    if found.broken:
        return Loaded(file, root, {}, diagnostics, profile_files=found.profile_files)
    for setting in options.settings:
        root = _set(root, setting, diagnostics)
    own = files.start(file.path)
    root = Node(root.value, own.source, 0, 0, 0, 0)  # what concerns the agent as a whole is told at its own file
    inspection = inspect(root, root_shape())
    stripped = root_shape().strip(root.plain())
    diagnostics += [*inspection.diagnostics, *validate(root, stripped)]
    document = root_shape().complete(stripped)
    if not any(each.rule == "not-an-agent" for each in diagnostics):
        diagnostics += checks.check(root, document)
    shipped, problems = ship(root, document, files.limit(file.root))
    diagnostics += problems
    diagnostics = _with_overridden(_without_echoes(diagnostics, file), root)
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


def _without_echoes(diagnostics: list[Diagnostic], file: AgentFile) -> list[Diagnostic]:
    """Without complaints about the form of what could not be read in the first place, and about overrides that change
    nothing in this agent, but may in the next."""
    unread = {each.span for each in diagnostics if each.rule in _UNREAD}
    return [
        each
        for each in diagnostics
        if (each.span not in unread or each.rule not in _FORM_RULES)
        and (each.rule != "no-effect" or _idle_everywhere(each, file))
    ]


def _idle_everywhere(each: Diagnostic, file: AgentFile) -> bool:
    """Whether an override that changes nothing in this agent changes nothing in any: it is the agent's own, or it and
    what it repeats are the defaults of all agents. A layer that agents extend may well change the next one."""
    path, repeated = each.span.source.path, [span.source.path for _, span in each.related]
    if path is None or path.parent == file.path.parent:
        return True
    defaults = all(one and one.parent == file.root and one.name.startswith("defaults.") for one in (path, *repeated))
    return defaults and (bool(repeated) or path.stem == "defaults")


def _with_overridden(diagnostics: list[Diagnostic], root: Node) -> list[Diagnostic]:
    """The diagnostics, those at a value that overrides a lower layer's with the place of that value as well."""
    if all(each.related or each.severity == "note" for each in diagnostics):
        return diagnostics
    below = dict(_overrides(root))
    return [
        replace(each, related=(("overrides this", below[each.span]),))
        if each.span in below and not each.related
        else each
        for each in diagnostics
    ]


def _overrides(node: Node) -> Iterator[tuple[Span, Span]]:
    """The span of each value, and of its key, that overrides another, and the span of what it overrides."""
    for _, entry in _entries(node):
        if entry.previous is not None and not isinstance(entry.node.value, dict):
            yield entry.node.span, entry.previous.node.span
            yield entry.key.span, entry.previous.node.span
        yield from _overrides(entry.node)


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
        files.checked[layer.source.name] = [each for each in problems if each.rule not in ("missing-key", "no-effect")]
    return files.checked[layer.source.name]


def _entries(node: Node) -> Iterable[tuple[str, Entry]]:
    return node.value.items() if isinstance(node.value, dict) else ()

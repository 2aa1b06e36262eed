"""A config file as a checked tree: YAML or JSON by its ending, its root a mapping."""

from __future__ import annotations

import re
from pathlib import Path

from a2a_claude.config.diagnostics import MAX_PROBLEMS, Diagnostic, error
from a2a_claude.config.json_reader import read_json
from a2a_claude.config.node import Entry, Node
from a2a_claude.config.source import Source, Unreadable, read
from a2a_claude.config.yaml_reader import read_yaml

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_file(path: Path, name: str) -> tuple[Node | None, list[Diagnostic]]:
    """The mapping in the file at `path`, shown as `name`, and what is wrong with it; an empty file is empty."""
    try:
        source = read(path, name)
    except Unreadable as problem:
        return None, [problem.diagnostic]
    return read_source(source, as_json=path.suffix == ".json")


def read_source(source: Source, as_json: bool = False) -> tuple[Node | None, list[Diagnostic]]:
    """The mapping in `source` and what is wrong with it."""
    root, diagnostics = read_json(source) if as_json else read_yaml(source)
    if root is None or (root.value is None and root.text is not None):
        root = Node({}, source, 0, 0, 0, 0) if not diagnostics else None
    if root is not None and not isinstance(root.value, dict):
        kind = "a list" if isinstance(root.value, list) else "a single value"
        message = f"the file holds {kind}, not a mapping"
        diagnostics.append(error("not-a-mapping", message, root.span, "write keys such as agentCard: and claude:"))
        root = None
    if root is not None and "\\" in source.text:
        diagnostics += _surrogates(root)
    return root, diagnostics


def _surrogates(root: Node) -> list[Diagnostic]:
    """Half characters, which only escapes can make and no output can hold."""
    hint = "write the character itself"
    bad = [node.span for _, node in root.scalars() if isinstance(node.value, str) and _SURROGATE.search(node.value)]
    keys = [
        entry.key.span
        for entry in _entries(root)
        if isinstance(entry.key.value, str) and _SURROGATE.search(entry.key.value)
    ]
    message = "half of a surrogate pair in a string"
    return [error("control-character", message, span, hint) for span in [*bad, *keys][: MAX_PROBLEMS + 1]]


def _entries(node: Node) -> list[Entry]:
    found: list[Entry] = []
    todo = [node]
    while todo:
        value = todo.pop().value
        if isinstance(value, dict):
            found += value.values()
            todo += [entry.node for entry in value.values()]
        elif isinstance(value, list):
            todo += value
    return found

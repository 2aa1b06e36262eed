"""A document as a tree of values that know where they stand in the user's text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from a2a_claude.config.diagnostics import Span
from a2a_claude.config.source import Source

Scalar = str | int | float | bool | None
Path = tuple[str | int, ...]


class Node:
    """A value and its span. `value` is a scalar, a list of nodes, or a dict of `Entry`.

    `text` is how a number or other plain scalar was written. A node is never changed once its file is read: layers
    share them.
    """

    __slots__ = ("column", "end_column", "end_line", "line", "source", "text", "value")

    def __init__(
        self,
        value: Scalar | list[Node] | dict[str, Entry],
        source: Source,
        line: int,
        column: int,
        end_line: int,
        end_column: int,
        text: str | None = None,
    ) -> None:
        self.value = value
        self.source = source
        self.line = line
        self.column = column
        self.end_line = end_line
        self.end_column = end_column
        self.text = text

    @property
    def span(self) -> Span:
        """The span, cut at the end of its first line."""
        if self.end_line == self.line:
            return Span(self.source, self.line, self.column, self.line, self.end_column)
        return Span(self.source, self.line, self.column, self.line, len(self.source.line(self.line)))

    def plain(self) -> Any:
        """The value as plain data: dicts, lists and scalars, free of positions."""
        value = self.value
        if isinstance(value, dict):
            return {key: entry.node.plain() for key, entry in value.items()}
        if isinstance(value, list):
            return [each.plain() for each in value]
        return value

    def find(self, path: Path) -> Entry | Node | None:
        """The entry (for a key) or node (for a list index) at `path`; None when there is none."""
        found: Entry | Node | None = self
        for step in path:
            value = found.node.value if isinstance(found, Entry) else found.value if found is not None else None
            if isinstance(step, str):
                found = value.get(step) if isinstance(value, dict) else None
            else:
                found = value[step] if isinstance(value, list) and step < len(value) else None
        return found

    def scalars(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Each scalar below, with its path."""
        if isinstance(self.value, dict):
            for key, entry in self.value.items():
                yield from entry.node.scalars((*path, key))
        elif isinstance(self.value, list):
            for index, each in enumerate(self.value):
                yield from each.scalars((*path, index))
        else:
            yield path, self


class Entry:
    """A key of a mapping with its value. `previous` is the entry of an earlier layer that this one replaced."""

    __slots__ = ("key", "node", "previous")

    def __init__(self, key: Node, node: Node, previous: Entry | None = None) -> None:
        self.key = key
        self.node = node
        self.previous = previous


def dotted(path: Path) -> str:
    """A path for people: `claude.allowedTools[2]`, `mcp."a.b".url`."""
    out = ""
    for step in path:
        if isinstance(step, int):
            out += f"[{step}]"
        else:
            out += ("." if out else "") + (step if step.replace("-", "").replace("_", "").isalnum() else f'"{step}"')
    return out

"""How rules look at a document: by path and type, with the places of what they find."""

from __future__ import annotations

from typing import Any, TypeVar

from a2a_claude.config.diagnostics import Span
from a2a_claude.config.node import Entry, Node, Path
from a2a_claude.config.schema import is_annotation

T = TypeVar("T")


class View:
    """A document with its positions, for rules that must not stumble over values of the wrong type."""

    def __init__(self, root: Node, document: Any) -> None:
        self.root = root
        self.document = document

    def get(self, kind: type[T], *path: str | int) -> T | None:
        """The value at `path` when it is of type `kind`."""
        value = self.document
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value if isinstance(value, kind) and not (kind is int and isinstance(value, bool)) else None

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """The mapping at `path` without annotations; empty when there is none."""
        return {key: each for key, each in (self.get(dict, *path) or {}).items() if not is_annotation(key)}

    def strings(self, *path: str | int) -> list[str]:
        """The strings of the list at `path`."""
        return [each for each in self.get(list, *path) or [] if isinstance(each, str)]

    def span(self, *path: str | int) -> Span:
        """Where the value at `path`, or the nearest thing above it, is written."""
        return self._near(path)[0]

    def key(self, *path: str | int) -> Span:
        """Where the key at `path`, or the nearest thing above it, is written."""
        return self._near(path)[1]

    def _near(self, path: Path) -> tuple[Span, Span]:
        for end in range(len(path), 0, -1):
            found = self.root.find(path[:end])
            if isinstance(found, Entry):
                return found.node.span, found.key.span
            if found is not None:
                return found.span, found.span
        return self.root.span, self.root.span

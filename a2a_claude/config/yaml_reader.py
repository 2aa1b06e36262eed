"""YAML to nodes, by events of PyYAML's C parser: iterative, bounded, and only what YAML 1.1 and 1.2 agree on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from a2a_claude.config.credentials import mask_line
from a2a_claude.config.diagnostics import Diagnostic, Problems, Span, TooMany, error
from a2a_claude.config.node import Entry, Node
from a2a_claude.config.scalars import ScalarProblem, resolve_plain, resolve_tagged
from a2a_claude.config.source import Source

MAX_DEPTH = 64
MAX_NODES = 20_000
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_LONGEST_SHOWN = 60
_COLLECTIONS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_TAG = "tag:yaml.org,2002:"
_UNQUOTED_COLON = re.compile(r"(\s*+(?:- ++)*+[^\s:#'\"\[\]{}][^:]*+:\s++)(\S.*)")
_PLAIN_VALUE = re.compile(r"\s*+(?:- ++)*+[\w$.-]++:\s++[^\s#'\"\[\]{}|>&*!]")


class YamlProblem(Exception):
    """YAML that cannot be read any further."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read_yaml(source: Source) -> tuple[Node | None, list[Diagnostic]]:
    """The document of a YAML file and what is wrong with it; None when it is empty or cannot be parsed."""
    reader = _Reader(source)
    try:
        return reader.document(), reader.diagnostics
    except (YamlProblem, TooMany) as problem:
        return None, [*reader.diagnostics, problem.diagnostic]
    except yaml.MarkedYAMLError as problem:
        return None, [*reader.diagnostics, _syntax(source, problem)]
    except (yaml.YAMLError, UnicodeError):
        # Only text that is in no file (of a command line, say) comes here: files are checked as they are read.
        hint = "write it without control characters and half characters"
        return None, [error("control-character", "a character that YAML cannot hold", Span(source, 0, 0, 0, 1), hint)]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics = Problems()
        self.anchors: dict[str, Node | None] = {}
        self.sizes: dict[int, int] = {}
        self.nodes = 0

    def document(self) -> Node | None:
        root: Node | None = None
        events = iter(_LOADER(self.source.text).get_event, None)
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    hint = "keep one agent per file; remove the --- line or put the rest into a file of its own"
                    raise YamlProblem(error("second-document", "a second document in the file", self.span(event), hint))
            elif isinstance(event, yaml.NodeEvent):
                root = self.tree(event, events)
        return root

    def span(self, event: Any) -> Span:
        start, end = event.start_mark, event.end_mark
        same = start.line == end.line
        end_column = end.column if same else len(self.source.line(start.line))
        return Span(self.source, start.line, start.column, start.line, max(end_column, start.column + 1))

    def tree(self, first: Any, events: Iterator[Any]) -> Node:
        """The node that `first` starts. Open collections wait on a stack: no recursion that a file could exhaust."""
        stack: list[_Open] = []
        event = first
        while True:
            node: Node | None = None
            if isinstance(event, yaml.ScalarEvent):
                node = self.scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                node = self.alias(event)
            elif isinstance(event, _COLLECTIONS):
                if len(stack) >= MAX_DEPTH:
                    message = f"nested deeper than {MAX_DEPTH} levels"
                    raise YamlProblem(error("too-deep", message, self.span(event), "flatten the structure"))
                stack.append(_Open(self.collection(event), self.nodes))
                if event.anchor:
                    self.anchors[event.anchor] = None
                    stack[-1].anchor = event.anchor
            else:  # the end of a collection
                closed = stack.pop()
                node = closed.node
                node.end_line, node.end_column = event.end_mark.line, event.end_mark.column
                if closed.merge is not None and isinstance(node.value, dict):
                    self.merge(node.value, closed.merge[1])
                if closed.anchor:
                    self.anchors[closed.anchor] = node
                    self.sizes[id(node)] = self.nodes - closed.nodes_before
            if node is not None:
                if not stack:
                    return node
                self.add(stack[-1], node, event)
            event = next(events)

    def collection(self, event: Any) -> Node:
        self.spend(1, event)
        mapping = isinstance(event, yaml.MappingStartEvent)
        self.check_tag(event, "map" if mapping else "seq")
        mark = event.start_mark
        return Node({} if mapping else [], self.source, mark.line, mark.column, mark.line, mark.column)

    def check_tag(self, event: Any, kind: str) -> None:
        if event.tag not in (None, _TAG + kind):
            raise YamlProblem(_bad_tag(event.tag, self.span(event)))

    def scalar(self, event: Any) -> Node:
        self.spend(1, event)
        start, end = event.start_mark, event.end_mark
        value: Any = event.value
        text = None
        if event.tag is not None:
            if not event.tag.startswith(_TAG) or event.tag[len(_TAG) :] not in ("str", "int", "float", "bool", "null"):
                raise YamlProblem(_bad_tag(event.tag, self.span(event)))
            value, problem = resolve_tagged(event.tag[len(_TAG) :], event.value)
        elif event.implicit[0] and event.style in (None, ""):
            value, problem = resolve_plain(event.value)
            text = event.value
        else:
            problem = None
        if problem is not None:
            self.report(problem, self.span(event))
        node = Node(value, self.source, start.line, start.column, end.line, end.column, text)
        if event.anchor:
            self.anchors[event.anchor] = node
            self.sizes[id(node)] = 1
        return node

    def report(self, problem: ScalarProblem, span: Span) -> None:
        self.diagnostics.add(error(problem.rule, problem.message, span, problem.hint))

    def alias(self, event: Any) -> Node:
        if event.anchor not in self.anchors:
            message = f"alias *{event.anchor[:_LONGEST_SHOWN]} has no anchor"
            raise YamlProblem(
                error("yaml-alias", message, self.span(event), f"define &{event.anchor[:_LONGEST_SHOWN]} before it")
            )
        target = self.anchors[event.anchor]
        if target is None:
            message = f"alias *{event.anchor[:_LONGEST_SHOWN]} contains itself"
            raise YamlProblem(error("yaml-alias", message, self.span(event), "write the value out"))
        self.spend(self.sizes[id(target)], event)
        return target

    def spend(self, count: int, event: Any) -> None:
        self.nodes += count
        if self.nodes > MAX_NODES:
            message = f"more than {MAX_NODES} values, aliases counted at each use"
            raise YamlProblem(error("too-many-values", message, self.span(event), "split the file, use fewer aliases"))

    def add(self, parent: _Open, node: Node, event: Any) -> None:
        if isinstance(parent.node.value, list):
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = self.key(node, event)
        else:
            key, parent.key = parent.key, None
            mapping: Any = parent.node.value
            if key.text == "<<" and parent.merge is None:
                parent.merge = key, node
            elif key.text == "<<" and parent.merge is not None:
                self.duplicate(key, parent.merge[0].span)
            elif key.value in mapping:
                self.duplicate(key, mapping[key.value].key.span)
            else:
                mapping[key.value] = Entry(key, node)

    def duplicate(self, key: Node, first: Span) -> None:
        message = f"duplicate key {str(key.value)[:_LONGEST_SHOWN]!r}"
        hint = f"keep one of them; the first is on line {first.line + 1}"
        if key.text == "<<":
            hint = "merge several mappings by a list: << : [*one, *other]"
        self.diagnostics.add(error("duplicate-key", message, key.span, hint, (("first set here", first),)))

    def key(self, node: Node, event: Any) -> Node:
        if node.text == "<<":
            if self.diagnostics and self.diagnostics[-1].span == node.span:
                self.diagnostics.pop()
            return node
        if not isinstance(node.value, str):
            shown = node.text[:_LONGEST_SHOWN] or "(empty)" if node.text is not None else "of several values"
            hint = f'quote it: "{shown}"' if node.text else "keys are plain words"
            if isinstance(node.value, dict):
                hint = 'text that begins with {{ needs quotes: "{{ … }}"'
            if not (self.diagnostics and self.diagnostics[-1].span == node.span):
                self.diagnostics.add(error("key-not-string", f"key {shown} is not a string", node.span, hint))
            return Node(shown, node.source, node.line, node.column, node.end_line, node.end_column)
        return node

    def merge(self, mapping: dict[str, Entry], merged: Node) -> None:
        """A YAML 1.1 merge key: keys of the mapping itself win, then those of earlier merged mappings."""
        for each in merged.value if isinstance(merged.value, list) else [merged]:
            if not isinstance(each.value, dict):
                hint = "write << : *anchor, where the anchor is on a mapping"
                self.diagnostics.add(error("yaml-alias", "<< needs a mapping", each.span, hint))
                continue
            for key, entry in each.value.items():
                mapping.setdefault(key, entry)


class _Open:
    """A collection whose end has not come yet."""

    __slots__ = ("anchor", "key", "merge", "node", "nodes_before")

    def __init__(self, node: Node, nodes_before: int) -> None:
        self.node = node
        self.nodes_before = nodes_before - 1
        self.key: Node | None = None
        self.merge: tuple[Node, Node] | None = None
        self.anchor: str | None = None


def _bad_tag(tag: str, span: Span) -> Diagnostic:
    shown = tag[:200].replace(_TAG, "!!")
    return error("yaml-tag", f"tag {shown} is not allowed", span, "write plain YAML: strings, numbers, lists, mappings")


def _continues_value(source: Source, line: int) -> bool:
    """Whether YAML takes a line for more text of the plain value on the line above, since it is indented deeper."""
    above, here = source.line(line - 1), source.line(line)
    deeper = len(here) - len(here.lstrip()) > len(above) - len(above.lstrip())
    return deeper and _PLAIN_VALUE.match(above) is not None and not here.lstrip().startswith("- ")


def _syntax(source: Source, problem: yaml.MarkedYAMLError) -> Diagnostic:
    mark = problem.problem_mark or problem.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(source.starts) or not source.text[source.starts[line] + column :].strip():
        # At the end of the file: told behind its last word, where there is a line to show.
        line, column = source.position(len(source.text.rstrip()))
    text = source.line(line)
    span = Span(source, line, column, line, column + 1)
    what = problem.problem or "not YAML"
    if "nesting depth" in what:
        return error("too-deep", f"nested deeper than {MAX_DEPTH} levels", span, "flatten the structure")
    if text[column : column + 1] == "\t" or (not text[:column].strip() and "\t" in text[: column + 1]):
        column = text.index("\t")
        span = Span(source, line, column, line, column + 1)
        return error("yaml-tab", "a tab in the indentation", span, "indent with spaces")
    if "mapping values are not allowed" in what and _continues_value(source, line):
        start = len(text) - len(text.lstrip())
        span = Span(source, line, start, line, max(column, start + 1))
        message = "indented deeper than the key above it, which has a value already"
        hint = "indent it like the line above; if it is text of that value, quote the whole text"
        return error("yaml-syntax", message, span, hint)
    if "mapping values are not allowed" in what and (match := _UNQUOTED_COLON.match(text)):
        start = len(match[1])
        quoted = "'" + mask_line(match[0])[start:].replace("'", "''") + "'"
        span = Span(source, line, start, line, len(text))
        return error("yaml-colon", "a colon and a space inside a plain value", span, f"quote the value: {quoted}")
    if "cannot start any token" in what and text[column : column + 1] in ("@", "`", "%"):
        return error("yaml-syntax", f"a value cannot start with {text[column]}", span, "quote the value")
    context = f" {problem.context}" if problem.context else ""
    hint = "check the indentation and the quotes on this line and the one before"
    return error("yaml-syntax", f"not YAML: {what}{context}", span, hint)

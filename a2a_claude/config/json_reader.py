"""JSON (RFC 8259) to nodes with positions: iterative and bounded, with the duplicate keys that `json` drops."""

from __future__ import annotations

import json.decoder
import math
import re
from typing import Any, NoReturn

from a2a_claude.config.diagnostics import Diagnostic, Problems, TooMany, error
from a2a_claude.config.node import Entry, Node
from a2a_claude.config.source import Source

MAX_DEPTH = 64
MAX_NODES = 20_000
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
_CONSTANTS = {"true": True, "false": False, "null": None}
_LARGEST = 2**63 - 1


class _Problem(Exception):
    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def read_json(source: Source) -> tuple[Node | None, list[Diagnostic]]:
    """The document of a JSON file and what is wrong with it; None when it cannot be parsed."""
    reader = _Reader(source)
    try:
        return reader.document(), reader.diagnostics
    except (_Problem, TooMany) as problem:
        return None, [*reader.diagnostics, problem.diagnostic]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self.at = 0
        self.nodes = 0
        self.diagnostics = Problems()

    def document(self) -> Node:
        root = self.tree()
        self.skip()
        if self.at < len(self.text):
            self.fail("text after the end of the document", "remove it; a JSON file holds one value")
        return root

    def fail(self, message: str, hint: str, start: int | None = None, rule: str = "json-syntax") -> NoReturn:
        start = min(self.at if start is None else start, len(self.text))
        raise _Problem(error(rule, message, self.source.span(start, start + 1), hint))

    def skip(self) -> str:
        """Skips white space and gives the character that follows, "" at the end."""
        match = _SPACE.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return self.text[self.at : self.at + 1]

    def tree(self) -> Node:
        stack: list[tuple[Node, Node | None]] = []
        key: Node | None = None
        while True:
            node = self.value(len(stack))
            if isinstance(node.value, dict | list) and self.opened(node):
                stack.append((node, key))
                key = self.key(node, first=True) if isinstance(node.value, dict) else None
                continue
            while True:
                if not stack:
                    return node
                parent, outer = stack[-1]
                self.add(parent, key, node)
                if self.more(parent):
                    key = self.key(parent, first=False) if isinstance(parent.value, dict) else None
                    break
                self.close(parent)
                node, key = parent, outer
                stack.pop()

    def value(self, depth: int) -> Node:
        """A scalar, or a collection just opened (`{}` and `[]` come back closed)."""
        char = self.skip()
        start = self.at
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.fail(f"more than {MAX_NODES} values", "split the file into layers", rule="too-many-values")
        text = None
        made: Any
        if char == '"':
            made = self.string()
        elif char in ("{", "["):
            if depth >= MAX_DEPTH:
                self.fail(f"nested deeper than {MAX_DEPTH} levels", "flatten the structure", rule="too-deep")
            self.at += 1
            made = {} if char == "{" else []
        elif match := _NUMBER.match(self.text, self.at):
            self.at, text = match.end(), match[0]
            made = self.number(match)
        else:
            made = self.constant(char)
        return self.node(made, start, text)

    def node(self, value: Any, start: int, text: str | None = None) -> Node:
        line, column = self.source.position(start)
        end_line, end_column = self.source.position(self.at)
        return Node(value, self.source, line, column, end_line, end_column, text)

    def string(self) -> str:
        start = self.at
        try:
            value, self.at = json.decoder.scanstring(self.text, self.at + 1, True)  # type: ignore[attr-defined]
        except json.JSONDecodeError as problem:
            if "Unterminated" in problem.msg:
                self.fail("a string without its closing quote", 'close it with "', start)
            if "control character" in problem.msg:
                self.fail("a line break or control character in a string", 'write "\\n" instead', problem.pos)
            self.fail("an invalid escape in a string", 'write a backslash as "\\\\"', problem.pos)
        return str(value)

    def number(self, match: re.Match[str]) -> int | float:
        if match[1] or match[2]:
            if len(match[0]) > 1000 or math.isinf(value := float(match[0])):
                self.fail("the number is too large or too long", "write it as a string", match.start(), "number-range")
            return value
        if len(match[0]) > 20 or abs(int(match[0])) > _LARGEST:
            self.fail("the number does not fit into 64 bits", "write it as a string", match.start(), "number-range")
        return int(match[0])

    def constant(self, char: str) -> bool | None:
        if match := _WORD.match(self.text, self.at):
            if match[0] in _CONSTANTS:
                self.at = match.end()
                return _CONSTANTS[match[0]]
            self.fail(f"{match[0][:40]} is not JSON", f'quote it: "{match[0][:40]}"')
        if char == "":
            self.fail("the document ends where a value is expected", "add what is missing")
        if char == "/":
            self.fail("JSON has no comments", 'use a "$comment" key, or rename the file to .yaml')
        if char == "'":
            self.fail("JSON strings stand in double quotes", 'write "…"')
        if char in "]}":
            self.fail("a value is missing before " + char, "remove the comma before it")
        return self.fail(f"unexpected {char!r}", "a value is expected here")

    def opened(self, node: Node) -> bool:
        """False when the collection is empty and therefore closed."""
        if self.skip() != ("}" if isinstance(node.value, dict) else "]"):
            return True
        self.at += 1
        self.close(node)
        return False

    def close(self, node: Node) -> None:
        node.end_line, node.end_column = self.source.position(self.at)

    def more(self, parent: Node) -> bool:
        """Whether another member follows; else the collection is closed behind it."""
        closing = "}" if isinstance(parent.value, dict) else "]"
        char = self.skip()
        if char == ",":
            comma = self.at
            self.at += 1
            if self.skip() == closing:
                self.fail(f"a comma before {closing}", "remove it", comma)
            return True
        if char != closing:
            self.fail(f"expected , or {closing}" + (f", not {char!r}" if char else " before the end"), "add it here")
        self.at += 1
        return False

    def key(self, parent: Node, first: bool) -> Node:
        if self.skip() != '"':
            self.fail("a key is expected, in double quotes", 'write "key": value')
        start = self.at
        node = self.node(self.string(), start)
        node.end_line, node.end_column = self.source.position(self.at)
        if self.skip() != ":":
            self.fail("a colon is missing after the key", 'write "key": value')
        self.at += 1
        return node

    def add(self, parent: Node, key: Node | None, node: Node) -> None:
        if isinstance(parent.value, list):
            parent.value.append(node)
            return
        mapping: Any = parent.value
        if key is None:
            return
        if key.value in mapping:
            first = mapping[key.value].key.span
            hint = f"keep one of them; the first is on line {first.line + 1}"
            message = f"duplicate key {str(key.value)[:60]!r}"
            self.diagnostics.add(error("duplicate-key", message, key.span, hint, (("first set here", first),)))
        else:
            mapping[key.value] = Entry(key, node)

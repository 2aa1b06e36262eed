"""One walk over a merged document beside its schema: what no JSON Schema validator sees.

Control characters (a `$` in a pattern lets a final line break through), empty list items, keys without effect, broken
references and literal credentials; and which variables the document refers to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from a2a_claude.config import credentials
from a2a_claude.config.diagnostics import MAX_PROBLEMS, Diagnostic, Span, error, note, warning
from a2a_claude.config.node import Entry, Node, Path, dotted
from a2a_claude.config.references import BadReference, Reference, parse
from a2a_claude.config.schema import Shape, is_annotation
from a2a_claude.config.validation import key_hint

MAX_MENTIONS = 1000
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_CONTROL_OR_BREAK = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(slots=True)
class Mention:
    """A reference found in the document, at `path` in the value at `span`; None for one that only escapes dollars."""

    path: Path
    span: Span
    reference: Reference | None


@dataclass(slots=True)
class Inspection:
    """What a walk found."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)


def inspect(root: Node, shape: Shape) -> Inspection:
    """Walks the merged document of one agent."""
    found = Inspection()
    _node(root, shape, (), found)
    return found


def _node(node: Node, shape: Shape | None, path: Path, found: Inspection) -> None:
    value = node.value
    if isinstance(value, str):
        _string(node, value, shape, path, found)
    elif isinstance(value, int | float) and not isinstance(value, bool) and credentials.holds_secret(path):
        _refuse_credential(node, path, f"is the value of {path[-1]}", str(node.text), found)
    elif isinstance(value, dict):
        shape = _alternative(node, shape)
        for key, entry in value.items():
            below = None if shape is None else shape.child(key)
            if shape is None or key not in shape.properties:
                _free_key(key, entry, path, found)
            if below is not None and below.deprecated and entry.node.value is not None:
                text = f"{dotted((*path, key))} has no effect"
                found.diagnostics.append(note("deprecated-key", text, entry.key.span, str(below.node["description"])))
            if entry.node.value is None and shape is not None and not shape.opaque and not is_annotation(key):
                _removal(entry, shape, below, (*path, key), found)
            _node(entry.node, below, (*path, key), found)
    elif isinstance(value, list):
        if shape is not None and shape.union:
            shape = shape.union.get("array", shape)
        items = None if shape is None or shape.opaque else shape.items
        empty = 0
        for index, each in enumerate(value):
            if each.value is None and items is not None and (empty := empty + 1) <= MAX_PROBLEMS:
                message = f"an empty item in {dotted(path)}"
                found.diagnostics.append(error("null-in-list", message, each.span, "remove it or give it a value"))
            _node(each, items, (*path, index), found)
            if path and path[-1] == "args" and index:
                _option_value(value[index - 1], each, path, found)


def _free_key(key: str, entry: Entry, path: Path, found: Inspection) -> None:
    """A key that the schema does not spell is text like any other."""
    if match := _CONTROL_OR_BREAK.search(key):
        _refuse_control(match[0], entry.key.span, f"the key {key!r}", found)
    if problem := credentials.literal(key, (), prose=True):
        message = f"a key in {dotted(path) or 'the file'} {problem}"
        found.diagnostics.append(error("literal-credential", message, entry.key.span, "name it, and no more"))


def _removal(entry: Entry, shape: Shape, below: Shape | None, path: Path, found: Inspection) -> None:
    """A null removes a key of a lower layer, and a validator never sees it: there must be such a key, and a value."""
    name = dotted(path)
    if below is None and shape.properties:
        message = f"unknown key {str(path[-1])!r}" + (f" in {dotted(path[:-1])}" if path[1:] else "")
        found.diagnostics.append(error("unknown-key", message, entry.key.span, key_hint(str(path[-1]), shape, ())))
    elif entry.previous is None and entry.node.text != "" and entry.node.source.path is not None:
        message = f"{name}: null removes what a lower layer set, and none sets it"
        found.diagnostics.append(warning("no-effect", message, entry.node.span, "remove the line"))


def _alternative(node: Node, shape: Shape | None) -> Shape | None:
    if shape is None or shape.discriminator is None or not isinstance(node.value, dict):
        return shape
    chosen = node.value.get(shape.discriminator)
    return shape.union.get(chosen.node.value, None) if chosen and isinstance(chosen.node.value, str) else None


def _string(node: Node, value: str, shape: Shape | None, path: Path, found: Inspection) -> None:
    prose = shape is None or shape.string == "text"
    annotation = shape is None and any(isinstance(step, str) and is_annotation(step) for step in path)
    if (match := (_CONTROL if prose else _CONTROL_OR_BREAK).search(value)) and not annotation:
        _refuse_control(match[0], node.span, dotted(path), found)
    if problem := credentials.literal(value, path, prose and not annotation):
        _refuse_credential(node, path, problem, value, found)
    if shape is None or shape.string != "reference" or "$" not in value:
        return
    try:
        pieces = parse(value)
    except BadReference as problem:
        found.diagnostics.append(error("bad-reference", f"{dotted(path)}: {problem}", node.span, problem.hint))
        return
    if "$$" in value and not any(isinstance(piece, Reference) for piece in pieces):
        found.mentions.append(Mention(path, node.span, None))
    for piece in pieces:
        if isinstance(piece, Reference):
            if len(found.mentions) >= MAX_MENTIONS:
                message = f"more than {MAX_MENTIONS} references to variables"
                found.diagnostics.append(error("bad-reference", message, node.span, "give the agent a file to read"))
                return
            found.mentions.append(Mention(path, node.span, piece))
            if piece.bare:
                message = f"{dotted(path)} uses ${piece.name} without braces, which stays as it is when it is not set"
                hint = f"write ${{{piece.name}}}, or $${piece.name} for the literal text"
                found.diagnostics.append(warning("bare-variable", message, node.span, hint))
            elif piece.default and credentials.literal(piece.default, path, prose=False):
                message = f"the default of ${{{piece.name}}} in {dotted(path)} is a credential"
                found.diagnostics.append(error("literal-credential", message, node.span, f"write ${{{piece.name}}}"))


def _option_value(option: Node, node: Node, path: Path, found: Inspection) -> None:
    if isinstance(option.value, str) and isinstance(node.value, str) and credentials.is_secret_flag(option.value):
        literal = node.value.strip() and "$" not in node.value and not node.value.startswith("-")
        if literal:
            hint = f"write ${{{option.value.lstrip('-').replace('-', '_').upper()}}}"
            message = f"the value of {option.value} in {dotted(path)} is a credential"
            found.diagnostics.append(error("literal-credential", message, node.span, hint))


def _refuse_credential(node: Node, path: Path, problem: str, value: str, found: Inspection) -> None:
    hint = f"write {credentials.suggestion(path, value)} and supply the value when the agent is served"
    found.diagnostics.append(error("literal-credential", f"{dotted(path)} {problem}", node.span, hint))


def _refuse_control(character: str, span: Span, where: str, found: Inspection) -> None:
    kind = "a line break (a control character)" if character in "\r\n" else f"control character U+{ord(character):04X}"
    hint = "keep the text on one line, without control characters"
    found.diagnostics.append(error("control-character", f"{kind} in {where}", span, hint))

"""jsonschema's verdict on a document, told as diagnostics at the user's places."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

from a2a_claude.config.credentials import mask
from a2a_claude.config.diagnostics import MAX_PROBLEMS, Diagnostic, error
from a2a_claude.config.node import Entry, Node, Path, dotted
from a2a_claude.config.schema import Shape, every_shape, is_annotation, raw_schema, root_shape

_KINDS = {
    "object": "a mapping",
    "array": "a list",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "true or false",
}
_LONGEST_KEY = 100  # difflib is quadratic
_SHORT_KEY = 4  # a part of many others
_FEW_PLACES = 3  # a key such as `type` is at home everywhere
_OTHER_TOOLS = (
    ({"services"}, "a Docker Compose file"),
    ({"apiVersion", "kind"}, "a Kubernetes manifest"),
    ({"mcpServers"}, "an MCP client configuration"),
    ({"jobs", "on"}, "a GitHub workflow"),
)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator  # slow to import, and not needed for `--help`

    return Draft202012Validator(raw_schema())


@cache
def _gate() -> Any:
    """A validator that only says yes or no: the one in Rust where it is installed, a hundred times as fast."""
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        return _validator()
    return Draft202012Validator(raw_schema())


def validate(root: Node, document: Any) -> list[Diagnostic]:
    """Every violation of the schema in `document`, the plain data of `root`."""
    if _gate().is_valid(document):
        return []
    if other := _another_tools_file(root):
        return [other]
    explained = (each for violation in _validator().iter_errors(document) for each in _explain(violation, root))
    found = list(islice(explained, MAX_PROBLEMS + 1))
    meant = {each.hint for each in found if each.rule == "unknown-key"}
    return [
        each for each in found if each.rule != "missing-key" or _did_you_mean(each.message.split()[-1]) not in meant
    ]


def _did_you_mean(key: str) -> str:
    return f"did you mean {key!r}?"


def _another_tools_file(root: Node) -> Diagnostic | None:
    entries = {key: entry for key, entry in _entries(root).items() if not is_annotation(key)}
    if not entries or entries.keys() & root_shape().properties.keys():
        return None
    kind = next((name for marks, name in _OTHER_TOOLS if marks <= entries.keys()), None)
    message = "no agent config: it has none of the known keys" + (f"; this looks like {kind}" if kind else "")
    hint = "an agent config has keys such as agentCard, server and claude"
    return error("not-an-agent", message, next(iter(entries.values())).key.span, hint)


def _entries(node: Node) -> dict[str, Entry]:
    return node.value if isinstance(node.value, dict) else {}


class _Place:
    """A place in the document, with what the schema says of it."""

    def __init__(self, root: Node, path: Path) -> None:
        node = root
        shape: Shape | None = root_shape()
        for step in path:
            shape = None if shape is None else _alternative(shape, node)
            shape = None if shape is None else (shape.items if isinstance(step, int) else shape.child(step))
            below = node.find((step,))
            node = below.node if isinstance(below, Entry) else below if below is not None else node
        self.root = root
        self.path = path
        self.node = node
        self.shape = shape
        self.name = dotted(path) or "the file"

    @property
    def example(self) -> Any:
        """An example of the value here, None when the schema has none."""
        return next(iter(self.shape.node.get("examples", [])), None) if self.shape else None


def _alternative(shape: Shape, node: Node) -> Shape:
    if shape.discriminator is not None and (chosen := _entries(node).get(shape.discriminator)):
        return shape.union.get(chosen.node.value, shape) if isinstance(chosen.node.value, str) else shape
    return shape


def _explain(violation: Any, root: Node) -> Iterator[Diagnostic]:
    """The diagnostics for one error of jsonschema."""
    place = _Place(root, tuple(violation.absolute_path))
    match violation.validator:
        case "oneOf":
            yield from _union(violation, place)
        case "additionalProperties":
            yield from _unknown_keys(violation, place)
        case "required":
            yield from _missing(violation, place)
        case "type" | "enum" | "const" | "anyOf":
            yield _wrong_value(violation, place)
        case "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum":
            yield _out_of_range(violation, place)
        case "pattern" if violation.validator_value in _control_patterns():
            return  # inspection reports control characters, without the hole that `$` leaves in a pattern
        case _:
            yield _bad_format(violation, place)


@cache
def _control_patterns() -> frozenset[str]:
    return frozenset(raw_schema()["$defs"][name]["pattern"] for name in ("line", "text"))


def _union(violation: Any, place: _Place) -> Iterator[Diagnostic]:
    """Only what is wrong with the alternative that the value itself names."""
    shape = place.shape
    if shape is not None and "array" in shape.union and isinstance(place.node.value, list):
        for each in violation.context:
            if each.relative_path:  # of an item: the other branches refuse the list itself
                yield from _explain(each, place.root)
        return
    if shape is None or shape.discriminator is None or not isinstance(place.node.value, dict):
        yield _wrong_value(violation, place)
        return
    key = shape.discriminator
    chosen = place.node.value.get(key)
    if chosen is None or chosen.node.value is None:
        hint = f"add {key}: {' or '.join(map(str, shape.union))}"
        yield error("missing-key", f"{place.name} has no {key}", place.node.span, hint)
    elif chosen.node.value in shape.union if isinstance(chosen.node.value, str) else False:
        wanted = f"#/$defs/{shape.union[chosen.node.value].definition}"
        for each in violation.context:
            if violation.validator_value[each.schema_path[0]].get("$ref") == wanted:
                yield from _explain(each, place.root)
    else:
        yield _not_allowed(place, key, chosen, [str(each) for each in shape.union])


def _not_allowed(place: _Place, key: str, chosen: Entry, allowed: list[str]) -> Diagnostic:
    hint = _choice(str(chosen.node.value), allowed)
    if place.path[:1] == ("mcp",) and chosen.node.value == "sse":
        hint = "SSE servers are not supported; use type: http (Streamable HTTP)"
    message = f"{dotted((*place.path, key))} is {_show(chosen.node)}, not one of {', '.join(allowed)}"
    return error("not-allowed", message, chosen.node.span, hint)


def _unknown_keys(violation: Any, place: _Place) -> Iterator[Diagnostic]:
    shape = place.shape.for_value(violation.instance) if place.shape else root_shape()
    for key, entry in _entries(place.node).items():
        if shape.child(key) is not None or is_annotation(key):
            continue
        if not shape.properties:
            described = shape.node.get("description", "")
            message = f"{key!r} cannot be a name in {place.name}"
            yield error("bad-format", mask(message), entry.key.span, _name_hint(shape) or described)
            continue
        where = f" in {place.name}" if place.path else ""
        yield error(
            "unknown-key",
            mask(f"unknown key {key!r}{where}"),
            entry.key.span,
            _hint_of_union(key, place.shape) or key_hint(key, shape, _entries(place.node)),
        )


def _name_hint(shape: Shape) -> str:
    pattern = next((each.pattern for each, _ in shape.patterns), "")
    return f"names match {pattern}" if pattern else ""


def key_hint(key: str, shape: Shape, there: Collection[str]) -> str:
    """What to write instead of an unknown key in a mapping that has the keys `there`."""
    known = [each for each in shape.properties if each not in there and not shape.properties[each].deprecated]
    for candidates in (known, shape.properties):  # a key that is there may come from another layer
        lowered = {each.lower(): each for each in candidates}
        if near := difflib.get_close_matches(key.lower(), lowered, n=1, cutoff=0.65):
            return _did_you_mean(lowered[near[0]])
    if longer := [each for each in known if len(key) > _SHORT_KEY and key.lower() in each.lower()]:
        return _did_you_mean(min(longer, key=len))
    elsewhere = {path for path, _ in every_shape() if path.rsplit(".", 1)[-1] == key}
    if 0 < len(elsewhere) <= _FEW_PLACES:
        depth = min(path.count(".") for path in elsewhere)
        return f"{key} belongs at {' or '.join(sorted(path for path in elsewhere if path.count('.') == depth))}"
    return f"known keys: {', '.join(known)}; a key of your own starts with x-"


def _hint_of_union(key: str, union: Shape | None) -> str:
    """Which alternatives of a union know a key that the chosen one does not."""
    kinds = [str(each) for each, shape in union.union.items() if key in shape.properties] if union else []
    return f"{key} goes with {union.discriminator}: {' or '.join(kinds)}" if union and kinds else ""


def _missing(violation: Any, place: _Place) -> Iterator[Diagnostic]:
    for key in violation.validator_value:
        if key not in violation.instance:
            shape = place.shape.for_value(violation.instance).child(key) if place.shape else None
            example = next(iter(shape.node.get("examples", [])), "…") if shape else "…"
            hint = f"add {key}: {example if isinstance(example, str) else json.dumps(example)}"
            yield error("missing-key", f"{place.name} has no {key}", place.node.span, hint)


def _wrong_value(violation: Any, place: _Place) -> Diagnostic:
    schema = violation.schema
    allowed = [each for each in schema.get("enum", [schema["const"]] if "const" in schema else []) if each is not None]
    shown = _show(place.node)
    if allowed and violation.validator != "type":
        message = f"{place.name} is {shown}, not one of {', '.join(map(str, allowed))}"
        return error("not-allowed", message, place.node.span, _choice(str(place.node.value), map(str, allowed)))
    kinds = schema.get("type", [])
    wanted = [_KINDS[each] for each in ([kinds] if isinstance(kinds, str) else kinds) if each in _KINDS]
    if not wanted and place.shape is not None and place.shape.union:
        wanted = ["a mapping"] if place.shape.discriminator else ["all", "a list"]
    expected = " or ".join(wanted) or "another value"
    message = f"{place.name} must be {expected}, not {shown}"
    return error("wrong-type", message, place.node.span, _type_hint(place, wanted))


def _type_hint(place: _Place, wanted: list[str]) -> str:
    value, text = place.node.value, place.node.text
    if "a string" in wanted and text is not None and not isinstance(value, str):
        return f'quote it to make it a string: "{text}"'
    if isinstance(value, str) and ({"an integer", "a number", "true or false"} & set(wanted)):
        if "$" in value:
            return "a reference is read as text; only text can be a reference"
        if _plain_kinds(value) & set(wanted):
            return "write it without quotes"
    if "a list" in wanted and not isinstance(value, list | dict):
        return f"write a list: [{mask(str(value))}]"
    if place.example is not None:
        return f"for example {json.dumps(place.example, ensure_ascii=False)}"
    return f"write {' or '.join(wanted)}" if wanted else ""


def _plain_kinds(text: str) -> set[str]:
    """What a quoted text would be without its quotes, in the words of messages; empty when it stays a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return set()
    if isinstance(value, bool):
        return {"true or false"}
    if isinstance(value, int):
        return {"an integer", "a number"}
    return {"a number"} if isinstance(value, float) else set()


_SIGNS = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "exclusiveMaximum": "less than"}


def _out_of_range(violation: Any, place: _Place) -> Diagnostic:
    schema = violation.schema
    message = f"{place.name} must be {_SIGNS[violation.validator]} {violation.validator_value}, not {_show(place.node)}"
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    hint = f"from {low} to {high}" if low is not None and high is not None else ""
    return error("out-of-range", message, place.node.span, hint)


def _bad_format(violation: Any, place: _Place) -> Diagnostic:
    described = str(violation.schema.get("description", "")).rstrip(".")
    example = place.example
    if example is None and place.path and isinstance(place.path[-1], int):
        example = _Place(place.root, place.path[:-1]).example
    hint = f"for example {json.dumps(example, ensure_ascii=False)}" if example is not None else ""
    match violation.validator:
        case "minLength" | "minItems":
            return error("bad-format", f"{place.name} is empty", place.node.span, hint)
        case "maxLength":
            wanted = f"may have {violation.validator_value} characters at most, not {len(violation.instance)}"
            return error("bad-format", f"{place.name} {wanted}", place.node.span, hint)
        case "uniqueItems":
            return error("bad-format", f"{place.name} names something twice", place.node.span, "remove one of them")
        case "pattern":
            wanted = f" ({described[0].lower()}{described[1:]})" if described else ""
            message = f"{place.name} is {_show(place.node)}, which does not have the wanted form{wanted}"
            return error("bad-format", message, place.node.span, hint or f"it must match {violation.validator_value}")
    return error("bad-format", f"{place.name}: {mask(str(violation.message))[:200]}", place.node.span, hint)


def _choice(value: str, allowed: Iterable[str]) -> str:
    choices = list(allowed)
    near = difflib.get_close_matches(value[:_LONGEST_KEY].lower(), choices, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(choices)}"


def _show(node: Node) -> str:
    """A value for a message: short, without credentials."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    if isinstance(node.value, str):
        text = mask(node.value[:400])
        return repr(text if len(text) <= 60 else text[:57] + "…")
    return node.text if node.text is not None else json.dumps(node.value)

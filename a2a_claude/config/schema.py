"""The published JSON Schema, read once into `Shape`s that the loader walks beside a document.

The schema file is the only place that knows keys, defaults and kinds of strings; jsonschema judges validity.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from a2a_claude.package_data import folder

SCHEMA_VERSION = "1.0"
_ANNOTATION = re.compile(r"x-|\$comment$|\$schema$")
_STRINGS = ("line", "text", "reference")


def is_annotation(key: str) -> bool:
    """Whether `key` is allowed everywhere and has no effect: `x-…`, `$comment`, `$schema`."""
    return _ANNOTATION.match(key) is not None


@dataclass(slots=True)
class Shape:
    """What the schema says of one place in a document.

    `string` is `line`, `text` or `reference` where a string is wanted. `defaults` holds complete values for the keys of
    `properties` that have one. `union` holds the alternatives of a `oneOf`, by the constant under `discriminator`.
    `opaque` places (passed through to Claude) are copied as they are.
    """

    node: Mapping[str, Any]
    definition: str | None = None
    string: str | None = None
    integer: bool = False
    opaque: bool = False
    properties: dict[str, Shape] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], Shape]] = field(default_factory=list)
    extra: Shape | None = None
    items: Shape | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    discriminator: str | None = None
    union: dict[Any, Shape] = field(default_factory=dict)

    @property
    def deprecated(self) -> bool:
        return bool(self.node.get("deprecated"))

    def for_value(self, value: Any) -> Shape:
        """The alternative that fits `value`; the shape itself when it is no union or nothing fits."""
        if self.discriminator is not None and isinstance(value, dict):
            chosen = value.get(self.discriminator)
            return self.union.get(chosen, self) if isinstance(chosen, str) else self
        if self.union and isinstance(value, list):
            return self.union.get("array", self)
        return self

    def child(self, key: str) -> Shape | None:
        """The shape of the value under `key`, None when the schema says nothing of it."""
        if (found := self.properties.get(key)) is not None:
            return found
        if self.extra is not None and not self.properties and not key.startswith("$"):
            return self.extra  # names of others, such as HTTP headers: those that begin with x- are no annotations
        if is_annotation(key):
            return None
        for pattern, shape in self.patterns:
            if pattern.search(key):
                return shape
        return self.extra

    def complete(self, value: Any) -> Any:
        """`value` without keys whose value is null, integers as `int`, and with the defaults of missing keys."""
        return self._copy(value, defaults=True)

    def strip(self, value: Any) -> Any:
        """`value` without keys whose value is null, and integers as `int`: what a validator is to judge."""
        return self._copy(value, defaults=False)

    def _copy(self, value: Any, defaults: bool) -> Any:
        if isinstance(value, dict):
            shape = self.for_value(value)
            if shape.opaque:
                return value
            out = {}
            for key, each in value.items():
                if each is not None:
                    child = shape.child(key)
                    out[key] = each if child is None else child._copy(each, defaults)
            if defaults:
                out.update((key, default) for key, default in shape.defaults.items() if key not in out)
            return out
        if isinstance(value, list):
            items = self.for_value(value).items
            return value if items is None else [items._copy(each, defaults) for each in value]
        if self.integer and isinstance(value, float) and value.is_integer():
            return int(value)
        return value


@cache
def raw_schema() -> dict[str, Any]:
    """The schema as published (draft 2020-12)."""
    loaded: dict[str, Any] = json.loads((folder("schema") / "agent.schema.json").read_text("utf-8"))
    return loaded


@cache
def root_shape() -> Shape:
    """The shape of a whole config file."""
    return _shape(raw_schema(), raw_schema()["$defs"])


def every_shape() -> Iterator[tuple[str, Shape]]:
    """Each property of the schema with its dotted path (`[]` for list items, `<name>` for free keys)."""
    todo: list[tuple[str, Shape]] = [("", root_shape())]
    while todo:
        path, shape = todo.pop()
        for key, child in shape.properties.items():
            yield f"{path}.{key}".lstrip("."), child
            todo.append((f"{path}.{key}".lstrip("."), child))
        todo += [(f"{path}.<name>", child) for _, child in shape.patterns]
        todo += [(path, child) for child in shape.union.values()]
        todo += [(f"{path}.<name>", shape.extra)] if shape.extra else []
        todo += [(f"{path}[]", shape.items)] if shape.items else []


def _shape(node: Mapping[str, Any], definitions: Mapping[str, Any]) -> Shape:
    name = node["$ref"].rsplit("/", 1)[1] if "$ref" in node else None
    body = {**definitions[name], **{k: v for k, v in node.items() if k != "$ref"}} if name else dict(node)
    kinds = [body["type"]] if isinstance(body.get("type"), str) else body.get("type", [])
    shape = Shape(body, definition=name, integer="integer" in kinds and "number" not in kinds)
    if "string" in kinds:
        shape.string = name if name in _STRINGS else "line"
    if "oneOf" in body:
        _add_union(shape, [branch for branch in body["oneOf"] if branch != {"type": "null"}], definitions)
    shape.required = tuple(body.get("required", ()))
    shape.opaque = body.get("additionalProperties") is True
    for key, child in body.get("properties", {}).items():
        shape.properties[key] = _shape(child, definitions)
        if "default" in shape.properties[key].node:
            shape.defaults[key] = shape.properties[key].complete(shape.properties[key].node["default"])
    for pattern, child in body.get("patternProperties", {}).items():
        if child:
            shape.patterns.append((re.compile(pattern), _shape(child, definitions)))
    if isinstance(extra := body.get("additionalProperties"), dict):
        shape.extra = _shape(extra["anyOf"][0] if "anyOf" in extra else extra, definitions)
    if "items" in body:
        shape.items = _shape(body["items"], definitions)
    return shape


def _add_union(shape: Shape, branches: list[Mapping[str, Any]], definitions: Mapping[str, Any]) -> None:
    for branch in branches:
        alternative = _shape(branch, definitions)
        constants = {k: v.node["const"] for k, v in alternative.properties.items() if "const" in v.node}
        if constants:
            shape.discriminator, value = next(iter(constants.items()))
            shape.union[value] = alternative
        else:
            shape.union["array" if alternative.items else alternative.node.get("const")] = alternative

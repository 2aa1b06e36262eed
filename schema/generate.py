"""Writes everything that is derived from agent.schema.json and rules.yaml: run it after each change of them.

    python schema/generate.py            writes the files
    python schema/generate.py --check    exits 1 and names the files that are not current

Derived: schema/agent.draft-07.schema.json (editors), a2a_claude/config/model.py (the typed configuration),
docs/configuration.md and docs/rules.md (the references).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "schema" / "agent.schema.json"
RULES_SOURCE = ROOT / "schema" / "rules.yaml"
ANNOTATION = "^(x-|\\$comment$|\\$schema$)"

Json = dict[str, Any]


def definition(schema: Json, node: Json) -> tuple[str | None, Json]:
    """The name and body of what `node` refers to, or None and the node itself."""
    if "$ref" not in node:
        return None, node
    name = node["$ref"].rsplit("/", 1)[1]
    return str(name), dict(schema["$defs"][name])


def types(node: Json) -> list[str]:
    kind = node.get("type", [])
    return [each for each in ([kind] if isinstance(kind, str) else kind) if each != "null"]


# --- draft-07 ---------------------------------------------------------------------------------------------------------


def to_draft_07(schema: Json) -> Json:
    """The same schema in draft-07: `definitions`, and no keyword beside a `$ref`, where draft-07 would ignore it."""

    def convert(node: Any) -> Any:
        if isinstance(node, list):
            return [convert(each) for each in node]
        if not isinstance(node, dict):
            return node
        out: Json = {}
        for key, value in node.items():
            if key in ("properties", "patternProperties"):  # a property may be named like a keyword
                out[key] = {name: convert(each) for name, each in value.items()}
            elif key not in ("$ref", "$defs"):
                out[key] = value if key in ("default", "examples", "enum", "const") else convert(value)
        if "$ref" in node:
            ref = {"$ref": node["$ref"].replace("#/$defs/", "#/definitions/")}
            return {**out, "allOf": [ref]} if out else ref
        return out

    twin = {
        **convert(schema),
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": schema["$id"] + ":draft-07",
    }
    twin["definitions"] = {name: convert(body) for name, body in schema["$defs"].items()}
    return twin


# --- model.py ---------------------------------------------------------------------------------------------------------


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), name)


def class_name(name: str) -> str:
    return name[0].upper() + name[1:]


def is_class(body: Json) -> bool:
    return types(body) == ["object"] and "properties" in body and body.get("additionalProperties") is False


def value_map(body: Json) -> Json | None:
    """The schema of the values of a free-form mapping, None when the mapping is passed through as it is."""
    for value in body.get("patternProperties", {}).values():
        if value:  # annotations have an empty schema
            return dict(value)
    extra = body.get("additionalProperties")
    return extra if isinstance(extra, dict) and "properties" not in body else None


def union(schema: Json, body: Json) -> list[str] | None:
    """The definitions that a discriminated `oneOf` chooses from."""
    names = [branch["$ref"].rsplit("/", 1)[1] for branch in body.get("oneOf", []) if "$ref" in branch]
    return names or None


def discriminator(schema: Json, names: list[str]) -> str:
    properties: Json = schema["$defs"][names[0]]["properties"]
    return next(key for key, value in properties.items() if "const" in value)


SCALARS = {"string": "str", "boolean": "bool", "integer": "int", "number": "float"}


def python_type(schema: Json, node: Json) -> tuple[str, str]:
    """The Python type of a value and the expression that makes it from the plain value `{}`."""
    name, body = definition(schema, node)
    if union(schema, body):
        return class_name(str(name)), f"load_{snake(str(name))}({{}})"
    if "enum" in body or "const" in body:
        allowed = [each for each in body.get("enum", [body.get("const")]) if each is not None]
        return f"Literal[{', '.join(json.dumps(each) for each in allowed)}]", "{}"
    kinds = types(body)
    if len(kinds) == 1 and kinds[0] in SCALARS:
        return SCALARS[kinds[0]], "{}"
    if kinds == ["array"]:
        inner, made = python_type(schema, body["items"])
        return f"tuple[{inner}, ...]", "tuple({})" if made == "{}" else f"tuple({made.format('each')} for each in {{}})"
    if is_class(body) and name:
        return class_name(name), f"{class_name(name)}.load({{}})"
    if kinds == ["object"] and (value := value_map(body)):
        inner, made = python_type(schema, value)
        chosen = "named" if ANNOTATION in body["patternProperties"] else "foreign"
        every = f"{{{{key: {made.format('each')} for key, each in {chosen}({{}}).items()}}}}"
        return f"Mapping[str, {inner}]", f"{chosen}({{}})" if made == "{}" else every
    if kinds == ["object"]:
        return "Mapping[str, Any]", "{}"
    return "Any", "{}"


def model(schema: Json) -> str:
    out = [
        '"""The typed configuration of an agent. Generated by schema/generate.py from the schema: do not edit."""',
        "",
        "# ruff: noqa: E501",
        "from __future__ import annotations",
        "",
        "from collections.abc import Mapping",
        "from dataclasses import dataclass",
        "from typing import Any, Literal",
        "",
        "",
        "def foreign(mapping: Mapping[str, Any]) -> dict[str, Any]:",
        '    """The entries of a mapping with keys of others, such as HTTP headers: `x-…` is no annotation there."""',
        '    return {key: value for key, value in mapping.items() if not key.startswith("$")}',
        "",
        "",
        "def named(mapping: Mapping[str, Any]) -> dict[str, Any]:",
        '    """The entries of a mapping without its annotations (`x-…`, `$comment`, `$schema`)."""',
        '    return {key: value for key, value in mapping.items() if not key.startswith(("x-", "$"))}',
    ]
    for name, body in schema["$defs"].items():
        if is_class(body):
            out += ["", "", *dataclass_lines(schema, class_name(name), body)]
    for name, body in schema["$defs"].items():
        if names := union(schema, body):
            key = discriminator(schema, names)
            alias = class_name(name)
            out += ["", "", f"{alias} = {' | '.join(class_name(each) for each in names)}", "", ""]
            out += [f"def load_{snake(name)}(data: Mapping[str, Any]) -> {alias}:"]
            out += [
                f'    """The {name} that `{key}` names; ValueError when it names none."""',
                f'    match data["{key}"]:',
            ]
            for each in names:
                out += [
                    f"        case {json.dumps(schema['$defs'][each]['properties'][key]['const'])}:",
                    f"            return {class_name(each)}.load(data)",
                ]
            out += ["        case other:", f'            raise ValueError(f"{key}: {{other!r}}")']
    return "\n".join(out) + "\n"


def dataclass_lines(schema: Json, name: str, body: Json) -> list[str]:
    fields, makers = [], []
    for key, node in body["properties"].items():
        _, target = definition(schema, node)
        kind, made = python_type(schema, node)
        always = key in body.get("required", []) or "default" in node or "default" in target
        if always:
            fields.append(f"    {snake(key)}: {kind}")
            makers.append(f"            {snake(key)}={made.format(f'data[{json.dumps(key)}]')},")
        else:
            fields.append(f"    {snake(key)}: {kind} | None")
            made = made.format("value")
            expression = "value" if made == "value" else f"None if value is None else {made}"
            expression = expression if made != "value" else f"data.get({json.dumps(key)})"
            if expression.startswith("None if"):
                expression = expression.replace(
                    "None if value is None", f"None if (value := data.get({json.dumps(key)})) is None", 1
                )
            makers.append(f"            {snake(key)}={expression},")
    return [
        "@dataclass(frozen=True, slots=True)",
        f"class {name}:",
        f'    """{body["description"]}"""',
        "",
        *fields,
        "",
        "    @classmethod",
        f"    def load(cls, data: Mapping[str, Any]) -> {name}:",
        '        """From a checked document with its defaults filled in."""',
        "        return cls(",
        *makers,
        "        )",
    ]


# --- configuration.md -------------------------------------------------------------------------------------------------


def code(value: Any) -> str:
    return f"`{json.dumps(value, ensure_ascii=False)}`".replace("|", "\\|")


def type_text(schema: Json, node: Json) -> str:
    name, body = definition(schema, node)
    if names := union(schema, body):
        return " or ".join(f"[{each}](#{each.lower()})" for each in names)
    if "oneOf" in body:
        return " or ".join(type_text(schema, each) for each in body["oneOf"] if each != {"type": "null"})
    if "const" in body or "enum" in body:
        return " \\| ".join(code(each) for each in body.get("enum", [body.get("const")]) if each is not None)
    kinds = types(body)
    if kinds == ["array"]:
        return f"list of {type_text(schema, body['items'])}"
    if is_class(body) and name:
        return f"[{name}](#{name.lower()})"
    if kinds == ["object"] and (value := value_map(body)):
        return f"mapping to {type_text(schema, value)}"
    text = " or ".join(kinds) or "any value"
    if name in (
        "reference",
        "text",
        "httpUrl",
        "absolutePath",
        "byteSize",
        "imageReference",
        "variableName",
        "toolRule",
    ):
        text = f"[{name}](#kinds-of-strings)"
    limits = [f"{sign} {body[key]}" for key, sign in BOUNDS.items() if key in body] if name != "milliseconds" else []
    return text + (f" ({', '.join(limits)})" if limits else "")


BOUNDS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}


def walk_classes(schema: Json) -> Iterator[tuple[str, str, Json]]:
    """Each class with the dotted path where it is used first, in the order a reader meets them."""
    todo, seen = [("", "config")], set()
    while todo:
        path, name = todo.pop(0)
        if name in seen:
            continue
        seen.add(name)
        body = schema["$defs"][name]
        yield path, name, body
        for key, node in body["properties"].items():
            below = f"{path}.{key}".lstrip(".")
            todo += [(below + suffix, each) for suffix, each in classes_of(schema, node)]


def classes_of(schema: Json, node: Json) -> Iterator[tuple[str, str]]:
    name, body = definition(schema, node)
    if names := union(schema, body):
        yield from (("", each) for each in names)
    elif is_class(body) and name:
        yield "", name
    elif types(body) == ["array"]:
        yield from (("[]" + suffix, each) for suffix, each in classes_of(schema, body["items"]))
    elif types(body) == ["object"] and (value := value_map(body)):
        yield from ((".<name>" + suffix, each) for suffix, each in classes_of(schema, value))


def reference(schema: Json) -> str:
    out = [
        "# Configuration reference",
        "",
        "<!-- Generated from schema/agent.schema.json by schema/generate.py: do not edit. -->",
        "",
        "Every key is optional in a file, because another layer may hold it. `null` removes what an earlier layer set.",
        "Keys that begin with `x-`, and `$comment` and `$schema`, are allowed everywhere and have no effect.",
        "How layers, references and profiles work: [Writing agents](agents.md).",
        "",
        "## Kinds of strings",
        "",
        "| kind | what |",
        "|---|---|",
    ]
    for name, body in schema["$defs"].items():
        if "string" in types(body):
            out.append(f"| {name} | {body['description']} |")
    for path, name, body in walk_classes(schema):
        out += ["", f"## {name}", "", f"At `{path}`. {body['description']}" if path else body["description"], ""]
        out += ["| key | type | default | what |", "|---|---|---|---|"]
        for key, node in body["properties"].items():
            _, target = definition(schema, node)
            both = {**target, **node}
            default = code(both["default"]) if "default" in both and both["default"] != {} else ""
            default = "**required**" if key in body.get("required", []) else default
            text = both.get("description", "") + (" *Deprecated.*" if both.get("deprecated") else "")
            example = next(iter(node.get("examples", [])), None)
            text += f" Example: {code(example)}" if example is not None else ""
            out.append(f"| `{key}` | {type_text(schema, node)} | {default} | {text} |".replace("  ", " "))
    return "\n".join(out) + "\n"


# --- rules.md ---------------------------------------------------------------------------------------------------------


def rules(explained: Json) -> str:
    sys.path.insert(0, str(ROOT))  # as a script this file does not see the package beside it
    from a2a_claude.config.rules import RULES

    out = [
        "# Rules",
        "",
        "<!-- Generated from schema/rules.yaml by schema/generate.py: do not edit. -->",
        "",
        "Each problem that `validate` and `compile` find has a stable id and name; `a2a-claude explain ID` prints what",
        "is said here. Errors refuse the config; warnings do so under `--strict` only, notes never. In an example,",
        "`# agents/…` begins another file, and `# a2a-claude …` says how it is called.",
        "",
        "| id | name | | what |",
        "|---|---|---|---|",
    ]
    for name, rule in RULES.items():
        severity = explained[name].get("severity", "error")
        anchor = f"{rule.code} {name}".lower().replace(" ", "-")
        out.append(f"| [{rule.code}](#{anchor}) | {name} | {severity} | {rule.title} |")
    for name, rule in RULES.items():
        out += ["", f"## {rule.code} {name}", "", f"{rule.title}. {explained[name]['why']}"]
        for title in ("wrong", "right"):
            if title in explained[name]:
                out += ["", f"{title.title()}:", "", "```yaml", explained[name][title].rstrip("\n"), "```"]
    return "\n".join(out) + "\n"


def derived() -> dict[Path, str]:
    schema = json.loads(SOURCE.read_text("utf-8"))
    return {
        ROOT / "schema" / "agent.draft-07.schema.json": json.dumps(to_draft_07(schema), indent=2, ensure_ascii=False)
        + "\n",
        ROOT / "a2a_claude" / "config" / "model.py": model(schema),
        ROOT / "docs" / "configuration.md": reference(schema),
        ROOT / "docs" / "rules.md": rules(yaml.safe_load(RULES_SOURCE.read_text("utf-8"))),
    }


def main() -> int:
    stale = [path for path, text in derived().items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is not current: run python schema/generate.py", file=sys.stderr)
        else:
            path.write_text(derived()[path], "utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A graph as JSON, as Mermaid (https://mermaid.js.org/syntax/flowchart.html), and in Graphviz' language dot."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import orjson

from a2a_claude.config.report import printable
from a2a_claude.graph.model import AgentNode, Graph

# Letters of all scripts, digits and what has no meaning in a label; the rest is written by its number.
_NOT_IN_LABELS = re.compile(r"[^\w .,:/()-]")


def as_json(graph: Graph) -> str:
    """`{"agents": […], "outside": […], "edges": […]}` with the fields of `model`."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(dataclasses.asdict(graph), option=options).decode()


def as_mermaid(graph: Graph) -> str:
    """A flowchart: agents are boxes, MCP servers are round, agents of others have double sides."""
    ids = _ids(graph)
    lines = ["flowchart LR"]
    for node in graph.agents:
        label = "<br>".join(map(mermaid_label, _lines(node)))
        lines.append(f'  {ids[node.name]}["{label}"]:::{node.mode}')
    for each in graph.outside:
        label = f"{mermaid_label(each.name)}<br>{mermaid_label(each.target)}"
        lines.append(f'  {ids[each.id]}{f"""(["{label}"])""" if each.kind == "mcp" else f"""[["{label}"]]"""}')
    lines += [
        f'  {ids[each.source]} {"-->" if each.kind == "agent" else "-.->"}|"{mermaid_label(each.name)}"| '
        f"{ids[each.target]}"
        for each in graph.edges
    ]
    lines.append("  classDef bypassPermissions stroke:#c0362c,stroke-width:3px")
    return "\n".join([*lines, ""])


def as_dot(graph: Graph) -> str:
    """A directed graph from left to right."""
    ids = _ids(graph)
    lines = ["digraph fleet {", "  rankdir=LR", '  node [shape=box, fontname="sans-serif"]']
    for node in graph.agents:
        lines.append(f"  {ids[node.name]} [label={dot_string(chr(10).join(_lines(node)))}]")
    for each in graph.outside:
        shape = "ellipse" if each.kind == "mcp" else "box, peripheries=2"
        lines.append(f"  {ids[each.id]} [label={dot_string(f'{each.name}{chr(10)}{each.target}')}, shape={shape}]")
    for edge in graph.edges:
        style = "solid" if edge.kind == "agent" else "dashed"
        lines.append(f"  {ids[edge.source]} -> {ids[edge.target]} [label={dot_string(edge.name)}, style={style}]")
    return "\n".join([*lines, "}", ""])


def mermaid_label(text: str) -> str:
    """`text` inside of the quotes of a label, where Mermaid decodes `#NN;`."""
    return _NOT_IN_LABELS.sub(lambda found: f"#{ord(found[0])};", printable(text))


def dot_string(text: str) -> str:
    r"""`text` as a quoted label, where `\` begins an escape and `&` an entity; lines stay lines."""
    lines = [
        printable(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")
    ]
    return '"' + "\\n".join(lines) + '"'


def _ids(graph: Graph) -> dict[str, str]:
    """A word for each node that neither language has a meaning for."""
    return {name: f"n{number}" for number, name in enumerate(_names(graph))}


def _names(graph: Graph) -> Iterator[str]:
    yield from (each.name for each in graph.agents)
    yield from (each.id for each in graph.outside)


def _lines(node: AgentNode) -> list[str]:
    secrets = ", ".join(each.name for each in node.secrets)
    return [node.name, f"{node.address} - {node.mode}", *([f"secrets: {secrets}"] if secrets else [])]

"""A graph as one page of HTML that loads nothing: an SVG of it, and tables beside it.

Whatever a config says is text there: `text` is the one function that quotes for HTML, and the page allows no script.
"""

from __future__ import annotations

import html
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from a2a_claude.config.report import printable
from a2a_claude.graph.layout import BOX_HEIGHT, BOX_WIDTH, Layout, Point, lay_out
from a2a_claude.graph.model import AgentNode, Edge, Graph, Need, Outside
from a2a_claude.targets.template import Quoted, fill

MODES = {
    "plan": "reads and plans, never writes",
    "default": "asks the caller before each tool",
    "dontAsk": "only what is allowed, all else refused",
    "acceptEdits": "edits files, other tools as allowed",
    "bypassPermissions": "every tool, without asking",
}
_WIDEST_NAME, _WIDEST_LINE = 16, 29

View = dict[str, Any]


def as_html(graph: Graph) -> str:
    """The page. The same graph gives the same bytes."""
    layout = lay_out(graph)
    edges = list(_drawn(graph, layout))
    return fill(
        "graph/fleet.html",
        width=layout.width,
        height=layout.height,
        edges=edges,
        boxes=[*(_box(each, layout) for each in graph.agents), *(_outside_box(each, layout) for each in graph.outside)],
        box_width=BOX_WIDTH,
        box_height=BOX_HEIGHT,
        agents=[_row(each, graph) for each in graph.agents],
        outside=[
            {
                "id": text(each.id),
                "name": text(each.name),
                "target": text(each.target),
                "kind": text("MCP server" if each.kind == "mcp" else "agent of others"),
                "users": [_link(edge.source) for edge in graph.edges if edge.target == each.id],
            }
            for each in graph.outside
        ],
        secrets=list(_secrets(graph)),
        modes=[
            {"name": text(mode), "meaning": text(meaning), "count": sum(each.mode == mode for each in graph.agents)}
            for mode, meaning in MODES.items()
        ],
        counts=_counts(graph),
    )


def text(value: str) -> Quoted:
    """`value` as text or as an attribute in double quotes; what could steer the reader's eye is replaced."""
    return Quoted(html.escape(printable(value)))


# --- The drawing ------------------------------------------------------------------------------------------------------


def _box(node: AgentNode, layout: Layout) -> View:
    number = len(node.secrets)
    return {
        **_place(layout.places[node.name]),
        "id": text(node.name),
        "kind": Quoted("agent"),
        "mode": text(node.mode),
        "name": text(_cut(node.name, _WIDEST_NAME)),
        "line": text(_cut(node.title, _WIDEST_LINE)),
        "detail": text(f":{node.port}"),
        "badge": text(node.mode),
        "secrets": number,
        "whole": text(f"{node.name} ({node.title}) at {node.address}, {number} secret{'' if number == 1 else 's'}"),
    }


def _outside_box(each: Outside, layout: Layout) -> View:
    return {
        **_place(layout.places[each.id]),
        "id": text(each.id),
        "kind": Quoted("mcp" if each.kind == "mcp" else "other"),
        "mode": Quoted("none"),
        "name": text(_cut(each.name, _WIDEST_NAME)),
        "line": text(_cut(each.target.removeprefix("https://"), _WIDEST_LINE)),
        "detail": text("MCP server" if each.kind == "mcp" else "agent of others"),
        "badge": text(""),
        "secrets": 0,
        "whole": text(f"{each.name}: {each.target}"),
    }


def _place(point: Point) -> View:
    return {"x": point.x, "y": point.y}


def _drawn(graph: Graph, layout: Layout) -> Iterator[View]:
    """The path of each edge. Where several begin or end at a box they are spread over its side."""
    named = {each.name for each in graph.agents}
    leaving: dict[str, list[Edge]] = defaultdict(list)
    coming: dict[str, list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        leaving[edge.source].append(edge)
        coming[edge.target].append(edge)
    for edges in leaving.values():
        edges.sort(key=lambda edge: (_way(edge, layout)[1].y, edge.target, edge.name))
    for edges in coming.values():
        edges.sort(key=lambda edge: (_way(edge, layout)[-2].y, edge.source, edge.name))
    for edge in graph.edges:
        start, end = layout.places[edge.source], layout.places[edge.target]
        y1 = start.y + _share(leaving[edge.source], edge)
        y2 = end.y + _share(coming[edge.target], edge)
        path, middle = _route(Point(start.x, y1), layout.lanes[edge.source, edge.target], Point(end.x, y2))
        yield {
            "path": Quoted(path),
            "kind": text(edge.kind),
            "label": text(_cut(edge.name, _WIDEST_NAME) if edge.target in named and edge.name != edge.target else ""),
            "x": middle.x,
            "y": middle.y,
            "whole": text(_told(edge, named)),
        }


def _told(edge: Edge, named: set[str]) -> str:
    verb = "uses" if edge.kind == "mcp" else "calls"
    known = edge.target in named and edge.name != edge.target
    return f"{edge.source} {verb} {edge.target} as {edge.name}" if known else f"{edge.source} {verb} {edge.name}"


def _route(start: Point, lanes: Sequence[Point], end: Point) -> tuple[str, Point]:
    """The path between two boxes, given by their left sides and its height there, straight through its lanes; and a
    place for what is written on it."""
    if start.x == end.x:
        x, first, second = start.x + BOX_WIDTH, start.y, end.y
        if first == second:
            first, second = first - 14, second + 14
        return f"M{x} {first}C{x + 70} {first} {x + 70} {second} {x} {second}", Point(x + 52, (first + second) // 2)
    if start.x > end.x:
        return _curve(start.x, start.y, end.x + BOX_WIDTH, end.y)
    path, middle = "", Point(0, 0)
    here = start
    for there in [*lanes, end]:
        piece, centre = _curve(here.x + BOX_WIDTH, here.y, there.x, there.y)
        path += piece if not path else f"H{here.x + BOX_WIDTH}{piece[piece.index('C') :]}"
        middle = centre if here is start else middle
        here = there
    return path, middle


def _curve(x1: int, y1: int, x2: int, y2: int) -> tuple[str, Point]:
    bend = (x2 - x1) // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}", Point((x1 + x2) // 2, (y1 + y2) // 2)


def _way(edge: Edge, layout: Layout) -> list[Point]:
    """Where an edge comes by: its boxes, and the lanes between them."""
    return [layout.places[edge.source], *layout.lanes[edge.source, edge.target], layout.places[edge.target]]


def _share(edges: Sequence[Edge], edge: Edge) -> int:
    """How far below the upper edge of a box an edge has its place among the others of that side."""
    return BOX_HEIGHT * (edges.index(edge) + 1) // (len(edges) + 1)


def _cut(value: str, widest: int) -> str:
    """`value`, shortened to what is about as wide as `widest` letters in whatever font the reader has."""
    left = float(widest)
    for index, character in enumerate(value):
        left -= _width(character)
        if left < (0 if index == len(value) - 1 else 1):
            return f"{value[:index]}…"
    return value


def _width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.9
    if character in "mwMW@%":
        return 1.6
    return 1.25 if character.isupper() or ord(character) > 0x2FF else 1


# --- The tables -------------------------------------------------------------------------------------------------------


def _row(node: AgentNode, graph: Graph) -> View:
    mine = [edge for edge in graph.edges if edge.source == node.name]
    return {
        "id": text(node.name),
        "name": text(node.name),
        "title": text(node.title),
        "description": text(node.description),
        "version": text(node.version),
        "address": text(node.address),
        "port": node.port,
        "mode": text(node.mode),
        "access": Quoted("read-write" if node.writes else "read-only"),
        "callers": [text(each) for each in node.callers],
        "is_open": node.open,
        "model": text(node.model or "Claude's default"),
        "store": text(node.store),
        "calls": [_link(edge.target, _call(edge, graph)) for edge in mine if edge.kind == "agent"],
        "servers": [_link(edge.target, edge.name) for edge in mine if edge.kind == "mcp"],
        "secrets": [_secret(each) for each in node.secrets],
    }


def _call(edge: Edge, graph: Graph) -> str:
    renamed = edge.name != edge.target and any(each.name == edge.target for each in graph.agents)
    return f"{edge.name} \N{RIGHTWARDS ARROW} {edge.target}" if renamed else edge.name


def _link(target: str, name: str | None = None) -> View:
    return {"id": text(target), "name": text(name or target)}


def _secret(need: Need) -> View:
    return {"name": text(need.name), "optional": need.optional, "uses": text(", ".join(need.uses) or "Claude itself")}


def _secrets(graph: Graph) -> Iterator[View]:
    found: dict[str, list[tuple[str, Need]]] = defaultdict(list)
    for node in graph.agents:
        for need in node.secrets:
            found[need.name].append((node.name, need))
    for name, needs in sorted(found.items()):
        uses = sorted({use for _, need in needs for use in need.uses})
        yield {
            "name": text(name),
            "users": [_link(agent) | {"optional": need.optional} for agent, need in needs],
            "uses": [text(each) for each in uses],
        }


def _counts(graph: Graph) -> list[View]:
    secrets = {need.name for node in graph.agents for need in node.secrets}
    counted = (
        (len(graph.agents), "agent"),
        (sum(each.kind == "agent" for each in graph.edges), "call between agents"),
        (sum(each.kind == "mcp" for each in graph.outside), "MCP server"),
        (len(secrets), "secret"),
    )
    return [{"number": number, "name": text(_plural(name, number))} for number, name in counted]


def _plural(name: str, number: int) -> str:
    if number == 1:
        return name
    return name.replace("call ", "calls ") if name.startswith("call ") else f"{name}s"

"""Where the boxes of a graph stand: callers left of whom they call, in columns.

Sugiyama's method (Sugiyama, Tagawa, Toda 1981): columns by the longest way, a lane through each column for an edge that
passes it, and an order in the columns by the barycenter of the neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from a2a_claude.graph.model import Graph

BOX_WIDTH, BOX_HEIGHT = 232, 92
COLUMN_GAP, ROW_GAP, LANE_HEIGHT, MARGIN = 112, 28, 6, 24
# Boxes without any edge stand in rows of so many below the others.
_IN_A_ROW = 4
_SWEEPS = 8

Pair = tuple[str, str]
# A box by its name, or an edge's lane through a column.
Item = str | tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Point:
    """In pixels, from the upper left corner."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The upper left corner of each box by its name, the left end of each lane that an edge has, and the whole size."""

    places: Mapping[str, Point]
    lanes: Mapping[Pair, Sequence[Point]]
    width: int
    height: int


def lay_out(graph: Graph) -> Layout:
    """Places for all agents and all that is outside. Depends on nothing but the graph."""
    edges = sorted({(each.source, each.target) for each in graph.edges})
    joined = {name for edge in edges for name in edge}
    agents = [each.name for each in graph.agents]
    column = _columns([name for name in agents if name in joined], edges)
    for each in graph.outside:
        column[each.id] = max(column[source] for source, target in edges if target == each.id) + 1
    columns, lanes = _with_lanes(column, edges)
    _order(columns, edges, lanes)
    found, below = _stack(columns)
    places = {item: point for item, point in found.items() if isinstance(item, str)}
    for number, name in enumerate(name for name in agents if name not in joined):
        row, place = divmod(number, _IN_A_ROW)
        places[name] = Point(MARGIN + place * (BOX_WIDTH + ROW_GAP), below + row * (BOX_HEIGHT + ROW_GAP))
    return Layout(
        places,
        {edge: [found[item] for item in items] for edge, items in lanes.items()},
        max((each.x for each in places.values()), default=0) + BOX_WIDTH + MARGIN,
        max((each.y + BOX_HEIGHT for each in places.values()), default=0) + MARGIN,
    )


def _columns(agents: Collection[str], edges: Iterable[Pair]) -> dict[str, int]:
    """The longest way to each agent from one that nobody calls; an edge that closes a circle counts for nothing."""
    calls: dict[str, list[str]] = defaultdict(list)
    known = set(agents)
    for source, target in edges:
        if target in known and source != target:
            calls[source].append(target)
    called = {target for targets in calls.values() for target in targets}
    order: list[str] = []
    seen: set[str] = set()
    on_the_way: set[str] = set()
    forward: dict[str, list[str]] = defaultdict(list)
    # Depth first without recursion: a chain may be as long as the fleet.
    for start in sorted(agents, key=lambda name: (name in called, name)):
        stack = [] if start in seen else [(start, iter(calls[start]))]
        seen.add(start)
        on_the_way.add(start)
        while stack:
            name, targets = stack[-1]
            following = next(targets, None)
            if following is None:
                stack.pop()
                on_the_way.discard(name)
                order.append(name)
            elif following not in on_the_way:
                forward[name].append(following)
                if following not in seen:
                    seen.add(following)
                    on_the_way.add(following)
                    stack.append((following, iter(calls[following])))
        on_the_way.clear()
    column = dict.fromkeys(agents, 0)
    for name in reversed(order):
        for target in forward[name]:
            column[target] = max(column[target], column[name] + 1)
    return column


def _with_lanes(column: Mapping[str, int], edges: Iterable[Pair]) -> tuple[list[list[Item]], dict[Pair, list[Item]]]:
    columns: list[list[Item]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for name, number in column.items():
        columns[number].append(name)
    lanes: dict[Pair, list[Item]] = {}
    for source, target in edges:
        passed = range(column[source] + 1, column[target])
        lanes[source, target] = [(source, target, number) for number in passed]
        for item, number in zip(lanes[source, target], passed, strict=True):
            columns[number].append(item)
    return columns, lanes


def _order(columns: Sequence[list[Item]], edges: Iterable[Pair], lanes: Mapping[Pair, Sequence[Item]]) -> None:
    """Sorts each column so that neighbours are near each other."""
    neighbours: dict[Item, list[Item]] = defaultdict(list)
    for source, target in edges:
        way = [source, *lanes[source, target], target]
        for one, other in pairwise(way):
            neighbours[one].append(other)
            neighbours[other].append(one)
    place = {item: (row + 0.5) / len(items) for items in columns for row, item in enumerate(items)}
    for _ in range(_SWEEPS):
        for items in columns:
            centre = {
                item: sum(place[each] for each in neighbours[item]) / len(neighbours[item])
                if neighbours[item]
                else place[item]
                for item in items
            }
            items.sort(key=lambda item: (centre[item], str(item)))
            place |= {item: (row + 0.5) / len(items) for row, item in enumerate(items)}


def _stack(columns: Sequence[Sequence[Item]]) -> tuple[dict[Item, Point], int]:
    """Each column around the middle of the tallest one; and where the space below them begins."""
    heights = [sum(map(_height, items)) + ROW_GAP * len(items) for items in columns]
    tallest = max(heights, default=0)
    places: dict[Item, Point] = {}
    for number, items in enumerate(columns):
        y = MARGIN + (tallest - heights[number]) // 2
        for item in items:
            places[item] = Point(MARGIN + number * (BOX_WIDTH + COLUMN_GAP), y)
            y += _height(item) + ROW_GAP
    return places, MARGIN + tallest


def _height(item: Item) -> int:
    return BOX_HEIGHT if isinstance(item, str) else LANE_HEIGHT

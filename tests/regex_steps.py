"""The work of a regular expression, counted: a backtracking matcher over what `re` itself parses patterns to.

It goes the way of CPython's matcher, alternative by alternative, without its shortcuts, so what is linear here is so
there. Groups, look-arounds, atomic and possessive parts and back references are understood.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Groups = dict[int, tuple[int, int]]
Then = Callable[[int, Groups], int | None]

_CATEGORIES = {
    ops.CATEGORY_DIGIT: r"\d",
    ops.CATEGORY_NOT_DIGIT: r"\D",
    ops.CATEGORY_SPACE: r"\s",
    ops.CATEGORY_NOT_SPACE: r"\S",
    ops.CATEGORY_WORD: r"\w",
    ops.CATEGORY_NOT_WORD: r"\W",
}


@contextlib.contextmanager
def _deep() -> Iterator[None]:
    """Python calls are deep here. Elsewhere the limit keeps C code from running over the end of the stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Steps:
    """Counts in `count` the steps of matching `pattern`."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.count = 0
        self._flags = pattern.flags
        self._tree = list(_parser.parse(pattern.pattern, pattern.flags))
        self._text = ""

    def spans(self, text: str, most: int = sys.maxsize) -> list[tuple[int, int]]:
        """As `finditer`, at `most` places; `count` grows by the steps."""
        self._text = text
        with _deep():
            return self._spans(text, most)

    def _spans(self, text: str, most: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        at = tried = 0
        while at <= len(text) and tried < most:
            tried += 1
            end = self._run(self._tree, 0, at, {}, self._flags, lambda position, _: position)
            if end is not None and (end > at or not found or found[-1][1] != at):
                found.append((at, end))
            at = max(at + 1, end or 0)
        return found

    def _run(self, nodes: list[Any], index: int, at: int, groups: Groups, flags: int, then: Then) -> int | None:
        self.count += 1
        if index == len(nodes):
            return then(at, groups)
        op, value = nodes[index]
        rest: Then = lambda position, found: self._run(nodes, index + 1, position, found, flags, then)  # noqa: E731
        if self._is_single(op):
            return rest(at + 1, groups) if self._fits(op, value, at, flags) else None
        match op:
            case ops.AT:
                return rest(at, groups) if self._stands(value, at) else None
            case ops.BRANCH:
                for each in value[1]:
                    if (end := self._run(list(each), 0, at, groups, flags, rest)) is not None:
                        return end
                return None
            case ops.SUBPATTERN:
                number, add, remove, body = value

                def close(end: int, found: Groups) -> int | None:
                    return rest(end, found if number is None else {**found, number: (at, end)})

                return self._run(list(body), 0, at, groups, (flags | add) & ~remove, close)
            case ops.GROUPREF:
                start, end = groups.get(value, (-1, -1))
                said = self._text[start:end]
                self.count += len(said)
                return rest(at + len(said), groups) if start >= 0 and self._text.startswith(said, at) else None
            case ops.ASSERT | ops.ASSERT_NOT:
                direction, body = value
                start = at if direction > 0 else at - body.getwidth()[0]
                found = self._atomic(list(body), start, groups, flags) if start >= 0 else None
                if (found is None) == (op is ops.ASSERT):
                    return None
                return rest(at, found[1] if found else groups)
            case ops.ATOMIC_GROUP:
                found = self._atomic(list(value), at, groups, flags)
                return rest(*found) if found else None
            case ops.MAX_REPEAT | ops.MIN_REPEAT | ops.POSSESSIVE_REPEAT:
                return self._repeat(op, value, at, groups, flags, rest)
        raise NotImplementedError(op)

    def _repeat(self, op: Any, value: Any, at: int, groups: Groups, flags: int, rest: Then) -> int | None:
        least, most, body = value
        nodes = list(body)
        if len(nodes) == 1 and self._is_single(nodes[0][0]):
            return self._run_of_one(op, nodes[0], least, most, at, groups, flags, rest)
        if op is ops.POSSESSIVE_REPEAT:
            times = 0
            while times < most and (found := self._atomic(nodes, at, groups, flags)) and found[0] > at:
                (at, groups), times = found, times + 1
            return rest(at, groups) if times >= least else None

        def more(times: int, position: int, found: Groups) -> int | None:
            def again() -> int | None:
                if times >= most:
                    return None
                return self._run(
                    nodes,
                    0,
                    position,
                    found,
                    flags,
                    lambda end, inner: more(times + 1, end, inner) if end > position or times < least else None,
                )

            if times < least:
                return again()
            first, second = (again, rest) if op is ops.MAX_REPEAT else (rest, again)
            end = first() if first is again else rest(position, found)
            if end is None:
                end = second() if second is again else rest(position, found)
            return end

        return more(0, at, groups)

    def _run_of_one(
        self, op: Any, node: Any, least: int, most: int, at: int, groups: Groups, flags: int, rest: Then
    ) -> int | None:
        longest = 0
        if op is ops.MIN_REPEAT:
            for times in range(min(most, len(self._text) - at) + 1):
                if times and not self._fits(node[0], node[1], at + times - 1, flags):
                    return None
                if times >= least and (end := rest(at + times, groups)) is not None:
                    return end
            return None
        while longest < most and self._fits(node[0], node[1], at + longest, flags):
            longest += 1
        if longest < least:
            return None
        for times in [longest] if op is ops.POSSESSIVE_REPEAT else range(longest, least - 1, -1):
            if (end := rest(at + times, groups)) is not None:
                return end
        return None

    def _atomic(self, nodes: list[Any], at: int, groups: Groups, flags: int) -> tuple[int, Groups] | None:
        kept: list[Groups] = []

        def keep(end: int, found: Groups) -> int:
            kept.append(found)
            return end

        end = self._run(nodes, 0, at, groups, flags, keep)
        return None if end is None else (end, kept[-1])

    @staticmethod
    def _is_single(op: Any) -> bool:
        return op in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN)

    def _fits(self, op: Any, value: Any, at: int, flags: int) -> bool:
        self.count += 1
        if not 0 <= at < len(self._text):
            return False
        character = self._text[at]
        if op is ops.ANY:
            return bool(flags & re.DOTALL) or character != "\n"
        if op is ops.IN:
            negated = value[0][0] is ops.NEGATE
            return negated != any(_in(each, character, flags) for each in value[negated:])
        return (op is ops.LITERAL) == _in((ops.LITERAL, value), character, flags)

    def _stands(self, place: Any, at: int) -> bool:
        text = self._text
        match place:
            case ops.AT_BEGINNING | ops.AT_BEGINNING_STRING:
                return at == 0
            case ops.AT_END:
                return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
            case ops.AT_END_STRING:
                return at == len(text)
            case ops.AT_BOUNDARY | ops.AT_NON_BOUNDARY:
                before = at > 0 and re.match(r"\w", text[at - 1]) is not None
                after = at < len(text) and re.match(r"\w", text[at]) is not None
                return (before != after) == (place is ops.AT_BOUNDARY)
        raise NotImplementedError(place)


def _in(member: Any, character: str, flags: int) -> bool:
    op, value = member
    if op is ops.CATEGORY:
        return re.match(_CATEGORIES[value], character) is not None
    least, most = (value, value) if op is ops.LITERAL else value
    forms = {character, character.lower(), character.upper()} if flags & re.IGNORECASE else {character}
    return any(len(each) == 1 and least <= ord(each) <= most for each in forms)

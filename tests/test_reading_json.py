"""JSON is read as Python's own `json` reads it, with places and without its leniency."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.config.diagnostics import MAX_PROBLEMS
from a2a_claude.config.node import Entry
from a2a_claude.config.reader import read_source
from a2a_claude.config.source import Source


def read(text: str) -> tuple[Any, list[tuple[str, str]]]:
    """The value of a document and its problems, as rule and `line:column`."""
    node, problems = read_source(Source("agent.json", text), as_json=True)
    places = [(each.rule, str(each.span).removeprefix("agent.json:")) for each in problems]
    return node.plain() if node is not None else None, places


REFUSED: list[tuple[str, str, str, str]] = [
    ("nothing", "", "json-syntax", "1:1"),
    ("an open mapping", '{"a": 1', "json-syntax", "1:8"),
    ("an open string", '{"a": "b', "json-syntax", "1:7"),
    ("a comma too many", '{"a": [1,]}', "json-syntax", "1:9"),
    ("a comma too few", '{"a": 1\n "b": 2}', "json-syntax", "2:2"),
    ("two values", '{}\n{"a": 1}', "json-syntax", "2:1"),
    ("a comment", '{\n// a\n"a": 1}', "json-syntax", "2:1"),
    ("single quotes", "{'a': 1}", "json-syntax", "1:2"),
    ("a bare key", "{a: 1}", "json-syntax", "1:2"),
    ("a bare word", '{"a": yes}', "json-syntax", "1:7"),
    ("no number", '{"a": NaN}', "json-syntax", "1:7"),
    ("infinity", '{"a": -Infinity}', "json-syntax", "1:7"),
    ("a leading zero", '{"a": 01}', "json-syntax", "1:8"),
    ("a plus", '{"a": +1}', "json-syntax", "1:7"),
    ("half a number", '{"a": 1.}', "json-syntax", "1:8"),
    ("a line break in a string", '{"a": "b\nc"}', "json-syntax", "1:9"),
    ("a bad escape", '{"a": "\\x"}', "json-syntax", "1:8"),
    ("half an escape", '{"a": "\\u12"}', "json-syntax", "1:9"),
    ("65 bits", '{"a": 18446744073709551616}', "number-range", "1:7"),
    ("a float too large", '{"a": 1e999}', "number-range", "1:7"),
    ("a long number", '{"a": ' + "1" * 100_000 + "}", "number-range", "1:7"),
    ("a duplicate key", '{"a": 1,\n "a": 2}', "duplicate-key", "2:2"),
    ("a duplicate key by an escape", '{"a": 1, "\\u0061": 2}', "duplicate-key", "1:10"),
    ("half a character", '{"a": "\\ud83d"}', "control-character", "1:7"),
    ("half a character in a key", '{"\\ud83d": 1}', "control-character", "1:2"),
    ("a list alone", "[]", "not-a-mapping", "1:1"),
    ("null alone", "null", "not-a-mapping", "1:1"),
    ("deep lists", '{"a": ' + "[" * 64, "too-deep", "1:70"),
    ("deep mappings", '{"a":' * 100_000, "too-deep", "1:321"),
    ("many values", '{"a": [' + "1," * 30_000 + "1]}", "too-many-values", "1:40004"),
]


@pytest.mark.parametrize(("text", "rule", "where"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_wrong_is_named_at_its_place(text: str, rule: str, where: str) -> None:
    assert read(text)[1] == [(rule, where)]


def test_reading_stops_when_nearly_everything_is_wrong() -> None:
    _, problems = read("{" + ",".join(['"a":1'] * 9000) + "}")
    assert [rule for rule, _ in problems] == ["duplicate-key"] * MAX_PROBLEMS + ["too-many-problems"]


def test_values_know_their_place() -> None:
    node, _ = read_source(Source("agent.json", '{"é": {\r\n\t"b": [1, "value"]}}'), as_json=True)
    assert node is not None
    found = node.find(("é", "b"))
    assert isinstance(found, Entry)
    assert (str(found.key.span), str(found.node.span)) == ("agent.json:2:2", "agent.json:2:7")
    assert [str(each.span) for _, each in node.scalars()] == ["agent.json:2:8", "agent.json:2:11"]


STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
DOCUMENTS = st.builds(
    json.dumps,
    st.dictionaries(STRINGS, VALUES, max_size=4),
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, 0, 2, "\t", "\r\n"]),
    separators=st.sampled_from([(",", ":"), (" , ", " :\n")]),
)


def oracle(text: str) -> Any:
    """What Python reads; ValueError where it refuses, or reads what no other JSON reader does."""
    repeated: list[str] = []

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated.extend(key for key, _ in pairs if [each for each, _ in pairs].count(key) > 1)
        return dict(pairs)

    def refuse(name: str) -> Any:
        raise ValueError(name)

    value = json.loads(text, object_pairs_hook=mapping, parse_constant=refuse)
    if repeated or not isinstance(value, dict):
        raise ValueError
    json.dumps(value, ensure_ascii=False).encode()  # no half characters
    for number in numbers(value):
        if math.isinf(number) or (isinstance(number, int) and abs(number) >= 2**63):
            raise ValueError
    return value


def numbers(value: Any) -> list[int | float]:
    if isinstance(value, dict | list):
        return [number for each in (value.values() if isinstance(value, dict) else value) for number in numbers(each)]
    return [value] if isinstance(value, int | float) else []


@given(DOCUMENTS)
@settings(max_examples=300)
def test_valid_json_reads_as_python_reads_it(text: str) -> None:
    assert read(text) == (json.loads(text), [])


@given(DOCUMENTS, st.data())
@settings(max_examples=500)
def test_a_mutation_is_a_diagnostic_or_reads_as_python_reads_it(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 3)))
    changed = text[:at] + data.draw(st.text("{}[]\",:'\\ue0-1.+tfn/ \n", max_size=3)) + text[until:]
    value, problems = read(changed)
    try:
        expected = oracle(changed)
    except ValueError:
        assert problems
    else:
        assert (value, problems) == (expected, [])


@given(DOCUMENTS)
@settings(max_examples=100)
def test_every_truncation_is_a_diagnostic_within_the_text(text: str) -> None:
    for length in range(len(text)):
        node, problems = read_source(Source("agent.json", text[:length]), as_json=True)
        assert node is None
        assert all(each.span.line < len(each.span.source.starts) for each in problems)
        assert problems

"""`${…}` in one pass, never expanded again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.config.references import MAX_REFERENCES, BadReference, Reference, parse, resolve

VALUES = {"A": "1", "B": "${A}", "C": "$$", "EMPTY": "", "a_b9": "x"}

RESOLVED: list[tuple[str, str]] = [
    ("${A}", "1"),
    ("$A", "1"),
    ("x${A}y${A}z", "x1y1z"),
    ("${a_b9}", "x"),
    ("${B}", "${A}"),
    ("${C}${C}", "$$$$"),
    ("$$", "$"),
    ("$${A}", "${A}"),
    ("$$$A", "$1"),
    ("$$$$", "$$"),
    ("100$", "100$"),
    ("$ 5", "$ 5"),
    ("$5", "$5"),
    ("$(x)", "$(x)"),
    ("${EMPTY}", ""),
    ("${EMPTY:-d}", "d"),
    ("${NONE:-}", ""),
    ("${NONE:-d}", "d"),
    ("${NONE:-$A}", "$A"),
    ("${NONE:-a:-b}", "a:-b"),
    ("${NONE:-a}b}", "ab}"),
    ("${NONE:-${A}}", "${A}"),
    ("${A:-d}", "1"),
    ("${A:?m}", "1"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "value"), RESOLVED)
def test_references_are_replaced_once(text: str, value: str) -> None:
    assert resolve(text, VALUES.get) == (value, [])


UNSET: list[tuple[str, Reference]] = [
    ("${NONE}", Reference("NONE")),
    ("${NONE:?set it: now}", Reference("NONE", message="set it: now")),
    ("${EMPTY:?m}", Reference("EMPTY", message="m")),
    ("$NONE", Reference("NONE", bare=True)),
]


@pytest.mark.parametrize(("text", "reference"), UNSET)
def test_one_without_a_value_is_given_and_stays_as_it_is_written(text: str, reference: Reference) -> None:
    assert resolve(f"a{text}.b", VALUES.get) == (f"a{text}.b", [reference])
    assert reference.written == text


BROKEN = [
    *("${", "${}", "${A", "${A:-b", "a ${A", "${1A}", "${A B}", "${A-b}", "${A:b}", "${A:}", "${A:+b}", "${A:=b}"),
    *("${-}", "${ A}", "${A }", "${é}", "${${A}}", "$${${"),
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_brace_that_is_no_reference_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadReference) as refused:
        parse(text)
    assert refused.value.hint
    assert text[refused.value.offset :].startswith("${")


def test_a_string_holds_so_many_references() -> None:
    assert len(parse("$A " * MAX_REFERENCES)) == 2 * MAX_REFERENCES
    with pytest.raises(BadReference, match=f"more than {MAX_REFERENCES}"):
        parse("$A " * (MAX_REFERENCES + 1))


@given(st.text())
def test_dollars_doubled_are_the_text_itself(text: str) -> None:
    assert resolve(text.replace("$", "$$"), VALUES.get) == (text, [])


@given(st.text("${}:-?AB_1 é", max_size=30), st.text("${}A", max_size=6))
def test_a_value_is_never_expanded(text: str, value: str) -> None:
    try:
        pieces = parse(text)
    except BadReference:
        return
    defaults = {piece.name for piece in pieces if isinstance(piece, Reference) and (piece.default or piece.message)}
    resolved, missing = resolve(text, lambda name: value)
    if value or not defaults:
        assert (resolved, missing) == ("".join(each if isinstance(each, str) else value for each in pieces), [])

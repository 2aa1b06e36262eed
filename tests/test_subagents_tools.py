"""What the tools for other agents are called, and what becomes of names that are too long, odd, or meet."""

from __future__ import annotations

import re

import pytest
from a2a.types.a2a_pb2 import AgentCard, AgentSkill
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.claude.delegates import SERVER
from a2a_claude.outgoing import is_loopback, reachable, shown
from a2a_claude.subagents.tools import Target, catalogue

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def card(*skills: str) -> AgentCard:
    return AgentCard(name="Clerk", description="d", skills=[AgentSkill(id=each, name="n") for each in skills])


def names(cards: dict[str, AgentCard | None]) -> list[str]:
    return [each.name for each in catalogue(cards)[0]][:-3]


CASES: list[tuple[str, dict[str, AgentCard | None], list[str]]] = [
    ("by the config's name and the skill's id", {"a": card("x", "y")}, ["a__x", "a__y"]),
    ("without skills", {"a": card(), "b": None}, ["a__message", "b__message"]),
    ("odd characters", {"a": card("code review/é")}, ["a__code_review__"]),
    ("no id", {"a": card("")}, ["a__message"]),
    ("the same id twice", {"a": card("x", "y", "x")}, ["a__x", "a__y"]),
]


@pytest.mark.parametrize(("cards", "wanted"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_names(cards: dict[str, AgentCard | None], wanted: list[str]) -> None:
    assert names(cards) == wanted


def test_names_that_meet_are_told_apart_whichever_comes_first() -> None:
    tools, targets = catalogue({"a": card("b__c", "b!c", "b?c"), "a__b": card("c")})
    found = [each.name for each in tools][:-3]
    assert len(set(found)) == 4
    assert {targets[each] for each in found} == {
        Target("a", "b__c"),
        Target("a", "b!c"),
        Target("a", "b?c"),
        Target("a__b", "c"),
    }
    assert set(found) == set(names({"a__b": card("c"), "a": card("b?c", "b!c", "b__c")}))


def test_a_skill_cannot_take_the_name_of_another_tool() -> None:
    tools, targets = catalogue({"task": card("x"), "a": card("message")})
    assert len({each.name for each in tools}) == len(tools)
    assert targets["a__message"] == Target("a", "message")


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.from_regex(r"[A-Za-z0-9_-]{1,80}", fullmatch=True),
        st.none() | st.lists(st.text(max_size=80), max_size=6).map(lambda ids: card(*ids)),
        max_size=4,
    )
)
def test_any_card_gives_tools_that_the_api_admits_and_that_are_told_apart(cards: dict[str, AgentCard | None]) -> None:
    tools, targets = catalogue(cards)
    listed = [each.name for each in tools]
    assert len(set(listed)) == len(listed)
    for name in listed:
        assert NAME.fullmatch(f"mcp__{SERVER}__{name}")
    assert set(listed[:-3]) <= set(targets)


@pytest.mark.parametrize(
    ("advertised", "card_url", "wanted"),
    [
        ("https://a.example/a2a", "https://a.example/card.json", "https://a.example/a2a"),
        ("http://localhost:3030/a2a", "http://reviewer:3031/card.json", "http://reviewer:3031/a2a"),
        ("http://0.0.0.0:3030/a2a?x=1", "https://a.example", "https://a.example/a2a?x=1"),
        ("http://localhost:3030/a2a", "http://127.0.0.1:3031", "http://localhost:3030/a2a"),
        ("http://[::1]:3030/a2a", "http://b", "http://b/a2a"),
    ],
)
def test_a_loopback_address_on_a_card_from_elsewhere_means_the_host_of_the_card(
    advertised: str, card_url: str, wanted: str
) -> None:
    assert reachable(advertised, card_url) == wanted


def test_urls_are_shown_without_what_may_be_secret() -> None:
    assert shown("https://user:secret@a.example:1/x?token=secret#secret") == "https://a.example:1/x"
    assert [is_loopback(each) for each in ("localhost", "127.0.0.2", "[::1]", "a.example")] == [True, True, True, False]

"""What a turn used."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_claude.claude.session import Totals
from a2a_claude.claude.usage import Usage


@pytest.mark.parametrize(
    ("before", "told", "used"),
    [
        (0, [5], 5),
        (2, [5], 3),
        (2, [5, 7], 5),
        (None, [5], None),
        (None, [5, 7], 2),
        (5, [3], 3),
        (0, [None], None),
        (0, [float("nan")], None),
    ],
)
def test_a_turn_uses_what_the_totals_of_its_session_grow_by(
    before: int | None, told: list[float | None], used: int | None
) -> None:
    usage = Usage(None if before is None else Totals(before, before))
    for each in told:
        usage.add({"type": "result", "total_cost_usd": each, "duration_api_ms": each})
    found = usage.metadata(5)
    assert (usage.cost, found.get("costUsd"), found.get("apiDurationMs")) == (used, used, used)


def test_tokens_and_turns_of_rounds_are_summed() -> None:
    usage = Usage()
    for _ in range(2):
        usage.add(
            {
                "usage": {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 3, "service_tier": "x"},
                "num_turns": 5,
            }
        )
    assert usage.metadata(7) == {
        "inputTokens": 2,
        "outputTokens": 4,
        "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 6,
        "durationMs": 7,
        "numTurns": 10,
    }


@pytest.mark.parametrize("result", [{}, {"usage": None}, {"usage": {"input_tokens": "3"}, "num_turns": None}])
def test_what_is_no_number_counts_for_nothing(result: dict[str, Any]) -> None:
    usage = Usage()
    usage.add(result)
    assert set(usage.tokens.values()) == {0}

"""What a turn used."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_claude.claude.usage import Usage


@pytest.mark.parametrize(
    ("before", "totals", "cost"),
    [
        (0.0, [0.5], 0.5),
        (0.25, [0.5], 0.25),
        (0.25, [0.5, 0.75], 0.5),
        (None, [0.5], None),
        (None, [0.5, 0.75], 0.25),
        (0.5, [0.25], 0.25),
        (0.0, [None], None),
        (0.0, [float("nan")], None),
    ],
)
def test_the_cost_of_a_turn_is_the_growth_of_the_sessions_cost(
    before: float | None, totals: list[float | None], cost: float | None
) -> None:
    usage = Usage(before)
    for each in totals:
        usage.add({"type": "result", "total_cost_usd": each})
    assert usage.cost == cost
    assert usage.metadata(5).get("costUsd") == cost


def test_tokens_times_and_turns_of_rounds_are_summed() -> None:
    usage = Usage()
    for _ in range(2):
        usage.add(
            {
                "usage": {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": 3, "service_tier": "x"},
                "duration_api_ms": 4,
                "num_turns": 5,
            }
        )
    assert usage.metadata(7) == {
        "inputTokens": 2,
        "outputTokens": 4,
        "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 6,
        "durationMs": 7,
        "apiDurationMs": 8,
        "numTurns": 10,
    }


@pytest.mark.parametrize("result", [{}, {"usage": None}, {"usage": {"input_tokens": "3"}, "num_turns": None}])
def test_what_is_no_number_counts_for_nothing(result: dict[str, Any]) -> None:
    usage = Usage()
    usage.add(result)
    assert set(usage.tokens.values()) == {0}

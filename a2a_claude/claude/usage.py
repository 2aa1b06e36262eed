"""What a turn used: tokens, money, time, and by which model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from a2a_claude.claude.session import Frame, Totals

_N = TypeVar("_N", int, float)

_TOKENS: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
}


@dataclass(slots=True)
class Usage:
    """Sums of a turn's rounds.

    The CLI's `usage` is a round's own, its cost and its time of the API grow with the session: the turn's are the
    difference to `before` (None when that is not known: then the first round only tells where to count from).
    """

    before: Totals | None = field(default_factory=Totals)
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TOKENS.values(), 0))
    cost: float | None = None
    api_ms: int | None = None
    turns: int = 0
    model: str | None = None

    def add(self, result: Frame) -> None:
        """A round's `result`."""
        used = result.get("usage")
        if isinstance(used, Mapping):
            for key, name in _TOKENS.items():
                self.tokens[name] += int(_number(used.get(key)))
        self.turns += int(_number(result.get("num_turns")))
        if (total := totals(result)) is not None:
            before, self.before = self.before, total
            if before is not None:
                self.cost = (self.cost or 0.0) + _growth(before.cost, total.cost)
                self.api_ms = (self.api_ms or 0) + _growth(before.api_ms, total.api_ms)

    @property
    def sdk_tokens(self) -> dict[str, int]:
        """The tokens by the names that the SDK has for them."""
        return {name: self.tokens[ours] for name, ours in _TOKENS.items()}

    def metadata(self, milliseconds: int) -> dict[str, Any]:
        """For the status that ends the task; `milliseconds` is how long the turn took. What is unknown is left out."""
        found = {
            **self.tokens,
            "costUsd": None if self.cost is None else round(self.cost, 9),
            "durationMs": milliseconds,
            "apiDurationMs": self.api_ms,
            "numTurns": self.turns,
            "model": self.model,
        }
        return {key: value for key, value in found.items() if value is not None}


def totals(result: Frame) -> Totals | None:
    """What a `result` tells of its session's use; None when it tells no cost."""
    cost = result.get("total_cost_usd")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or not math.isfinite(cost):
        return None
    return Totals(float(cost), int(_number(result.get("duration_api_ms"))))


def _growth(before: _N, total: _N) -> _N:
    """A total that shrinks was counted from zero again."""
    return total - before if total >= before else total


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return 0
    return value

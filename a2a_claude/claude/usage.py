"""What a turn used: tokens, money, time, and by which model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from a2a_claude.claude.session import Frame

_TOKENS: Final = {
    "input_tokens": "inputTokens",
    "output_tokens": "outputTokens",
    "cache_read_input_tokens": "cacheReadInputTokens",
    "cache_creation_input_tokens": "cacheCreationInputTokens",
}


@dataclass(slots=True)
class Usage:
    """Sums of a turn's rounds.

    The CLI's `usage` is a round's own, its `total_cost_usd` grows with the session: the cost is the difference to
    `cost_before` (None when that is not known: then the first round only tells where to count from).
    """

    cost_before: float | None = 0.0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_TOKENS.values(), 0))
    cost: float | None = None
    api_ms: int = 0
    turns: int = 0
    model: str | None = None

    def add(self, result: Frame) -> None:
        """A round's `result`."""
        used = result.get("usage")
        if isinstance(used, Mapping):
            for key, name in _TOKENS.items():
                self.tokens[name] += int(_number(used.get(key)))
        self.api_ms += int(_number(result.get("duration_api_ms")))
        self.turns += int(_number(result.get("num_turns")))
        total = result.get("total_cost_usd")
        if isinstance(total, int | float) and not isinstance(total, bool) and math.isfinite(total):
            self._add_cost(float(total))

    def _add_cost(self, total: float) -> None:
        before, self.cost_before = self.cost_before, total
        if before is None:
            return
        # A total that shrinks was counted from zero again.
        self.cost = (self.cost or 0.0) + (total - before if total >= before else total)

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


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        return 0
    return value

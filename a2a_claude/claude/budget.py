"""`Budget`: what a task may cost (`claude.maxBudgetUsd`), seen to from outside.

The CLI's own bound is for all that a process spends, so that a process which stays for the next task would have to end
after each. Instead the CLI is asked what its session has cost: when a turn begins, now and then, and at the end of a
round. As with the CLI's own bound, what is being written when the budget runs out is paid for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from a2a_claude.claude.results import Failure
from a2a_claude.claude.session import Frame
from a2a_claude.config.model import Claude

SPENT: Final = Failure("max_budget", "Budget limit reached (max_budget_usd).")


def is_watched(claude: Claude) -> bool:
    """Whether a budget is seen to here; another CLI than the SDK's has to do it by itself."""
    return claude.max_budget_usd is not None and claude.executable_path_override is None


class Budget:
    """The budget of one turn. `cost` asks for the session's whole cost in US dollars; None when it is not told."""

    def __init__(self, claude: Claude, cost: Callable[[], Awaitable[float | None]]) -> None:
        self._dollars = claude.max_budget_usd if is_watched(claude) else None
        self._cost = cost
        self._before: float | None = None

    async def see(self, frame: Frame) -> None:
        """A frame of the turn: its first says that the session is there, and nothing has been spent yet."""
        if self._dollars is not None and self._before is None and frame.get("subtype") == "init":
            self._before = await self._cost()

    async def is_spent(self) -> bool:
        """Asks whether the turn has cost as much as it may."""
        return self._before is not None and self._over(await self._cost())

    def is_spent_by(self, result: Frame) -> bool:
        """Whether it had when this round ended."""
        total = result.get("total_cost_usd")
        return self._over(total if isinstance(total, int | float) else None)

    def _over(self, total: float | None) -> bool:
        if self._dollars is None or self._before is None or total is None:
            return False
        return total - self._before >= self._dollars

"""Rate limits: what Claude tells of them, and what a task says when one has been reached.

Three messages speak of a limit: `rate_limit_event` (with a subscription only), the CLI's retries after a 429, and an
assistant message whose `error` is `rate_limit`. The tracker is pure: it is given the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

_LABELS: Final = {
    "five_hour": "5-hour limit",
    "seven_day": "7-day limit",
    "seven_day_opus": "7-day Opus limit",
    "seven_day_sonnet": "7-day Sonnet limit",
    "seven_day_overage_included": "7-day limit (overage included)",
    "overage": "overage limit",
}
# Anything smaller is seconds: as milliseconds it would be before 2001.
_MILLISECONDS: Final = 1e12
_LATEST: Final = 253_402_300_799_000  # the end of the year 9999
_PRESSING: Final = ("allowed_warning", "rejected")
CREDITS: Final = "credits_required"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A limit that is near (`warning`) or reached (`rejected`, which ends the task). `resets_at` is ms since 1970."""

    status: Literal["warning", "rejected"]
    source: Literal["rate_limit_event", "assistant_error", "api_retry"]
    limit: str | None = None
    resets_at: int | None = None
    utilization: float | None = None
    error_code: str | None = None
    can_purchase: bool | None = None
    retry: Mapping[str, int] | None = None

    @property
    def text(self) -> str:
        """What the caller reads."""
        if self.error_code == CREDITS:
            return (
                "Claude needs additional credits to go on. Once there are some, send a new message with the same "
                "contextId to continue."
            )
        label = f" ({_LABELS[self.limit]})" if self.limit in _LABELS else ""
        resets = f" It resets at {iso(self.resets_at)}." if self.resets_at else ""
        return (
            f"Claude's rate limit has been reached{label}.{resets} "
            "Send a new message with the same contextId to continue later."
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """What programs read, `reason` excepted. What is not known is left out."""
        found = {
            "source": self.source,
            "rateLimitType": self.limit,
            "resetsAt": self.resets_at,
            "resetsAtIso": iso(self.resets_at) if self.resets_at else None,
            "utilization": self.utilization,
            "errorCode": self.error_code,
            "canPurchaseCredits": self.can_purchase,
        }
        return {key: value for key, value in found.items() if value is not None}


class RateLimits:
    """The limits of one turn. It remembers the last event: later errors inherit its kind and its reset time."""

    def __init__(self) -> None:
        self._last: tuple[str, str | None, int | None] | None = None

    def event(self, info: object, now: int) -> Verdict | None:
        """A `rate_limit_event`'s `rate_limit_info`; `now` in ms since 1970. None: nothing to tell."""
        if not isinstance(info, Mapping):
            return None
        status = info.get("status")
        if status not in ("allowed", *_PRESSING):
            return None
        limit, resets = _word(info.get("rateLimitType")), reset_time(info.get("resetsAt"), now)
        self._last = (status, limit, resets)
        if status == "allowed":
            return None
        over = info.get("overageStatus") in ("allowed", "allowed_warning")
        purchase = info.get("canUserPurchaseCredits")
        code = _word(info.get("errorCode"))
        return Verdict(
            "rejected" if status == "rejected" and not over else "warning",
            "rate_limit_event",
            limit,
            None if code == CREDITS else resets,
            _number(info.get("utilization")),
            code,
            purchase if isinstance(purchase, bool) else None,
        )

    def retry(self, data: Mapping[str, Any], now: int) -> Verdict | None:
        """A `system/api_retry`: a warning when it is for a rate limit."""
        if data.get("error") != "rate_limit":
            return None
        names = {"attempt": "attempt", "max_retries": "maxRetries", "retry_delay_ms": "delayMs"}
        counters = {name: int(number) for key, name in names.items() if (number := _number(data.get(key))) is not None}
        limit, resets = self._inherited(now)
        return Verdict("warning", "api_retry", limit, resets, retry=counters)

    def error(self, error: object, now: int) -> Verdict | None:
        """The `error` of an assistant message: rejected when it is `rate_limit`."""
        if error != "rate_limit":
            return None
        limit, resets = self._inherited(now)
        return Verdict("rejected", "assistant_error", limit, resets)

    def _inherited(self, now: int) -> tuple[str | None, int | None]:
        if self._last is None or self._last[0] not in _PRESSING:
            return None, None
        _, limit, resets = self._last
        return limit, resets if resets and resets > now else None


def reset_time(value: object, now: int) -> int | None:
    """A reset time in ms since 1970, from seconds or milliseconds; None when it is none, or not in the future."""
    number = _number(value)
    if number is None or number <= 0:
        return None
    found = int(number * 1000 if number < _MILLISECONDS else number)
    return found if now < found <= _LATEST else None


def iso(milliseconds: int) -> str:
    """UTC with milliseconds, as JavaScript's toISOString writes it."""
    moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None

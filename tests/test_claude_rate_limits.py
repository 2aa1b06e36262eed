"""What Claude tells of rate limits, and what a task makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from a2a_claude.claude.rate_limits import RateLimits, Verdict, iso, reset_time

NOW = 1_750_000_000_000
LATER = NOW + 60_000
RETRY = {"error": "rate_limit", "attempt": 2, "max_retries": 10, "retry_delay_ms": 500}


def verdict(**members: Any) -> Verdict | None:
    return RateLimits().event(members, NOW)


@pytest.mark.parametrize(
    ("info", "status"),
    [
        ({"status": "allowed"}, None),
        ({"status": "allowed_warning"}, "warning"),
        ({"status": "rejected"}, "rejected"),
        ({"status": "rejected", "overageStatus": "allowed"}, "warning"),
        ({"status": "rejected", "overageStatus": "allowed_warning"}, "warning"),
        ({"status": "rejected", "overageStatus": "rejected"}, "rejected"),
        ({"status": "of_next_year"}, None),
        ({}, None),
        (None, None),
        ("rejected", None),
    ],
)
def test_an_event_is_judged_by_its_status(info: Any, status: str | None) -> None:
    found = RateLimits().event(info, NOW)
    assert (found.status if found else None) == status


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (LATER // 1000, LATER),
        (LATER, LATER),
        (LATER / 1000, LATER),
        (NOW, None),
        (NOW // 1000 - 1, None),
        (0, None),
        (-5, None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (True, None),
        ("soon", None),
        (None, None),
    ],
)
def test_a_reset_time_is_seconds_or_milliseconds_and_in_the_future(value: Any, expected: int | None) -> None:
    assert reset_time(value, NOW) == expected


@pytest.mark.parametrize(
    ("before", "inherits"),
    [("allowed", False), ("allowed_warning", True), ("rejected", True), ("of_next_year", False)],
)
def test_later_errors_inherit_only_from_a_limit_under_pressure(before: str, inherits: bool) -> None:
    limits = RateLimits()
    limits.event({"status": before, "rateLimitType": "seven_day", "resetsAt": LATER, "utilization": 0.9}, NOW)
    for found in (limits.error("rate_limit", NOW), limits.retry(RETRY, NOW)):
        assert found is not None
        assert (found.limit, found.resets_at) == (("seven_day", LATER) if inherits else (None, None))
        assert found.utilization is None


def test_an_allowed_event_takes_the_pressure_away() -> None:
    limits = RateLimits()
    limits.event({"status": "rejected", "rateLimitType": "five_hour"}, NOW)
    limits.event({"status": "allowed", "rateLimitType": "five_hour"}, NOW)
    found = limits.error("rate_limit", NOW)
    assert found is not None
    assert found.limit is None


def test_what_was_derived_is_not_inherited_in_turn_and_a_past_reset_is_dropped() -> None:
    limits = RateLimits()
    limits.error("rate_limit", NOW)
    assert limits.retry(RETRY, NOW) == Verdict(
        "warning", "api_retry", retry={"attempt": 2, "maxRetries": 10, "delayMs": 500}
    )
    limits.event({"status": "rejected", "resetsAt": LATER}, NOW)
    found = limits.error("rate_limit", LATER + 1)
    assert found is not None
    assert found.resets_at is None


@pytest.mark.parametrize("error", ["overloaded", "server_error", None, 5])
def test_other_errors_are_no_rate_limit(error: Any) -> None:
    assert RateLimits().error(error, NOW) is None
    assert RateLimits().retry({"error": error}, NOW) is None


@pytest.mark.parametrize(
    ("limit", "label"),
    [
        ("five_hour", " (5-hour limit)."),
        ("seven_day", " (7-day limit)."),
        ("seven_day_opus", " (7-day Opus limit)."),
        ("seven_day_sonnet", " (7-day Sonnet limit)."),
        ("seven_day_overage_included", " (7-day limit (overage included))."),
        ("overage", " (overage limit)."),
        ("of_next_year", "reached."),
        (None, "reached."),
    ],
)
def test_the_text_names_the_limit_and_the_reset_when_they_are_known(limit: str | None, label: str) -> None:
    found = verdict(status="rejected", rateLimitType=limit, resetsAt=LATER)
    assert found is not None
    assert label in found.text
    assert iso(LATER) in found.text
    assert "same contextId" in found.text
    unknown = verdict(status="rejected", rateLimitType=limit)
    assert unknown is not None
    assert "resets" not in unknown.text


def test_missing_credits_have_no_reset() -> None:
    found = verdict(
        status="rejected", errorCode="credits_required", resetsAt=LATER, canUserPurchaseCredits=True, utilization=1.0
    )
    assert found is not None
    assert "credits" in found.text
    assert "resets" not in found.text
    assert found.metadata == {
        "source": "rate_limit_event",
        "errorCode": "credits_required",
        "canPurchaseCredits": True,
        "utilization": 1.0,
    }


def test_what_is_unknown_is_left_out_of_the_metadata() -> None:
    found = verdict(status="rejected", utilization="much", canUserPurchaseCredits="yes")
    assert found is not None
    assert found.metadata == {"source": "rate_limit_event"}


def test_a_time_is_written_with_milliseconds() -> None:
    assert iso(1_750_000_000_007) == "2025-06-15T15:06:40.007Z"

"""How a round ended: the result of the CLI, read without trusting its `subtype`.

An API failure is `subtype: success, is_error: true`, and a stream that was cut is told as a success with half a text.
All of the CLI's enums are open: a value that is not known here ends the task as `claude_error`, never as completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from a2a_claude.claude.session import Frame

REASONS: Final[Mapping[str, str]] = {
    "api_error": "The API refused or failed in a way that has no reason of its own here.",
    "api_unavailable": "The API answered with a server error, or not at all, after all retries.",
    "authentication_failed": "The API does not accept the agent's credentials, or there are none.",
    "billing_error": "The account cannot pay for the request.",
    "claude_error": "Claude ended with an error that is not known here; `subtype` and `terminalReason` say more.",
    "claude_failed": "The process that runs Claude failed.",
    "claude_lost": "The process that runs Claude ended in the middle of the turn, or does not answer any more.",
    "claude_start_failed": "No process that runs Claude could be started.",
    "config_invalid": "The agent's config cannot be served.",
    "empty_result": "Claude ended its turn without an answer.",
    "execution_failed": "Claude gave up with an error during the turn.",
    "file_unavailable": "A file of the message could not be fetched, or not be put into the workspace.",
    "interrupted": "The turn was interrupted, and not by a cancellation.",
    "invalid_request": "The API found the request invalid.",
    "max_budget": "The budget of `claude.maxBudgetUsd` is spent.",
    "max_output_tokens": "The answer is longer than the model may write.",
    "max_turns": "The limit of `claude.maxTurns` was reached.",
    "model_not_found": "The API does not know the model.",
    "overloaded": "The API was overloaded, after all retries.",
    "prompt_too_long": "The conversation does not fit into the model's context.",
    "rate_limit": "A rate limit was reached; `source`, `rateLimitType`, `resetsAt` and others say which.",
    "refusal": "The model's safety system declined the request.",
    "stream_cut": "The API's stream was cut, and the answer is not whole.",
    "structured_output_missing": "The config asks for structured output, and Claude gave none.",
    "structured_output_retries": "Claude's structured output did not fit the schema, after all retries.",
    "timeout": "The task took longer than `timeouts.prompt`.",
}
"""Every `reason` of a failure, and what it means. docs/reasons.md shows it."""

_SUBTYPES: Final = {
    "error_max_turns": ("max_turns", "Turn limit reached (max_turns)."),
    "error_max_budget_usd": ("max_budget", "Budget limit reached (max_budget_usd)."),
    "error_max_structured_output_retries": ("structured_output_retries", "Structured output retries exhausted."),
}
_TERMINAL: Final = {
    "max_turns": "error_max_turns",
    "budget_exhausted": "error_max_budget_usd",
    "structured_output_retry_exhausted": "error_max_structured_output_retries",
}
_TEXTS: Final = {
    "api_error": "The API failed.",
    "api_unavailable": "The API is not available.",
    "authentication_failed": "The agent's credentials were not accepted.",
    "billing_error": "The account of the agent cannot pay for the request.",
    "invalid_request": "The API found the request invalid.",
    "max_output_tokens": "The answer is longer than the model may write.",
    "model_not_found": "The model of the agent is not known.",
    "overloaded": "The API is overloaded.",
    "prompt_too_long": "The conversation no longer fits into the model's context.",
    "rate_limit": "Claude's rate limit has been reached.",
}
# What an assistant message's `error` says (an open enum).
_ERRORS: Final = {
    "authentication_failed": "authentication_failed",
    "oauth_org_not_allowed": "authentication_failed",
    "billing_error": "billing_error",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "invalid_request": "invalid_request",
    "model_not_found": "model_not_found",
    "server_error": "api_unavailable",
    "max_output_tokens": "max_output_tokens",
}
REFUSED_TEXT: Final = "Request declined by model safety system."


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task fails: `reason` is one of `REASONS`, `text` is for people, `details` join the status's metadata."""

    reason: str
    text: str
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a round before its result: the model refused, the `error` of an assistant message, and that the
    last message of the model has no end."""

    refused: bool = False
    error: str | None = None
    unfinished: bool = False


def failure_of(frame: Frame, seen: Seen, *, structured: bool) -> Failure | None:
    """Why the round that `frame` (a `result`) ends has failed; None when it has not.

    `structured`: the config asks for structured output. An empty answer is judged by the turn, which knows the rounds
    before.
    """
    subtype = _text(frame.get("subtype"))
    terminal = _text(frame.get("terminal_reason"))
    details = {
        key: value
        for key, value in (
            ("subtype", subtype),
            ("terminalReason", terminal),
            ("apiErrorStatus", frame.get("api_error_status")),
        )
        if isinstance(value, str | int) and value not in ("", "success", "completed")
    }
    if seen.refused or frame.get("stop_reason") == "refusal":
        return Failure("refusal", REFUSED_TEXT)
    subtype = _TERMINAL.get(terminal, subtype)
    if subtype in _SUBTYPES:
        return Failure(*_SUBTYPES[subtype], details)
    if terminal.startswith("aborted"):
        return Failure("interrupted", "The turn was interrupted.", details)
    if frame.get("is_error") or subtype != "success":
        return _error(frame, seen, subtype, terminal, details)
    if seen.unfinished:
        return Failure("stream_cut", "The stream of the answer was cut.", details)
    if structured and frame.get("structured_output") is None:
        return Failure("structured_output_missing", "Claude gave no structured output.", details)
    return None


def _error(frame: Frame, seen: Seen, subtype: str, terminal: str, details: Mapping[str, Any]) -> Failure:
    reason = _TEXTS.keys() & {terminal} - {"api_error"}
    if reason:
        return _failure(reason.pop(), details)
    if subtype == "success" or terminal == "api_error":
        known = _ERRORS.get(seen.error or "")
        if known == "api_unavailable":  # an overloaded API is said to be a failing server
            known = _of_status(frame.get("api_error_status")) or known
        found = known or _of_status(frame.get("api_error_status")) or ("api_error" if terminal == "api_error" else None)
        if found:
            return _failure(found, details)
    if subtype == "error_during_execution":
        return Failure("execution_failed", "Error during execution.", details)
    named = terminal if subtype in ("", "success") else subtype
    return Failure("claude_error", f"Execution failed ({named})." if named else "Execution failed.", details)


def _failure(reason: str, details: Mapping[str, Any]) -> Failure:
    return Failure(reason, _TEXTS[reason], details)


def _of_status(status: object) -> str | None:
    match status:
        case 401 | 403:
            return "authentication_failed"
        case 402:
            return "billing_error"
        case 404:
            return "model_not_found"
        case 400 | 413 | 422:
            return "invalid_request"
        case 429:
            return "rate_limit"
        case 529:
            return "overloaded"
        case int() if status >= 500:
            return "api_unavailable"
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

"""What is wrong, where, and what to do: one `Diagnostic` per problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from a2a_claude.config.rules import RULES

if TYPE_CHECKING:
    from a2a_claude.config.source import Source

Severity = Literal["error", "warning", "note"]
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source; lines and columns count characters from 0, the end is exclusive."""

    source: Source
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line + 1}:{self.column + 1}"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem. `rule` is a key of `RULES`; `related` are further places with a label each."""

    rule: str
    severity: Severity
    message: str
    span: Span
    hint: str = ""
    related: tuple[tuple[str, Span], ...] = ()

    @property
    def code(self) -> str:
        """The stable rule id, e.g. `A2C301`."""
        return RULES[self.rule].code

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """Sorts by place, then rule."""
        return (self.span.source.name, self.span.line, self.span.column, self.code, self.message)


def error(
    rule: str, message: str, span: Span, hint: str = "", related: tuple[tuple[str, Span], ...] = ()
) -> Diagnostic:
    """An error: the config is refused."""
    return Diagnostic(rule, "error", message, span, hint, related)


def warning(
    rule: str, message: str, span: Span, hint: str = "", related: tuple[tuple[str, Span], ...] = ()
) -> Diagnostic:
    """A warning: the config is accepted, and refused under `--strict`."""
    return Diagnostic(rule, "warning", message, span, hint, related)


def note(rule: str, message: str, span: Span, hint: str = "") -> Diagnostic:
    """A note: worth knowing, never refused."""
    return Diagnostic(rule, "note", message, span, hint)


def tidy(diagnostics: Iterable[Diagnostic], strict: bool = False) -> list[Diagnostic]:
    """Sorted by place, each problem once (a shared layer is seen by many agents), warnings as errors when `strict`."""
    unique = {each.order: each for each in diagnostics}
    out = [unique[key] for key in sorted(unique)]
    if strict:
        out = [
            Diagnostic(each.rule, "error", each.message, each.span, each.hint, each.related)
            if each.severity == "warning"
            else each
            for each in out
        ]
    return out


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(each.severity == "error" for each in diagnostics)


def count(diagnostics: Iterable[Diagnostic]) -> dict[Severity, int]:
    """How many of each severity."""
    severities = [each.severity for each in diagnostics]
    return {severity: severities.count(severity) for severity in _SEVERITIES}

"""What is wrong, where, and what to do: one `Diagnostic` per problem."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from a2a_claude.config.credentials import mask
from a2a_claude.config.rules import RULES

if TYPE_CHECKING:
    from a2a_claude.config.source import Source

Severity = Literal["error", "warning", "note"]
MAX_PROBLEMS = 100
"""So many problems of a file are told; who has more has another problem than each of them."""
_LONGEST = 600
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
    return Diagnostic(rule, "error", _told(message), span, _told(hint), related)


def warning(
    rule: str, message: str, span: Span, hint: str = "", related: tuple[tuple[str, Span], ...] = ()
) -> Diagnostic:
    """A warning: the config is accepted, and refused under `--strict`."""
    return Diagnostic(rule, "warning", _told(message), span, _told(hint), related)


def note(rule: str, message: str, span: Span, hint: str = "") -> Diagnostic:
    """A note: worth knowing, never refused."""
    return Diagnostic(rule, "note", _told(message), span, _told(hint))


class Problems(list[Diagnostic]):
    """The problems of one file as it is read; reading ends by TooMany when there are more than MAX_PROBLEMS."""

    def add(self, problem: Diagnostic) -> None:
        if len(self) == MAX_PROBLEMS:
            hint = "mend the ones before; one mistake may be behind them all"
            message = f"more than {MAX_PROBLEMS} problems: the file is not read any further"
            raise TooMany(error("too-many-problems", message, problem.span, hint))
        self.append(problem)


class TooMany(Exception):
    """A file with so many problems that it is not read any further."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def _told(text: str) -> str:
    """Text without credentials, and no longer than anybody reads: a message may quote what stands in a config."""
    if len(text) > _LONGEST:
        text = f"{mask(text[: 4 * _LONGEST])[:_LONGEST]}…"
    return mask(text)


def tidy(diagnostics: Iterable[Diagnostic], strict: bool = False) -> list[Diagnostic]:
    """Sorted by place, each problem once (a shared layer is seen by many agents), warnings as errors when `strict`.

    At most MAX_PROBLEMS of one file, the worst of them, and a note that there are more.
    """
    unique = {each.order: each for each in diagnostics}
    files: dict[str, list[Diagnostic]] = {}
    for key in sorted(unique):
        files.setdefault(key[0], []).append(unique[key])
    out = [each for found in files.values() for each in _worst(found)]
    if strict:
        out = [
            Diagnostic(each.rule, "error", each.message, each.span, each.hint, each.related)
            if each.severity == "warning"
            else each
            for each in out
        ]
    return out


def _worst(found: list[Diagnostic]) -> list[Diagnostic]:
    if len(found) <= MAX_PROBLEMS:
        return found
    kept = sorted(found, key=lambda each: _SEVERITIES.index(each.severity))[:MAX_PROBLEMS]
    last = max(found, key=lambda each: each.order).span
    message = f"{len(found) - MAX_PROBLEMS} more problems in this file are not shown"
    return [*sorted(kept, key=lambda each: each.order), note("too-many-problems", message, last, "mend these first")]


def has_errors(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(each.severity == "error" for each in diagnostics)


def count(diagnostics: Iterable[Diagnostic]) -> dict[Severity, int]:
    """How many of each severity."""
    severities = [each.severity for each in diagnostics]
    return {severity: severities.count(severity) for severity in _SEVERITIES}

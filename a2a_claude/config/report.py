"""Diagnostics for people (text), programs (json), GitHub's pull requests (github) and code scanners (SARIF 2.1.0)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import quote

from a2a_claude import __version__
from a2a_claude.config.credentials import mask_line
from a2a_claude.config.diagnostics import Diagnostic, Span, count
from a2a_claude.config.rules import RULES
from a2a_claude.config.source import Source

_COLOURS = {"error": "31", "warning": "33", "note": "36", "bold": "1", "faint": "2"}
_LONGEST_LINE = 160
_AROUND = 2000
_RUN = re.compile(r"\A[^\s\"'{}\[\],;]+")
_TAB = "    "


def text(diagnostics: Sequence[Diagnostic], colour: bool = False) -> str:
    """`path:line:column`, severity, rule and message; the user's line with the span underlined; the hint."""
    lines = _Lines(each.span for each in diagnostics if each.rule == "literal-credential")
    blocks = [_block(each, lines, colour) for each in diagnostics]
    return "\n".join(blocks) + ("\n" if blocks else "")


def summary(diagnostics: Iterable[Diagnostic]) -> str:
    """`2 errors, 1 warning`; empty when there is nothing to count."""
    parts = [
        f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in count(list(diagnostics)).items() if number
    ]
    return ", ".join(parts)


def _paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{_COLOURS[style]}m{text}\x1b[0m" if colour else text


class _Lines:
    """Lines of sources, shown without their credentials."""

    def __init__(self, secrets: Iterable[Span]) -> None:
        self.secrets: dict[tuple[Source, int], list[Span]] = {}
        for span in secrets:
            for line in range(span.line, span.end_line + 1):
                self.secrets.setdefault((span.source, line), []).append(span)

    def at(self, span: Span, line: str, cut: int) -> str:
        """What is shown of `line`, that of `span`, from column `cut` on.

        Only that and its surroundings are looked at. A run of characters that begins before them is hidden as well.
        """
        first = max(0, cut - _AROUND)
        around = line[first : cut + _LONGEST_LINE + _AROUND]
        if first:
            around = _RUN.sub(lambda match: "*" * len(match[0]), around, count=1)
        shown = list(mask_line(around)[cut - first : cut - first + _LONGEST_LINE])
        for each in self.secrets.get((span.source, span.line), ()):
            start = each.column - cut if each.line == span.line else 0
            end = each.end_column - cut if each.end_line == span.line else len(shown)
            start, end = max(0, start), max(0, end)
            shown[start:end] = "*" * len(shown[start:end])
        return "".join(shown)


def _block(each: Diagnostic, known: _Lines, colour: bool) -> str:
    head = _paint(f"{printable(str(each.span))}:", "bold", colour)
    severity = _paint(f"{each.severity}[{each.code}]", each.severity, colour)
    lines = [f"{head} {severity}: {printable(each.message)}", *_excerpt(each.span, known, each.severity, colour)]
    for label, span in each.related:
        lines += [f"  {label}: {printable(str(span))}", *_excerpt(span, known, "faint", colour)]
    if each.hint:
        lines.append(f"  {_paint('hint:', 'bold', colour)} {printable(each.hint)}")
    return "\n".join(lines) + "\n"


def _excerpt(span: Span, known: _Lines, style: str, colour: bool) -> list[str]:
    """The user's own line, credentials masked, with carets below the span. Nothing for a place without text."""
    line = span.source.line(span.line)
    start, end = span.column, max(span.end_column, span.column + 1)
    if not line or line.isspace():
        return []
    cut = max(0, min(start - 40, len(line) - _LONGEST_LINE))
    shown, start, end = known.at(span, line, cut), start - cut, min(end - cut, _LONGEST_LINE)
    number = f"{span.line + 1:>5}"
    before = "…" if cut else ""
    after = "…" if cut + _LONGEST_LINE < len(line) else ""
    pad = " " * (len(before) + _width(shown[:start]))
    carets = "^" * max(1, _width(shown[start:end]))
    return [
        f"{number} | {before}{printable(shown.replace(chr(9), _TAB))}{after}",
        f"{' ' * 5} | {pad}{_paint(carets, style, colour)}",
    ]


def printable(text: str) -> str:
    """Text that cannot steer a terminal: whatever is not printable is shown as a replacement character."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _width(text: str) -> int:
    """Columns on a terminal."""
    total = 0
    for char in text:
        if char == "\t":
            total += len(_TAB)
        elif not unicodedata.combining(char) and unicodedata.category(char) not in ("Mn", "Me", "Cf"):
            total += 2 if unicodedata.east_asian_width(char) in "WF" else 1
    return total


def as_json(diagnostics: Sequence[Diagnostic]) -> str:
    """One array; lines and columns count from 1, the end is exclusive."""
    rows = [
        {
            "path": each.span.source.name,
            "line": each.span.line + 1,
            "column": each.span.column + 1,
            "endLine": each.span.end_line + 1,
            "endColumn": each.span.end_column + 1,
            "rule": each.code,
            "severity": each.severity,
            "message": each.message,
            "hint": each.hint,
        }
        for each in diagnostics
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def github(diagnostics: Sequence[Diagnostic]) -> str:
    """Workflow commands that annotate a pull request.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    names = {"error": "error", "warning": "warning", "note": "notice"}
    lines = []
    for each in diagnostics:
        properties = {
            "file": each.span.source.name,
            "line": each.span.line + 1,
            "col": each.span.column + 1,
            "endLine": each.span.end_line + 1,
            "endColumn": max(each.span.end_column, each.span.column + 1),
            "title": f"{each.code} {RULES[each.rule].title}",
        }
        listed = ",".join(f"{key}={_escaped(str(value), properties=True)}" for key, value in properties.items())
        message = each.message + (f"\n{each.hint}" if each.hint else "")
        lines.append(f"::{names[each.severity]} {listed}::{_escaped(message)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str, properties: bool = False) -> str:
    text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(":", "%3A").replace(",", "%2C") if properties else text


def sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """A SARIF 2.1.0 log with one run.

    Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    used = sorted({each.rule for each in diagnostics}, key=lambda name: RULES[name].code)
    rules = [
        {"id": RULES[name].code, "name": _pascal(name), "shortDescription": {"text": RULES[name].title}}
        for name in used
    ]
    driver = {"name": "a2a-claude", "version": __version__, "rules": rules}
    results = [
        {
            "ruleId": each.code,
            "ruleIndex": used.index(each.rule),
            "level": each.severity,
            "message": {"text": each.message + (f" ({each.hint})" if each.hint else "")},
            "locations": [_location(each.span)],
            **({"relatedLocations": [_location(span, label) for label, span in each.related]} if each.related else {}),
        }
        for each in diagnostics
    ]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _pascal(name: str) -> str:
    return "".join(word.title() for word in name.split("-"))


def _location(span: Span, label: str = "") -> dict[str, Any]:
    region = {
        "startLine": span.line + 1,
        "startColumn": span.column + 1,
        "endLine": span.end_line + 1,
        "endColumn": max(span.end_column, span.column) + 1,
    }
    scheme = "file://" if span.source.name.startswith("/") else ""
    uri = scheme + quote(span.source.name, errors="replace")
    physical = {"artifactLocation": {"uri": uri}, "region": region}
    return {"physicalLocation": physical, **({"message": {"text": label}} if label else {})}


FORMATS: dict[str, Callable[[Sequence[Diagnostic]], str]] = {
    "text": text,
    "json": as_json,
    "github": github,
    "sarif": sarif,
}

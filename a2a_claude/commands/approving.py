"""Asks a person at the terminal what an agent asks its caller: docs/approvals.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from a2a_claude.commands.progress import printable


def can_ask(request: Any) -> bool:
    """Whether `request` is one that a person can be asked about; an agent may send anything."""
    if not isinstance(request, Mapping) or not isinstance(request.get("id"), str) or not request["id"]:
        return False
    if questions := request.get("questions"):
        return isinstance(questions, list) and all(
            isinstance(each, Mapping) and isinstance(each.get("options", []), list) for each in questions
        )
    choices = request.get("choices")
    named = isinstance(choices, list) and all(
        isinstance(each, Mapping) and isinstance(each.get("id"), str) for each in choices
    )
    return bool(choices) and named and isinstance(request.get("input", {}), Mapping)


def ask(requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The answers to open requests that `can_ask`, each as its `approvals` entry. click.Abort when the person gives
    up."""
    return [_question(each) if each.get("questions") else _decision(each) for each in requests]


def _decision(request: Mapping[str, Any]) -> dict[str, Any]:
    click.echo(f"\n{_line_of(request.get('tool'))} asks for permission", err=True)
    for key in ("title", "description", "reason", "path"):
        if request.get(key):
            _show(f"{key}: {request[key]}")
    for name, value in request.get("input", {}).items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        _show(f"{name}: {shown}")
    choices = request["choices"]
    picked = choices[_pick([str(each.get("label") or each.get("id")) for each in choices])]
    answer: dict[str, Any] = {"id": request["id"], "choice": picked["id"]}
    if picked["id"] == "deny" and (why := _line("Why (empty for no reason)")):
        answer["message"] = why
    return answer


def _question(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": request["id"], "answers": [_answer(each) for each in request["questions"]]}


def _answer(question: Mapping[str, Any]) -> Any:
    click.echo(err=True)
    _show(str(question.get("question")), "")
    options = [each for each in question.get("options", []) if isinstance(each, Mapping)]
    for number, each in enumerate(options, 1):
        about = f" – {each['description']}" if each.get("description") else ""
        _show(f"{number}. {each.get('label')}{about}")
    many = bool(question.get("multiSelect"))
    while True:
        said = _line("Numbers with commas, or words of your own" if many else "A number, or words of your own")
        picked = [each.strip() for each in said.split(",")] if many else [said]
        labels = [
            str(options[int(each) - 1].get("label")) if each.isdecimal() and 0 < int(each) <= len(options) else each
            for each in picked
            if each
        ]
        if labels:
            return labels if many else labels[0]


def _pick(labels: Sequence[str]) -> int:
    for number, label in enumerate(labels, 1):
        _show(f"{number}. {label}")
    while True:
        said = _line(f"Choose 1 to {len(labels)}")
        if said.isdecimal() and 0 < int(said) <= len(labels):
            return int(said) - 1


def _show(text: str, indent: str = "  ") -> None:
    """Further lines of a text are marked: they are the model's words, which could be those of this prompt."""
    click.echo(indent + printable(text).replace("\n", f"\n{indent}  | "), err=True)


def _line_of(value: object) -> str:
    return printable(" ".join(str(value).split()))


def _line(what: str) -> str:
    """A line of the terminal; click's own prompt writes to standard output, where the agent's answer goes."""
    click.echo(f"{what}: ", nl=False, err=True)
    said = sys.stdin.readline()
    if not said:
        raise click.Abort
    return said.strip()

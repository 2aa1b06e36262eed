"""What a caller's message says about open requests, and what that makes of one.

An answer names its request: in a data part or the message's metadata, `{"approvals": [{"id": …, "choice": …}]}`, or as
a text, `<id> <choice>`. docs/approvals.md has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import InvalidParamsError
from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny
from google.protobuf.json_format import MessageToDict

from a2a_claude.claude.approval_requests import Request
from a2a_claude.claude.content import plain

KEY: Final = "approvals"
_NAMED: Final = re.compile(r"\s*(?P<id>[0-9a-f]{8})(?:\s*[:,]\s*|\s+)(?P<said>\S[\s\S]*)")
_MEMBERS: Final = frozenset({"id", "choice", "answers", "input", "message"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: to a request, by a choice's id, or by what was `said` in words."""

    id: str
    choice: str = ""
    answers: Any = None
    input: Mapping[str, Any] = field(default_factory=dict)
    message: str = ""
    said: str = ""


def named(message: Message) -> list[Answer]:
    """The answers in a message's data parts and metadata; the text beside them is told to Claude with a denial.

    Raises:
        InvalidParamsError: one that cannot be read; the place is named.
    """
    found: list[Answer] = []
    text = spoken(message)
    for number, part in enumerate(message.parts):
        if part.HasField("data"):
            data = plain(MessageToDict(part.data))
            if isinstance(data, dict) and KEY in data:
                found += _read(data[KEY], f"message.parts[{number}].data.{KEY}", text)
    if KEY in message.metadata:
        found += _read(plain(MessageToDict(message.metadata.fields[KEY])), f"message.metadata.{KEY}", text)
    twice = {each.id for each in found if sum(other.id == each.id for other in found) > 1}
    if twice:
        raise InvalidParamsError(f"Request {sorted(twice)[0]} is answered twice in one message")
    return found


def spoken(message: Message) -> str:
    """The text of a message."""
    return "\n".join(part.text for part in message.parts if part.text).strip()


def worded(text: str) -> Answer | None:
    """`<id> <what is said>`."""
    found = _NAMED.fullmatch(text)
    return Answer(found["id"], said=found["said"].strip()) if found else None


def _read(value: Any, where: str, text: str) -> list[Answer]:
    if not isinstance(value, list) or not value:
        raise InvalidParamsError(f"{where}: a list of answers is wanted, each with an id and a choice")
    answers = []
    for index, each in enumerate(value):
        place = f"{where}[{index}]"
        if not isinstance(each, dict):
            raise InvalidParamsError(f"{place}: an object with an id and a choice is wanted")
        if unknown := sorted(each.keys() - _MEMBERS):
            raise InvalidParamsError(f"{place}.{unknown[0]}: not known; there are {', '.join(sorted(_MEMBERS))}")
        if not isinstance(each.get("id"), str) or not each["id"]:
            raise InvalidParamsError(f"{place}.id: the id of the request is wanted")
        for name in ("choice", "message"):
            if not isinstance(each.get(name, ""), str):
                raise InvalidParamsError(f"{place}.{name}: a text is wanted")
        if not isinstance(each.get("input", {}), dict):
            raise InvalidParamsError(f"{place}.input: an object is wanted, with the arguments to change")
        answers.append(
            Answer(
                each["id"],
                each.get("choice", ""),
                each.get("answers"),
                each.get("input", {}),
                each.get("message") or text,
            )
        )
    return answers


def outcome(request: Request, answer: Answer) -> tuple[str, PermissionResultAllow | PermissionResultDeny]:
    """What an answer makes of its request: the choice's id, and what Claude is told.

    Raises:
        InvalidParamsError: it is no answer to this request.
    """
    name = answer.choice or ("answer" if answer.answers is not None else "")
    choice = request.chosen(answer.said or name)
    if request.kind == "question" and answer.said and (choice is None or choice.id != "deny"):
        return "answer", _answered(request, [answer.said])
    if choice is None:
        ways = ", ".join(each.id for each in request.choices)
        raise InvalidParamsError(f"Request {request.id} ({request.tool}) can be answered with: {ways}")
    if choice.id == "deny":
        told = f" The caller says: {answer.message}" if answer.message else ""
        return choice.id, PermissionResultDeny(message=f"The caller said no.{told}")
    if request.kind == "question":
        return choice.id, _answered(request, answer.answers)
    edited = {**request.arguments, **answer.input} if answer.input else None
    return choice.id, PermissionResultAllow(updated_input=edited, updated_permissions=list(choice.updates) or None)


def _answered(request: Request, answers: Any) -> PermissionResultAllow:
    """The input of AskUserQuestion with `answers` in it, which is how the tool takes them."""
    questions, shown = request.arguments["questions"], request.shown["questions"]
    where = f"answers to request {request.id}"
    if isinstance(answers, list):
        if len(answers) != len(questions):
            raise InvalidParamsError(f"{where}: {len(questions)} are wanted, in the order of the questions")
        given = dict(enumerate(answers))
    elif isinstance(answers, dict) and answers:
        names = [
            {each["question"], each.get("header"), seen["question"], seen.get("header")}
            for each, seen in zip(questions, shown, strict=True)
        ]
        given = {}
        for name, value in answers.items():
            found = [index for index, known in enumerate(names) if name in known]
            if len(found) != 1:
                raise InvalidParamsError(f"{where}: {name!r} is no question of it")
            given[found[0]] = value
    else:
        raise InvalidParamsError(f"{where}: a list in the order of the questions is wanted, or an object by question")
    taken = {questions[index]["question"]: _value(questions[index], value, where) for index, value in given.items()}
    return PermissionResultAllow(updated_input={**request.arguments, "answers": taken})


def _value(question: Mapping[str, Any], value: Any, where: str) -> str:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, str) and each.strip() for each in values):
        raise InvalidParamsError(f"{where}: each is a text: the label of an option, or words of your own")
    if len(values) > 1 and not question.get("multiSelect"):
        raise InvalidParamsError(f"{where}: one answer is wanted to a question without multiSelect")
    options = [each.get("label") for each in question.get("options") or () if isinstance(each, dict)]
    labels = {each.casefold(): each for each in options if isinstance(each, str)}
    return ", ".join(labels.get(each.strip().casefold(), each.strip()) for each in values)

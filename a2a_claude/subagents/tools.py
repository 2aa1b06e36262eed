"""The tools that Claude has for the agents: `{name}__{skill}`, `{name}__message`, and three for tasks that run on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import AgentCard, AgentSkill

from a2a_claude.claude.delegates import SERVER, Tool

STATUS, RESULT, CANCEL = "task_status", "task_result", "task_cancel"
MESSAGE: Final = "message"

# The Messages API admits names of 64 such characters, and the CLI puts mcp__<server>__ before ours.
_OUTSIDE: Final = re.compile(r"[^A-Za-z0-9_-]")
LONGEST: Final = 64 - len(f"mcp__{SERVER}__")
_LONGEST_DESCRIPTION: Final = 1500
_MAX_SKILLS: Final = 40

_TASK: Final = {"type": "string", "description": "The id that a tool of this server has given, like reviewer-1."}
_SEND: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "minLength": 1,
            "description": "What the agent is to do or to know. It sees this text alone: nothing of this conversation, "
            "and no file of this machine.",
        },
        "task_id": {**_TASK, "description": "Only to answer a task that waits for input: its id."},
        "new_conversation": {
            "type": "boolean",
            "description": "True: the agent forgets what it was told before. By default it goes on from there.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Target:
    """What a tool calls: a remote by its name, and the skill, empty for none in particular."""

    remote: str
    skill: str = ""


def catalogue(cards: Mapping[str, AgentCard | None]) -> tuple[list[Tool], dict[str, Target]]:
    """The tools for agents by their names in the config, and what each calls. None: its card has not been had yet.

    A remote cannot take another one's tool away: names that meet get a hash of what they stand for.
    """
    wanted: list[tuple[str, Target, str]] = []
    for name, card in cards.items():
        skills: dict[str, AgentSkill] = {}
        for each in card.skills[:_MAX_SKILLS] if card else ():
            skills.setdefault(each.id, each)
        skills.pop("", None)
        wanted += [(f"{name}__{skill}", Target(name, skill), _about(card, each)) for skill, each in skills.items()]
        if not skills:
            wanted.append((f"{name}__{MESSAGE}", Target(name), _unknown(name, card)))
    names = _names([(text, f"{target.remote}\0{target.skill}") for text, target, _ in wanted])
    tools = [Tool(name, about, _SEND) for name, (_, _, about) in zip(names, wanted, strict=True)]
    targets = {name: target for name, (_, target, _) in zip(names, wanted, strict=True)}
    for name in cards:  # as it was called while its card was not known
        targets.setdefault(_names([(f"{name}__{MESSAGE}", f"{name}\0")])[0], Target(name))
    return [*tools, *_of_tasks()], targets


def _of_tasks() -> list[Tool]:
    one = {"type": "object", "properties": {"task_id": _TASK}, "required": ["task_id"], "additionalProperties": False}
    offset = {"type": "integer", "minimum": 0, "description": "Where to go on in a long answer, in characters."}
    result = {**one, "properties": {"task_id": _TASK, "offset": offset}}
    return [
        Tool(STATUS, "How a task of another agent is, at once.", one, reads=True),
        Tool(
            RESULT,
            "The answer of a task of another agent. Waits for it a while when the task still runs.",
            result,
            reads=True,
        ),
        Tool(CANCEL, "Cancels a task of another agent that is not needed any more.", one),
    ]


def _names(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Each text as a name of a tool. `wanted` has with it what makes it unique."""
    listed = list(wanted)
    plain = [_OUTSIDE.sub("_", text) for text, _ in listed]
    taken = {STATUS, RESULT, CANCEL}
    names = []
    for name, (_, key) in zip(plain, listed, strict=True):
        if len(name) > LONGEST or plain.count(name) > 1 or name in taken:
            digest = hashlib.sha256(key.encode()).hexdigest()[:8]
            name = f"{name[: LONGEST - 9]}_{digest}"
        taken.add(name)
        names.append(name)
    return names


def _about(card: AgentCard | None, skill: AgentSkill) -> str:
    agent = card.name if card else ""
    lines = [f"Asks the agent {_line(agent, 100)}: {_line(skill.name, 100)}.", skill.description.strip()]
    if skill.examples:
        lines.append("For example: " + "; ".join(_line(each, 200) for each in skill.examples[:3]))
    return "\n".join(filter(None, lines))[:_LONGEST_DESCRIPTION]


def _unknown(name: str, card: AgentCard | None) -> str:
    if card is None:
        return (
            f"Asks the agent {name}. It could not be reached when this was listed, so what it can do is not known; "
            "a call tries again."
        )
    return f"Asks the agent {_line(card.name, 100)}.\n{card.description.strip()}"[:_LONGEST_DESCRIPTION]


def _line(text: str, most: int) -> str:
    return " ".join(text.split())[:most]

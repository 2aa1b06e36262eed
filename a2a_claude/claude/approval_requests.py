"""A permission request, a question or a plan of Claude as the caller is shown it, with the choices there are.

Everything shown is redacted. docs/approvals.md has the JSON.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal

from claude_agent_sdk import (
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ToolPermissionContext,
)

from a2a_claude.claude.approval_policy import QUESTION, restricts
from a2a_claude.claude.json_values import sendable, whole
from a2a_claude.config.model import ApprovalRule
from a2a_claude.observe.redaction import Redactor

PLAN: Final = "ExitPlanMode"
Kind = Literal["permission", "question", "plan"]

# Characters of a text of the input that are shown; `truncated` names those that are longer.
LONGEST_TEXT: Final = 20_000
_LONGEST_SUMMARY: Final = 500
# What permission mode acceptEdits lets happen without asking.
_EDIT_TOOLS: Final = ("Edit", "Write", "NotebookEdit", "Bash")
_ABOUT: Final = ("command", "file_path", "notebook_path", "url", "query", "pattern", "skill", "prompt")


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to answer. `grants` are rules of the CLI that hold from then on, `updates` the SDK's form of them."""

    id: str
    label: str
    updates: tuple[PermissionUpdate, ...] = ()
    grants: tuple[str, ...] = ()


@dataclass(slots=True)
class Request:
    """One that waits. `decided` gets what Claude is answered; `by` and `choice` tell how that came about."""

    id: str
    kind: Kind
    tool: str
    arguments: dict[str, Any]
    choices: tuple[Choice, ...]
    shown: dict[str, Any]
    text: str
    plan: str = ""
    decided: asyncio.Future[PermissionResultAllow | PermissionResultDeny] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    choice: str = "deny"
    by: str = "timeout"

    @property
    def record(self) -> dict[str, str]:
        """What the task keeps of the decision."""
        return {"id": self.id, "tool": self.tool, "choice": self.choice, "by": self.by}

    def chosen(self, name: str) -> Choice | None:
        """The choice of an id or a label, in any case, with or without a full stop."""
        wanted = name.strip().rstrip(".!").casefold()
        return next((each for each in self.choices if wanted in (each.id.casefold(), each.label.casefold())), None)


def describe(
    name: str,
    tool: str,
    arguments: dict[str, Any],
    context: ToolPermissionContext,
    redactor: Redactor,
    expires: float,
    rules: Sequence[ApprovalRule] = (),
) -> Request:
    """A request of the id `name`; `expires` is in seconds since 1970.

    What `rules` of the policy restrict is not allowed for a whole conversation: they would not be heard any more.
    """
    questions = _questions(arguments) if tool == QUESTION else []
    kind: Kind = "question" if questions else "plan" if tool == PLAN else "permission"
    match kind:
        case "question":
            choices: tuple[Choice, ...] = (Choice("answer", "Answer"), Choice("deny", "Do not answer"))
        case "plan":
            choices = _plan(edits=not restricts(rules, *_EDIT_TOOLS))
        case _:
            updates = _of_session(context.suggestions, edits=not restricts(rules, *_EDIT_TOOLS))
            choices = _permission(() if restricts(rules, tool) else updates)
    plan = whole(str(arguments.get("plan") or "")) if kind == "plan" else ""
    shown: dict[str, Any] = {
        "id": name,
        "kind": kind,
        "tool": tool,
        "choices": [_shown(each, lambda text: redactor.text(whole(text))) for each in choices],
        "expiresAt": datetime.fromtimestamp(expires, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    truncated: list[str] = []
    if questions:
        shown["questions"] = _cut(redactor.value(sendable(questions)), "questions", truncated)
    elif kind == "permission":
        shown["input"] = _cut(redactor.value(sendable(arguments)), "input", truncated)
    if truncated:
        shown["truncated"] = truncated
    if plan.strip():
        shown["artifactId"] = f"plan-{name}"
    for key, said in (
        ("title", context.title),
        ("description", context.description),
        ("reason", context.decision_reason),
        ("path", context.blocked_path),
        ("agentId", context.agent_id),
    ):
        if said:
            shown[key] = redactor.text(whole(said))[:LONGEST_TEXT]
    request = Request(name, kind, tool, arguments, choices, shown, "", plan if plan.strip() else "")
    request.text = _text(request)
    return request


def _permission(updates: tuple[PermissionUpdate, ...]) -> tuple[Choice, ...]:
    lasting: tuple[Choice, ...] = ()
    if updates:
        grants = tuple(each for update in updates for each in _grants(update))
        label = f"Allow {', '.join(grants)} in this conversation"
        lasting = (Choice("allowSession", label, updates, grants),)
    return (Choice("allow", "Allow once"), *lasting, Choice("deny", "Deny"))


def _of_session(suggestions: Iterable[PermissionUpdate], *, edits: bool) -> tuple[PermissionUpdate, ...]:
    """What the CLI suggests, the narrowest kind of it, for the conversation alone: nothing is written to settings."""
    found = [replace(each, destination="session") for each in suggestions]
    rules = [each for each in found if each.type == "addRules" and each.behavior == "allow" and each.rules]
    modes = [each for each in found if each.type == "setMode" and each.mode == "acceptEdits"]
    folders = [each for each in found if each.type == "addDirectories" and each.directories]
    return tuple(rules or ([*modes, *folders] if edits else []))


def _grants(update: PermissionUpdate) -> list[str]:
    if update.rules:
        return [
            f"{each.tool_name}({each.rule_content})" if each.rule_content else each.tool_name for each in update.rules
        ]
    return ["edits of files"] if update.mode else list(update.directories or ())


def _plan(*, edits: bool) -> tuple[Choice, ...]:
    mode = PermissionUpdate(type="setMode", mode="acceptEdits", destination="session")
    more = Choice("allowEdits", "Approve the plan, and edits of files", (mode,), ("edits of files",))
    return (Choice("allow", "Approve the plan"), *((more,) if edits else ()), Choice("deny", "Go on planning"))


def _questions(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The questions of an AskUserQuestion; none when one is not as the tool's schema says."""
    found = arguments.get("questions")
    if not isinstance(found, list):
        return []
    return found if all(map(_is_question, found)) else []


def _is_question(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("question"), str):
        return False
    options = value.get("options", [])
    named = isinstance(options, list) and all(
        isinstance(each, dict) and isinstance(each.get("label", ""), str) for each in options
    )
    return named and isinstance(value.get("header", ""), str)


def _shown(choice: Choice, redacted: Callable[[str], str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": choice.id, "label": redacted(choice.label)}
    if choice.grants:
        shown["grants"] = [redacted(each) for each in choice.grants]
    return shown


def _cut(value: Any, path: str, truncated: list[str]) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        truncated.append(path)
        return value[:LONGEST_TEXT]
    if isinstance(value, dict):
        return {key: _cut(each, f"{path}.{key}", truncated) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, f"{path}[{index}]", truncated) for index, each in enumerate(value)]
    return value


# For people


def _text(request: Request) -> str:
    shown = request.shown
    ways = " or ".join(f"`{request.id} {each.id}`" for each in request.choices)
    match request.kind:
        case "plan":
            return f"Claude asks to go on with its plan. Answer {ways}."
        case "question":
            asked = "\n".join(map(_asked, shown["questions"]))
            return f"Claude asks:\n{asked}\nAnswer `{request.id} …` in your words, or `{request.id} deny`."
    given = shown["input"]
    about = next((given[each] for each in _ABOUT if isinstance(given.get(each), str)), None)
    summary = about if about is not None else json.dumps(given, ensure_ascii=False)
    if len(summary) > _LONGEST_SUMMARY:
        summary = f"{summary[:_LONGEST_SUMMARY]}…"
    return f"Claude asks to use {request.tool}: {summary}\nAnswer {ways}."


def _asked(question: Mapping[str, Any]) -> str:
    options = question.get("options")
    labels = [str(each["label"]) for each in options or () if isinstance(each, dict) and "label" in each]
    return f"{question['question']} ({' / '.join(labels)})" if labels else str(question["question"])

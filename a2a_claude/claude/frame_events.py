"""`Frames`: the frames of a turn as sideband events, by name and data. docs/events.md has the table.

Only what Claude itself says is told: frames of an agent inside the CLI (`parent_tool_use_id`) are not. Every text goes
through the redactor and has a bound.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from a2a_claude.claude import translate
from a2a_claude.claude.background import Background
from a2a_claude.claude.rate_limits import RateLimits, Verdict
from a2a_claude.claude.session import Frame
from a2a_claude.claude.todos import TOOLS as TODO_TOOLS
from a2a_claude.claude.todos import Todos
from a2a_claude.claude.tool_calls import Kinds, change, output
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

LONGEST: Final = 10_000
LONGEST_COMMAND: Final = 500
LONGEST_MESSAGE: Final = 2_000
LONGEST_NAME: Final = 200
BACKEND: Final = {"backend": "claude"}

Told = tuple[str, dict[str, Any]]


class Frames:
    """Reads the frames of one turn. It knows what it was told of: nothing here asks the turn, or changes it."""

    def __init__(self, config: Config, redactor: Redactor, kinds: Kinds, todos: Todos) -> None:
        self._features, self._redactor, self._kinds, self._todos = config.features, redactor, kinds, todos
        self._limits = RateLimits()
        self._background = Background(config.claude.background, hold=False, redact=self._name)
        self._calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._denied: set[str] = set()
        self._model = ""
        self._used: int | None = None
        self._begun = self._warned = False
        self.errors: list[str] = []
        """What the last result says went wrong."""

    def read(self, frame: Frame) -> Iterator[Told]:
        """The events of a frame."""
        if frame.get("parent_tool_use_id"):
            return
        match frame.get("type"), frame.get("subtype"):
            case "assistant", _:
                yield from self._said(frame)
            case "user", _:
                yield from self._answered(frame)
            case "rate_limit_event", _:
                yield from self._limited(self._limits.event(frame.get("rate_limit_info"), _now()))
            case "result", _:
                yield from self._ended(frame)
            case "system", "init" if not self._begun:
                self._begun = True
                yield "agent_started", {**BACKEND, "model": self._name(frame.get("model"))}
            case "system", "api_retry":
                yield from self._limited(self._limits.retry(frame, _now()))
            case "system", "background_tasks_changed":
                yield from self._works(frame.get("tasks"))
            case "system", "permission_denied":
                yield from self._denies(frame, frame.get("message"))
            case "system", "compact_boundary":
                yield from self._compacted(frame)

    # What Claude says and does

    def _said(self, frame: Frame) -> Iterator[Told]:
        message = _mapping(frame.get("message"))
        said = translate.meaning(frame)
        if isinstance(said, translate.Said):
            self._model = said.model or self._model
            if said.model:
                self._used = _context(message.get("usage"))
            yield from self._limited(self._limits.error(said.error, _now()))
        for block in _blocks(message):
            match block.get("type"):
                case "thinking" if self._features.emit_thinking_events:
                    yield from self._thought(block.get("thinking"))
                case "tool_use":
                    yield from self._called(block)

    def _thought(self, text: object) -> Iterator[Told]:
        if isinstance(text, str) and text:
            yield "thinking", {"content": self._text(text, LONGEST)}
        elif not self._warned:
            self._warned = True
            logger.warning(
                "Claude thinks, and its thoughts are empty: claude.thinking.display is omitted, or the model gives none"
            )

    def _called(self, block: Mapping[str, Any]) -> Iterator[Told]:
        name, item = str(block.get("name") or ""), str(block.get("id") or "")
        arguments = _mapping(block.get("input"))
        self._calls[item] = name, arguments
        changed = change(name, arguments)
        if changed is not None:
            if self._features.emit_file_change_events:
                changes = [{**changed, "path": self._text(changed["path"], LONGEST_MESSAGE)}]
                yield "decision", {**BACKEND, "kind": "file_change", "changes": changes, "itemId": item}
        elif name in TODO_TOOLS:
            if self._todos.called(name, arguments):
                yield from self._listed()
        elif self._features.emit_tool_events:
            kind = {key: self._name(value) if isinstance(value, str) else value for key, value in self._kind(name)}
            if name == "Bash":
                kind["command"] = self._text(arguments.get("command"), LONGEST_COMMAND)
            yield "tool_call_start", {**BACKEND, **kind, "itemId": item}

    def _answered(self, frame: Frame) -> Iterator[Told]:
        for block in _blocks(_mapping(frame.get("message"))):
            if block.get("type") != "tool_result":
                continue
            item = str(block.get("tool_use_id") or "")
            name, arguments = self._calls.pop(item, ("", {}))
            failed = block.get("is_error") is True
            if self._features.emit_tool_events:
                told = self._text(output(name, block.get("content"), failed=failed), LONGEST)
                data = {"itemId": item, "output": told, "status": "error" if failed else "completed"}
                yield "tool_call_end", {**BACKEND, **data}
            if self._todos.answered(name, arguments, frame.get("tool_use_result")):
                yield from self._listed()

    def _kind(self, name: str) -> Iterator[tuple[str, Any]]:
        yield from self._kinds.kind(name).items()

    def _listed(self) -> Iterator[Told]:
        if self._features.emit_todo_events:
            items = [{**each, "text": self._text(each["text"], LONGEST_COMMAND)} for each in self._todos.items]
            yield "decision", {**BACKEND, "kind": "todo_list", "items": items}

    def _denies(self, about: Mapping[str, Any], message: object) -> Iterator[Told]:
        item = str(about.get("tool_use_id") or "")
        if item and item in self._denied:
            return
        self._denied.add(item)
        data = {"tool": self._name(about.get("tool_name")), "message": self._text(message, LONGEST_MESSAGE)}
        yield "decision", {**BACKEND, "kind": "permission_denied", **data, "itemId": item}

    # What goes on around it

    def _limited(self, verdict: Verdict | None) -> Iterator[Told]:
        if verdict is None or not self._features.emit_rate_limit_events:
            return
        action = "ended_turn" if verdict.status == "rejected" else "retrying" if verdict.retry else "warning"
        known = {
            "rateLimitType": verdict.limit,
            "resetsAt": verdict.resets_at,
            "utilization": verdict.utilization,
            "retry": dict(verdict.retry) if verdict.retry else None,
        }
        data = {key: value for key, value in known.items() if value is not None}
        yield "rate_limit", {**BACKEND, "status": verdict.status, "action": action, **data}

    def _works(self, tasks: object) -> Iterator[Told]:
        if self._background.change(tasks) and self._features.emit_background_task_events:
            listed = self._background.metadata()
            yield "background_tasks", {**BACKEND, "count": len(listed), "tasks": listed}

    def _compacted(self, frame: Frame) -> Iterator[Told]:
        about = _mapping(frame.get("compact_metadata"))
        before, after = _count(about.get("pre_tokens")), _count(about.get("post_tokens"))
        self._used = after
        known = {"usedTokens": after, "tokensBefore": before}
        data = {key: value for key, value in known.items() if value is not None}
        yield "context_window", {**BACKEND, "model": self._model, "compacted": self._name(about.get("trigger")), **data}

    def _ended(self, frame: Frame) -> Iterator[Told]:
        # Those that the caller, a policy or a hook has denied have no frame of their own.
        denials = frame.get("permission_denials")
        for each in denials if isinstance(denials, list) else ():
            if isinstance(each, Mapping):
                yield from self._denies(each, "The call was denied.")
        errors = frame.get("errors")
        listed = errors if isinstance(errors, list) else []
        self.errors = [self._text(each, LONGEST_MESSAGE) for each in listed[:10] if isinstance(each, str)]
        size = _count(_mapping(_mapping(frame.get("modelUsage")).get(self._model)).get("contextWindow"))
        if self._used is not None and size:
            yield "context_window", {**BACKEND, "model": self._model, "usedTokens": self._used, "contextWindow": size}

    # Texts

    def _text(self, text: object, most: int) -> str:
        # Half a surrogate pair is JSON, and nothing that could be sent.
        return self._redactor.excerpt(text.encode("utf-8", "replace").decode(), most) if isinstance(text, str) else ""

    def _name(self, text: object) -> str:
        return self._text(text, LONGEST_NAME)


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []


def _context(usage: object) -> int | None:
    """Tokens of a request: what the model was given, cached or not."""
    used = _mapping(usage)
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    counts = [count for name in names if (count := _count(used.get(name))) is not None]
    return sum(counts) if counts else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _now() -> int:
    return time.time_ns() // 1_000_000

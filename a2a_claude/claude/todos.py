"""Claude's todo list, from the tools that keep it.

Newer CLIs have `TaskCreate`, `TaskUpdate` and `TaskList`, which tell of one item each; older ones, and those with
CLAUDE_CODE_ENABLE_TASKS=0, `TodoWrite`, whose input is the whole list.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, Final

TOOLS: Final = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})
MOST: Final = 200  # items of a list
CONTEXTS: Final = 512


class Todos:
    """The list of one conversation."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, Any]] = {}

    @property
    def items(self) -> list[dict[str, Any]]:
        """Each as {text, completed}, in the order of their creation."""
        return [dict(each) for each in self._items.values()]

    def called(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """A call of a tool; whether it is the list itself."""
        listed = arguments.get("todos")
        if tool != "TodoWrite" or not isinstance(listed, list):
            return False
        self._items = {
            str(number): _item(str(each.get("content") or ""), each.get("status"))
            for number, each in enumerate(listed[:MOST])
            if isinstance(each, Mapping)
        }
        return True

    def answered(self, tool: str, arguments: Mapping[str, Any], result: object) -> bool:
        """What the tool gave (`tool_use_result`, whole); whether the list has changed."""
        if not isinstance(result, Mapping):
            return False
        match tool:
            case "TaskCreate":
                task = result.get("task")
                return isinstance(task, Mapping) and self._put(str(task.get("id")), task.get("subject"), "pending")
            case "TaskUpdate":
                if not result.get("success"):
                    return False
                name, status = str(result.get("taskId") or arguments.get("taskId")), arguments.get("status")
                if status == "deleted":
                    return self._items.pop(name, None) is not None
                return self._put(name, arguments.get("subject"), status)
            case "TaskList" if isinstance(tasks := result.get("tasks"), list):
                before, self._items = self._items, {}
                for each in tasks:
                    if isinstance(each, Mapping):
                        self._put(str(each.get("id")), each.get("subject"), each.get("status"))
                return before != self._items
        return False

    def _put(self, name: str, text: object, status: object) -> bool:
        before = self._items.get(name)
        if before is None and len(self._items) >= MOST:
            return False
        known = before or _item(f"#{name}", None)
        said = text if isinstance(text, str) and text else known["text"]
        self._items[name] = _item(said, status if isinstance(status, str) else _status(known))
        return self._items[name] != before


class TodoLists:
    """The lists of the conversations that were at work last: a list outlives the turn that made it."""

    def __init__(self) -> None:
        self._lists: OrderedDict[Hashable, Todos] = OrderedDict()

    def of(self, conversation: Hashable) -> Todos:
        """The list of a conversation, empty when it has none, or is long forgotten."""
        found = self._lists.setdefault(conversation, Todos())
        self._lists.move_to_end(conversation)
        if len(self._lists) > CONTEXTS:
            self._lists.popitem(last=False)
        return found


def _item(text: str, status: object) -> dict[str, Any]:
    return {"text": text, "completed": status == "completed"}


def _status(item: Mapping[str, Any]) -> str:
    return "completed" if item["completed"] else "pending"

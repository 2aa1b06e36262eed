"""Work that goes on when Claude ends its turn: which of it holds the A2A task open, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from a2a_claude.config.model import Background as Settings


@dataclass(frozen=True, slots=True)
class Work:
    """One background task of Claude."""

    id: str
    type: str
    description: str


class Background:
    """The live set of one session. `redact` takes credentials out of descriptions, which may be shell commands."""

    def __init__(self, settings: Settings, hold: bool, redact: Callable[[str], str]) -> None:
        self._types = settings.hold if hold else ()
        self._redact = redact
        self.live: tuple[Work, ...] = ()

    def change(self, tasks: object) -> bool:
        """The `tasks` of a `background_tasks_changed`, which replace what was known. Whether its members changed."""
        found: dict[str, Work] = {}
        for each in tasks if isinstance(tasks, list) else ():
            if isinstance(each, Mapping) and isinstance(name := each.get("task_id"), str) and name:
                kind, about = each.get("task_type"), each.get("description")
                found[name] = Work(
                    name,
                    kind if isinstance(kind, str) and kind else "unknown",
                    self._redact(about) if isinstance(about, str) else "",
                )
        changed = found.keys() != {each.id for each in self.live}
        self.live = tuple(found.values())
        return changed

    @property
    def holds(self) -> bool:
        """Whether the task stays `working` for what runs: by type, so that a server in a shell need not hold it."""
        return any("*" in self._types or each.type in self._types for each in self.live)

    def metadata(self) -> list[dict[str, Any]]:
        """The live set for a status's metadata."""
        return [{"taskId": each.id, "type": each.type, "description": each.description} for each in self.live]

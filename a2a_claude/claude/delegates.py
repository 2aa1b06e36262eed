"""The seam to other agents: what Claude's room asks of whoever calls them. The room `subagents` implements it.

`Delegates` belongs to the server, a `Delegation` to one turn. Claude sees the tools of the first and calls them through
the second, which knows for whom.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from a2a.types.a2a_pb2 import Message, Part

SERVER = "a2a-subagents"
"""The name of the MCP server that their tools belong to; the schema reserves it."""

Progress = Callable[[str, str, str], None]
"""Is told that a tool's remote task has come to a state (`working`, `input-required`, …), with what was said."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as MCP lists it; `schema` is the JSON Schema of its arguments, `reads` says that it changes nothing."""

    name: str
    description: str
    schema: Mapping[str, Any]
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool gives: text and files, none of them by URL; `failed` when it is about an error instead."""

    parts: tuple[Part, ...]
    failed: bool = False


class Delegation(Protocol):
    """The calls of one turn."""

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Calls a tool; several may run side by side. Cancelling it cancels the remote task. Raises nothing."""
        ...

    async def end(self, *, cancel: bool) -> None:
        """The turn is over. With `cancel` the remote tasks that it began and that still run are cancelled, in the
        background where it takes longer; without, they go on and can be asked for in a later turn."""
        ...


class Delegates(Protocol):
    """The agents that may be called."""

    @property
    def seconds(self) -> float:
        """How long a call may take; infinite when it has no bound."""
        ...

    def tools(self) -> Sequence[Tool]:
        """The tools as they are now."""
        ...

    def refresh(self) -> None:
        """A turn is about to begin: in the background it is looked whether agents that were down are back."""
        ...

    def delegation(
        self,
        message: Message,
        *,
        task_id: str,
        context_id: str,
        owner: str,
        progress: Progress,
        metadata: Mapping[str, str] = {},
    ) -> Delegation:
        """For the turn that answers `message`. `metadata` goes along with each message to a remote, as it is.

        Raises:
            InvalidParamsError: the message has come through this agent before, or through too many agents.
        """
        ...

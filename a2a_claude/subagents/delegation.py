"""Which agents a request has come through, in the metadata of its messages: `urn:x-a2a:delegation`.

    {"path": [{"id": "…", "name": "Claude Reviewer"}, …], "depth": 1}

Each of our agents adds itself when it calls another one. `id` is of one start of one server: two agents may have the
same name and, in two containers, the same URL. An agent that does not pass the metadata on cuts the path; the depth
counts what came after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict, SerializeToJsonError

KEY: Final = "urn:x-a2a:delegation"
MAX_DEPTH: Final = 8
"""Agents before this one that a request may have come through."""
_LONGEST_NAME: Final = 60
_LONGEST_TRACE: Final = 128


@dataclass(frozen=True, slots=True)
class Identity:
    """This server on a path."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Path:
    """The agents before this one, the first one first."""

    agents: tuple[Identity, ...] = ()
    depth: int = 0

    def checked(self, me: Identity) -> Path:
        """The path itself.

        Raises:
            InvalidParamsError: I am on it already, or it is too long.
        """
        told = " → ".join(each.name for each in (*self.agents, me))
        if any(each.id == me.id for each in self.agents):
            raise InvalidParamsError(
                f"The agents call each other in a circle: {told}. {me.name} works on this request already and takes "
                "no part of it back; answer without asking it."
            )
        if self.depth > MAX_DEPTH:
            raise InvalidParamsError(
                f"The request has come through {self.depth} agents, and {MAX_DEPTH} are allowed: {told}. "
                "Answer without asking further agents."
            )
        return self

    def metadata(self, me: Identity) -> dict[str, Any]:
        """For the messages that I send."""
        path = [{"id": each.id, "name": each.name} for each in (*self.agents, me)]
        return {KEY: {"path": path, "depth": self.depth + 1}}


def path_of(message: Message) -> Path:
    """The path of a message; what is not readable counts as none, since anybody may send it."""
    found = _metadata(message).get(KEY)
    if not isinstance(found, Mapping):
        return Path()
    listed, depth = found.get("path"), found.get("depth")
    agents = tuple(
        Identity(str(each["id"]), str(each.get("name", "?"))[:_LONGEST_NAME])
        for each in (listed if isinstance(listed, list) else [])[: MAX_DEPTH + 1]
        if isinstance(each, Mapping) and each.get("id")
    )
    counted = int(depth) if isinstance(depth, int | float) and 0 < depth < 1000 else 0
    return Path(agents, max(counted, len(agents)))


def trace_of(message: Message) -> str:
    """The id that joins the events of agents that call each other; empty when the message has none."""
    found = _metadata(message).get("traceId")
    return found if isinstance(found, str) and len(found) <= _LONGEST_TRACE else ""


def _metadata(message: Message) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = MessageToDict(message.metadata)
    except (SerializeToJsonError, ValueError):  # protobuf takes NaN, JSON does not
        return {}
    return found

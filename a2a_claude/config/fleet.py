"""Rules between agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from a2a_claude.config.diagnostics import Diagnostic, Span, error
from a2a_claude.config.node import Entry

if TYPE_CHECKING:
    from a2a_claude.config.loader import Loaded


def check(loaded: Iterable[Loaded]) -> Iterator[Diagnostic]:
    """Ports that two agents share."""
    first: dict[int, Loaded] = {}
    for each in loaded:
        port = each.document["server"].get("port") if isinstance(each.document.get("server"), dict) else None
        if type(port) is not int:
            continue
        if (other := first.setdefault(port, each)) is not each:
            default = "" if each.root.find(("server", "port")) else ", the default"
            message = f"{each.file.name} and {other.file.name} both listen on port {port}{default}"
            hint = "give each agent a server.port of its own"
            place = (("the other one", _port(other)),)
            yield error("port-clash", message, _port(each), hint, place)


def _port(loaded: Loaded) -> Span:
    found = loaded.root.find(("server", "port"))
    return found.node.span if isinstance(found, Entry) else loaded.root.span

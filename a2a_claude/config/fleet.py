"""Rules between agents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from a2a_claude.config.diagnostics import Diagnostic, Span, error
from a2a_claude.config.node import Entry
from a2a_claude.config.published import socket

if TYPE_CHECKING:
    from a2a_claude.config.loader import Loaded

_EVERYWHERE = ("", "0.0.0.0")  # noqa: S104 (no socket is bound)


def check(loaded: Iterable[Loaded]) -> Iterator[Diagnostic]:
    """Ports that two agents share, on the host or where containers publish them."""
    loaded = list(loaded)
    for target in ("compose", "quadlet"):
        yield from _published(loaded, target)
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


def _published(loaded: list[Loaded], target: str) -> Iterator[Diagnostic]:
    """Two agents with one port of `deploy.<target>.publish`. What both have from server.port is told of that."""
    path = ("deploy", target, "publish")
    seen: list[tuple[str, int, Loaded, Entry | None]] = []
    for each in loaded:
        written = each.root.find(path)
        entry = written if isinstance(written, Entry) and isinstance(written.node.value, str) else None
        server = each.document.get("server")
        own = f"127.0.0.1:{server.get('port')}" if isinstance(server, dict) else ""
        address, port = socket(str(entry.node.value) if entry else own)
        if port is None:
            continue
        for other_address, other_port, other, other_entry in seen:
            at_once = address == other_address or not {address, other_address}.isdisjoint(_EVERYWHERE)
            if port == other_port and at_once and (place := entry or other_entry):
                message = f"{each.file.name} and {other.file.name} are both published on port {port} by {target}"
                hint = f"give each agent a deploy.{target}.publish of its own"
                related = other_entry.node.span if entry and other_entry else _port(other if entry else each)
                yield error("port-clash", message, place.node.span, hint, (("the other one", related),))
                break
        seen.append((address, port, each, entry))


def _port(loaded: Loaded) -> Span:
    found = loaded.root.find(("server", "port"))
    return found.node.span if isinstance(found, Entry) else loaded.root.span

"""Whether a container is published where its card says the agent is."""

from __future__ import annotations

from collections.abc import Iterator

from a2a_claude.config.diagnostics import Diagnostic, warning
from a2a_claude.config.view import View


def check(view: View) -> Iterator[Diagnostic]:
    """A `deploy.<target>.publish` with another port than server.port, which a card without publicUrl tells callers.

    Behind `server.trustedProxies` the card follows what the proxy says, so nothing is told there.
    """
    port = view.get(int, "server", "port")
    public = view.get(str, "server", "publicUrl")
    if port is None or public or view.strings("server", "trustedProxies"):
        return
    for target in ("compose", "quadlet"):
        place = ("deploy", target, "publish")
        publish = view.get(str, *place)
        outside = socket(publish)[1] if publish else None
        if outside not in (None, port):
            message = f"published on port {outside}, but the card sends callers to port {port}"
            hint = f"set server.publicUrl to the URL that callers use, or publish port {port}"
            yield warning("published-elsewhere", message, view.span(*place), hint)


def socket(publish: str) -> tuple[str, int | None]:
    """The address, which may be empty, and the port of `[ADDRESS:]PORT`; no port where that is none of TCP's."""
    address, _, port = publish.rpartition(":")
    return address, int(port) if port.isdecimal() and len(port) <= len("65535") else None

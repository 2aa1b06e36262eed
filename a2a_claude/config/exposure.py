"""Whether a container of an agent would be open to whoever reaches it, which its server refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from a2a_claude.config.diagnostics import Diagnostic, note, warning
from a2a_claude.config.node import Entry

if TYPE_CHECKING:
    from a2a_claude.config.loader import Loaded


def open_image(loaded: Loaded, wanted: bool) -> Diagnostic | None:
    """What to know of an agent that is rendered for containers, there must listen on every address, and has neither
    authentication nor `allowUnauthenticated`: its server does not start.

    A warning when such a format was `wanted` by name, a note when it comes along with all others.
    """
    if loaded.agent is None:
        return None
    auth = loaded.agent.config.server.auth
    if auth.allow_unauthenticated or auth.bearer or auth.api_key or auth.jwt or auth.mtls:
        return None
    place = loaded.root.find(("server", "auth")) or loaded.root.find(("server",))
    span = place.key.span if isinstance(place, Entry) else loaded.root.span
    message = (
        "a container of this agent does not start: it listens on every address of its own, and there is no "
        "authentication"
    )
    hint = (
        "configure server.auth; or set server.auth.allowUnauthenticated: true when only trusted callers reach the "
        "published port; or leave containers out with --target"
    )
    return (warning if wanted else note)("open-image", message, span, hint)

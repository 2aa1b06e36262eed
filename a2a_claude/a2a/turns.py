"""Whose turn it is: turns of one context one at a time, contexts in parallel up to a limit, a bounded queue (skeleton)."""

from __future__ import annotations

from a2a.utils.errors import InternalError


class Overloaded(InternalError):  # type: ignore[misc]
    """The queue is full, or the server is stopping: nothing was stored, try again in `retry_after` seconds.

    JSON-RPC has no code for it, so it is an InternalError (-32603) there; REST says 429 (full) or 503 (stopping)
    with `Retry-After`: `http_status` tells which.
    """

    def __init__(self, message: str, *, retry_after: int, http_status: int = 429) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.http_status = http_status

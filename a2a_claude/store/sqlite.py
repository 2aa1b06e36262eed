"""`Store`: the SQLite file behind the server (skeleton: signatures first)."""

from __future__ import annotations

from pathlib import Path

from a2a_claude.store.rows import PushConfig, Session


class Store:
    """Tasks, push configs and sessions. One server process per file; use it from one event loop."""

    @classmethod
    async def open(cls, path: Path | str, *, retention_age: int = 0, retention_count: int = 0) -> Store:
        """The store in `path` (":memory:" keeps nothing); ages in milliseconds, 0 keeps all. StoreError when it cannot be used."""
        raise NotImplementedError

    async def close(self) -> None:
        """Commits what was handed in, ends the writer, closes the file."""
        raise NotImplementedError

    async def check(self) -> None:
        """For readiness: StoreError when the last write failed and a small one still fails."""
        raise NotImplementedError

    def count_by_state(self) -> dict[int, int]:
        """How many tasks are in each `TaskState`."""
        raise NotImplementedError

    def push_configs(self, task_key: int) -> list[PushConfig]:
        """The webhooks of a task, oldest first: for the sender, which has the key from an EventRecord."""
        raise NotImplementedError

    def session(self, context_id: str, owner: str) -> Session | None:
        """The session of a principal's context."""
        raise NotImplementedError

    async def set_session(self, context_id: str, owner: str, session_id: str) -> None:
        """Remembers, replaces or touches it; returns when it is durable."""
        raise NotImplementedError

    async def delete_session(self, context_id: str, owner: str) -> None:
        """Forgets it; no error when there is none."""
        raise NotImplementedError

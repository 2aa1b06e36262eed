"""Every write of the store: what `Store.write` takes."""

# ruff: noqa: S608 (what is interpolated into SQL are constants of this package)
from __future__ import annotations

from typing import NamedTuple

from a2a_claude.store.rows import PushConfig, TaskRow
from a2a_claude.store.schema import UNFINISHED


class Change(NamedTuple):
    """SQL with its values, and the key of the task whose Task it changes (0: none's)."""

    sql: str
    values: tuple[int | str | bytes, ...]
    task: int = 0


def create_task(row: TaskRow) -> Change:
    """A new task."""
    return Change(
        "INSERT INTO tasks (key, id, context_id, owner, state, status, metadata, pending, created, updated, seq)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
        row.key,
    )


def set_status(key: int, state: int, status: bytes, metadata: bytes, pending: int, updated: int, seq: int) -> Change:
    """A new status of an unfinished task; a finished one keeps its own, whoever asks."""
    return Change(
        "UPDATE tasks SET state = ?, status = ?, metadata = ?, pending = ?, updated = ?, seq = ?"
        f" WHERE key = ? AND {UNFINISHED}",
        (state, status, metadata, pending, updated, seq, key),
        key,
    )


def set_pending(key: int, pending: int) -> Change:
    """How many accepted messages wait for their turn's first word."""
    return Change("UPDATE tasks SET pending = ? WHERE key = ?", (pending, key), key)


def add_message(key: int, seq: int, json: bytes) -> Change:
    """A message at the end of a task's history."""
    return Change("INSERT INTO messages (task, seq, json) VALUES (?, ?, ?)", (key, seq, json), key)


def put_artifact(key: int, position: int, head: bytes) -> Change:
    """An artifact without its parts, new or changed."""
    return Change(
        "INSERT OR REPLACE INTO artifacts (task, position, head) VALUES (?, ?, ?)", (key, position, head), key
    )


def clear_parts(key: int, position: int) -> Change:
    """Empties an artifact that is about to be replaced."""
    return Change("DELETE FROM parts WHERE task = ? AND position = ?", (key, position), key)


def append_parts(key: int, position: int, seq: int, json: bytes) -> Change:
    """More parts of an artifact (`codec.parts`)."""
    return Change("INSERT INTO parts (task, position, seq, json) VALUES (?, ?, ?, ?)", (key, position, seq, json), key)


def put_push_config(key: int, owner: str, created: int, config: PushConfig) -> Change:
    """A webhook, new or changed; a changed one keeps its place in the order."""
    return Change(
        "INSERT INTO push_configs (task, id, owner, version, created, json) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (task, id) DO UPDATE SET version = excluded.version, json = excluded.json",
        (key, config.id, owner, config.version, created, config.json),
    )


def set_told(key: int, config_id: str, seq: int) -> Change:
    """A webhook has been notified of its task's changes up to `seq`."""
    return Change(
        "UPDATE push_configs SET told = ? WHERE task = ? AND id = ? AND ifnull(told, -1) < ?",
        (seq, key, config_id, seq),
    )


def delete_push_config(key: int, config_id: str) -> Change:
    """Forgets a webhook."""
    return Change("DELETE FROM push_configs WHERE task = ? AND id = ?", (key, config_id))


def put_session(context_id: str, owner: str, session_id: str, now: int) -> Change:
    """Remembers which session continues a context; the same session again only counts as access."""
    return Change(
        "INSERT INTO sessions (owner, context_id, session_id, created, accessed) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (owner, context_id) DO UPDATE SET"
        " created = CASE WHEN session_id = excluded.session_id THEN created ELSE excluded.created END,"
        " session_id = excluded.session_id, accessed = excluded.accessed",
        (owner, context_id, session_id, now, now),
    )


def delete_session(context_id: str, owner: str) -> Change:
    """Forgets a context's session."""
    return Change("DELETE FROM sessions WHERE owner = ? AND context_id = ?", (owner, context_id))


def delete_sessions_before(moment: int) -> Change:
    """Forgets the sessions that nobody used since."""
    return Change("DELETE FROM sessions WHERE accessed < ?", (moment,))


def touch_health(now: int) -> Change:
    """A write as small as they get, to see whether writing works."""
    return Change("INSERT OR REPLACE INTO health (id, checked) VALUES (1, ?)", (now,))

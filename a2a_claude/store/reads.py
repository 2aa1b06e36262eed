"""Every read of the store, on any of its connections. Each sees one committed moment."""

# ruff: noqa: S608 (what is interpolated into SQL are constants of this package)
from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter

from a2a_claude.store import codec
from a2a_claude.store.rows import Filter, Page, PushConfig, Session, TaskRow
from a2a_claude.store.schema import FINISHED, UNFINISHED

_TASK = "SELECT key, id, context_id, owner, state, status, metadata, pending, created, updated, seq FROM tasks"


@contextmanager
def one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """Several statements that see the same committed state."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def task_row(connection: sqlite3.Connection, task_id: str) -> TaskRow | None:
    """A task by its id."""
    found = connection.execute(f"{_TASK} WHERE id = ?", (task_id,)).fetchone()
    return TaskRow(*found) if found else None


def task_json(
    connection: sqlite3.Connection, row: TaskRow, history: int, *, with_artifacts: bool = True
) -> tuple[bytes, int]:
    """The Task with its last `history` messages, and the number of the last change it includes."""
    messages = [
        json
        for (json,) in connection.execute(
            "SELECT json FROM messages WHERE task = ? ORDER BY seq DESC LIMIT ?", (row.key, history)
        )
    ]
    messages.reverse()
    seq = row.seq
    artifacts: list[bytes] = []
    if with_artifacts:
        heads = connection.execute(
            "SELECT position, head FROM artifacts WHERE task = ? ORDER BY position", (row.key,)
        ).fetchall()
        if heads:
            parts = connection.execute(
                "SELECT position, json, seq FROM parts WHERE task = ? ORDER BY position, seq", (row.key,)
            ).fetchall()
            seq = max(seq, max(map(itemgetter(2), parts)))
            pieces = {position: [each[1] for each in group] for position, group in groupby(parts, itemgetter(0))}
            artifacts = [codec.artifact(head, pieces[position]) for position, head in heads]
    return codec.task(row.task_id, row.context_id, row.status, artifacts, messages, row.metadata), seq


def artifact_heads(connection: sqlite3.Connection, key: int) -> list[tuple[int, bytes]]:
    """Position and head of each artifact of a task."""
    return connection.execute(
        "SELECT position, head FROM artifacts WHERE task = ? ORDER BY position", (key,)
    ).fetchall()


def last_seq(connection: sqlite3.Connection, row: TaskRow) -> int:
    """The number of a task's last change."""
    (seq,) = connection.execute("SELECT max(seq) FROM parts WHERE task = ?", (row.key,)).fetchone()
    return max(row.seq, seq or 0)


def page(connection: sqlite3.Connection, wanted: Filter) -> Page:
    """The tasks of an owner, newest status first."""
    # A context has few tasks, an owner many: the plus keeps SQLite off the owner's index (sqlite.org/optoverview.html).
    conditions = ["+owner = ?" if wanted.context_id else "owner = ?"]
    parameters: list[int | str] = [wanted.owner]
    for sql, value in (
        ("context_id = ?", wanted.context_id),
        ("state = ?", wanted.state),
        ("updated >= ?", wanted.after),
    ):
        if value:
            conditions.append(sql)
            parameters.append(value)
    where = " AND ".join(conditions)
    with one_moment(connection):
        (total,) = connection.execute(f"SELECT count(*) FROM tasks WHERE {where}", parameters).fetchone()
        if wanted.before:
            where += " AND (updated, key) < (?, ?)"
            parameters.extend(wanted.before)
        rows = [
            TaskRow(*each)
            for each in connection.execute(
                f"{_TASK} WHERE {where} ORDER BY updated DESC, key DESC LIMIT ?", [*parameters, wanted.limit + 1]
            )
        ]
        shown = rows[: wanted.limit]
        tasks = [task_json(connection, row, wanted.history, with_artifacts=wanted.artifacts)[0] for row in shown]
    return Page(tasks, (shown[-1].updated, shown[-1].key) if len(rows) > len(shown) else None, total)


def interrupted(connection: sqlite3.Connection) -> list[TaskRow]:
    """Tasks that were at work or had a message waiting when the server stopped: `submitted`, `working`, or pending."""
    # Without the hint SQLite reads the whole table, finished tasks too.
    found = connection.execute(
        f"{_TASK} INDEXED BY tasks_unfinished WHERE {UNFINISHED} AND (state IN (1, 2) OR pending > 0)"
    )
    return sorted(TaskRow(*each) for each in found)


def count_by_state(connection: sqlite3.Connection) -> dict[int, int]:
    """How many tasks are in each state, from the indexes alone."""
    return dict(
        connection.execute(
            f"SELECT state, count(*) FROM tasks WHERE {FINISHED} GROUP BY state"
            f" UNION ALL SELECT state, count(*) FROM tasks WHERE {UNFINISHED} GROUP BY state"
        ).fetchall()
    )


def push_configs(connection: sqlite3.Connection, key: int) -> list[PushConfig]:
    """The webhooks of a task, oldest first."""
    found = connection.execute(
        "SELECT tasks.id, push_configs.id, version, json FROM push_configs JOIN tasks ON tasks.key = task"
        " WHERE task = ? ORDER BY push_configs.created, push_configs.id",
        (key,),
    )
    return [PushConfig(*each) for each in found]


def untold_webhooks(connection: sqlite3.Connection) -> list[tuple[int, str, str, str]]:
    """Webhooks whose task has changed since they were last notified, as (key, task id, owner, config id).

    One that was never notified counts when its task has ended or waits for input: it may have been registered since.
    """
    return connection.execute(
        "SELECT tasks.key, tasks.id, tasks.owner, push_configs.id FROM push_configs JOIN tasks ON tasks.key = task"
        " WHERE CASE WHEN told IS NULL THEN state NOT IN (1, 2)"
        " ELSE told < max(tasks.seq, ifnull((SELECT max(parts.seq) FROM parts WHERE parts.task = tasks.key), 0)) END"
        " ORDER BY tasks.key, push_configs.id"
    ).fetchall()


def session(connection: sqlite3.Connection, context_id: str, owner: str) -> Session | None:
    """The session of a principal's context."""
    found = connection.execute(
        "SELECT context_id, owner, session_id, created, accessed FROM sessions WHERE owner = ? AND context_id = ?",
        (owner, context_id),
    ).fetchone()
    return Session(*found) if found else None


def highest_key(connection: sqlite3.Connection) -> int:
    """The largest key in use, 0 without tasks."""
    # A webhook may have arrived while retention deleted its task: its key must not become another task's.
    (key,) = connection.execute(
        "SELECT max(ifnull((SELECT max(key) FROM tasks), 0), ifnull((SELECT max(task) FROM push_configs), 0))"
    ).fetchone()
    return int(key)

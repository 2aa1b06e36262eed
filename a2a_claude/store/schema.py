"""The tables, and how an older file becomes a newer one.

`PRAGMA user_version` holds the number of migrations a file has had. A migration is never edited once released: add
the next one. Documents (`status`, `json`, …) are ProtoJSON as it goes over the wire, so that an answer is a
concatenation of them.

A task's parts and messages are rows of their own, clustered by task: an event appends a row and rewrites nothing.
"""

from __future__ import annotations

import sqlite3

from a2a_claude.store.errors import StoreError

# TASK_STATE_COMPLETED, _FAILED, _CANCELED, _REJECTED. Written out because an index's condition must be a constant,
# and a query must repeat it to use the index.
FINISHED = "state IN (3, 4, 5, 7)"
UNFINISHED = "state NOT IN (3, 4, 5, 7)"

MIGRATIONS = (
    f"""
    CREATE TABLE tasks (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        context_id TEXT NOT NULL,
        owner TEXT NOT NULL,
        state INTEGER NOT NULL,
        status BLOB NOT NULL,
        metadata BLOB NOT NULL,
        pending INTEGER NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        seq INTEGER NOT NULL
    );
    CREATE INDEX tasks_by_owner ON tasks (owner, updated, key);
    CREATE INDEX tasks_by_context ON tasks (context_id);
    CREATE INDEX tasks_finished ON tasks (updated, state) WHERE {FINISHED};
    CREATE INDEX tasks_unfinished ON tasks (state) WHERE {UNFINISHED};
    CREATE TABLE messages (
        task INTEGER NOT NULL, seq INTEGER NOT NULL, json BLOB NOT NULL,
        PRIMARY KEY (task, seq)
    ) WITHOUT ROWID;
    CREATE TABLE artifacts (
        task INTEGER NOT NULL, position INTEGER NOT NULL, head BLOB NOT NULL,
        PRIMARY KEY (task, position)
    ) WITHOUT ROWID;
    CREATE TABLE parts (
        task INTEGER NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL, json BLOB NOT NULL,
        PRIMARY KEY (task, position, seq)
    ) WITHOUT ROWID;
    CREATE TABLE push_configs (
        task INTEGER NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, version TEXT NOT NULL, created INTEGER NOT NULL,
        json BLOB NOT NULL, told INTEGER,
        PRIMARY KEY (task, id)
    ) WITHOUT ROWID;
    CREATE TABLE sessions (
        owner TEXT NOT NULL, context_id TEXT NOT NULL, session_id TEXT NOT NULL,
        created INTEGER NOT NULL, accessed INTEGER NOT NULL,
        PRIMARY KEY (owner, context_id)
    ) WITHOUT ROWID;
    CREATE TABLE health (id INTEGER PRIMARY KEY CHECK (id = 1), checked INTEGER NOT NULL);
    """,
)


def migrate(connection: sqlite3.Connection, where: str) -> None:
    """Brings an open file to this version in one transaction; StoreError when a newer version made it."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{where} was written by a newer a2a-claude (store version {version}, this one knows {len(MIGRATIONS)}): "
            "run that version again, or set store.path to another file",
            passes=False,
        )
    if version == len(MIGRATIONS):
        return
    script = "".join(MIGRATIONS[version:])
    try:
        connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {len(MIGRATIONS)}; COMMIT;")
    except sqlite3.Error:
        # An open transaction would lock the file for as long as anything holds the connection, a traceback included.
        if connection.in_transaction:
            connection.rollback()
        raise

"""The store's files: private to the server's user, and used by one server at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from a2a_claude.store.errors import StoreError

_LASTING: Final = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG)


def prepare(path: Path) -> int:
    """Makes the folder (0700) and the file (0600) and takes the lock; returns the lock's descriptor.

    SQLite gives its own -wal and -shm files the mode of the file. The lock is a file beside it: closing a second
    descriptor of the database itself would drop SQLite's own locks (sqlite.org/howtocorrupt.html, 2.2).
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"store {path}: {error.strerror}: {error.filename}; "
            "set store.path to a file that the server's user can write",
            # Where a file system is to be mounted, its mount point may belong to somebody else.
            passes=error.errno not in _LASTING or (error.errno == errno.EACCES and not os.path.exists(path.parent)),
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreError(
            f"store {path}: another server uses it; stop that one, or set store.path to another file"
        ) from error
    return lock


def connect(path: Path | str, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode that threads may pass around."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


def configure(connection: sqlite3.Connection) -> None:
    """Makes a writing connection durable against a kill without a sync per commit (sqlite.org/wal.html).

    Checkpoints are the writer's business: they sync, and must not happen on the event loop.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute(f"PRAGMA journal_size_limit = {64 * 1024 * 1024}")

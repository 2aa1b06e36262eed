"""What goes wrong with the store, in words an operator can act on."""

from __future__ import annotations

import sqlite3

_HINTS = {
    sqlite3.SQLITE_FULL: "the disk is full: free space, or lower store.retentionAge and store.retentionCount",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: stop the server and restore a backup, or move the file away",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database: move it away, or set store.path to another file",
    sqlite3.SQLITE_READONLY: "the file cannot be written: give the server's user write access to it and its folder",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: check that its folder exists and the server's user may use it",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed: check the disk and its file system",
    sqlite3.SQLITE_BUSY: "another program holds the file: close it",
}


class StoreError(Exception):
    """The store cannot be opened, read or written; the message names the file, the cause and what to do. It `passes`
    unless somebody has to change the config, the file's owner or the version first."""

    def __init__(self, message: str, *, passes: bool = True) -> None:
        super().__init__(message)
        self.passes = passes

    @classmethod
    def of(cls, error: sqlite3.Error, where: str) -> StoreError:
        """SQLite's error (sqlite.org/rescode.html) for the file `where`."""
        # The low byte is the primary code, the rest of it says more about the same thing.
        code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
        hint = _HINTS.get(code)
        return cls(f"store {where}: {error}" + (f"; {hint}" if hint else ""))

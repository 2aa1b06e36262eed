"""What outlives a request: tasks, push configs and the sessions of contexts, in one SQLite file."""

from __future__ import annotations

from a2a_claude.store.errors import StoreError
from a2a_claude.store.record import EventRecord, Record
from a2a_claude.store.rows import PushConfig, Session, TaskRow
from a2a_claude.store.sqlite import Store

__all__ = ["EventRecord", "PushConfig", "Record", "Session", "Store", "StoreError", "TaskRow"]

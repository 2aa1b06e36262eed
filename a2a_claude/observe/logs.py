"""Logs: one line a record, in JSON, as text, or with journald's priorities, each with the ids of its request and task.

Everything goes through the standard library's `logging`, to standard error. The ids come from context variables, so
whatever is logged on behalf of a request or a turn carries them.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal, TextIO

from a2a_claude.observe.redaction import Redactor

Form = Literal["text", "json", "journald"]

_IDS: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 (never changed, only replaced)
_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
_NAMES: Final = {logging.WARNING: "warn", logging.CRITICAL: "error"}
# syslog(3) priorities, which journald reads from `<N>` at the start of a line (sd-daemon(3)).
_PRIORITIES: Final = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
_ROOT: Final = "a2a_claude"
_OWN: Final = frozenset(vars(logging.makeLogRecord({})))  # members that every record has


@contextlib.contextmanager
def bound(**ids: str) -> Iterator[None]:
    """What is logged inside carries these ids (`request_id`, `task_id`, `context_id`); empty ones are left out."""
    token = _IDS.set({**_IDS.get(), **{name: value for name, value in ids.items() if value}})
    try:
        yield
    finally:
        _IDS.reset(token)


def bind(**ids: str) -> None:
    """As `bound`, for the rest of the running asyncio task."""
    _IDS.set({**_IDS.get(), **{name: value for name, value in ids.items() if value}})


def chosen_form(form: str, environ: Mapping[str, str], stream: TextIO) -> Form:
    """The form that `logging.format` asks for: `auto` is journald under systemd, text on a terminal, else JSON.

    $JOURNAL_STREAM is inherited by children, so it only counts when it names the device and inode of `stream`
    (systemd.exec(5)).
    """
    if form == "text" or form == "json":
        return form  # type: ignore[return-value]
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return "json"
    if environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}":
        return "journald"
    return "text" if stream.isatty() else "json"


def configure(level: str, form: Form, redactor: Redactor, stream: TextIO = sys.stderr) -> None:
    """Sends the records of this package from `level` on, and the warnings of all others, to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter({"text": Text, "json": Json, "journald": Journald}[form](redactor))
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(logging.WARNING)
    logging.getLogger(_ROOT).setLevel(_LEVELS[level])
    logging.captureWarnings(True)


class Text(logging.Formatter):
    """`[time] [LEVEL] [a2a-claude:child] message {json}`; a traceback follows on lines of its own."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines, of a record."""
        head = f"[{_time(record)}] [{_level(record).upper()}] [{_child(record)}] "
        return head + self.content(record)

    def content(self, record: logging.LogRecord) -> str:
        """What follows the time, level and name."""
        text = self._redactor.text(_message(record)).replace("\n", "\n    ")
        if fields := self._redactor.value(_fields(record)):
            text += f" {json.dumps(fields, ensure_ascii=False)}"
        if trace := _trace(self, record):
            text += "\n" + self._redactor.text(trace)
        return text


class Json(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, the ids, further fields, `error` with its trace."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        head = {
            "time": _time(record),
            "level": _level(record),
            "logger": _child(record),
            "message": self._redactor.text(_message(record)),
        }
        content = {**self._redactor.value(_fields(record)), **head}
        if trace := _trace(self, record):
            content["error"] = self._redactor.text(trace)
        return json.dumps({**head, **content}, ensure_ascii=False)


class Journald(Text):
    """`<priority>[child] message {json}`, the priority before every line: journald has the time and the unit itself."""

    def format(self, record: logging.LogRecord) -> str:
        """The lines of a record."""
        lines = f"[{_child(record)}] {self.content(record)}".split("\n")
        priority = _PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in lines)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _level(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno, record.levelname.lower())


def _child(record: logging.LogRecord) -> str:
    name = record.name.removeprefix(_ROOT)
    return f"a2a-claude:{name[1:]}" if name.startswith(".") else "a2a-claude" if not name else record.name


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        return f"{record.msg} {record.args}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {key: value for key, value in vars(record).items() if key not in _OWN and key != "message"}
    return {**_IDS.get(), **extra}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
    return f"{trace}\n{record.stack_info}" if record.stack_info else trace

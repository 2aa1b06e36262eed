"""The parts of an A2A message as content blocks for Claude, and what a caller accepts as an answer.

Text stays text, data becomes JSON, images become image blocks, small text files are put into the prompt. Any other file
goes into the task's own folder of the workspace, and the prompt says where. What cannot be taken is refused, never
dropped (A2A 3.3.2, ContentTypeNotSupportedError).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import mimetypes
import os
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from a2a.types.a2a_pb2 import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from a2a_claude.config.model import Limits

FOLDER: Final = ".a2a"
IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_IMAGE: Final = 5 * 1024 * 1024 * 3 // 4  # the Messages API takes 5 MB of base64
MAX_INLINE: Final = 128 * 1024
_TEXT_TYPES: Final = re.compile(r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|toml|javascript|sql|x-sh)")
_NAME: Final = re.compile(r"[^\w.-]+")
_LONGEST_NAME: Final = 100

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file from a URL."""

    content: bytes
    media_type: str = ""


Fetch = Callable[[str, int], Awaitable[Fetched]]
"""Gives the file at a URL of at most so many bytes; FileUnavailable when there is none, or it may not be asked for."""


class FileUnavailable(Exception):
    """A file of the message cannot be had; the message says why in words for the caller."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the caller takes."""

    text: bool = True
    data: bool = True


EVERYTHING: Final = Outputs()


def outputs(accepted: Iterable[str], *, structured: bool) -> Outputs:
    """From `acceptedOutputModes` (none: everything); `structured` when the agent gives data too.

    Raises:
        ContentTypeNotSupportedError: the agent gives nothing of it.
    """
    modes = [each.partition(";")[0].strip().lower() for each in accepted]
    if not modes:
        return EVERYTHING
    text = any(each in ("*/*", "text", "text/*", "text/plain", "text/markdown") for each in modes)
    data = structured and any(each in ("*/*", "data", "application/*", "application/json") for each in modes)
    if not (text or data):
        gives = "text/plain and application/json" if structured else "text/plain"
        raise ContentTypeNotSupportedError(f"None of the accepted output modes is given: this agent gives {gives}")
    return Outputs(text, data)


def check(message: Message, limits: Limits, *, fetches: bool) -> None:
    """Refuses what cannot become a prompt, before anything is promised.

    Raises:
        InvalidParamsError: there is nothing in it, or a file is too large.
        ContentTypeNotSupportedError: a file by URL, and they are not fetched.
    """
    if not any(_is_something(part) for part in message.parts):
        raise InvalidParamsError("message.parts: the message says nothing")
    for number, part in enumerate(message.parts):
        match part.WhichOneof("content"):
            case None:
                raise InvalidParamsError(f"message.parts[{number}]: the part has no content")
            case "url" if not (fetches and limits.fetch_file_urls):
                raise ContentTypeNotSupportedError(
                    f"message.parts[{number}]: this agent fetches no files by URL, send the bytes instead"
                )
            case "raw" if len(part.raw) > limits.max_file_bytes:
                raise InvalidParamsError(
                    f"message.parts[{number}]: the file has {len(part.raw)} bytes, {limits.max_file_bytes} are taken"
                )


def _is_something(part: Part) -> bool:
    return bool(part.text.strip()) if part.WhichOneof("content") == "text" else part.WhichOneof("content") is not None


class Prompts:
    """Makes prompts. `workspace` is the agent's; `fetch` gets files by URL."""

    def __init__(self, workspace: Path, limits: Limits, fetch: Fetch | None = None) -> None:
        self._workspace, self._limits, self._fetch = workspace, limits, fetch

    def check(self, message: Message) -> None:
        """See `check`."""
        check(message, self._limits, fetches=self._fetch is not None)

    async def blocks(self, message: Message, task_id: str) -> list[Block]:
        """The prompt of a checked message: blocks of the Messages API. Parts of text are joined by newlines.

        Raises:
            FileUnavailable: a file cannot be fetched, or not be put into the workspace.
        """
        blocks: list[Block] = []
        for number, part in enumerate(message.parts, 1):
            block = await self._block(part, number, task_id)
            if block["type"] == "text" and blocks and blocks[-1]["type"] == "text":
                blocks[-1] = _text(f"{blocks[-1]['text']}\n{block['text']}")
            else:
                blocks.append(block)
        return blocks

    async def _block(self, part: Part, number: int, task_id: str) -> Block:
        match part.WhichOneof("content"):
            case "text":
                return _text(part.text)
            case "data":
                return _text(json.dumps(plain(MessageToDict(part.data)), ensure_ascii=False))
            case "url" if self._fetch is not None:
                found = await self._fetch(part.url, self._limits.max_file_bytes)
                if len(found.content) > self._limits.max_file_bytes:
                    raise FileUnavailable(f"File {number} has more than {self._limits.max_file_bytes} bytes.")
                name = part.filename or part.url.partition("?")[0].partition("#")[0].rpartition("/")[2]
                return await self._file(found.content, part.media_type or found.media_type, name, number, task_id)
        return await self._file(part.raw, part.media_type, part.filename, number, task_id)

    async def _file(self, content: bytes, given: str, name: str, number: int, task_id: str) -> Block:
        media_type = _media_type(given, name)
        if media_type in IMAGES and len(content) <= MAX_IMAGE:
            data = b64encode(content).decode("ascii")
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        safe = safe_name(name, number)
        if _TEXT_TYPES.fullmatch(media_type) and len(content) <= MAX_INLINE and (text := _decoded(content)) is not None:
            return _text(f'<file name="{safe}">\n{text}\n</file>')
        try:
            path = await asyncio.to_thread(place, self._workspace, task_id, safe, content)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise FileUnavailable(f"File {number} could not be put into the workspace: {why}.") from error
        return _text(f"The file {safe} ({media_type or 'of unknown type'}, {len(content)} bytes) is at {path}")


def place(workspace: Path, task_id: str, name: str, content: bytes) -> Path:
    """Writes a file into the task's folder, and gives its path. Nothing is followed or overwritten on the way.

    OSError when it cannot be written. The folder ignores itself, so that no commit takes it along (gitignore(5)).
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    inside = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in (FOLDER, task_id):
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, 0o700, dir_fd=at)
            at, before = os.open(step, inside, dir_fd=at), at
            os.close(before)
            if step == FOLDER:
                _write_once(".gitignore", b"*\n", flags, at)
        while not _write_once(name, content, flags, at):
            name = _number(name)
    finally:
        os.close(at)
    return workspace / FOLDER / task_id / name


def _write_once(name: str, content: bytes, flags: int, folder: int) -> bool:
    try:
        found = os.open(name, flags, 0o600, dir_fd=folder)
    except FileExistsError:
        return False
    with os.fdopen(found, "wb") as file:
        file.write(content)
    return True


def _number(name: str) -> str:
    """`a.txt`, `1-a.txt`, `2-a.txt`"""
    counted = re.match(r"(\d+)-(.*)", name)
    return f"{int(counted[1]) + 1}-{counted[2]}" if counted else f"1-{name}"


def safe_name(name: str, number: int) -> str:
    """A file name without folders, spaces and surprises; `file-<number>` when nothing is left of it."""
    plain = _NAME.sub("_", re.split(r"[/\\]", name)[-1]).strip("._-")
    stem, dot, suffix = plain.rpartition(".")
    if len(plain) > _LONGEST_NAME:
        plain = f"{stem[: _LONGEST_NAME - 20]}{dot}{suffix[:19]}" if dot else plain[:_LONGEST_NAME]
    while len(plain.encode()) > 2 * _LONGEST_NAME:
        plain = plain[1:]
    return plain.strip("._-") or f"file-{number}"


def _media_type(given: str, name: str) -> str:
    plain = given.partition(";")[0].strip().lower()
    if plain in ("", "application/octet-stream"):
        return mimetypes.guess_type(name)[0] or plain
    return "image/jpeg" if plain == "image/jpg" else plain


def _decoded(content: bytes) -> str | None:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def plain(value: Any) -> Any:
    """JSON from protobuf, whose numbers are all floating-point ones: 1.0 is 1 again."""
    match value:
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
    return value


def _text(text: str) -> Block:
    return {"type": "text", "text": text}

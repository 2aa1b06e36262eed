"""The parts of an A2A message as content blocks for Claude, and what a caller accepts as an answer.

Text stays text, data becomes JSON, images become image blocks, small text files are put into the prompt. Any other file
goes into the task's own folder of the workspace, and the prompt says where. What cannot be taken is refused, never
dropped (A2A 3.3.2, ContentTypeNotSupportedError).
"""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from a2a.types.a2a_pb2 import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import MessageToDict

from a2a_claude.claude.task_folders import TaskFolders, safe_name
from a2a_claude.config import media_types
from a2a_claude.config.media_types import UNKNOWN, admits, of_name
from a2a_claude.config.model import Limits

IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_IMAGE: Final = 5 * 1024 * 1024 * 3 // 4  # the Messages API takes 5 MB of base64
MAX_INLINE: Final = 128 * 1024
_TEXT_TYPES: Final = re.compile(r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|toml|javascript|sql|x-sh)")

Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file from a URL."""

    content: bytes
    media_type: str = ""


class FileUnavailable(Exception):
    """A file of the message cannot be had; the message says why in words for the caller."""


class Files(Protocol):
    """Where files by URL come from."""

    def check(self, url: str) -> None:
        """FileUnavailable, with why, when there can never be a file at a URL."""
        ...

    async def get(self, url: str, most: int) -> Fetched:
        """The file at a URL, of at most so many bytes; FileUnavailable, with why, when there is none to be had."""
        ...


@dataclass(frozen=True, slots=True)
class Outputs:
    """What the caller takes: the answer's text, its data, and files of the media types in `modes` (none: all)."""

    text: bool = True
    data: bool = True
    modes: tuple[str, ...] = ()

    def takes(self, media_type: str) -> bool:
        """Whether a file of this media type is welcome."""
        return not self.modes or admits(self.modes, media_type)


EVERYTHING: Final = Outputs()


def outputs(accepted: Iterable[str], *, structured: bool, files: Sequence[str] = ()) -> Outputs:
    """From `acceptedOutputModes` (none: everything). The agent gives text; with `structured` also data, and with
    `files` (media types that its card names) what it writes.

    Raises:
        ContentTypeNotSupportedError: the agent gives nothing of it.
    """
    modes = tuple(accepted)
    if not modes:
        return EVERYTHING
    text = admits(modes, "text/plain") or admits(modes, "text/markdown")
    data = structured and admits(modes, "application/json")
    if not (text or data or any(admits(modes, each) for each in files) or any(admits(files, each) for each in modes)):
        gives = ["text/plain", *(["application/json"] if structured else []), *files]
        raise ContentTypeNotSupportedError(
            f"None of the accepted output modes is given: this agent gives {', '.join(dict.fromkeys(gives))}"
        )
    return Outputs(text, data, modes)


def check(message: Message, limits: Limits, files: Files | None) -> None:
    """Refuses what cannot become a prompt, before anything is promised.

    Raises:
        InvalidParamsError: there is nothing in it, a file is too large, or its URL is one that is never asked for.
        ContentTypeNotSupportedError: a file by URL, and they are not fetched.
    """
    if not any(_is_something(part) for part in message.parts):
        raise InvalidParamsError("message.parts: the message says nothing")
    for number, part in enumerate(message.parts):
        match part.WhichOneof("content"):
            case None:
                raise InvalidParamsError(f"message.parts[{number}]: the part has no content")
            case "url":
                if files is None or not limits.fetch_file_urls:
                    raise ContentTypeNotSupportedError(
                        f"message.parts[{number}]: this agent fetches no files by URL, send the bytes instead"
                    )
                try:
                    files.check(part.url)
                except FileUnavailable as error:
                    raise InvalidParamsError(f"message.parts[{number}]: the file is not available: {error}") from error
            case "raw" if len(part.raw) > limits.max_file_bytes:
                raise InvalidParamsError(
                    f"message.parts[{number}]: the file has {len(part.raw)} bytes, {limits.max_file_bytes} are taken"
                )


def _is_something(part: Part) -> bool:
    return bool(part.text.strip()) if part.WhichOneof("content") == "text" else part.WhichOneof("content") is not None


class Prompts:
    """Makes prompts. `folders` take files; those by URL come from `files`."""

    def __init__(self, folders: TaskFolders, limits: Limits, files: Files | None = None) -> None:
        self._folders, self._limits, self._files = folders, limits, files

    def check(self, message: Message) -> None:
        """See `check`."""
        check(message, self._limits, self._files)

    async def blocks(self, message: Message, task_id: str) -> list[Block]:
        """The prompt of a checked message: blocks of the Messages API. Parts of text are joined by newlines.

        Raises:
            FileUnavailable: a file cannot be fetched, or not be put into the workspace.
        """
        blocks: list[Block] = []
        # By URL one message shall not bring more than it could have brought itself.
        room = max(self._limits.max_body_bytes, self._limits.max_file_bytes)
        for number, part in enumerate(message.parts, 1):
            if part.WhichOneof("content") == "url":
                part, size = await self._fetched(part, number, room)
                room -= size
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
        return await self._file(part.raw, part.media_type, part.filename, number, task_id)

    async def handed(self, parts: Iterable[Part], task_id: str) -> list[Block]:
        """What another agent has answered, none of it by URL: as in a prompt; a file that cannot be had is told."""
        blocks = []
        for number, part in enumerate(parts, 1):
            try:
                blocks.append(await self._block(part, number, task_id))
            except FileUnavailable as error:
                blocks.append(_text(f"[{error}]"))
        return blocks

    async def _fetched(self, part: Part, number: int, room: int) -> tuple[Part, int]:
        """The part with the bytes from its URL in it, and how many they are."""
        assert self._files is not None  # noqa: S101 (`check` has refused the message)
        most = min(room, self._limits.max_file_bytes)
        try:
            found = await self._files.get(part.url, most)
        except FileUnavailable as error:
            raise FileUnavailable(f"File {number} is not available: {error}.") from error
        if len(found.content) > most:
            raise FileUnavailable(f"File {number} has more than {most} bytes.")
        name = part.filename or part.url.partition("?")[0].partition("#")[0].rpartition("/")[2]
        media_type = part.media_type or found.media_type
        return Part(raw=found.content, media_type=media_type, filename=name), len(found.content)

    async def _file(self, content: bytes, given: str, name: str, number: int, task_id: str) -> Block:
        media_type = _media_type(given, name)
        if media_type in IMAGES and len(content) <= MAX_IMAGE:
            data = b64encode(content).decode("ascii")
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
        safe = safe_name(name, number)
        if _TEXT_TYPES.fullmatch(media_type) and len(content) <= MAX_INLINE and (text := _decoded(content)) is not None:
            return _text(f'<file name="{safe}">\n{text}\n</file>')
        try:
            path = await asyncio.to_thread(self._folders.place, task_id, safe, content)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise FileUnavailable(f"File {number} could not be put into the workspace: {why}.") from error
        return _text(f"The file {safe} ({media_type or 'of unknown type'}, {len(content)} bytes) is at {path}")


def _media_type(given: str, name: str) -> str:
    known = media_types.plain(given)
    if known in ("", UNKNOWN):
        found = of_name(name)
        return known if found == UNKNOWN else found
    return "image/jpeg" if known == "image/jpg" else known


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

"""`Response`: the answer of one round as one artifact, in pieces or whole.

Deltas are joined for up to `SECONDS` or `CHARACTERS`, redacted across their borders, and published. The first piece
makes the artifact, the others append, the last one closes it, on every ending. Text that the API had to begin again
replaces what was told of it. Where nothing is told before its end, the answer is the text of the result, and what was
said before that is kept for the case that none comes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent

from a2a_claude.claude import json_values
from a2a_claude.observe.redaction import Redactor, StreamRedactor

SECONDS: Final = 0.08
CHARACTERS: Final = 256

Publish = Callable[[TaskArtifactUpdateEvent], Awaitable[None]]


class Response:
    """One artifact. `told` is whether anything was published of it; `closed` that its last piece was."""

    def __init__(self, artifact_id: str, publish: Publish, redactor: Redactor, *, pieces: bool = True) -> None:
        """Without `pieces` nothing is published before its end."""
        self._pieces = pieces
        self._id, self._publish, self._redactor = artifact_id, publish, redactor
        self._stream = StreamRedactor(redactor)
        self._text = ""  # all of it, as Claude wrote it
        self._mark = 0  # where the last message begins, or that with which it goes on
        self._blocks: list[tuple[int, int]] = []  # of the message that is being written: number, and where it begins
        self._waiting = ""  # redacted, not told yet
        self._replaces = True  # the next piece makes the artifact, or makes it anew
        self._apart = False  # a block has begun: its text, which may come later, is set apart
        self._goes_on = self.resumed = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self.told = self.closed = False

    @property
    def text(self) -> str:
        """What was added so far, not redacted."""
        return self._text

    @property
    def last(self) -> str:
        """The text of the last message, whole when it was `resumed`."""
        return self._text[self._mark :].removeprefix("\n\n")

    def begin_message(self) -> None:
        """A message of the model begins."""
        self._blocks.clear()
        self.resumed = self._goes_on
        if not self._goes_on:
            self._mark = len(self._text)

    def go_on(self) -> None:
        """The next message goes on where the last one was cut."""
        self._goes_on = True

    async def add(self, text: str, *, block: int | None = None) -> None:
        """More of the answer; `block` is the number of the block that it begins, set apart from the text before it."""
        if block is not None:
            self._blocks.append((block, len(self._text)))
            self._apart = not self._goes_on
        if not text or self.closed:
            return
        text = json_values.whole(text)
        if self._apart and self._text and not self._text.endswith("\n"):
            text = f"\n\n{text}"
        self._apart = self._goes_on = False
        self._text += text
        self._waiting += self._stream.feed(text)
        if not self._pieces:
            return
        if len(self._waiting) >= CHARACTERS:
            await self._flush()
        elif self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SECONDS, self._due)

    def abandon(self, block: int) -> None:
        """The API's stream broke: what was written of this message from a block on does not count, it comes again."""
        at = min((place for number, place in self._blocks if number >= block), default=len(self._text))
        if at == len(self._text) or self.closed:
            return
        kept = self._text[:at]
        self._text, self._stream = kept, StreamRedactor(self._redactor)
        self._waiting = self._stream.feed(kept)
        self._replaces = True

    async def close(self, parts: Sequence[Part] = ()) -> None:
        """The last piece, with `parts` at its end. Nothing is published of an artifact that was never begun."""
        self._stop_timer()
        self._waiting += self._stream.finish()
        if self.closed or not (self.told or self._waiting or parts):
            self.closed = True
            return
        await self._flush(parts, last=True)

    async def whole(self, text: str, parts: Sequence[Part] = ()) -> None:
        """All of it at once, in place of what was added and not told."""
        self._text = json_values.whole(text)
        self._waiting = self._redactor.answer(self._text)
        self._stream = StreamRedactor(self._redactor)
        await self.close(parts)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._flushing = asyncio.create_task(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        # A store that refuses this piece refuses the next one too, and that one is awaited by the turn.
        with contextlib.suppress(Exception):
            await self._flush()

    async def _flush(self, parts: Sequence[Part] = (), *, last: bool = False) -> None:
        self._stop_timer()
        async with self._lock:
            text, self._waiting = self._waiting, ""
            if self.closed or not (text or parts or last):
                return
            append, self._replaces = not self._replaces, False
            self.told, self.closed = True, last
            content = [Part(text=text)] if text or not parts else []
            artifact = Artifact(artifact_id=self._id, name="response", parts=[*content, *parts])
            await self._publish(TaskArtifactUpdateEvent(artifact=artifact, append=append, last_chunk=last))

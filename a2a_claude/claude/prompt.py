"""`Prompt`: one prompt that a CLI is answering, and which of the CLI's frames are about it."""

from __future__ import annotations

import asyncio

from a2a_claude.claude.session import Frame, Received


class Prompt:
    """A prompt by its uuid. `frames` has what is for its reader; an exception there breaks it."""

    def __init__(self, uuid: str, waits: bool) -> None:
        """`waits`: a round that the CLI began by itself is on; does it take in the prompt, or is it none of ours?"""
        self._uuid = uuid
        self._held: list[Received] | None = [] if waits else None
        self.answered = False
        self.frames: asyncio.Queue[Received | Exception] = asyncio.Queue()

    def deliver(self, received: Received) -> None:
        """Hands a frame to the reader, or keeps or drops what may belong to a round before it."""
        kind = received.frame.get("type")
        if kind == "result" and not self.answered and not received.answers:
            # A round of the CLI's own, which did not take in the prompt: after a resume there may be an empty one.
            self._held = None
            return
        if kind == "result" and received.answers:
            self.answered = True
        if self._held is not None and kind != "system":
            self._held.append(received)
            if not received.answers and self._uuid not in _uuids(received.frame):
                return
            for each in self._held:
                self.frames.put_nowait(each)
            self._held = None
            return
        self.frames.put_nowait(received)

    def is_answered_by(self, result: Frame) -> bool:
        """Whether a `result` ends the round that took in the prompt."""
        if self.answered:
            return False
        uuids = _uuids(result)
        # An interrupted or failed round may name none; one that the CLI began by itself tells its origin.
        return self._uuid in uuids if uuids else not _injected(result)


def _uuids(frame: Frame) -> list[str]:
    return [*(frame.get("user_message_uuids") or ()), *filter(None, [frame.get("user_message_uuid")])]


def _injected(frame: Frame) -> bool:
    origin = frame.get("origin")
    return isinstance(origin, dict) and origin.get("kind") not in (None, "human", "user")

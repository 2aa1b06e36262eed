"""Which parts a message may have: those whose media types the card promises to take (A2A v1.0 sections 3.3.2, 4.4.1).

The word `text`, which is the default and stands in most configs that were written for the TypeScript a2a-claude, says
nothing about files and data: a list of that word alone takes everything. A list with media types is meant.
"""

from __future__ import annotations

from typing import Final

from a2a.types.a2a_pb2 import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError

from a2a_claude.config.media_types import admits, of_name, plain
from a2a_claude.config.model import AgentCard

_SAID: Final = 5


class InputModes:
    """The input modes of a card: a part is taken when the agent's own list or that of a skill admits it."""

    def __init__(self, card: AgentCard) -> None:
        lists = [card.default_input_modes, *(each.input_modes for each in card.skills if each.input_modes)]
        self._open = any(set(each) <= {"text"} for each in lists)
        self._modes = tuple(dict.fromkeys(mode for each in lists for mode in each))

    def check(self, message: Message) -> None:
        """Refuses what the card does not promise to take.

        Raises:
            ContentTypeNotSupportedError: naming the part and what is taken.
        """
        if self._open:
            return
        for number, part in enumerate(message.parts):
            if not any(admits(self._modes, kind) for kind in _kinds(part)):
                taken = ", ".join(self._modes[:_SAID]) + (", …" if len(self._modes) > _SAID else "")
                raise ContentTypeNotSupportedError(
                    f"message.parts[{number}]: this agent takes {taken}, and not {_kinds(part)[0]}"
                )


def _kinds(part: Part) -> list[str]:
    """The media types that a part may be taken for, the likeliest first."""
    declared = plain(part.media_type)
    match part.WhichOneof("content"):
        case "text":
            # A part of text can be read as such, whatever it is a text of.
            return [declared or "text/plain", "text/plain", "text/markdown"]
        case "data":
            return [declared or "application/json", "application/json"]
        case "url":
            name = part.filename or part.url.partition("?")[0].partition("#")[0].rpartition("/")[2]
            return [declared or of_name(name)]
    return [declared or of_name(part.filename)]

"""`claude.contextFile`: what the agent knows of its workspace, in a file there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from a2a_claude.claude.workspace_files import WorkspaceFiles
from a2a_claude.config.model import Claude

MOST_BYTES: Final = 4 << 20


def read(claude: Claude) -> bytes | None:
    """The file, UTF-8 when the agent made it; None when there is none, or it is longer than 4 MiB.

    Raises:
        OSError: it cannot be read, or a link leads there.
    """
    return WorkspaceFiles(Path(claude.working_directory)).read(claude.context_file, MOST_BYTES)


def write(claude: Claude, text: str) -> None:
    """Puts `text` there.

    Raises:
        OSError: it cannot be written.
    """
    WorkspaceFiles(Path(claude.working_directory)).write(claude.context_file, text.encode())


def pointer(claude: Claude) -> str:
    """What Claude is told of the file; nothing when there is none."""
    try:
        there = WorkspaceFiles(Path(claude.working_directory)).exists(claude.context_file)
    except OSError:
        return ""
    if not there:
        return ""
    return f"An overview of this workspace is in the file {claude.context_file}: read it before you explore."

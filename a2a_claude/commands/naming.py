"""How a command that takes one agent is told which. Imports nothing of the compiler, which takes its time."""

from __future__ import annotations

import os
from pathlib import Path


def agent_path(given: str) -> Path:
    """The place of an agent: its name in agents/, else a path, which may lead nowhere. Raises nothing."""
    named = Path("agents") / given
    return named if os.path.exists(named) else Path(given)


def state_base() -> Path:
    """The folder of this user's agents' states (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "a2a-claude"


def state_folder(given: str | None, agent: str) -> Path:
    """Where `serve` keeps an agent's state: `--state-dir`, systemd's first, or a folder of the user's own."""
    if given:
        return Path(given).absolute()
    if systemd := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(systemd)
    return state_base() / agent

"""How a command that takes one agent is told which. Imports nothing of the compiler, which takes its time."""

from __future__ import annotations

import os
from pathlib import Path


def agent_path(given: str) -> Path:
    """The place of an agent: its name in agents/, else a path, which may lead nowhere. Raises nothing."""
    named = Path("agents") / given
    return named if os.path.exists(named) else Path(given)

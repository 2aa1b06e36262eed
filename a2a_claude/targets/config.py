"""`agent.json`: the resolved configuration, references kept; what every other target and the runtime read."""

from __future__ import annotations

import orjson

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact


def render(agent: Agent) -> list[Artifact]:
    """`agent.json` with sorted keys; reading it back gives `agent.document`."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return [Artifact("agent.json", orjson.dumps(agent.document, option=options).decode())]

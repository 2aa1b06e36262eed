"""`agent.json`: the resolved configuration, references kept; what every other target and the runtime read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact


def render(agent: Agent) -> list[Artifact]:
    """`agent.json` with sorted keys; reading it back gives `agent.document`."""
    return [Artifact("agent.json", compiled(agent.document))]


def compiled(document: Mapping[str, Any]) -> str:
    """`document` as JSON in lines, with sorted keys."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document, option=options).decode()

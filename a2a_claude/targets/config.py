"""`agent.json`: the resolved configuration, references kept; what every other target and the runtime read."""

from __future__ import annotations

import json

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact


def render(agent: Agent) -> list[Artifact]:
    """`agent.json` with sorted keys; reading it back gives `agent.document`."""
    text = json.dumps(agent.document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return [Artifact("agent.json", text + "\n")]

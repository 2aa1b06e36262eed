"""What several test files need."""

from __future__ import annotations

from typing import Any

from a2a_claude.config.agent import Agent, Use, Variable
from a2a_claude.config.model import Config
from a2a_claude.config.schema import root_shape


def make_agent(
    document: dict[str, Any] | None = None, name: str = "reviewer", variables: tuple[str, ...] = ()
) -> Agent:
    """An agent straight from a document, for tests of what comes after the loader."""
    complete = root_shape().complete(document or {})
    return Agent(
        name=name,
        config=Config.load(complete),
        document=complete,
        variables=tuple(
            Variable(each, "KEY" in each or "TOKEN" in each, True, None, (Use("claude.env", "agent.yaml:1:1"),))
            for each in sorted(variables)
        ),
        files={},
        layers={"agents/reviewer/agent.yaml": "0" * 64},
    )

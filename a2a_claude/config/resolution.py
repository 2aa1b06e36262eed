"""An agent as it is served: its references replaced by the values of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from a2a_claude.config.agent import Agent
from a2a_claude.config.diagnostics import Diagnostic, has_errors
from a2a_claude.config.loader import Loaded
from a2a_claude.config.model import Config
from a2a_claude.config.variables import resolve_document

OF_CLAUDE = frozenset({"claude", "events", "mcp", "memory", "session", "subAgents"})
"""The top-level keys that only Claude needs: another executor runs without their variables."""


def resolved(
    loaded: Loaded, find: Callable[[str], str | None], without: frozenset[str] = frozenset()
) -> tuple[Agent | None, list[Diagnostic]]:
    """The agent with its references replaced by what `find` gives, except below the top-level keys of `without`.

    None when a variable is missing; the diagnostics name the line that needs it.
    """
    agent = loaded.agent
    mentions = [each for each in loaded.mentions if not each.path or each.path[0] not in without]
    document, problems = resolve_document(loaded.document, mentions, find)
    if agent is None or has_errors(problems):
        return None, problems
    config = Config.load(document)
    return Agent(agent.name, config, document, agent.variables, agent.files, agent.layers), problems


class Variables(Mapping[str, str]):
    """What `find` gives, as a mapping that cannot be listed."""

    def __init__(self, find: Callable[[str], str | None]) -> None:
        self._find = find

    def __getitem__(self, name: str) -> str:
        value = self._find(name)
        if value is None:
            raise KeyError(name)
        return value

    def __iter__(self) -> Iterator[str]:
        raise TypeError("secrets are looked up, not listed")

    def __len__(self) -> int:
        raise TypeError("secrets are looked up, not listed")

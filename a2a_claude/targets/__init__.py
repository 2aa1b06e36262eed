"""One module per output format, each with `render(agent) -> list[Artifact]` and the format's quoting beside it.

A format that has a file for all agents together also has `render_fleet(agents) -> list[Artifact]`.

A new target is one module here, one folder under `templates/`, one line in `TARGETS` and one test file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from a2a_claude.config.agent import Agent

TARGETS = {
    "config": "a2a_claude.targets.config",
    "docker": "a2a_claude.targets.docker",
    "systemd": "a2a_claude.targets.systemd",
    "nix": "a2a_claude.targets.nix",
    "compose": "a2a_claude.targets.compose",
    "quadlet": "a2a_claude.targets.quadlet",
    "kubernetes": "a2a_claude.targets.kubernetes",
}

CONTAINERS = frozenset({"docker", "compose", "quadlet", "kubernetes"})
"""Those that run an agent in a container, where it listens on every address."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A rendered file: its path relative to `deploy/<agent>/`, of a fleet's file to `deploy/`, and its text."""

    path: str
    text: str


class Unrenderable(ValueError):
    """A value that a format cannot express. `path` is its dotted config path, e.g. `deploy.docker.labels.a`."""

    def __init__(self, path: str, reason: str, hint: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.hint = hint


@cache
def renderer(target: str) -> Callable[[Agent], list[Artifact]]:
    """The `render` of a target named in `TARGETS`."""
    render: Callable[[Agent], list[Artifact]] = import_module(TARGETS[target]).render
    return render


@cache
def fleet_renderer(target: str) -> Callable[[Iterable[Agent]], list[Artifact]] | None:
    """The `render_fleet` of a target named in `TARGETS`; None for one that has none."""
    render: Callable[[Iterable[Agent]], list[Artifact]] | None = getattr(
        import_module(TARGETS[target]), "render_fleet", None
    )
    return render

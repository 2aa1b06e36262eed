"""`Agent`: the one value that everything downstream is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from a2a_claude.config.model import Config, Secret

WRITING_TOOLS = frozenset({"Write", "Edit", "NotebookEdit", "Bash"})


@dataclass(frozen=True, slots=True)
class Use:
    """One place that refers to a variable: the dotted config path and `file:line:column` of the value."""

    path: str
    where: str


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable that an agent refers to.

    `default` is the text after `:-` (None without one); `required` is true when some use has no default and the agent
    cannot be served without it; `secret` when it is declared, or used or named like a credential.
    """

    name: str
    secret: bool
    required: bool
    default: str | None
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Agent:
    """A checked agent.

    `document` is the resolved configuration as plain data: every layer merged, defaults filled in, `${…}` references
    kept as they were written. `config` is the same, typed. `variables` are sorted by name. `files` maps paths relative
    to the compiled agent (`memory/…`) to the files that are shipped with it. `layers` maps the
    files it was made from, by path from the project's root, lowest first, to the SHA-256 of their bytes.
    """

    name: str
    config: Config
    document: Mapping[str, Any]
    variables: tuple[Variable, ...]
    files: Mapping[str, Path]
    layers: Mapping[str, str]

    @property
    def secrets(self) -> dict[str, Secret]:
        """Every secret by name, sorted: declared ones, Claude's credentials, and variables that carry credentials."""
        implied = {name: Secret(None, False, None, False, None) for name in self._implied_secrets()}
        return dict(sorted({**implied, **self.config.secrets}.items()))

    def _implied_secrets(self) -> list[str]:
        return [*self.config.claude.credentials, *(each.name for each in self.variables if each.secret)]

    @property
    def plain_variables(self) -> tuple[Variable, ...]:
        """The variables that are no secrets, sorted by name."""
        return tuple(each for each in self.variables if not each.secret)

    @property
    def writes_workspace(self) -> bool:
        """Whether the agent is meant to change its workspace: not in plan mode, nor without any tool that writes."""
        claude = self.config.claude
        match self.config.deploy.workspace_access:
            case "read-only":
                return False
            case "read-write":
                return True
        return claude.permission_mode != "plan" and not WRITING_TOOLS.issubset(claude.disallowed_tools)

"""Hosts with the NixOS module, as Nix evaluates them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.nix.installation import HERE, Nix


class Host:
    """Evaluates hosts with the module, by one Nix and one nixpkgs lib."""

    def __init__(self, installed: Nix, library: Path) -> None:
        self.nix = installed
        self.library = library

    def expression(self, *modules: str) -> str:
        """The expression for a host with modules, each a path or an expression in parentheses."""
        listed = " ".join(modules)
        return f"(import {HERE}/host.nix {{ lib = import {self.library}; modules = [ {listed} ]; }})"

    def of(self, *modules: str) -> Any:
        """What the tests look at of such a host."""
        return self.nix.evaluate(f"{self.expression(*modules)}.shown")

    def of_agents(self, agents: str) -> Any:
        """The same for a host with these agents and nothing else."""
        return self.of(f"{{ services.a2a-claude.agents = {{ {agents} }}; }}")

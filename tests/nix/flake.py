"""A copy of the project as a flake, on a nixpkgs that is small and needs no network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.nix.installation import HERE, PROJECT, Nix
from tests.tools import require

SOURCES = [
    "LICENSE",
    "README.md",
    "a2a_claude",
    "agents",
    "flake.lock",
    "flake.nix",
    "nix",
    "pyproject.toml",
    "schema",
    "templates",
    "uv.lock",
]


class Flake:
    """A copy of the project in a git repository of its own, and nixpkgs replaced by the stub.

    `calls` is where the stub's a2a-claude notes its arguments before it runs. Its Python imports from `first` before
    all else, and its Claude Code is `cli`, where they are given.
    """

    def __init__(self, installed: Nix, folder: Path, first: Path | None = None, cli: Path | None = None) -> None:
        self.nix = installed
        self.project = folder / "project"
        self.calls = folder / "calls"
        self.stub = folder / "stub"
        self.project.mkdir()
        ignored = shutil.ignore_patterns("__pycache__", "workspace")
        for name in SOURCES:
            source = PROJECT / name
            if source.is_dir():
                shutil.copytree(source, self.project / name, ignore=ignored)
            else:
                shutil.copy(source, self.project / name)
        shutil.copytree(HERE / "stub", self.stub)
        python = folder / "python"
        path = f"export PYTHONPATH={first}:$PYTHONPATH\n" if first else ""
        note = f'{{ printf "%s|" "$@"; echo; }} >> {self.calls}\n'
        python.write_text(f'#!/bin/sh\n{note}{path}exec {sys.executable} "$@"\n')
        python.chmod(0o755)
        (self.stub / "python.json").write_text(json.dumps({"python": str(python), "claude": str(cli or "/bin/false")}))
        subprocess.run([require("git", "apt-get install git"), "init", "--quiet"], cwd=self.project, check=True)
        self.track()

    def track(self) -> None:
        """Flakes see tracked files only."""
        subprocess.run(["git", "add", "--all"], cwd=self.project, check=True)

    def run(self, *arguments: str, passed: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        """`nix <arguments>` in the project; `passed` are the arguments of the program that it runs."""
        return self.nix.run("nix", *self._words(arguments, passed), cwd=self.project)

    def start(self, *arguments: str, passed: tuple[str, ...], log: Path, **variables: str) -> subprocess.Popen[str]:
        """The same without waiting for its end: see `Nix.start`."""
        return self.nix.start("nix", *self._words(arguments, passed), cwd=self.project, log=log, **variables)

    def _words(self, arguments: tuple[str, ...], passed: tuple[str, ...]) -> tuple[str, ...]:
        override = ("--override-input", "nixpkgs", f"path:{self.stub}", "--no-write-lock-file")
        return (*arguments, *override, *(("--", *passed) if passed else ()))

    def apps(self) -> list[str]:
        """The names of the apps for one system."""
        done = self.run("eval", "--json", ".#apps.x86_64-linux", "--apply", "builtins.attrNames")
        assert done.returncode == 0, done.stderr
        names: list[str] = json.loads(done.stdout)
        return names

"""The Nix that tests run: this machine's, or that of Debian 13, each with a store of its own in a temporary folder."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tools import require, require_trixie

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent

_CONF = """\
experimental-features = nix-command flakes
substituters =
sandbox = false
build-users-group =
"""


@dataclass(frozen=True)
class Nix:
    """A Nix and the folder its store is in. `root` is the Debian 13 root folder it runs from, if any.

    A foreign Nix is started by its own loader rather than in a chroot, so what it builds and runs is this machine's.
    """

    folder: Path
    root: Path | None = None

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run `nix`, `nix-instantiate` and the like; the exit code is the caller's to judge."""
        return subprocess.run(
            [*self._program(program), *arguments],
            env=self._environment(),
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def start(self, program: str, *arguments: str, cwd: Path, log: Path, **variables: str) -> subprocess.Popen[str]:
        """The same without waiting for its end, with more variables; what it says goes to `log`."""
        command = [*self._program(program), *arguments]
        with log.open("w") as file:
            return subprocess.Popen(
                command, env={**self._environment(), **variables}, cwd=cwd, stdout=file, stderr=file, text=True
            )

    def command_line(self, program: str) -> str:
        """How a shell runs it, with the shell's own PATH."""
        settings = [f"{name}={value}" for name, value in self._environment().items() if name != "PATH"]
        return shlex.join(["env", *settings, *self._program(program)])

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(self.folder / "home"),
            "NIX_STORE_DIR": str(self.folder / "store"),
            "NIX_STATE_DIR": str(self.folder / "var"),
            "NIX_LOG_DIR": str(self.folder / "log"),
            "NIX_CONF_DIR": str(self.folder / "etc"),
            "NIX_DATA_DIR": str(self.folder / "share"),
        }

    def _program(self, name: str) -> list[str]:
        if self.root is None:
            return [require(name, "apt-get install nix-bin")]
        libraries = self.root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
        loader = next(libraries.glob("ld-linux-*.so.*"))
        return [str(loader), "--argv0", name, "--library-path", str(libraries), str(self.root / "usr/bin/nix")]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, all of it, as JSON. AssertionError with Nix's message when it has none."""
        done = self.run("nix-instantiate", "--eval", "--strict", "--json", "--expr", expression)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, expression: str) -> str:
        """What Nix says of an expression that has no value."""
        done = self.run("nix-instantiate", "--eval", "--strict", "--json", "--show-trace", "--expr", expression)
        assert done.returncode != 0, done.stdout
        return done.stderr


def nix_of(place: str, folder: Path) -> Nix:
    """The Nix of this `machine`, or of the Debian 13 root folder (`trixie`)."""
    nix = Nix(folder, require_trixie() if place == "trixie" else None)
    nix._program("nix")
    for name in ("etc", "home"):
        (folder / name).mkdir(parents=True)
    (folder / "etc/nix.conf").write_text(_CONF)
    # Two commands that make the same new store at the same time disturb each other.
    made = nix.run("nix-store", "--init")
    assert made.returncode == 0, made.stderr
    return nix


def library_of(name: str) -> Path:
    """The folder of the small `stub` of nixpkgs' lib, or of the real one that A2A_CLAUDE_NIXPKGS_LIB names."""
    if name == "stub":
        return HERE / "stub/lib.nix"
    # No package registry has it, so it may be missing in CI too.
    path = os.environ.get("A2A_CLAUDE_NIXPKGS_LIB")
    if not path:
        pytest.skip("set A2A_CLAUDE_NIXPKGS_LIB to the lib folder of a nixpkgs checkout")
    return Path(path)

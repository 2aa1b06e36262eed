"""The commands of the documentation for Nix, with the stub of nixpkgs and without a network."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.console import check, commands_of, name, pages_for
from tests.nix.flake import Flake
from tests.nix.installation import nix_of
from tests.test_docs import shell_in

# Flakes name their inputs by URLs: here, the stub and this checkout stand for them.
NIX = """#!/bin/bash
options=(--override-input nixpkgs path:{stub} --no-write-lock-file)
case $* in *./host#*) options+=(--override-input a2a-claude path:{project}) ;; esac
exec {nix} "$1" "${{options[@]}}" "${{@:2}}"
"""
# The stub's image is what nixpkgs' would be made from; an engine knows it by its name, and by the hash of the build.
DOCKER = """#!{python}
import json, sys
assert sys.argv[1:] == ["load"], sys.argv
print(f"Loaded image: {{json.load(sys.stdin)['name']}}:hash")
"""


@pytest.mark.parametrize("page", pages_for("nix"), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    installed = nix_of("machine", tmp_path / "nix")
    flake = Flake(installed, tmp_path)
    program = flake.project / "bin" / "nix"
    program.parent.mkdir()
    text = NIX.format(nix=installed.command_line("nix"), stub=flake.stub, project=flake.project)
    program.write_text(text, "utf-8")
    docker = program.with_name("docker")
    docker.write_text(DOCKER.format(python=sys.executable), "utf-8")
    for each in (program, docker):
        each.chmod(0o755)
    check(commands_of(page, "nix"), shell_in(flake.project), lenient=True)

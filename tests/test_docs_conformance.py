"""The commands of the documentation for the conformance kits: real git, uv and servers, and a stand-in for the kits.

The kits themselves are on GitHub only, and run for many minutes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.console import ROOT, check, commands_of, name, pages_for
from tests.test_docs import checkout, shell_in
from tests.tools import require

__all__ = ["checkout"]

KITS = {"1.0-dev": "branch", "main": "branch", "0.3.0.beta4": "tag"}


def repository(folder: Path) -> Path:
    """A git repository in which every kit is the stand-in, told which one it is."""
    git = [require("git", "apt-get install git"), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    shutil.copytree(ROOT / "tests" / "kit_stand_in", folder, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*git, "init", "--quiet", "--initial-branch=kits"], cwd=folder, check=True)
    for kit, kind in KITS.items():
        (folder / "kit.txt").write_text(kit, "utf-8")
        for command in (["add", "--all"], ["commit", "--quiet", f"--message={kit}"], [kind, kit]):
            subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("page", pages_for("kits"), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(
    page: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("uv", "pip install uv")
    kits = repository(tmp_path_factory.mktemp("kits") / "kit")
    settings = checkout / "gitconfig"
    settings.write_text(f'[url "file://{kits}"]\n\tinsteadOf = https://github.com/a2aproject/a2a-tck\n', "utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    check(commands_of(page, "kits"), shell_in(checkout))

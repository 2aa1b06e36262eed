"""The published hooks, installed and run by pre-commit itself in a repository that uses them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools import absent, require

ROOT = Path(__file__).parent.parent
GOOD = "# agent\nserver:\n  port: 3055\n"
BAD = "# agent\nserver:\n  port: 70000\n"


def git(folder: Path, *arguments: str) -> None:
    subprocess.run([require("git", "apt-get install git"), *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    if not (ROOT / ".git").exists():
        absent("a git checkout", "pre-commit installs hooks from a repository")
    folder = tmp_path / "repository"
    (folder / "agents" / "clerk").mkdir(parents=True)
    git(folder, "init", "--quiet")
    return folder


def try_hooks(repository: Path, home: Path) -> tuple[int, str]:
    """All published hooks of this checkout, uncommitted changes included: the exit code and what was printed."""
    git(repository, "add", "--all")
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "try-repo", ROOT, "--all-files", "--color=never"],
        cwd=repository,
        env={**os.environ, "PRE_COMMIT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_hooks_accept_a_folder_whose_deploy_tree_is_current(repository: Path, tmp_path: Path) -> None:
    (repository / "agents" / "clerk" / "agent.yaml").write_text(GOOD)
    ours = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-m", "a2a_claude", "compile", "agents/"], cwd=repository, env=ours, check=True)
    code, printed = try_hooks(repository, tmp_path / "home")
    assert code == 0, printed
    assert printed.count("Passed") == 2, printed


def test_hooks_name_the_place_of_a_wrong_value_and_the_missing_file(repository: Path, tmp_path: Path) -> None:
    (repository / "agents" / "clerk" / "agent.yaml").write_text(BAD)
    code, printed = try_hooks(repository, tmp_path / "home")
    assert code == 1, printed
    assert printed.count("Failed") == 2, printed
    assert "agents/clerk/agent.yaml:3:9" in printed

"""Settings of all tests."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from a2a_claude.claude.supervisor import landlock
from tests.tools import absent

# Machines here are shared: no deadlines. CI draws the same examples each time; a developer's machine draws new ones.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


# What boots machines and runs engines, or serves at the ports that the documentation shows: one at a time.
_ALONE: Final = (
    "tests/e2e/",
    "tests/nix/",
    "tests/test_docs",
    "tests/test_systemd_boot.py",
    "tests/test_target_compose.py",
    "tests/test_target_docker.py",
)


def _group(test: str) -> str:
    file = test.partition("::")[0]
    return "alone" if file.startswith(_ALONE) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """For `-n 2`, as CI runs them: a file stays with one worker, as do all files that must be alone."""
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = _group
    return scheduler


def _is_below_sticky(folder: Path) -> bool:
    real = folder.resolve()
    return any(each.stat().st_mode & stat.S_ISVTX for each in [real, *real.parents])


@pytest.fixture
def outside_tmp() -> Iterator[Path]:
    """A folder that is not below one for everybody's temporary files."""
    if landlock.abi() < 2:
        absent("Landlock", "these tests need Linux 5.19 or newer with Landlock enabled")
    candidates = [Path(__file__).parent, Path.home(), Path("/opt")]
    fit = [each for each in candidates if os.access(each, os.W_OK) and not _is_below_sticky(each)]
    if not fit:
        absent("a place outside of /tmp", "check the project out elsewhere")
    base = fit[0]
    folder = Path(tempfile.mkdtemp(dir=base, prefix=".hiding-"))
    yield folder
    shutil.rmtree(folder)

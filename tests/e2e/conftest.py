"""What several platforms need: the wheel, a booted machine that has it, the API that Claude talks to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installed import PREFIX, PROGRAM, build_wheel, install
from tests.e2e.machine import Machine, booted
from tests.fake_anthropic_api import FakeAPI
from tests.tools import absent, require_root
from tests.trixie import root_with


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def api() -> Iterator[FakeAPI]:
    api = FakeAPI().start()
    yield api
    api.shutdown()


def bookworm() -> Path:
    """A Debian 12 root folder that boots."""
    require_root()
    root = os.environ.get("A2A_CLAUDE_BOOT_ROOT")
    if root and Path(root, "usr/bin/python3").exists():
        return Path(root)
    packages = "systemd-sysv dbus python3-venv bubblewrap"
    return absent(
        "A Debian root that boots",
        f"run `.ci/debian-root bookworm DIR {packages}`, then set A2A_CLAUDE_BOOT_ROOT=DIR",
    )


@pytest.fixture(scope="session", params=["systemd 252", "systemd 257"])
def machine(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A booted Debian 12 or 13 with the wheel in /opt/a2a-claude, as `pip install` in an environment would have it."""
    old = request.param.endswith("252")
    disk = bookworm() if old else root_with("sbin/init", "systemd-sysv")
    python = re.sub("^python", "", (disk / "usr/bin/python3").readlink().name)
    folder = tmp_path_factory.mktemp("machine")
    packages = install(wheel, python, folder / "site-packages")
    with booted(disk, folder, {f"{PREFIX}/lib/python{python}/site-packages": packages}) as machine:
        machine.run(f"python3 -m venv --without-pip {PREFIX}")
        machine.put(f"{PREFIX}/bin/a2a-claude", PROGRAM, 0o755)
        yield machine

"""The commands of the documentation for hosts with systemd, on a booted machine that has nothing yet."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.claude_support import require_cli
from tests.console import ROOT, check, commands_of, name, pages_for
from tests.e2e.conftest import bookworm
from tests.e2e.machine import booted
from tests.fake_anthropic_api import FakeAPI
from tests.tools import require

pytestmark = pytest.mark.slow

FIRST = ROOT / "docs" / "systemd.md"  # makes the host that the others have
Shell = Callable[[str], subprocess.CompletedProcess[str]]


def wheelhouse(wheel: Path, folder: Path) -> Path:
    """A folder with all that `pip install` needs, for the Python of Debian 12."""
    uv = require("uv", "pip install uv")
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, folder / "venv"], check=True)
    command: list[str | Path] = [folder / "venv" / "bin" / "pip", "download", "--quiet", "--only-binary=:all:"]
    command += ["--python-version=3.11", "--dest", folder / "wheels", f"{wheel}[runtime]"]
    subprocess.run(command, check=True)
    return folder / "wheels"


@pytest.fixture(scope="module")
def shell(wheel: Path, api: FakeAPI, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Runs scripts as root in /root of a machine on which the commands of systemd.md have been run."""
    require_cli()
    disk = bookworm()
    folder = tmp_path_factory.mktemp("machine")
    wheels = wheelhouse(wheel, tmp_path_factory.mktemp("packages"))
    with booted(disk, folder, {"/wheels": wheels}) as machine:
        # A package index and an API without a network.
        machine.put("/etc/pip.conf", "[install]\nno-index = true\nfind-links = /wheels\n")
        drop_in = f"[Service]\nEnvironment=ANTHROPIC_BASE_URL={api.url}\n"
        machine.put("/etc/systemd/system/a2a-claude-.service.d/test.conf", drop_in)
        machine.put("/root/key.txt", "sk-ant-api03-a-key\n")
        shutil.copytree(ROOT / "agents", machine.root / "root/agents", ignore=shutil.ignore_patterns("workspace"))

        def run(script: str) -> subprocess.CompletedProcess[str]:
            return machine.attempt("bash", "--norc", "-c", f"export HOME=/root; cd; exec 2>&1\n{script}", timeout=240)

        check(commands_of(FIRST, "systemd"), run, lenient=True)
        yield run


@pytest.mark.parametrize("page", [FIRST, *(each for each in pages_for("systemd") if each != FIRST)], ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, shell: Shell) -> None:
    if page != FIRST:
        check(commands_of(page, "systemd"), shell, lenient=True)

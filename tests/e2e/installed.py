"""a2a-claude as its users have it: the wheel of this checkout, installed with its runtime for some Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.tools import require

ROOT = Path(__file__).parent.parent.parent
PREFIX = "/opt/a2a-claude"  # where the units look for it
PROGRAM = f"""#!{PREFIX}/bin/python
import sys
from a2a_claude.cli import main
sys.exit(main())
"""


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout."""
    command: list[str | Path] = [sys.executable, "-m", "build", "--wheel", "--installer", "uv", "--outdir", folder]
    subprocess.run([*command, ROOT], check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def install(wheel: Path, python: str, folder: Path) -> Path:
    """A site-packages folder with the wheel and its runtime for this version of Python, as `folder`."""
    uv = require("uv", "pip install uv")
    command: list[str | Path] = [uv, "pip", "install", "--quiet", "--only-binary=:all:", f"--python-version={python}"]
    subprocess.run([*command, "--target", folder, f"{wheel}[runtime]"], check=True)
    return folder

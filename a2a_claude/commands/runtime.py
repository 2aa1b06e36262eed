"""What the commands share that need the packages of the extra `runtime`."""

from __future__ import annotations

from importlib.util import find_spec

import click

from a2a_claude.commands.common import USAGE

PACKAGES = ("a2a", "falcon", "granian", "psutil", "uvloop")


def require_runtime() -> None:
    """Exits 2 and says what to install when the runtime is missing."""
    if any(find_spec(each) is None for each in PACKAGES):
        click.echo("a2a-claude: this needs a2a-claude[runtime]: pip install 'a2a-claude[runtime]'", err=True)
        raise SystemExit(USAGE)

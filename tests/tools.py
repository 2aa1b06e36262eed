"""The real tools that tests run against: absent on a newcomer's machine is a skip, absent in CI is a failure."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))


def absent(what: str, hint: str) -> NoReturn:
    """Skip the test and say what to install, or fail it where CI is set: there, nothing may be missing."""
    message = f"{what} is not there: {hint}"
    if IN_CI:
        pytest.fail(message)
    pytest.skip(message)


def require(program: str, hint: str) -> str:
    """The path of a program on PATH, e.g. `require("buildah", "apt-get install buildah")`."""
    # Debian keeps daemons and debootstrap in sbin, which a user's PATH may lack.
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/usr/local/sbin")
    return path or absent(program, hint)


def require_root() -> None:
    """Engines that make namespaces or mounts need root."""
    if os.geteuid() != 0:
        absent("root", "run these tests as root")


def require_trixie() -> Path:
    """A Debian 13 root folder with systemd 257, nix 2.26 and more in it; run its tools by `chroot`, as root."""
    require_root()
    root = os.environ.get("A2A_CLAUDE_TRIXIE_ROOT")
    if root and Path(root, "etc", "debian_version").is_file():
        return Path(root)
    absent(
        "A Debian 13 root",
        "run `.ci/debian-root trixie DIR` with the packages that .ci/run names, then set A2A_CLAUDE_TRIXIE_ROOT=DIR",
    )

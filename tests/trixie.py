"""Tools of Debian 13, run by chroot on files that a test makes there."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.tools import absent, require_trixie


def root_with(program: str, package: str) -> Path:
    """The Debian 13 root, with `program` of Debian's `package` in it."""
    root = require_trixie()
    if not (root / program.lstrip("/")).exists():
        absent(f"{program} in {root}", f"add {package} to its packages, as .ci/run does")
    return root


@contextmanager
def folder_in(root: Path, files: Mapping[str, str]) -> Iterator[str]:
    """A folder in `root` with `files`, under the name that its tools see it by."""
    made = Path(tempfile.mkdtemp(dir=root / "tmp"))
    try:
        for name, text in files.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_text(text, "utf-8")
        yield f"/{made.relative_to(root)}"
    finally:
        shutil.rmtree(made)


def run_in(root: Path, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command that must succeed."""
    settings = [f"{name}={value}" for name, value in environ.items()]
    done = subprocess.run(
        ["chroot", str(root), "env", "-i", "PATH=/usr/bin", "HOME=/tmp", *settings, *command],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done
    return done

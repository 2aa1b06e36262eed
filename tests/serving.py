"""A real server process: `a2a-claude serve` with the scripted executor, on a free loopback port."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
PATIENCE = 60.0  # seconds; only what hangs is slower, also on a busy machine


def environment(**more: str) -> dict[str, str]:
    """The environment of a server that inherits nothing of the test run's configuration."""
    dropped = ("A2A_", "NOTIFY_", "LISTEN_", "WATCHDOG_", "JOURNAL_", "STATE_DIR", "PORT", "XDG_STATE", "WORKSPACE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


def write_agent(folder: Path, name: str = "reviewer", **config: Any) -> Path:
    """An agent's folder below `folder`/agents with a config of these top-level keys."""
    path = folder / "agents" / name
    path.mkdir(parents=True, exist_ok=True)
    config.setdefault("agentCard", {"name": "Reviewer", "description": "Reviews.", "version": "1"})
    (path / "agent.yaml").write_text(yaml.safe_dump(config))
    return path


class Served:
    """A started server: `url`, `lines` of its log as JSON, `process`."""

    def __init__(self, process: subprocess.Popen[str], pass_through: bool = False) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self.raw: list[str] = []
        self._listening = threading.Event()
        self._more = threading.Condition()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._more:
                self.raw.append(line)
                self._more.notify_all()
            with contextlib.suppress(ValueError):
                self.lines.append(json.loads(line))
            if found := re.search(r"listens on (https?://[^\s\"]+)", line):
                self.url = found[1]
                self._listening.set()
        self._listening.set()

    def wait_until_it_listens(self) -> Served:
        """AssertionError with its log when it ends instead."""
        assert self._listening.wait(PATIENCE), "".join(self.raw)
        assert self.url, "".join(self.raw)
        return self

    def wait_for(self, text: str) -> None:
        """Until a line of the log has `text` in it."""
        with self._more:
            found = self._more.wait_for(lambda: any(text in line for line in self.raw), PATIENCE)
        assert found, "".join(self.raw)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code. TimeoutExpired when it hangs."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self) -> int:
        """Stops it as a supervisor does."""
        if self.process.poll() is None:
            self.signal()
        return self.wait()

    @property
    def messages(self) -> list[str]:
        return [line["message"] for line in self.lines]


def start(
    folder: Path,
    agent: Path,
    *arguments: str,
    environ: dict[str, str] | None = None,
    before: Sequence[str] = (),
    **more: Any,
) -> Served:
    """Starts a server without waiting for it; `before` are a program and its arguments that run it."""
    program = [*before, sys.executable, "-m", "a2a_claude", "serve", str(agent), "--executor", "scripted"]
    process = subprocess.Popen(
        [*program, "--state-dir", str(folder / "state"), *arguments],
        cwd=folder,
        env=environ or environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    return Served(process)


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, environ: dict[str, str] | None = None, **config: Any) -> Iterator[Served]:
    """A server of an agent with this config, until the block ends."""
    agent = write_agent(folder, **config)
    served = start(folder, agent, "--port", "0", *arguments, environ=environ)
    try:
        yield served.wait_until_it_listens()
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.wait()


def run(folder: Path, *arguments: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "a2a_claude", *arguments],
        cwd=folder,
        env=environ or environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def message(script: dict[str, Any] | None = None, text: str = "hello", **more: Any) -> dict[str, Any]:
    """A v1.0 message, with what the scripted executor is to do."""
    import uuid

    content = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}], **more}
    return {**content, "metadata": {"script": script}} if script else content

"""The servers that are compared: how each is installed and started."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.server import load
from bench.server.process import cpu

ROOT = Path(__file__).parent.parent.parent
PEERS = Path(__file__).parent / "peers"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "a2a-claude" / "bench-server"
A2A_SDK = ("a2a-sdk[http-server]>=1.3,<2", "uvicorn>=0.35")
A2A_JS = ("@a2a-js/sdk@^1.3", "express@^5")
CARD = "/.well-known/agent-card.json"
_START_SECONDS = 60.0

AGENT = """\
agentCard: {name: Scripted, description: Answers at once., version: "1"}
logging: {level: warn}
server:
  limits: {requestsPerMinute: 0, maxStreams: 1000, maxStreamsPerCaller: 1000, maxConcurrentTasks: 1000}
"""


@dataclass(frozen=True, slots=True)
class Contender:
    """A server: `command` gives the program for a port and an empty folder, `install` fetches what it needs."""

    name: str
    command: Callable[[int, Path], list[str | Path]]
    folder: Path
    installed: Callable[[], bool]
    install: Callable[[], None]
    ready: str = CARD


def ours(port: int, folder: Path) -> list[str | Path]:
    agent = folder / "scripted"
    agent.mkdir()
    (agent / "agent.yaml").write_text(AGENT)
    program: list[str | Path] = [sys.executable, "-m", "a2a_claude", "serve", agent, "--executor", "scripted"]
    return [*program, "--port", str(port), "--state-dir", folder / "state"]


def _install_a2a_sdk() -> None:
    venv = CACHE / "python"
    if uv := shutil.which("uv"):
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, venv], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python", *A2A_SDK], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin" / "python", "-m", "pip", "install", "--quiet", *A2A_SDK], check=True)


def _install_a2a_js() -> None:
    folder = CACHE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    if not shutil.which("npm"):
        raise RuntimeError("npm is missing: install Node.js 20 or newer with npm, or leave this peer out")
    subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", *A2A_JS], cwd=folder, check=True)


def _a2a_js(port: int, _folder: Path) -> list[str | Path]:
    # Node looks for packages beside the program.
    program = CACHE / "node" / "server.mjs"
    shutil.copyfile(PEERS / "a2a_js.mjs", program)
    # `node` may be a wrapper, which is not to be measured.
    node = subprocess.run(["node", "-p", "process.execPath"], check=True, capture_output=True, text=True).stdout.strip()
    return [node, program, str(port)]


CONTENDERS = (
    Contender("a2a-claude", ours, ROOT, lambda: True, lambda: None, "/ready"),
    Contender(
        "a2a-sdk",
        lambda port, _: [CACHE / "python" / "bin" / "python", PEERS / "a2a_sdk.py", str(port)],
        CACHE,
        lambda: (CACHE / "python" / "bin" / "uvicorn").exists(),
        _install_a2a_sdk,
    ),
    Contender(
        "@a2a-js/sdk",
        _a2a_js,
        CACHE,
        lambda: (CACHE / "node" / "node_modules" / "express").exists(),
        _install_a2a_js,
    ),
)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers; `wall` and `cpu` are the seconds that it took from its start to the first answer."""

    pid: int
    port: int
    wall: float
    cpu: float


@contextlib.contextmanager
def running(contender: Contender, core: int | None) -> Iterator[Running]:
    """Starts the server with all its threads on `core`; RuntimeError with what it said when it does not answer."""
    with tempfile.TemporaryDirectory(prefix="a2a-claude-bench-") as temporary, open(f"{temporary}/log", "w+") as log:
        port = _free_port()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NODE_ENV": "production"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed server has its byte code
        started = time.perf_counter()
        process = subprocess.Popen(
            contender.command(port, Path(temporary)),
            cwd=contender.folder,
            env=environment,
            stdout=log,
            stderr=log,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        try:
            while not load.get(port, contender.ready):
                if process.poll() is not None or time.perf_counter() - started > _START_SECONDS:
                    log.seek(0)
                    raise RuntimeError(f"{contender.name} does not start:\n{log.read()[-4000:]}")
                time.sleep(0.005)
            yield Running(process.pid, port, time.perf_counter() - started, cpu(process.pid))
        finally:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

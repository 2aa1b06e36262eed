"""./dev python -m bench.turn [--contexts 6] [--follow-ups 10] [--turns 1000] [--only live]

Compares live sessions (`live`) with a process per turn that resumes (`per-turn`): the same server, the same streaming
client, the real Claude CLI, and an API on loopback that answers at once. Times are medians, from the request to the
first piece of the answer. `--turns` is the length of the long run, of which only live sessions are asked.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from uuid import uuid4

import httpx
import psutil

from a2a_claude.listening import bind
from bench.server.load import get
from tests.fake_anthropic_api import FakeAPI, directive

CONTENDERS = ("live", "per-turn")
PATIENCE = 120.0
ROOT = Path(__file__).parent.parent.parent
_AGENT = """
agentCard: {name: Bench, description: Answers the benchmark.}
claude: {permissionMode: acceptEdits}
features: {streamArtifactChunks: true}
push: {}
"""


@dataclass(frozen=True, slots=True)
class Running:
    """A server and a client of it."""

    process: psutil.Process
    client: httpx.Client

    def turn(self, context: str) -> float:
        """Seconds to the first piece of the answer; the turn is over when this returns."""
        message = {
            "messageId": str(uuid4()),
            "role": "ROLE_USER",
            "contextId": context,
            "parts": [{"text": directive({"text": "An answer of a few words.", "chunks": 3})}],
        }
        start, first, state = time.perf_counter(), 0.0, ""
        with self.client.stream("POST", "/message:stream", json={"message": message}) as response:
            for line in response.iter_lines():
                if line.startswith("data:"):
                    event = json.loads(line[5:])
                    if "artifactUpdate" in event and not first:
                        first = time.perf_counter() - start
                    state = event.get("statusUpdate", {}).get("status", {}).get("state", state)
        if state != "TASK_STATE_COMPLETED" or not first:
            raise RuntimeError(f"a turn ended as {state or 'nothing'}")
        return first

    def cpu(self) -> float:
        """CPU seconds of the server, of everything it runs, and of what it ran."""
        total = 0.0
        for each in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def memory(self) -> float:
        """MB that the server has for itself."""
        return float(self.process.memory_full_info().uss) / 1e6

    def below(self) -> float:
        """MB that its processes have for themselves."""
        total = 0.0
        for each in self.process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += each.memory_full_info().uss
        return total / 1e6


@contextlib.contextmanager
def running(kind: str, api: str, idle: float) -> Iterator[Running]:
    """A contender that answers. `idle` is the idle timeout of a session's process, in seconds."""
    with tempfile.TemporaryDirectory(prefix="bench-turn-") as name:
        folder = Path(name)
        for each in ("agent", "workspace", "home"):
            (folder / each).mkdir()
        (folder / "agent" / "agent.yaml").write_text(_AGENT)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "CLAUDE_CONFIG_DIR": str(folder / "home" / ".claude"),
            "PYTHONPATH": str(ROOT),
            "ANTHROPIC_BASE_URL": api,
            "ANTHROPIC_API_KEY": "sk-ant-none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        with bind("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
        idle_ms = str(int(idle * 1000))
        with (folder / "log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "bench.turn.contender", kind, name, idle_ms, str(port)],
                env=environment,
                stdout=log,
                stderr=log,
            )
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                    client.headers["A2A-Version"] = "1.0"
                    while process.poll() is None and not get(port, "/ready"):
                        time.sleep(0.05)
                    if process.poll() is not None:
                        raise RuntimeError((folder / "log").read_text())
                    yield Running(psutil.Process(process.pid), client)
            finally:
                process.terminate()
                process.wait(PATIENCE)


def figures(kind: str, api: str, contexts: int, follow_ups: int, idle: float) -> Iterator[tuple[str, float]]:
    """Everything that is measured of a contender, by name."""
    with running(kind, api, idle) as server:
        server.turn("warm up")
        # The spare process for the next context is there when a person has read the last answer.
        firsts = []
        for number in range(contexts):
            time.sleep(1.5)
            firsts.append(server.turn(f"context {number}"))
        yield "first turn, ms to the first piece", 1000 * median(firsts)
        time.sleep(1.5)
        yield "private MB an idle context", server.below() / (contexts + 2)  # with the first one, and the spare
        before = server.cpu()
        later = [server.turn("context 0") for _ in range(follow_ups)]
        yield "follow-up, ms to the first piece", 1000 * median(later)
        yield "follow-up, CPU ms", 1000 * (server.cpu() - before) / follow_ups
        if server.process.children():
            time.sleep(idle + 3)
        yield "private MB after the idle timeout (the spare's)", server.below()


def long_run(api: str, turns: int) -> Iterator[tuple[str, float]]:
    """The server's memory in the course of many turns, over ten contexts."""
    with running("live", api, 600) as server:
        for number in range(turns):
            server.turn(f"context {number % 10}")
            if number + 1 in (turns // 10, turns // 2, turns):
                yield f"MB of the server after {number + 1:,} turns", server.memory()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.turn", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("--contexts", default=6, type=int, help="new contexts (default: %(default)s)")
    parser.add_argument("--follow-ups", default=10, type=int, help="turns after the first (default: %(default)s)")
    parser.add_argument("--turns", default=1000, type=int, help="turns of the long run; 0 leaves it out")
    parser.add_argument("--idle", default=25.0, type=float, help="idle timeout of a process, s; longer than the turns")
    parser.add_argument("--only", default="", choices=["", *CONTENDERS], help="one contender alone")
    options = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.2f}\n")
    api = FakeAPI().start()
    try:
        results = {
            kind: dict(figures(kind, api.url, options.contexts, options.follow_ups, options.idle))
            for kind in CONTENDERS
            if options.only in ("", kind)
        }
        print(f"| | {' | '.join(results)} | ratio |\n|---|{'---|' * (len(results) + 1)}")
        for name in next(iter(results.values())):
            values = [each[name] for each in results.values()]
            ratio = f"{values[0] / values[1]:.2f}" if len(values) == 2 and values[1] > 1 else ""
            print(f"| {name} | {' | '.join(f'{each:,.0f}' for each in values)} | {ratio} |")
        print()
        for name, value in long_run(api.url, options.turns) if options.turns else ():
            print(f"{name}: {value:.1f}")
    finally:
        api.shutdown()
    print(f"load of the machine: {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()

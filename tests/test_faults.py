"""What goes wrong around a turn: a whole server, the real CLI, an API on loopback, and then a fault."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import pytest

from tests.claude_support import KEY, processes_with, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.serving import PATIENCE, Served, environment, start, write_agent
from tests.tools import require

T = TypeVar("T")
V1 = {"A2A-Version": "1.0"}


class House:
    """An agent on disk, its API, and servers of it one after the other."""

    def __init__(self, folder: Path, api: FakeAPI, variables: dict[str, str], config: dict[str, Any]) -> None:
        self.folder, self.api = folder, api
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        claude = {"workingDirectory": str(self.workspace), "allowedTools": ["Bash"], **config.pop("claude", {})}
        self._agent = write_agent(folder, claude=claude, **config)
        self._environ = environment(
            ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_MAX_RETRIES="0", **variables
        )
        self.served = self.start()

    def start(self) -> Served:
        """Another server of the same agent, over the same state."""
        arguments = ("--port", "0", "--executor", "claude")
        self.served = start(self.folder, self._agent, *arguments, environ=self._environ).wait_until_it_listens()
        return self.served

    def send(self, *turns: dict[str, Any], context: str = "", **configuration: Any) -> dict[str, Any]:
        """The task of a message, as SendMessage gives it."""
        body = {"message": message(directive(*turns), context), "configuration": configuration}
        answer = httpx.post(f"{self.served.url}/message:send", json=body, headers=V1, timeout=10 * PATIENCE)
        task: dict[str, Any] = answer.json()["task"]
        return task

    def task(self, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = httpx.get(f"{self.served.url}/tasks/{task_id}", headers=V1).json()
        return task

    def ended(self, task_id: str) -> dict[str, Any]:
        """The task after its end."""
        return until(lambda: found if state(found := self.task(task_id)) not in ("submitted", "working") else None)

    def cli(self) -> psutil.Process:
        """The process of Claude that has a session; there is one."""

        def find() -> psutil.Process | None:
            below = psutil.Process(self.served.process.pid).children(recursive=True)
            return next((each for each in below if each.name() == "claude"), None)

        return until(find)


def message(text: str, context: str = "") -> dict[str, Any]:
    said = {"messageId": f"m{time.monotonic_ns()}", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {**said, "contextId": context} if context else said


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_").lower()


def texts(task: dict[str, Any]) -> list[str]:
    return ["".join(part.get("text", "") for part in each["parts"]) for each in task.get("artifacts", [])]


def until(find: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (found := find()) is not None:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def there(path: Path) -> bool:
    return until(lambda: path.exists() or None)


def bash(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "Bash", "input": {"command": command, "description": "d"}}]}


def sleeping(marker: str) -> dict[str, Any]:
    return bash(f"touch begun; python3 -c 'import time; {marker} = time.sleep(60)'")


@contextmanager
def house(folder: Path, variables: dict[str, str] | None = None, **config: Any) -> Iterator[House]:
    require_cli()
    api = FakeAPI().start()
    built = House(folder, api, variables or {}, {"session": {"spareClients": 0}, **config})
    try:
        yield built
    finally:
        if built.served.process.poll() is None:
            built.served.process.kill()
            built.served.wait()
        api.shutdown()


def test_a_cli_that_is_killed_in_a_tool_fails_its_task_and_the_context_goes_on(tmp_path: Path) -> None:
    marker = f"marker_{time.monotonic_ns()}"
    with house(tmp_path) as built:
        built.send({"text": "before"}, context="c")
        task = built.send(sleeping(marker), context="c", returnImmediately=True)
        there(built.workspace / "begun")
        built.cli().kill()
        ended = built.ended(task["id"])
        assert (state(ended), ended["metadata"]["reason"]) == ("failed", "claude_lost")
        until(lambda: True if not processes_with(marker) else None)
        assert texts(built.send({"text": "after"}, context="c")) == ["after"]
        assert "before" in str(built.api.messages[-1]["body"]["messages"])


def test_a_server_that_is_killed_in_a_stream_tells_what_became_of_it(tmp_path: Path) -> None:
    with house(tmp_path, features={"streamArtifactChunks": True}) as built:
        built.send({"text": "before"}, context="c")
        seen = ""
        body = {"message": message(directive({"text": "word " * 400, "chunks": 400, "delay": 0.05}), "c")}
        url = f"{built.served.url}/message:stream"
        with contextlib.suppress(httpx.TransportError), httpx.stream("POST", url, json=body, headers=V1) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:") and (update := json.loads(line[5:]).get("artifactUpdate")):
                    seen += update["artifact"]["parts"][0]["text"]
                    task_id = update["taskId"]
                    if len(seen) > 40:
                        built.served.process.kill()
        assert built.served.wait() == -signal.SIGKILL
        until(lambda: True if not processes_with(str(tmp_path / "workspace")) else None)
        built.start()
        task = built.task(task_id)
        assert (state(task), task["metadata"]["reason"]) == ("failed", "server_restarted")
        assert texts(task)[0].startswith(seen)
        assert texts(built.send({"text": "after"}, context="c")) == ["after"]
        assert "before" in str(built.api.messages[-1]["body"]["messages"])


def test_a_server_that_is_stopped_in_a_stream_keeps_what_it_told(tmp_path: Path) -> None:
    with house(tmp_path, features={"streamArtifactChunks": True}, timeouts={"shutdown": 0}) as built:
        body = {"message": message(directive({"text": "word " * 400, "chunks": 400, "delay": 0.01}), "c")}
        updates = []
        with httpx.stream("POST", f"{built.served.url}/message:stream", json=body, headers=V1) as stream:
            for line in stream.iter_lines():
                if line.startswith("data:") and (update := json.loads(line[5:]).get("artifactUpdate")):
                    updates.append(update)
                    if len(updates) == 2:
                        built.served.signal(signal.SIGTERM)
        assert built.served.wait() == 0
        assert [each.get("lastChunk", False) for each in updates] == [False] * (len(updates) - 1) + [True]
        built.start()
        task = built.task(updates[0]["taskId"])
        assert (state(task), task["metadata"]["reason"]) == ("failed", "server_stopped")
        told = "".join(each["artifact"]["parts"][0]["text"] for each in updates)
        assert len(told) > 10
        assert texts(task) == [told]
        assert texts(built.send({"text": "after"}, context="c")) == ["after"]


def test_an_api_that_says_nothing_costs_the_prompt_timeout_and_no_more(tmp_path: Path) -> None:
    with house(tmp_path, timeouts={"prompt": 3000}) as built:
        task = built.send({"pre_delay": 60, "text": "late"}, context="c")
        assert (state(task), task["metadata"]["reason"]) == ("failed", "timeout")
        assert texts(built.send({"text": "after"}, context="c")) == ["after"]


def test_ten_megabytes_of_output_of_a_tool_do_no_harm(tmp_path: Path) -> None:
    with house(tmp_path) as built:
        task = built.send(bash("head -c 10485760 /dev/zero | tr '\\0' x"), {"text": "that was much"})
        assert (state(task), texts(task)) == ("completed", ["that was much"])


def test_a_hundred_tool_calls_are_a_turn(tmp_path: Path) -> None:
    count = int(os.environ.get("A2A_CLAUDE_TOOL_CALLS", "100"))
    with house(tmp_path) as built:
        task = built.send(*[bash("echo x >> calls")] * count, {"text": "done"})
        assert (state(task), texts(task)) == ("completed", ["done"])
        assert (built.workspace / "calls").read_text() == "x\n" * count


def test_many_contexts_at_once_are_all_answered(tmp_path: Path) -> None:
    count = int(os.environ.get("A2A_CLAUDE_CONTEXTS", "12"))
    with house(tmp_path, session={"maxLiveClients": 4}) as built, ThreadPoolExecutor(count) as pool:
        tasks = list(pool.map(lambda each: built.send({"text": f"answer {each}"}, context=f"c{each}"), range(count)))
        assert [(state(each), texts(each)) for each in tasks] == [
            ("completed", [f"answer {each}"]) for each in range(count)
        ]
        below = psutil.Process(built.served.process.pid).children(recursive=True)
        assert sum(each.name() == "claude" for each in below) <= 4


def test_a_caller_that_goes_away_stops_nothing(tmp_path: Path) -> None:
    with house(tmp_path, features={"streamArtifactChunks": True}) as built:
        body = {"message": message(directive({"text": "word " * 40, "chunks": 40, "delay": 0.05}))}
        with httpx.stream("POST", f"{built.served.url}/message:stream", json=body, headers=V1) as stream:
            first = next(line for line in stream.iter_lines() if line.startswith("data:"))
        task = built.ended(json.loads(first[5:])["task"]["id"])
        assert (state(task), texts(task)[0].split()) == ("completed", ["word"] * 40)


def test_a_disk_that_is_full_refuses_and_recovers(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    (tmp_path / "state").mkdir()
    mount = require("mount", "apt-get install mount")
    subprocess.run([mount, "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", tmp_path / "state"], check=True)
    try:
        with house(tmp_path) as built:
            built.send({"text": "before"}, context="c")
            filler = tmp_path / "state" / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            assert os.statvfs(filler).f_bavail == 0
            body = {"message": message(directive({"text": "full"}), "c")}
            answer = httpx.post(f"{built.served.url}/message:send", json=body, headers=V1, timeout=PATIENCE)
            failed = answer.json().get("task")
            assert answer.status_code >= 500 or state(failed) == "failed", answer.text
            assert "Traceback" not in answer.text
            filler.unlink()
            assert texts(built.send({"text": "after"}, context="c")) == ["after"]
    finally:
        subprocess.run(["umount", "-l", tmp_path / "state"], check=True)


@pytest.mark.parametrize("jump", ["+1d", "-1d"])
def test_a_clock_that_jumps_in_a_turn_ends_nothing(tmp_path: Path, jump: str) -> None:
    require("faketime", "apt-get install faketime")
    [library] = Path("/usr/lib").glob("*/faketime/libfaketime.so.1")
    offset = tmp_path / "offset"
    offset.write_text("+0\n")
    fake = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with house(tmp_path, fake, session={"ttl": 3_600_000, "spareClients": 0}) as built:
        task = built.send(
            bash("touch begun; while [ ! -e go ]; do read -t 0.05 x; done"), {"text": "done"}, returnImmediately=True
        )
        there(built.workspace / "begun")
        offset.write_text(f"{jump}\n")
        (built.workspace / "go").touch()
        ended = built.ended(task["id"])
        assert (state(ended), texts(ended)) == ("completed", ["done"])
        assert ended["status"]["timestamp"] >= task["status"]["timestamp"]
        assert ended["metadata"]["usage"]["durationMs"] < 3_600_000
        again = built.send({"text": "again"}, context=ended["contextId"])
        assert texts(again) == ["again"]
        built.served.signal(signal.SIGTERM)
        assert built.served.wait() == 0

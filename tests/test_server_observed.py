"""What an operator sees of a real server process: ids in its log, gauges while it works, webhooks when it stops."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import TaskState

from a2a_claude.store import Store, TaskRow, changes
from a2a_claude.store.sqlite import milliseconds
from tests.serving import PATIENCE, Served, message, serving

V1 = {"A2A-Version": "1.0"}


def send(served: Served, script: dict[str, Any], request_id: str = "r", **configuration: Any) -> Any:
    """The task that a message by this script makes, as it is shown at once."""
    body = {"message": message(script), "configuration": {"returnImmediately": True, **configuration}}
    headers = {**V1, "X-Request-Id": request_id}
    return httpx.post(f"{served.url}/message:send", json=body, headers=headers, timeout=PATIENCE).json()["task"]


def metrics(served: Served) -> dict[str, float]:
    """Samples of this project by name and labels."""
    lines = httpx.get(f"{served.url}/metrics", timeout=PATIENCE).text.splitlines()
    samples = [line.rpartition(" ") for line in lines if line.startswith("a2a_claude_")]
    return {name: float(value) for name, _, value in samples}


def test_a_line_of_a_turn_has_the_ids_of_its_own_request_also_when_it_waited_for_another(tmp_path: Path) -> None:
    with serving(tmp_path, server={"limits": {"maxConcurrentTasks": 1}}) as served:
        first = send(served, {"delay": 0.5, "end": "raise"}, "first")
        second = send(served, {"end": "raise"}, "second")
        with httpx.stream("GET", f"{served.url}/tasks/{second['id']}:subscribe", headers=V1, timeout=PATIENCE) as seen:
            seen.read()
        served.stop()
    found = [line for line in served.lines if line["message"].endswith("the executor failed")]
    assert [(each["request_id"], each["task_id"], each["context_id"]) for each in found] == [
        (request_id, task["id"], task["contextId"]) for request_id, task in (("first", first), ("second", second))
    ]


def test_gauges_show_what_runs_what_waits_and_who_listens(tmp_path: Path) -> None:
    with serving(tmp_path, server={"limits": {"maxConcurrentTasks": 1}}) as served:
        running = send(served, {"end": "hang"})
        waiting = [send(served, {}) for _ in range(2)]
        url = f"{served.url}/tasks/{running['id']}:subscribe"
        with httpx.stream("POST", url, headers=V1, timeout=PATIENCE) as listening:
            lines = listening.iter_lines()  # dropping it would close the response
            next(lines)
            found = metrics(served)
        assert {name: found[f"a2a_claude_{name}"] for name in ("turns_running", "turns_queued", "streams_open")} == {
            "turns_running": 1,
            "turns_queued": 2,
            "streams_open": 1,
        }
        assert (found['a2a_claude_tasks{state="working"}'], found['a2a_claude_tasks{state="submitted"}']) == (1, 2)
        for task in (*waiting, running):
            httpx.post(f"{served.url}/tasks/{task['id']}:cancel", headers=V1, timeout=PATIENCE).raise_for_status()
        assert metrics(served)['a2a_claude_tasks_ended_total{state="canceled"}'] == 3


async def _fill(path: Path, ages: Sequence[int]) -> None:
    """A store with a completed task of each of these ages in hours."""
    path.parent.mkdir(mode=0o700)
    store = await Store.open(path)
    for age in ages:
        then = milliseconds() - age * 3_600_000
        row = TaskRow(
            store.next_key(),
            f"{age}",
            "c",
            "",
            TaskState.TASK_STATE_COMPLETED,
            b'{"state":"TASK_STATE_COMPLETED"}',
            b"",
            0,
            then,
            then,
            1,
        )
        await store.write([changes.create_task(row)])
    await store.close()


@pytest.mark.parametrize(
    ("bounds", "left"), [({"retentionCount": 2}, 2), ({"retentionAge": 7_200_000}, 1), ({}, 4)], ids=str
)
def test_a_server_forgets_finished_tasks_as_its_config_says(tmp_path: Path, bounds: dict[str, int], left: int) -> None:
    asyncio.run(_fill(tmp_path / "state" / "tasks.sqlite3", (1, 3, 5, 7)))
    with serving(tmp_path, store=bounds) as served:
        deadline = time.monotonic() + PATIENCE
        while metrics(served)['a2a_claude_tasks{state="completed"}'] != left:
            assert time.monotonic() < deadline, "nothing was forgotten"
            time.sleep(0.05)
        found = httpx.get(f"{served.url}/tasks", headers=V1, timeout=PATIENCE).json()
        assert [each["id"] for each in found["tasks"]] == ["1", "3", "5", "7"][:left]


def test_a_store_in_memory_writes_nothing_and_forgets_with_the_process(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path, store={"type": "memory"}) as served:
            assert httpx.get(f"{served.url}/tasks", headers=V1, timeout=PATIENCE).json()["totalSize"] == 0
            send(served, {}, returnImmediately=False)
            assert httpx.get(f"{served.url}/tasks", headers=V1, timeout=PATIENCE).json()["totalSize"] == 1
            assert served.stop() == 0
        assert not list(tmp_path.rglob("*.sqlite3*"))


class Hook(ThreadingHTTPServer):
    """A webhook that answers when it is told to `go`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Notified)
        self.bodies: list[dict[str, Any]] = []
        self.first, self.go = threading.Event(), threading.Event()


class Notified(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.server.first.set()
        self.server.go.wait(PATIENCE)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent."""


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.go.set()
        server.shutdown()


def test_webhooks_get_what_waits_when_the_server_stops_and_are_counted(tmp_path: Path, hook: Hook) -> None:
    card = {"name": "Reviewer", "description": "Reviews.", "version": "1", "pushNotifications": True}
    push = {"allowHttp": True, "allowedHosts": ["127.0.0.1"]}
    webhook = {"url": f"http://127.0.0.1:{hook.server_port}/"}
    with serving(tmp_path, agentCard=card, push=push, timeouts={"shutdown": 100}) as served:
        send(served, {"end": "hang", "working": True}, taskPushNotificationConfig=webhook)
        assert hook.first.wait(PATIENCE)
        found = metrics(served)
        assert found["a2a_claude_pushes_waiting"] > 0
        assert found['a2a_claude_push_deliveries_total{outcome="delivered"}'] == 0
        served.signal()
        hook.go.set()
        assert served.wait() == 0
    told = [each.get("statusUpdate") or each["task"] for each in hook.bodies]
    states = [each["status"]["state"].removeprefix("TASK_STATE_") for each in told]
    assert (states[0], states[-1]) == ("SUBMITTED", "FAILED")
    assert told[-1]["metadata"]["reason"] == "server_stopped"

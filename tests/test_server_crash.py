"""The whole server, killed again and again under load: what it answered or streamed is there when it is back."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.serving import PATIENCE, Served, message, start, write_agent

HEADERS = {"A2A-Version": "1.0"}
KILLS = 6
CALLERS = 4


class Callers:
    """Threads that send and stream until the server is gone, and note what they were told: tasks that ended, by id, and
    the text of a task's artifact as far as it was streamed."""

    def __init__(self, served: Served) -> None:
        self.ended: dict[str, Any] = {}
        self.streamed: dict[str, str] = {}
        self._url = f"{served.url}/a2a/jsonrpc"
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(CALLERS)]
        for each in self._threads:
            each.start()

    def join(self) -> None:
        for each in self._threads:
            each.join(PATIENCE)
            assert not each.is_alive()

    def _call(self, number: int) -> None:
        with httpx.Client(headers=HEADERS, timeout=PATIENCE) as http, contextlib.suppress(httpx.HTTPError):
            while True:
                (self._stream if number % 2 else self._send)(http)

    def _send(self, http: httpx.Client) -> None:
        body = self._body("SendMessage", {"chunks": 2, "size": 500})
        task = http.post(self._url, json=body).json()["result"]["task"]
        self.ended[task["id"]] = task

    def _stream(self, http: httpx.Client) -> None:
        body = self._body("SendStreamingMessage", {"chunks": 50, "size": 40})
        with http.stream("POST", self._url, json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self._note(json.loads(line[6:])["result"])

    def _note(self, event: dict[str, Any]) -> None:
        if "task" in event:
            self.streamed[event["task"]["id"]] = ""
        elif update := event.get("artifactUpdate"):
            self.streamed[update["taskId"]] += "".join(part["text"] for part in update["artifact"]["parts"])

    @staticmethod
    def _body(method: str, script: dict[str, Any]) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message(script)}}


def read(http: httpx.Client, served: Served, task_id: str) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}
    answer = http.post(f"{served.url}/a2a/jsonrpc", json=body).json()
    found: dict[str, Any] = answer.get("result", answer)
    return found


def test_a_killed_server_comes_back_with_everything_it_told(tmp_path: Path) -> None:
    limits = {"requestsPerMinute": 0, "maxConcurrentTasks": 16}
    agent = write_agent(tmp_path, server={"limits": limits})
    moments = random.Random(8)  # noqa: S311
    told = 0
    for _ in range(KILLS):
        served = start(tmp_path, agent, "--port", "0").wait_until_it_listens()
        callers = Callers(served)
        time.sleep(0.2 + moments.random())
        served.process.kill()
        served.wait()
        callers.join()
        back = start(tmp_path, agent, "--port", "0").wait_until_it_listens()
        try:
            with httpx.Client(headers=HEADERS, timeout=PATIENCE) as http:
                for task_id, task in callers.ended.items():
                    assert read(http, back, task_id) == task
                for task_id, text in callers.streamed.items():
                    found = read(http, back, task_id)
                    kept = "".join(part["text"] for each in found.get("artifacts", []) for part in each["parts"])
                    assert kept.startswith(text)
                    assert found["status"]["state"] in ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")
        finally:
            assert back.stop() == 0
        told += len(callers.ended) + len(callers.streamed)
    assert told > KILLS * CALLERS

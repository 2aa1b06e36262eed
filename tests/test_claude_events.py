"""Sideband events on the wire: what clients see of a real turn that asked for them, and what those see that did not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fake_anthropic_api import directive
from tests.serving import PATIENCE, Served
from tests.test_claude_serve import V1, claude, send

TRACE = "urn:x-a2a:trace:v1"


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tools": [{"name": name, "input": arguments}]}


def stream(served: Served, text: str, **headers: str) -> tuple[list[dict[str, Any]], httpx.Headers]:
    """The artifact updates of a message's stream, and the headers of the answer."""
    message = {"messageId": f"m{time.monotonic_ns()}", "role": "ROLE_USER", "parts": [{"text": text}]}
    url = f"{served.url}/message:stream"
    with httpx.stream("POST", url, json={"message": message}, headers={**V1, **headers}, timeout=PATIENCE) as answer:
        events = [json.loads(line[5:]) for line in answer.iter_lines() if line.startswith("data:")]
        return [each["artifactUpdate"] for each in events if "artifactUpdate" in each], answer.headers


def told(updates: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Name and data of the sideband events among them."""
    artifacts = [each["artifact"] for each in updates if TRACE in each["artifact"].get("extensions", [])]
    return [(each["metadata"]["eventType"], each["parts"][0]["data"]) for each in artifacts]


WORK = directive(
    {"thinking": "I will look around.", **tool("Bash", command="echo found", description="d")},
    tool("Write", file_path="new.txt", content="the content of the file"),
    tool("TodoWrite", todos=[{"content": "look", "status": "completed", "activeForm": "Looking"}]),
    tool("Bash", command="false", description="d"),
    {"text": "Done."},
)


def test_the_events_of_a_turn_come_to_a_client_that_asks_and_are_not_kept(tmp_path: Path) -> None:
    with claude(tmp_path) as (served, _):
        updates, headers = stream(served, WORK, **{"A2A-Extensions": TRACE})
        assert headers["A2A-Extensions"] == TRACE
        events = told(updates)
        names = [name for name, _ in events]
        assert (names[0], names[-1]) == ("agent_started", "agent_finished")
        assert {"thinking", "tool_call_start", "tool_call_end", "decision", "context_window"} <= set(names)
        starts = [data for name, data in events if name == "tool_call_start"]
        assert (starts[0]["toolKind"], starts[0]["command"]) == ("shell", "echo found")
        ends = [data for name, data in events if name == "tool_call_end"]
        assert (ends[0]["output"].strip(), ends[0]["status"]) == ("found", "completed")
        assert ends[-1]["status"] == "error"
        decisions = [data for name, data in events if name == "decision"]
        assert ("file_change", "write") in [
            (each["kind"], each.get("changes", [{}])[0].get("kind")) for each in decisions
        ]
        assert "the content of the file" not in json.dumps(events)
        finished = dict(events)["agent_finished"]
        assert finished["usage"]["output_tokens"] > 0
        task = httpx.get(f"{served.url}/tasks/{updates[0]['taskId']}", headers=V1).json()
        assert [each["name"] for each in task["artifacts"]] == ["response"]


def test_a_client_that_does_not_ask_sees_none(tmp_path: Path) -> None:
    with claude(tmp_path) as (served, _):
        updates, headers = stream(served, WORK)
        assert [each["artifact"]["name"] for each in updates] == ["response"]
        assert "A2A-Extensions" not in headers
        card = httpx.get(f"{served.url}/.well-known/agent-card.json", headers=V1).json()
        assert TRACE in [each["uri"] for each in card["capabilities"]["extensions"]]


def test_the_config_can_tell_them_to_all_and_keep_them(tmp_path: Path) -> None:
    with claude(tmp_path, events={"delivery": "always", "stored": True}) as (served, _):
        updates, _ = stream(served, WORK)
        assert "agent_finished" in dict(told(updates))
        task = httpx.get(f"{served.url}/tasks/{updates[0]['taskId']}", headers=V1).json()
        assert "trace.lifecycle" in [each["name"] for each in task["artifacts"]]


@pytest.mark.parametrize(
    ("feature", "gone"),
    [("emitThinkingEvents", "thinking"), ("emitToolEvents", "tool_call_start"), ("emitToolEvents", "tool_call_end")],
)
def test_a_feature_that_is_off_tells_nothing(tmp_path: Path, feature: str, gone: str) -> None:
    with claude(tmp_path, features={feature: False}) as (served, _):
        names = [name for name, _ in told(stream(served, WORK, **{"A2A-Extensions": TRACE})[0])]
        assert gone not in names
        assert "agent_finished" in names


@pytest.mark.parametrize(
    ("turn", "reason"), [({"status": 401}, "authentication_failed"), ({"text": ""}, "empty_result")]
)
def test_a_failure_is_told_before_the_task_has_ended(tmp_path: Path, turn: dict[str, Any], reason: str) -> None:
    with claude(tmp_path) as (served, _):
        events = told(stream(served, directive(turn), **{"A2A-Extensions": TRACE})[0])
        assert (events[-1][0], events[-1][1]["reason"]) == ("agent_error", reason)


def test_a_rate_limit_is_told_on_the_stream(tmp_path: Path) -> None:
    with claude(tmp_path) as (served, _):
        events = told(stream(served, directive({"status": 429}), **{"A2A-Extensions": TRACE})[0])
        assert "ended_turn" in [data["action"] for name, data in events if name == "rate_limit"]


class Receiver(BaseHTTPRequestHandler):
    """Takes events; the first `refused` are answered 500."""

    taken: list[dict[str, Any]]
    refused = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = type(self)
        if kind.refused > 0:
            kind.refused -= 1
            self.send_response(500)
        else:
            kind.taken.append({**body, "authorization": self.headers["Authorization"]})
            self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


@contextmanager
def receiver(refused: int = 0) -> Iterator[tuple[str, type[Receiver]]]:
    kind = type("Once", (Receiver,), {"taken": [], "refused": refused})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/in", kind
    finally:
        server.shutdown()
        server.server_close()


def test_the_http_transport_posts_envelopes_in_order_and_tries_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENTS_TOKEN", "of-the-events")
    with receiver(refused=1) as (url, received):
        events = {"transport": "http", "httpUrl": url, "httpHeaders": {"Authorization": "Bearer ${EVENTS_TOKEN}"}}
        with claude(tmp_path, events=events) as (served, _):
            task = send(served, WORK)
            deadline = time.monotonic() + PATIENCE
            while "agent_finished" not in [each["eventType"] for each in received.taken]:
                assert time.monotonic() < deadline, received.taken
                time.sleep(0.05)
            assert "of-the-events" not in "".join(served.raw)
        kinds = [each["eventType"] for each in received.taken]
        assert (kinds[0], kinds[-1]) == ("agent_started", "agent_finished")
        assert {each["taskId"] for each in received.taken} == {task["id"]}
        assert {each["authorization"] for each in received.taken} == {"Bearer of-the-events"}
        assert len({each["eventId"] for each in received.taken}) == len(kinds)


def test_a_receiver_that_is_gone_slows_no_turn_and_is_counted(tmp_path: Path) -> None:
    with claude(tmp_path, events={"transport": "http", "httpUrl": "http://127.0.0.1:1/in"}) as (served, _):
        task = send(served, WORK)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        counted = httpx.get(f"{served.url}/metrics").text
        assert 'a2a_claude_events_total{outcome="delivered"} 0' in counted

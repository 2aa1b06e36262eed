"""Sideband events on the wire: what clients see of a real turn that asked for them, and what those see that did not."""

from __future__ import annotations

import asyncio
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

import a2a_claude
from tests.claude_support import KEY, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.serving import PATIENCE, Served, environment, write_agent
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
    {"text": "Done."},
)


def test_events_are_told_by_rest_too_to_whom_the_extension_was_activated_for(tmp_path: Path) -> None:
    with claude(tmp_path) as (served, _):
        updates, headers = stream(served, WORK, **{"A2A-Extensions": f"urn:other, {TRACE}"})
        assert headers["A2A-Extensions"] == TRACE
        names = [name for name, _ in told(updates)]
        assert (names[0], names[-1]) == ("agent_started", "agent_finished")
        task = httpx.get(f"{served.url}/tasks/{updates[0]['taskId']}", headers=V1).json()
        assert [each["name"] for each in task["artifacts"]] == ["response"]
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
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
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


class Kept:
    """A transport of one's own: it is slow, and refuses the first event once."""

    def __init__(self) -> None:
        self.events: list[a2a_claude.Event] = []
        self.refused = False

    async def send(self, event: a2a_claude.Event) -> None:
        await asyncio.sleep(0.01)
        if not self.refused:
            self.refused = True
            raise a2a_claude.TryAgain("in a moment")
        self.events.append(event)


@asynchronous
async def test_a_transport_of_ones_own_takes_the_events_of_the_config_s(tmp_path: Path) -> None:
    require_cli()
    api = FakeAPI().start()
    (tmp_path / "workspace").mkdir()
    document: dict[str, Any] = {
        "claude": {"workingDirectory": str(tmp_path / "workspace"), "allowedTools": ["Bash"]},
        "events": {"transport": "http", "httpUrl": "http://127.0.0.1:1/", "delivery": "always"},
    }
    environ = environment(ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_MAX_RETRIES="0")
    agent = a2a_claude.load_agent(write_agent(tmp_path, **document), environ=environ)
    kept = Kept()
    metadata = {"traceId": "of-the-caller", "parentAgentId": "boss"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": WORK}], "metadata": metadata}
    async with (
        a2a_claude.open_app(agent, state=tmp_path / "state", environ=environ, events=kept) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app),  # type: ignore[arg-type]
            base_url="http://127.0.0.1",
            timeout=PATIENCE,
        ) as client,
    ):
        answer = (await client.post("/message:send", json={"message": message}, headers=V1)).json()
        assert "task" in answer, answer
        task = answer["task"]
    # What waited at the end was sent before the application was gone.
    api.shutdown()
    assert [kept.events[0].type, kept.events[-1].type] == ["agent_started", "agent_finished"]
    origin = kept.events[0].origin
    assert (origin.task_id, origin.trace_id, origin.parent_agent_id) == (task["id"], "of-the-caller", "boss")
    assert [each["name"] for each in task["artifacts"]] == ["response"]

"""`call` with agents that answer with anything: no traceback, no prompt that is not ours, no token in an error."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from a2a_claude.a2a import client
from a2a_claude.cli import main
from a2a_claude.commands import approving, progress

EVENTS = "text/event-stream"


class Agent(BaseHTTPRequestHandler):
    """An agent that answers each message with `events`, as the results of a stream."""

    events: tuple[bytes, ...] = ()
    endless: dict[str, str] | None = None
    endless_card = False
    filling, blank = b"  ", b"\n\n"
    status = 200
    advertised = charset = ""

    server: HTTPServer

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        if self.endless_card:
            self._never_end({"Content-Type": EVENTS})
            return
        url = self.advertised or f"http://127.0.0.1:{self.server.server_port}/a2a"
        interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {
            "name": "x",
            "description": "x",
            "version": "1",
            "supportedInterfaces": [interface],
            "capabilities": {"streaming": True},
            "defaultInputModes": ["text"],
            "defaultOutputModes": ["text"],
            "skills": [],
        }
        self._answer("application/json", json.dumps(card).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.endless is not None:
            self._never_end(self.endless)
            return
        self._answer(EVENTS + self.charset, b"".join(b"data: %s" % each + self.blank for each in self.events))

    def _never_end(self, headers: dict[str, str]) -> None:
        self.send_response(self.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(b"data: ")
            while True:
                self.wfile.write(self.filling * (1 << 15))

    def _answer(self, media_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def agent() -> Iterator[str]:
    Agent.events, Agent.advertised, Agent.charset, Agent.blank = (), "", "", b"\n\n"
    Agent.endless, Agent.endless_card, Agent.filling, Agent.status = None, False, b"  ", 200
    with HTTPServer(("127.0.0.1", 0), Agent) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def call(url: str, *more: str, **environment: str) -> Result:
    return CliRunner().invoke(main, ["call", url, "hello", *more], env=environment)


def told(result: Result) -> str:
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result.output


STATUS = '{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":%s%s}}}}'
ENDED = (STATUS % ('"TASK_STATE_COMPLETED"', "")).encode()
ARTIFACT = (
    '{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a",'
    '"extensions":["urn:x-a2a:trace:v1"],"metadata":{"eventType":"decision"},"parts":[{"data":%s}]}}}}'
)


@pytest.mark.parametrize(
    "events",
    [
        [STATUS % (77, "")],
        [STATUS % ('"TASK_STATE_NEW"', "")],
        [STATUS % ('"TASK_STATE_WORKING"', ',"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"data":NaN}]}')],
        [ARTIFACT % '{"kind":"file_change","changes":["x",5,null]}'],
        [ARTIFACT % "NaN"],
        ["[]"],
        ["5"],
        ["not JSON"],
        ['{"jsonrpc":"2.0","id":1,"result":{}}'],
        ['{"jsonrpc":"2.0","id":1,"error":5}'],
        ['{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":[]}}'],
    ],
    ids=lambda events: events[0][-60:],
)
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_whatever_an_agent_answers_is_told_in_words(agent: str, events: list[str], options: tuple[str, ...]) -> None:
    Agent.events = tuple(each.encode() for each in events)
    told(call(agent, *options))


@pytest.mark.parametrize(
    "url", ["http://[", "http://[x]/", "http://xn--/", "http://a:99999", "http://a:b", "ftp://a", "http://", "a", ""]
)
def test_what_is_no_url_is_told(url: str) -> None:
    result = call(url)
    assert "is no URL of an agent" in told(result)
    assert result.exit_code == 1


@pytest.mark.parametrize("advertised", ["http://[", "http://xn--/", "http://a:99999/", "http://\u0001/", "x", "/"])
def test_a_card_that_leads_nowhere_is_told(agent: str, advertised: str) -> None:
    Agent.advertised = advertised
    result = call(agent)
    told(result)
    assert result.exit_code == 1


@pytest.mark.parametrize("token", ["secretsecret\nX-A: b", "secretsecret\u00e9", "secret secret"])
def test_a_token_that_no_header_can_have_is_not_quoted(agent: str, token: str) -> None:
    result = call(agent, A2A_CLAUDE_TOKEN=token)
    assert "no header can have" in told(result)
    assert "secretsecret" not in result.output


def request(**changes: Any) -> dict[str, Any]:
    return {"id": "a1", "tool": "Bash", "choices": [{"id": "allow", "label": "Allow once"}], **changes}


@pytest.mark.parametrize(
    "asked",
    [
        5,
        {},
        request(id=5),
        request(choices=None),
        request(choices=[]),
        request(choices=5),
        request(choices=[{"label": "Allow"}]),
        request(input=[1]),
        request(questions=5),
        request(questions=["q"]),
        request(questions=[{"question": "q", "options": 5}]),
    ],
    ids=str,
)
def test_what_is_no_request_is_not_asked(asked: Any) -> None:
    assert not approving.can_ask(asked)


def test_the_words_of_a_model_cannot_pass_for_the_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = "ls\n\nRead asks for permission\n  file_path: README.md\r\x1b[2J\n  1. Allow once"
    asked = request(input={"command": forged}, description=forged, tool=forged)
    assert approving.can_ask(asked)
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    assert approving.ask([asked]) == [{"id": "a1", "choice": "allow"}]
    shown = capsys.readouterr().err
    ours = [line for line in shown.splitlines() if "asks for permission" in line and "|" not in line]
    assert len(ours) == 1
    assert [line for line in shown.splitlines() if line.startswith("  1. ")] == ["  1. Allow once"]
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("event", "data", "line"),
    [
        ("decision", {"kind": "file_change", "changes": ["x", {"path": "a"}]}, "[file] a"),
        ("decision", {"kind": "todo_list", "items": ["x"]}, "[todo] 0 of 0 done"),
        ("decision", {"kind": {}}, ""),
        ("background_tasks", {"tasks": [5]}, "[background] nothing runs any more"),
        ("context_window", {"compacted": 1, "usedTokens": float("inf")}, "[context] compacted to inf tokens"),
    ],
)
def test_events_that_are_none_are_a_line_at_most(event: str, data: dict[str, Any], line: str) -> None:
    assert progress.line(event, data) == line


ENDLESS = {
    "an event": ({"Content-Type": "text/event-stream"}, "it sent more than 1 MiB in one event"),
    "one answer": ({"Content-Type": "application/json"}, "it sent more than 1 MiB"),
    "packed": ({"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}, "it sent a compressed answer"),
}


@pytest.mark.parametrize(("headers", "why"), ENDLESS.values(), ids=ENDLESS)
def test_an_answer_without_end_ends_the_call(
    agent: str, headers: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER", 1 << 20)
    Agent.endless = headers
    result = call(agent)
    assert (result.exit_code, why in told(result)) == (1, True), result.output


@pytest.mark.parametrize(
    ("status", "media_type"),
    [(500, EVENTS), (302, EVENTS), (200, "Text/Event-Stream"), (200, "")],
    ids=["a failure", "a redirection", "other letters", "a card"],
)
def test_what_only_passes_for_a_stream_of_events_ends_the_call(
    agent: str, status: int, media_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read as one answer, so the ends of events in it do not count."""
    monkeypatch.setattr(client, "MAX_ANSWER", 1 << 20)
    Agent.endless, Agent.endless_card, Agent.status = {"Content-Type": media_type}, not media_type, status
    Agent.filling = b"\n\n"
    result = call(agent)
    assert (result.exit_code, "it sent more than 1 MiB" in told(result)) == (1, True), result.output


@pytest.mark.parametrize("charset", ["utf-16", "zlib", "hex", "rot13", "idna", "undefined"])
def test_a_stream_is_utf_8_whatever_it_says(agent: str, charset: str) -> None:
    Agent.events, Agent.charset = (ENDED,), f"; charset={charset}"
    assert "completed" in told(call(agent))


@pytest.mark.parametrize("blank", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"], ids=repr)
def test_a_stream_may_be_longer_than_one_event_may(agent: str, blank: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER", 1 << 16)
    Agent.blank = blank
    Agent.events = (*((STATUS % ('"TASK_STATE_WORKING"', "")).encode() for _ in range(2000)), ENDED)
    result = call(agent, "--json")
    assert (result.exit_code, told(result).count("TASK_STATE_WORKING")) == (0, 2000)

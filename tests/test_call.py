"""`call`, `card` and `cancel` against real servers: v1.0, v0.3 alone, and what goes wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serving import PATIENCE, Served, environment, message, run, serving


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("call")) as found:
        yield found


def begin(served: Served, script: dict[str, Any]) -> dict[str, Any]:
    """A task that runs by a script."""
    params = {"message": message(script), "configuration": {"returnImmediately": True}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers={"A2A-Version": "1.0"}, timeout=PATIENCE)
    task: dict[str, Any] = answer.json()["result"]["task"]
    return task


def state(served: Served, task_id: str) -> str:
    found: str = httpx.get(f"{served.url}/a2a/rest/tasks/{task_id}", headers={"A2A-Version": "1.0"}).json()["status"][
        "state"
    ]
    return found


def test_a_call_prints_the_answer_and_tells_of_the_task_aside(served: Served, tmp_path: Path) -> None:
    found = run(tmp_path, "call", served.url, "Grüße")
    assert (found.returncode, found.stdout) == (0, "Grüße\n")
    assert found.stderr.startswith("task ")
    assert found.stderr.endswith(": completed\n")


def test_each_event_is_a_line_of_json(served: Served, tmp_path: Path) -> None:
    found = run(tmp_path, "call", served.url, "hello", "--json")
    events = [json.loads(line) for line in found.stdout.splitlines()]
    assert [next(iter(each)) for each in events] == ["task", "statusUpdate"]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a_context_and_files_go_along(served: Served, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "b.bin").write_bytes(b"\x00\xff")
    files = ("--file", "a.txt", "--file", "b.bin")
    found = run(tmp_path, "call", served.url, "hello", "--context", "c-1", *files, "--json")
    task = json.loads(found.stdout.splitlines()[0])["task"]
    assert task["contextId"] == "c-1"
    assert task["history"][0]["parts"][1:] == [
        {"raw": "dGV4dA==", "filename": "a.txt", "mediaType": "text/plain"},
        {"raw": "AP8=", "filename": "b.bin", "mediaType": "application/octet-stream"},
    ]


def test_a_task_that_asks_is_continued(served: Served, tmp_path: Path) -> None:
    task = begin(served, {"end": "input-required"})
    found = run(tmp_path, "call", served.url, "this one", "--task", task["id"])
    assert (found.returncode, found.stdout) == (0, "this one\n")
    assert state(served, task["id"]) == "TASK_STATE_COMPLETED"
    again = run(tmp_path, "call", served.url, "more", "--task", task["id"])
    assert again.returncode == 1
    assert "has ended" in again.stderr


def test_text_comes_from_standard_input(served: Served, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "a2a_claude", "call", served.url, "-"]
    found = subprocess.run(
        command, cwd=tmp_path, env=environment(), input="from a pipe", capture_output=True, text=True, check=False
    )
    assert found.stdout == "from a pipe\n"


def test_a_task_is_cancelled_by_its_id(served: Served, tmp_path: Path) -> None:
    task = begin(served, {"end": "hang"})
    found = run(tmp_path, "cancel", served.url, task["id"])
    assert (found.returncode, found.stdout) == (0, "canceled\n")
    again = run(tmp_path, "cancel", served.url, task["id"])
    assert (again.returncode, "has ended" in again.stderr) == (1, True)


def test_the_card_is_printed(served: Served, tmp_path: Path) -> None:
    for url in (served.url, f"{served.url}/", f"{served.url}/.well-known/agent-card.json"):
        found = run(tmp_path, "card", url)
        assert json.loads(found.stdout)["name"] == "Reviewer"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("call", "http://127.0.0.1:1", "x"), 1, "connect"),
        (("card", "http://127.0.0.1:1"), 1, "connect"),
        (("cancel", "http://127.0.0.1:1", "t"), 1, "connect"),
        (("call", "ftp://x", "x"), 1, "is no URL of an agent"),
        (("call", "127.0.0.1:80", "x"), 1, "is no URL of an agent"),
        (("call", "http://x", "x", "--file", "nope"), 2, "does not exist"),
        (("call", "http://x", "x", "--token", "@nope"), 2, "cannot be read"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_told(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    found = run(tmp_path, *arguments)
    assert found.returncode == code
    assert words in found.stderr
    assert "Traceback" not in found.stderr


def test_ctrl_c_cancels_the_task(tmp_path: Path) -> None:
    with serving(tmp_path, server={"limits": {"maxConcurrentTasks": 1}}) as served:
        begin(served, {"end": "hang"})  # the only slot: the next message waits
        process = subprocess.Popen(
            [sys.executable, "-m", "a2a_claude", "call", served.url, "hello", "--json"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        task = json.loads(process.stdout.readline())["task"]
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        assert "[canceled]" in stderr
        assert state(served, task["id"]) == "TASK_STATE_CANCELED"


# --- Tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_is_sent_from_the_flag_a_file_or_the_environment(tmp_path: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    (tmp_path / "tokens").write_text(f"ann:{token}\n")
    (tmp_path / "token").write_text(f"{token}\n")
    with serving(tmp_path, server={"auth": {"bearer": {"tokensFile": str(tmp_path / "tokens")}}}) as served:
        call = ("call", served.url, "hello")
        assert run(tmp_path, *call, "--token", token).stdout == "hello\n"
        assert run(tmp_path, *call, "--token", "@token").stdout == "hello\n"
        assert run(tmp_path, *call, environ=environment(A2A_CLAUDE_TOKEN=token)).stdout == "hello\n"
        for refused in (run(tmp_path, *call, "--token", "wrong"), run(tmp_path, *call)):
            assert refused.returncode == 1
            assert f"a2a-claude: {served.url}/a2a/jsonrpc answered 401 Unauthorized\n  hint: give a" in refused.stderr
        assert httpx.get(f"{served.url}/metrics").status_code == 401
        assert httpx.get(f"{served.url}/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert httpx.get(f"{served.url}/ready").status_code == 200


class Elsewhere(BaseHTTPRequestHandler):
    """Serves a card of v0.3 alone that sends callers to `target`."""

    target = ""

    def do_GET(self) -> None:
        card = {
            "name": "Old",
            "description": "Old",
            "version": "1",
            "protocolVersion": "0.3.0",
            "url": self.target,
            "preferredTransport": "JSONRPC",
            "capabilities": {"streaming": True},
            "skills": [],
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
        }
        body = json.dumps(card).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_an_agent_of_v03_is_called_too(served: Served, elsewhere: str, tmp_path: Path) -> None:
    Elsewhere.target = f"{served.url}/a2a/jsonrpc"
    found = run(tmp_path, "call", elsewhere, "hello")
    assert (found.returncode, found.stdout) == (0, "hello\n"), found.stderr
    task = begin(served, {"end": "hang"})
    assert run(tmp_path, "cancel", elsewhere, task["id"]).stdout == "canceled\n"


def test_a_card_cannot_send_the_token_to_another_host(elsewhere: str, tmp_path: Path) -> None:
    Elsewhere.target = "http://198.51.100.1/steal"
    found = run(tmp_path, "call", elsewhere, "hello", "--token", "0123456789")
    assert found.returncode == 1
    assert f"the token is for {elsewhere}" in found.stderr


def test_a_card_cannot_send_the_token_to_another_port(served: Served, elsewhere: str, tmp_path: Path) -> None:
    Elsewhere.target = f"{served.url}/a2a/jsonrpc"
    found = run(tmp_path, "call", elsewhere, "hello", "--token", "0123456789")
    assert found.returncode == 1
    assert f"the token is for {elsewhere}" in found.stderr


def test_a_loopback_address_on_a_card_from_elsewhere_means_who_was_asked(tmp_path: Path) -> None:
    token = "0123456789abcdef0123456789abcdef"
    (tmp_path / "tokens").write_text(f"ann:{token}\n")
    server = {"hostname": "0.0.0.0", "auth": {"bearer": {"tokensFile": str(tmp_path / "tokens")}}}
    with serving(tmp_path, server=server) as served:
        # No loopback address by its name, and this machine on Linux; the card says localhost.
        found = run(tmp_path, "call", f"http://0.0.0.0:{served.port}", "hello", "--token", token)
    assert (found.returncode, found.stdout) == (0, "hello\n"), found.stderr

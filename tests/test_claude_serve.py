"""`a2a-claude serve` without a word about an executor: Claude answers, and a stop in a turn leaves nothing behind."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.claude_support import KEY, processes_with, require_cli
from tests.fake_anthropic_api import FakeAPI, directive
from tests.serving import PATIENCE, Served, environment, serving

V1 = {"Content-Type": "application/json", "A2A-Version": "1.0"}


@contextmanager
def claude(folder: Path, **config: Any) -> Iterator[tuple[Served, FakeAPI]]:
    require_cli()
    api = FakeAPI().start()
    workspace = folder / "workspace"
    workspace.mkdir()
    environ = environment(ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY, CLAUDE_CODE_MAX_RETRIES="0")
    document = {"claude": {"workingDirectory": str(workspace), "allowedTools": ["Bash"]}, **config}
    try:
        with serving(folder, "--executor", "claude", environ=environ, **document) as served:
            yield served, api
    finally:
        api.shutdown()


def asked(served: Served, text: str, *parts: dict[str, Any], **configuration: Any) -> dict[str, Any]:
    """The answer to a SendMessage, whatever it is."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}, *parts]}
    params = {"message": message, "configuration": configuration}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer: dict[str, Any] = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=V1, timeout=PATIENCE).json()
    return answer


def send(served: Served, text: str, *parts: dict[str, Any], **configuration: Any) -> dict[str, Any]:
    task: dict[str, Any] = asked(served, text, *parts, **configuration)["result"]["task"]
    return task


def test_claude_answers_and_is_counted(tmp_path: Path) -> None:
    with claude(tmp_path) as (served, _):
        shell = {"tools": [{"name": "Bash", "input": {"command": "env", "description": "d"}}]}
        task = send(served, directive(shell, {"text": "hello"}))
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        assert task["artifacts"][0]["parts"] == [{"text": "hello"}]
        counted = httpx.get(f"{served.url}/metrics").text
        assert 'a2a_claude_tokens_total{type="output"} 40' in counted
        assert any("claude-code" in line for line in served.raw)
        assert KEY not in "".join(served.raw)


# Refused before there is a task: no answer of a name server could make a file of it.
NEVER = {
    "file:///etc/passwd": "must be an http or https URL",
    "http://169.254.169.254/latest": "public addresses only",
    "http://[::ffff:10.0.0.1]/": "public addresses only",
    "http://a@example.org/": "user information",
    "http://2130706433/": "four decimal numbers",
    f"http://example.org/{'x' * 2048}": "2048 characters at most",
}


class Files(BaseHTTPRequestHandler):
    """A file server with a file, a way to it, and a way to where nobody may go."""

    def do_GET(self) -> None:
        host = f"http://{self.headers['Host']}"
        leads = {"/moved": f"{host}/notes.csv", "/away": "http://169.254.169.254/latest/meta-data/"}.get(self.path)
        self.send_response(302 if leads else 200)
        body = b"" if leads else b"from,the\nfile,server\n"
        for name, value in (("Location", leads), ("Content-Type", "text/csv"), ("Content-Length", str(len(body)))):
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def test_files_come_by_url_and_go_with_the_answer(tmp_path: Path) -> None:
    files = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=files.serve_forever, args=(0.01,), daemon=True).start()
    host = f"http://127.0.0.1:{files.server_address[1]}"
    server = {
        "limits": {"fetchFileUrls": True},
        "fileUrls": {"allowHttp": True, "allowedHosts": ["127.0.0.1"]},
    }
    shell = {
        "name": "Bash",
        "input": {"command": "printf 1,2 > OUT/made.csv; ln -s /etc/passwd OUT/", "description": "d"},
    }
    script = directive({"tools": [shell], "find": {"OUT": r"/[^ \"]+/out"}}, {"text": "here it is"})
    with claude(tmp_path, server=server) as (served, api):
        task = send(served, script, {"url": f"{host}/moved"})
        assert "from,the" in str(api.messages[0]["body"]["messages"])
        response, handed = task["artifacts"]
        assert response["parts"] == [{"text": "here it is"}]
        assert handed["parts"] == [{"raw": "MSwy", "filename": "made.csv", "mediaType": "text/csv"}]
        assert task["metadata"]["filesLeftOut"] == [{"name": "passwd", "reason": "not_a_file"}]
        refused = send(served, script, {"url": f"{host}/away"})
        assert refused["metadata"]["reason"] == "file_unavailable"
        assert refused["status"]["message"]["parts"] == [
            {"text": "File 2 is not available: its URL must be on a host with public addresses only."}
        ]
        for url, why in NEVER.items():
            error = asked(served, script, {"url": url})["error"]
            assert (error["code"], why in error["message"]) == (-32602, True), error
        v03 = {"messageId": "m", "role": "user", "parts": [{"kind": "file", "file": {"uri": "file:///etc/passwd"}}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": v03}}
        assert httpx.post(f"{served.url}/a2a/jsonrpc", json=body).json()["error"]["code"] == -32602
        rest = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"url": "http://10.0.0.1/"}]}}
        assert httpx.post(f"{served.url}/a2a/rest/message:send", json=rest, headers=V1).status_code == 400
        tasks = httpx.get(f"{served.url}/a2a/rest/tasks", headers=V1).json()["tasks"]
        assert {each["id"] for each in tasks} == {task["id"], refused["id"]}
        assert [each.name for each in (tmp_path / "workspace" / ".a2a").iterdir() if each.is_dir()] == [task["id"]]
    files.shutdown()


def test_a_stop_in_a_turn_ends_the_tool_and_the_process(tmp_path: Path) -> None:
    marker = f"marker_{time.monotonic_ns()}"
    with claude(tmp_path, timeouts={"shutdown": 100}) as (served, _):
        command = f"touch begun; python3 -c 'import time; {marker} = time.sleep(60)'"
        send(
            served,
            directive({"tools": [{"name": "Bash", "input": {"command": command, "description": "d"}}]}),
            returnImmediately=True,
        )
        begun = tmp_path / "workspace" / "begun"
        deadline = time.monotonic() + PATIENCE
        while not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert processes_with(marker)
        served.signal(signal.SIGTERM)
        assert served.wait() == 0
        assert processes_with(marker) == []

"""`a2a-claude serve` without a word about an executor: Claude answers, and a stop in a turn leaves nothing behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def send(served: Served, text: str, **configuration: Any) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": message, "configuration": configuration}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = httpx.post(f"{served.url}/a2a/jsonrpc", json=body, headers=V1, timeout=PATIENCE).json()
    task: dict[str, Any] = answer["result"]["task"]
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

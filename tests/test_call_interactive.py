"""`call` at a terminal, with Claude at the other end: what it does is told, and what it asks is answered there."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests.fake_anthropic_api import directive
from tests.serving import PATIENCE, environment
from tests.test_claude_serve import claude

ASKING = {"claude": {"permissionMode": "default", "approvals": "inputRequired"}}


@contextmanager
def asking(folder: Path) -> Iterator[str]:
    """The URL of an agent that asks before it acts."""
    with claude(
        folder, **{**ASKING, "claude": {**ASKING["claude"], "workingDirectory": str(folder / "workspace")}}
    ) as (
        served,
        _,
    ):
        yield served.url


class Terminal:
    """`a2a-claude call` with a terminal as its standard input."""

    def __init__(self, url: str, *arguments: str) -> None:
        self._keys, side = pty.openpty()
        command = [sys.executable, "-m", "a2a_claude", "call", url, *arguments]
        self.process = subprocess.Popen(
            command, env=environment(), stdin=side, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        os.close(side)
        self.told = ""

    def until(self, words: str) -> None:
        """Reads standard error up to these words."""
        stream: IO[bytes] | None = self.process.stderr
        assert stream is not None
        while words not in self.told:
            piece = os.read(stream.fileno(), 4096)
            assert piece, self.told
            self.told += piece.decode()

    def type(self, line: str) -> None:
        os.write(self._keys, f"{line}\n".encode())

    def end(self) -> str:
        """Standard output, after the end."""
        out, told = self.process.communicate(timeout=PATIENCE)
        os.close(self._keys)
        self.told += told.decode()
        return out.decode()


def bash(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "Bash", "input": {"command": command, "description": "d"}}]}


def test_a_permission_is_given_at_the_prompt(tmp_path: Path) -> None:
    with asking(tmp_path) as url:
        terminal = Terminal(url, directive(bash("touch made"), {"text": "Made it."}))
        terminal.until("Choose 1 to")
        assert not (tmp_path / "workspace" / "made").exists()
        terminal.type("nonsense")
        terminal.type("1")
        assert terminal.end() == "Made it.\n"
        assert (tmp_path / "workspace" / "made").exists()
        assert "command: touch made" in terminal.told
        assert "[Bash] touch made" in terminal.told
        assert " tokens, $" in terminal.told
        assert terminal.told.endswith(": completed\n")


def test_a_permission_is_refused_with_a_reason_that_claude_hears(tmp_path: Path) -> None:
    with asking(tmp_path) as url:
        terminal = Terminal(url, directive(bash("touch made"), {"text": "I did not."}))
        terminal.until("Choose 1 to")
        deny = next(line for line in terminal.told.splitlines() if line.strip().endswith("Deny"))
        terminal.type(deny.strip().partition(".")[0])
        terminal.until("Why")
        terminal.type("not today")
        assert terminal.end() == "I did not.\n"
        assert not (tmp_path / "workspace" / "made").exists()
        assert "not today" in terminal.told.split("Why", 1)[1]


@pytest.mark.parametrize("said", ["2", "Redis"])
def test_a_question_is_answered_by_number_or_in_words(tmp_path: Path, said: str) -> None:
    options = [{"label": each, "description": "d"} for each in ("SQLite", "Redis")]
    question = {"question": "Which store?", "header": "Store", "multiSelect": False, "options": options}
    tool = {"tools": [{"name": "AskUserQuestion", "input": {"questions": [question]}}]}
    with asking(tmp_path) as url:
        terminal = Terminal(url, directive(tool, {"text": "So it is."}))
        terminal.until("2. Redis")
        terminal.type(said)
        assert terminal.end() == "So it is.\n"
        assert terminal.process.returncode == 0


def test_ctrl_c_at_the_prompt_cancels_the_task(tmp_path: Path) -> None:
    with asking(tmp_path) as url:
        terminal = Terminal(url, directive(bash("touch made"), {"text": "x"}))
        terminal.until("Choose 1 to")
        terminal.process.send_signal(signal.SIGINT)
        terminal.end()
        assert terminal.process.returncode == 130
        assert "[canceled]" in terminal.told
        [task] = httpx.get(f"{url}/tasks", headers={"A2A-Version": "1.0"}).json()["tasks"]
        assert task["status"]["state"] == "TASK_STATE_CANCELED"


def test_without_a_terminal_it_says_how_to_answer(tmp_path: Path) -> None:
    with asking(tmp_path) as url:
        command = [sys.executable, "-m", "a2a_claude", "call", "-q", url, directive(bash("touch made"), {"text": "x"})]
        found = subprocess.run(
            command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0
        assert found.stdout.startswith("Claude asks to use Bash: touch made\n")
        assert "--task" in found.stderr

"""Real processes with a program in Claude's place: starts that fail, ends, and what is hidden from them."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.processes import Processes
from a2a_claude.claude.session import ClaudeLost, ClaudeStartFailed, OptionsError
from a2a_claude.claude.sessions import Pool
from tests.claude_support import KEY, make_processes, turn
from tests.lifecycle import asynchronous
from tests.tools import absent

FAKE = str(Path(__file__).with_name("fake_claude.py"))


def fake(folder: Path, mode: str = "", **how: Any) -> Processes:
    claude = {"executablePathOverride": FAKE, "env": {"FAKE_CLAUDE": mode}, **how.pop("claude", {})}
    return make_processes(folder, None, claude=claude, **how)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@asynchronous
async def test_a_script_in_claudes_place_serves_turns(tmp_path: Path) -> None:
    pool = Pool(fake(tmp_path))
    assert (await turn(pool, "hello"))[0] == "hello"
    seen = json.loads((await turn(pool, "env"))[0])
    assert seen["ANTHROPIC_API_KEY"] == KEY
    assert "SERVER_SECRET" not in seen
    assert "A2A_CLAUDE_SUPERVISOR" not in seen
    await pool.shutdown(5)


@asynchronous
async def test_a_program_that_ends_at_once_is_told_with_what_it_wrote(tmp_path: Path) -> None:
    with pytest.raises(ClaudeStartFailed) as caught:
        await fake(tmp_path, "broken").start(None)
    assert "cannot start" in caught.value.detail


@asynchronous
async def test_a_program_that_says_nothing_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(ClaudeStartFailed, match="did not start within"):
        await fake(tmp_path, "silent", start_seconds=0.5).start(None)


@asynchronous
async def test_an_end_in_the_middle_of_a_turn_is_told_with_code_and_words(tmp_path: Path) -> None:
    pool = Pool(fake(tmp_path))
    with pytest.raises(ClaudeLost) as caught:
        await turn(pool, "exit")
    assert caught.value.exit_code == 3
    assert "giving up" in caught.value.detail
    assert (await turn(pool, "and on"))[0] == "and on"
    await pool.shutdown(5)


@asynchronous
async def test_a_child_in_a_session_of_its_own_ends_with_the_client(tmp_path: Path) -> None:
    client = await fake(tmp_path).start(None)
    async for each in client.turn([{"type": "text", "text": "child"}], "u"):
        if each.answers:
            child = int(each.frame["result"])
            break
    assert is_alive(child)
    await client.close()
    assert not is_alive(child)


@asynchronous
async def test_a_program_that_hangs_and_ignores_signals_is_closed_within_the_bound(tmp_path: Path) -> None:
    client = await fake(tmp_path).start(None)
    await anext(client.turn([{"type": "text", "text": "hang"}], "u"))
    pid = client.pid
    assert pid is not None
    begun = time.monotonic()
    await client.close(0.2)
    assert not is_alive(pid)
    assert time.monotonic() - begun < 5


@asynchronous
async def test_files_of_a_start_are_gone_and_old_ones_are_swept(tmp_path: Path) -> None:
    old = tmp_path / "state/claude/run/7/mcp.json"
    old.parent.mkdir(parents=True)
    old.write_text("of a server that was killed")
    document = {"mcp": {"t": {"type": "http", "url": "https://mcp.test", "headers": {"X": "s3cret"}}}}
    processes = fake(tmp_path, document=document)
    client = await processes.start(None)
    assert list((tmp_path / "state").rglob("mcp.json")) == []
    for folder in ("home", "home/.claude", "run", "tmp"):
        assert stat.S_IMODE((tmp_path / "state/claude" / folder).stat().st_mode) == 0o700
    await client.close()
    processes.close()
    assert not (tmp_path / "state/claude/run").exists()


def test_a_config_that_cannot_be_served_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="does not exist"):
        fake(tmp_path, claude={"workingDirectory": "/does/not/exist"})


# --- What is hidden ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("claude", [{}, {"sandbox": {}}, {"sandbox": {"enabled": False}}], ids=str)
@asynchronous
async def test_the_servers_state_and_credentials_are_hidden(outside_tmp: Path, claude: dict[str, Any]) -> None:
    state, credentials = outside_tmp / "state", outside_tmp / "credentials"
    state.mkdir()
    credentials.mkdir()
    (state / "store.db").write_text("tasks of all callers")
    processes = fake(outside_tmp, claude=claude, hidden=[credentials, outside_tmp / "missing"])
    assert processes.hidden() == ((str(credentials), str(state / "store.db")), ())
    client = await processes.start(None)
    (child,) = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
    # Landlock and what follows from it: no new privileges (proc(5)).
    assert "NoNewPrivs:\t1" in Path(f"/proc/{child}/status").read_text()
    await client.close()


KEPT_OPEN: list[tuple[str, dict[str, Any], str]] = [
    ("what the workspace is in", {"workingDirectory": "{hidden}"}, ""),
    (
        "what is in the workspace",
        {"workingDirectory": "{folder}"},
        "The agent's shell may be able to read {hidden}: it is in the workspace",
    ),
    (
        "what is in the workspace, where Claude Code has a sandbox of its own",
        {"workingDirectory": "{folder}", "sandbox": {"enabled": True}},
        "What runs outside of claude.sandbox, such as a hook or an MCP server, may be able to read {hidden}: "
        "it is in the workspace",
    ),
]


@pytest.mark.parametrize(("claude", "warning"), [row[1:] for row in KEPT_OPEN], ids=[row[0] for row in KEPT_OPEN])
def test_what_cannot_be_hidden_is_told(
    claude: dict[str, Any], warning: str, outside_tmp: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hidden = outside_tmp / "hidden"
    hidden.mkdir()
    names = {"hidden": str(hidden), "folder": str(outside_tmp)}
    formatted = {key: value.format(**names) if isinstance(value, str) else value for key, value in claude.items()}
    processes = fake(outside_tmp, claude=formatted, hidden=[hidden])
    for _ in range(2):
        assert processes.hidden() == ((), (str(hidden),) if warning else ())
    assert caplog.messages == ([warning.format(**names)] if warning else [])


def test_nothing_is_hidden_in_a_folder_for_temporary_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if not os.stat("/tmp").st_mode & stat.S_ISVTX or not tmp_path.is_relative_to("/tmp"):
        absent("a sticky /tmp", "run the tests with the default --basetemp")
    (tmp_path / "secrets").mkdir()
    assert fake(tmp_path, hidden=[tmp_path / "secrets"]).hidden() == ((), (str(tmp_path / "secrets"),))
    assert "temporary files" in caplog.text

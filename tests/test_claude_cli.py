"""The real Claude CLI, under the pool and its supervisor, against a Messages API on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.session import ClaudeLost
from a2a_claude.store import Store
from tests.claude_support import (
    KEY,
    answered,
    make_pool,
    processes_with,
    require_cli,
    tool_results,
    turn,
)
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.tools import require

MCP_SERVER = Path(__file__).with_name("mcp_server.py")


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    require_cli()
    server = FakeAPI().start()
    yield server
    server.shutdown()
    server.server_close()


def bash(command: str) -> dict[str, Any]:
    return {"tools": [{"name": "Bash", "input": {"command": command}}]}


def sleeping(marker: str) -> dict[str, Any]:
    """A tool that runs on. Claude Code refuses a command that begins with `sleep`."""
    return bash(f"python3 -c 'import time; time.sleep(600)  # {marker}'")


async def until(condition: Callable[[], object], bound: float = 5.0) -> bool:
    deadline = time.monotonic() + bound
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return True


@asynchronous
async def test_a_follow_up_goes_on_in_the_same_process(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api)
    assert (await turn(pool, directive({"text": "one"})))[0] == "one"
    before = processes_with("--input-format")
    assert (await turn(pool, directive({"text": "two"})))[0] == "two"
    assert processes_with("--input-format") == before
    assert "one" in str(api.messages[-1]["body"]["messages"])
    await pool.shutdown(5)


@asynchronous
async def test_the_shell_sees_no_secret(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api, claude={"env": {"FOR_THE_SHELL": "yes"}})
    # `!` in the pattern, so that this very command does not contain what it looks for.
    script = "env; cat /proc/$PPID/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -a 'the-[k]ey-of'; echo end"
    _, received = await turn(pool, directive(bash(script), {"text": "done"}))
    (shown,) = tool_results(received)
    assert f"HOME={tmp_path}/state/claude/home\n" in shown
    assert "FOR_THE_SHELL=yes\n" in shown
    assert shown.rstrip().endswith("end")
    assert "s3cret-of-the-server" not in shown
    assert KEY not in shown
    assert {each["headers"].get("x-api-key") for each in api.messages} == {KEY}
    await pool.shutdown(5)
    left = subprocess.run(["grep", "-rl", KEY, str(tmp_path)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@asynchronous
async def test_a_token_logs_in(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api, credentials={"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-token"})
    _, received = await turn(pool, directive(bash("env | grep -c oat01-token"), {"text": "done"}))
    assert "0" in tool_results(received)[0]
    assert api.messages[0]["headers"]["authorization"] == "Bearer sk-ant-oat01-token"
    await pool.shutdown(5)


@asynchronous
async def test_mcp_servers_get_their_own_variables_and_no_others(api: FakeAPI, tmp_path: Path) -> None:
    server = {"type": "stdio", "command": sys.executable, "args": [str(MCP_SERVER)]}
    # A credential of Claude's cloud that this server has too.
    own = {"MCP_TOKEN": "s3cret-of-mcp", "AWS_SESSION_TOKEN": "for-mcp"}
    pool = make_pool(
        tmp_path,
        api,
        document={"mcp": {"t": {**server, "env": own}}},
        claude={"allowedTools": ["mcp__t__*", "Bash"]},
        variables={"ENABLE_TOOL_SEARCH": "false", "AWS_SECRET_ACCESS_KEY": "aws", "CLAUDE_CODE_ENABLE_TELEMETRY": "0"},
    )
    names = [*own, "SERVER_SECRET", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY"]
    calls = [{"name": "mcp__t__environment", "input": {"name": name}} for name in names]
    looking = bash(f"cat {tmp_path}/state/claude/run/*/* /proc/[0-9]*/cmdline | grep -ac 's3cret-of-[m]cp'")
    _, received = await turn(pool, directive({"tools": calls}, looking, {"text": "done"}))
    *values, found = tool_results(received)
    assert [each.split("'text': '")[-1].split("'")[0] for each in values] == [*own.values(), "unset", "unset", "unset"]
    assert "0" in found
    await pool.shutdown(5)


@asynchronous
async def test_prompts_are_taken_as_they_are(api: FakeAPI, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("content of the file")
    pool = make_pool(tmp_path, api)
    for text in (f"@{tmp_path}/secret.txt", "/context", "/clear"):
        await turn(pool, f"{text} {directive({'text': 'ok'})}")
        assert text in str(api.messages[-1]["body"]["messages"])
        assert "content of the file" not in str(api.messages[-1]["body"])
    assert "secret.txt" in str(api.messages[-1]["body"]["messages"]), "nothing was cleared"
    await pool.shutdown(5)


@asynchronous
async def test_an_interrupted_tool_is_gone_and_the_session_goes_on(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api)
    marker = f"interrupted {tmp_path}"
    session = await pool.acquire("c", "me", "t")
    running = asyncio.create_task(answered(session, directive(sleeping(marker), {"text": "never"})))
    assert await until(lambda: processes_with(f"600)  # {marker}"))
    assert await session.interrupt(10)
    assert (await running)[-1].frame["terminal_reason"] == "aborted_tools"
    assert await until(lambda: not processes_with(marker))
    await pool.release(session, healthy=True)
    assert (await turn(pool, directive({"text": "again"})))[0] == "again"
    await pool.shutdown(5)


@asynchronous
async def test_a_restarted_server_resumes_with_the_prompt_of_its_new_config(api: FakeAPI, tmp_path: Path) -> None:
    store = await Store.open(":memory:")
    for number, prompt in enumerate(("Say one.", "Say two.")):
        pool = make_pool(tmp_path, api, store, claude={"systemPromptAppend": prompt})
        await turn(pool, f"number {number} {directive({'text': 'ok'})}")
        await pool.shutdown(5)
    body = api.messages[-1]["body"]
    assert "number 0" in str(body["messages"])
    assert "Say two." in str(body["system"])
    assert "Say one." not in str(body)
    await store.close()


@asynchronous
async def test_a_lost_transcript_is_told(api: FakeAPI, tmp_path: Path) -> None:
    store = await Store.open(":memory:")
    await store.set_session("c", "me", "22222222-2222-4222-8222-222222222222")
    pool = make_pool(tmp_path, api, store)
    session = await pool.acquire("c", "me", "t")
    assert session.fell_back is not None
    assert session.fell_back.reason == "transcript_lost"
    assert (await answered(session, directive({"text": "new"})))[-1].frame["result"] == "new"
    await pool.shutdown(5)


@asynchronous
async def test_a_cli_that_is_killed_takes_its_tools_along_and_the_session_goes_on(api: FakeAPI, tmp_path: Path) -> None:
    store = await Store.open(":memory:")
    pool = make_pool(tmp_path, api, store)
    await turn(pool, f"remember this {directive({'text': 'ok'})}")
    marker = f"killed {tmp_path}"
    running = asyncio.create_task(turn(pool, directive(sleeping(marker), {"text": "never"})))
    assert await until(lambda: processes_with(f"600)  # {marker}"))
    for pid in _clis():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ClaudeLost) as caught:
        await running
    assert caught.value.exit_code == -signal.SIGKILL
    assert await until(lambda: not processes_with(marker))
    _, received = await turn(pool, directive({"text": "again"}))
    assert "remember this" in str(api.messages[-1]["body"]["messages"])
    assert received[-1].frame["result"] == "again"
    await pool.shutdown(5)


def _clis() -> list[int]:
    """The CLIs whose supervisor is a child of this process: those of tests that run beside are none of ours."""

    def parent(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    supervisors = [pid for pid in processes_with("--input-format") if parent(pid) == os.getpid()]
    return [pid for pid in processes_with("--input-format") if parent(pid) in supervisors]


SERVER = """
import asyncio, sys
from pathlib import Path
from tests.claude_support import answered, make_pool
from tests.fake_anthropic_api import FakeAPI

async def main():
    folder, mcp, prompt = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    server = {"type": "stdio", "command": sys.executable, "args": [mcp, str(folder)]}
    pool = make_pool(folder, FakeAPI().start(), document={"mcp": {"t": server}}, session={"spareClients": 1})
    pool.open()
    session = await pool.acquire("c", "me", "t")
    await answered(session, prompt)

asyncio.run(main())
"""


@asynchronous
async def test_nothing_outlives_a_server_that_is_killed(api: FakeAPI, tmp_path: Path) -> None:
    marker = str(tmp_path)
    detached = f"(setsid python3 -c 'import time; time.sleep(600)  # apart {marker}' >/dev/null 2>&1 &)"
    prompt = directive(bash(detached), sleeping(f"tool {marker}"), {"text": "never"})
    command = [sys.executable, "-c", textwrap.dedent(SERVER), str(tmp_path), str(MCP_SERVER), prompt]
    server = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    wanted = (f"600)  # tool {marker}", f"600)  # apart {marker}", f"{MCP_SERVER.name}\0{marker}")
    assert await until(lambda: all(processes_with(each) for each in wanted), 20)
    server.kill()
    server.wait()
    assert await until(lambda: not processes_with(marker))


@asynchronous
async def test_shutdown_ends_a_turn_within_its_bound_and_leaves_nothing(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api)
    marker = f"shutdown {tmp_path}"
    running = asyncio.create_task(turn(pool, directive(sleeping(marker), {"text": "never"})))
    assert await until(lambda: processes_with(f"600)  # {marker}"))
    await asyncio.wait_for(pool.shutdown(5), 6)
    await asyncio.wait({running}, timeout=3)
    assert await until(lambda: not processes_with(str(tmp_path)))
    assert not (tmp_path / "state/claude/tmp").exists()


@asynchronous
async def test_a_process_keeps_its_temporary_files_in_the_agents_own_folder(api: FakeAPI, tmp_path: Path) -> None:
    pool = make_pool(tmp_path, api)
    _, received = await turn(pool, directive(bash("echo $CLAUDE_CODE_MESSAGING_SOCKET; ls"), {"text": "done"}))
    own = tmp_path / "state/claude/tmp"
    if len(str(own)) < 80:  # a socket's path is bounded
        assert str(own) in tool_results(received)[0]
    await pool.shutdown(5)


@asynchronous
async def test_what_cannot_be_hidden_is_not_read_by_tools_for_files(api: FakeAPI, tmp_path: Path) -> None:
    secret = tmp_path / "credentials" / "KEY"
    secret.parent.mkdir()
    secret.write_text("content of the key")
    pool = make_pool(tmp_path, api, hidden=[secret.parent], claude={"allowedTools": ["Read", "Grep", "Bash"]})
    reading = {"tools": [{"name": "Read", "input": {"file_path": str(secret)}}]}
    _, received = await turn(pool, directive(reading, {"text": "done"}))
    assert "content of the key" not in str(tool_results(received))
    assert len(tool_results(received)) == 1
    await pool.shutdown(5)


FENCED = """
import asyncio, sys
from pathlib import Path
from a2a_claude.claude import processes
from tests.claude_support import make_pool, tool_results, turn
from tests.fake_anthropic_api import FakeAPI, directive

folder, server, fenced = sys.argv[1:]
if fenced == "no":
    processes._fence = lambda *_: ()

async def main():
    api = FakeAPI().start()
    mcp = {"t": {"type": "stdio", "command": sys.executable, "args": [server], "env": {"T": "s3cret-of-the-server"}}}
    pool = make_pool(
        Path(folder), api, document={"mcp": mcp}, claude={"allowedTools": ["Bash", "Read"]},
        credentials={"ANTHROPIC_API_KEY": "x", "ANTHROPIC_CUSTOM_HEADERS": "X-Own: s3cret-of-the-cloud"},
    )
    look = "for it in cloud server; do cat /proc/[0-9]*/environ 2>/dev/null | grep -ac of-the-$it; done; mv -v a b"
    shell = {"name": "Bash", "input": {"command": look, "description": "d"}}
    reading = {"name": "Read", "input": {"file_path": "/proc/self/environ"}}
    (Path(folder) / "workspace" / "b").mkdir()
    (Path(folder) / "workspace" / "a").write_text("")
    _, received = await turn(pool, directive({"tools": [shell]}, {"tools": [reading]}, {"text": "done"}))
    shown, read = tool_results(received)
    assert "s3cret" not in read, read
    assert api.messages[0]["headers"]["x-own"] == "s3cret-of-the-cloud"
    print(*shown.splitlines()[:3], sep="|")
    await pool.shutdown(5)

asyncio.run(main())
"""


@pytest.mark.parametrize(("fenced", "seen"), [("yes", False), ("no", True)])
def test_credentials_in_the_environment_of_claude_and_of_its_servers_are_not_in_proc_for_the_shell(
    fenced: str, seen: bool, tmp_path: Path
) -> None:
    """Without privileges: root with CAP_PERFMON reads any process's."""
    setpriv = require("setpriv", "apt-get install util-linux")
    unprivileged = [setpriv, "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*unprivileged, sys.executable, "-c", FENCED, str(tmp_path), str(MCP_SERVER), fenced]
    run = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=50, check=False
    )
    assert run.returncode == 0, run.stderr
    cloud, server, moved = run.stdout.strip().split("|")
    assert (int(cloud) > 0, int(server) > 0) == (seen, seen), run.stdout
    assert "renamed" in moved


SANDBOXED = """
import asyncio, json, sys
from pathlib import Path
from tests.claude_support import make_pool, processes_with, tool_results, turn
from tests.fake_anthropic_api import FakeAPI, directive

folder = Path(sys.argv[1])
claude = json.loads(sys.argv[2].replace("HIDDEN", f"{folder}/hidden"))

def in_environment(pid):
    try:
        found = Path(f"/proc/{pid}/environ").read_bytes()
        return b"of-the-cloud" in found and f"HOME={folder}/".encode() in found
    except OSError:
        return False  # of a test beside this one

async def main():
    api = FakeAPI().start()
    hidden = folder / "hidden"
    hidden.mkdir()
    (hidden / "key").write_text("s3cret-in-a-file")
    (folder / "workspace" / ".claude").mkdir(parents=True)
    # As an earlier turn may have left it.
    settings = {"env": {"CLAUDE_CODE_SHELL_PREFIX": "/bin/bash -c"}}
    (folder / "workspace" / ".claude" / "settings.json").write_text(json.dumps(settings))
    pool = make_pool(
        folder, api, hidden=[hidden], claude={"allowedTools": ["Bash", "Read"], **claude},
        credentials={"ANTHROPIC_API_KEY": "x", "ANTHROPIC_CUSTOM_HEADERS": "X-Own: s3cret-of-the-cloud"},
    )
    session = await pool.acquire("c", "me", "t")
    await pool.release(session, healthy=True)
    # Its supervisor has the same arguments, and the environment of the server.
    pid = next(each for each in processes_with("--input-format") if in_environment(each))
    # A rule also refuses a command that names what it denies, hence a script.
    look = (
        f"printf '#!/bin/sh\\nexec /bin/bash -c \\"$1\\"' 2>/dev/null >{folder}/state/claude/shell/prefix;"
        f"cat {hidden}/key /proc/{pid}/environ /proc/[0-9]*/environ 2>/dev/null | grep -ac s3[c]ret; echo ran"
    )
    (folder / "workspace" / "look").write_text(look)
    shell = {"tools": [{"name": "Bash", "input": {"command": "sh look", "description": "d"}}]}
    names = (f"{pid}", f"{pid}/task/{pid}", "self", "thread-self", f"self/task/{pid}", "self/root/proc/self")
    paths = [f"/proc/{name}/environ" for name in names]
    reading = [{"tools": [{"name": "Read", "input": {"file_path": each}}]} for each in paths]
    _, received = await turn(pool, directive(shell, shell, *reading, {"text": "done"}))
    shown, again, *read = tool_results(received)
    print(json.dumps({"shown": [shown, again], "read": dict(zip(paths, read))}))
    await pool.shutdown(5)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "claude",
    [
        {},
        {"settingSources": ["project"]},
        {"sandbox": {"enabled": False}},
        {"sandbox": {"enabled": True}},
        {"sandbox": {"enabled": True, "excludedCommands": ["sh *"]}},  # Claude Code runs them outside
        {"sandbox": {"enabled": True, "filesystem": {"allowRead": ["HIDDEN/key"]}}},
        {"sandbox": {"enabled": True, "enableWeakerNestedSandbox": True}},
    ],
    ids=str,
)
def test_the_sandbox_or_else_the_fence_keeps_hidden_files_and_environments_from_the_shell(
    claude: dict[str, Any], outside_tmp: Path
) -> None:
    """Without privileges, but for the one that bubblewrap needs of root to map users. The second look shows whether the
    first could take the fence away."""
    require_cli()
    if "sandbox" in claude:
        require("bwrap", "apt-get install bubblewrap")
        require("socat", "apt-get install socat")
    setpriv = require("setpriv", "apt-get install util-linux")
    unprivileged = [setpriv, "--bounding-set=-all,+setfcap", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*unprivileged, sys.executable, "-c", SANDBOXED, str(outside_tmp), json.dumps(claude)]
    run = subprocess.run(
        command,
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "OF_THE_SERVER": "s3cret-of-the-server"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert [each.split() for each in found["shown"]] == [["0", "ran"]] * 2, found
    for path, read in found["read"].items():
        assert "s3cret" not in read, path
        assert "denied" in read or "Cannot read" in read, (path, read)


BYPASS = """
import asyncio, sys
from pathlib import Path
from tests.claude_support import make_pool, tool_results, turn
from tests.fake_anthropic_api import FakeAPI, directive

async def main():
    claude = {"permissionMode": "bypassPermissions", "dangerouslyAllowBypassPermissions": True, "allowedTools": []}
    pool = make_pool(Path(sys.argv[1]), FakeAPI().start(), claude=claude)
    tool = {"name": "Bash", "input": {"command": "id -u > who; cat who"}}
    _, received = await turn(pool, directive({"tools": [tool]}, {"text": "done"}))
    print("uid", *tool_results(received))
    await pool.shutdown(5)

asyncio.run(main())
"""


def test_bypass_lets_everything_pass_for_another_user_than_root(api: FakeAPI, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BYPASS, str(tmp_path)]
    if os.geteuid() == 0:
        # The interpreter may be where only root may look, hence the capability.
        look = "dac_read_search"
        user = ["--reuid=65534", "--regid=65534", "--clear-groups", f"--inh-caps=+{look}", f"--ambient-caps=+{look}"]
        command = [require("setpriv", "apt-get install util-linux"), *user, *command]
        os.chown(tmp_path, 65534, 65534)
    run = subprocess.run(
        command, cwd=Path(__file__).parent.parent, capture_output=True, text=True, timeout=50, check=False
    )
    assert run.stdout.split() == ["uid", str(65534 if os.geteuid() == 0 else os.geteuid())], run.stderr

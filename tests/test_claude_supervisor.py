"""The supervisor: what its child gets and cannot open, and that nothing outlives it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.supervisor import landlock
from a2a_claude.claude.transport import SUPERVISOR
from tests.tools import absent, require

BOUND = 5.0  # seconds after which nothing may be left


def command(*program: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(SUPERVISOR), *program]


def environ(
    keep: str = "PATH",
    hide: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    parent: int | None = None,
    **variables: str,
) -> dict[str, str]:
    spec = {"parent": parent or os.getpid(), "keep": keep.split(), "descriptors": {}, "hide": hide, "kept": kept}
    return {**os.environ, **variables, "A2A_CLAUDE_SUPERVISOR": json.dumps({**spec})}


def supervised(script: str, variables: dict[str, str] | None = None, **more: Any) -> subprocess.CompletedProcess[str]:
    run = command("/bin/sh", "-c", script)
    return subprocess.run(run, env=variables or environ(), capture_output=True, text=True, check=False, **more)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def gone(*pids: int) -> bool:
    """Whether none of them is left within the bound."""
    return eventually(lambda: not any(alive(pid) for pid in pids))


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def numbers(file: Path, count: int) -> list[int]:
    """The process ids that a script wrote to a file."""
    assert eventually(lambda: file.exists() and len(file.read_text().split()) == count)
    return [int(each) for each in file.read_text().split()]


def test_the_child_gets_what_is_kept_and_nothing_else() -> None:
    run = supervised("env", environ("PATH SHOWN", SHOWN="yes", SECRET="no"))
    names = {each.partition("=")[0] for each in run.stdout.splitlines()}
    assert {"PATH", "SHOWN"} <= names <= {"PATH", "SHOWN", "PWD", "SHLVL", "_"}


def test_a_descriptor_is_read_once_and_is_no_variable() -> None:
    spec = {"parent": os.getpid(), "keep": ["PATH"], "descriptors": {"KEY_FD": "KEY"}, "hide": [], "kept": []}
    script = 'eval "cat <&$KEY_FD"; echo; eval "cat <&$KEY_FD"; env | grep -c s3cret'
    run = supervised(script, {**os.environ, "KEY": "s3cret ü", "A2A_CLAUDE_SUPERVISOR": json.dumps(spec)})
    assert run.stdout == "s3cret ü\n0\n"


LONG = 100_000  # bytes: more than a pipe holds by itself, less than Linux allows for a variable


def test_a_credential_longer_than_a_pipe_blocks_nobody() -> None:
    spec = {"parent": os.getpid(), "keep": ["PATH"], "descriptors": {"KEY_FD": "KEY"}, "hide": [], "kept": []}
    variables = {**os.environ, "KEY": "k" * LONG, "A2A_CLAUDE_SUPERVISOR": json.dumps(spec)}
    run = supervised('eval "cat <&$KEY_FD" | wc -c', variables, timeout=60)
    assert run.stdout.split() == [str(LONG)]


def test_a_credential_that_no_pipe_may_hold_is_refused_by_its_name(tmp_path: Path) -> None:
    spec = {"parent": os.getpid(), "keep": ["PATH"], "descriptors": {"KEY_FD": "KEY"}, "hide": [], "kept": []}
    variables = {**os.environ, "KEY": "k" * LONG, "A2A_CLAUDE_SUPERVISOR": json.dumps(spec)}
    # A kernel that refuses stands in here: what it allows belongs to the whole machine.
    folder = tmp_path / "supervisor"
    shutil.copytree(SUPERVISOR, folder)
    program = (folder / "__main__.py").read_text().replace("fcntl.F_SETPIPE_SZ, len(data)", "fcntl.F_SETPIPE_SZ, -1")
    (folder / "__main__.py").write_text(program)
    run = subprocess.run(
        [sys.executable, "-I", "-S", str(folder), "/bin/true"],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 127
    assert run.stderr.startswith("KEY is too long for a pipe of this machine")
    assert "kkk" not in run.stderr


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -9 $$", -9), ("kill -TERM $$", -15), ("true", 0)])
def test_it_ends_as_its_child_did(script: str, code: int) -> None:
    assert supervised(script).returncode == code


def test_a_program_that_is_not_there_is_told() -> None:
    run = subprocess.run(command("/not/there"), env=environ(), capture_output=True, text=True, check=False)
    assert run.returncode == 127
    assert "/not/there cannot be run: " in run.stderr


def test_streams_pass_through_and_end_with_the_child() -> None:
    """A stream held open by the supervisor, or by a grandchild's parent, would hang this test."""
    assert supervised("cat; echo done >&2", input="hello").stdout == "hello"


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[bytes], list[int]]]]:
    """Starts a supervised script that writes its own and two descendants' process ids, one in a session of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(first: str = "", last: str = "wait") -> tuple[subprocess.Popen[bytes], list[int]]:
        file = tmp_path / "pids"
        apart = f"setsid sh -c 'echo $$ >> {file}; sleep 600' &"
        script = f"{first} echo $$ >> {file}; sleep 600 & echo $! >> {file}; {apart} {last}"
        started.append(subprocess.Popen(command("/bin/sh", "-c", script), env=environ()))
        return started[-1], numbers(file, 3)

    yield start
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_whole_family(number: int, family: Callable[..., Any]) -> None:
    supervisor, pids = family()
    supervisor.send_signal(number)
    assert gone(*pids)
    supervisor.wait(BOUND)


def test_a_child_that_ignores_the_signal_is_killed(family: Callable[..., Any]) -> None:
    supervisor, pids = family("trap '' TERM;")
    supervisor.terminate()
    assert gone(*pids)
    assert supervisor.wait(BOUND) == -signal.SIGKILL


def test_what_the_child_leaves_behind_is_killed(family: Callable[..., Any]) -> None:
    supervisor, pids = family(last="sleep 0.2; exit 3")
    assert supervisor.wait(BOUND) == 3
    assert gone(*pids)


def test_the_child_does_not_outlive_a_supervisor_that_is_killed(family: Callable[..., Any]) -> None:
    supervisor, pids = family()
    supervisor.kill()
    assert gone(pids[0])
    for each in pids[1:]:
        os.kill(each, signal.SIGKILL)


SERVER = """
import json, os, subprocess, sys, time
spec = {"parent": os.getpid(), "keep": ["PATH"], "descriptors": {}, "hide": [], "kept": []}
subprocess.Popen(sys.argv[1:], env={**os.environ, "A2A_CLAUDE_SUPERVISOR": json.dumps(spec)})
time.sleep(600)
"""


def test_nothing_outlives_a_server_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = f"trap '' TERM; echo $$ >> {file}; setsid sh -c 'echo $$ >> {file}; sleep 600' & wait"
    server = subprocess.Popen([sys.executable, "-c", SERVER, *command("/bin/sh", "-c", script)])
    pids = numbers(file, 2)
    server.kill()
    server.wait()
    assert gone(*pids)


def test_a_server_that_died_before_is_noticed() -> None:
    assert supervised("echo started", environ(parent=1)).stdout == ""


# --- Landlock ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def hiding(tmp_path: Path) -> Path:
    """`secret/key` to hide, `open/file` beside it."""
    if landlock.abi() < 2:
        absent("Landlock", "these tests need Linux 5.19 or newer with Landlock enabled")
    for name in ("secret/key", "open/file"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(name)
    return tmp_path


def hidden(folder: Path, script: str, what: str = "secret") -> str:
    run = supervised(f"cd {folder}; {script}", environ(hide=(str(folder / what),)))
    assert "cannot be run" not in run.stderr, run.stderr
    return run.stdout


REFUSED = [
    "cat secret/key",
    "echo x > secret/key",
    "echo x > secret/new",
    "mv secret/key open/key",
    "ln secret/key open/key && cat open/key",
    "mv secret moved && cat moved/key",
    "rm secret/key",
    "cp -r secret copy && cat copy/key",
    "sh -c 'cat secret/key'",
    "cat /proc/self/cwd/secret/key",
]


@pytest.mark.parametrize("script", REFUSED)
def test_a_hidden_file_cannot_be_opened_moved_or_removed(script: str, hiding: Path) -> None:
    assert hidden(hiding, f"{script} && echo possible") == ""
    assert (hiding / "secret/key").read_text() == "secret/key"


ALLOWED = [
    "cat open/file",
    "echo x > open/new && rm open/new",
    "mv open/file open/moved && mv open/moved open/file",
    "mkdir -p open/a/b && mv open/file open/a/b/ && cat open/a/b/file",
    "python3 -c 'import tempfile; tempfile.TemporaryFile().write(b\"x\")'",
    "echo x > /dev/null",
    "ls secret",
]


@pytest.mark.parametrize("script", ALLOWED)
def test_everything_beside_it_can(script: str, hiding: Path) -> None:
    assert hidden(hiding, f"TMPDIR={hiding}/open; export TMPDIR; {script} >/dev/null && echo possible") == "possible\n"


def test_a_single_file_can_be_hidden(hiding: Path) -> None:
    assert hidden(hiding, "cat secret/key || cat open/file", "secret/key") == "open/file"


@pytest.mark.parametrize("script", [each for each in REFUSED if "cat " not in each or "mv secret" in each])
def test_what_is_kept_can_be_read_and_not_changed(script: str, hiding: Path) -> None:
    kept = environ(kept=(str(hiding / "secret"),))
    run = supervised(f"cd {hiding}; ({script}) 2>/dev/null && echo possible; cat secret/key open/file", kept)
    assert run.stdout == (hiding / "secret/key").read_text() + (hiding / "open/file").read_text()


def test_a_link_to_a_hidden_file_does_not_lead_there(hiding: Path) -> None:
    (hiding / "open/link").symlink_to(hiding / "secret/key")
    assert hidden(hiding, "cat open/link") == ""


def test_the_environment_of_the_server_is_hidden_with_it(hiding: Path) -> None:
    """Without privileges: root with CAP_PERFMON reads any process's."""
    setpriv = require("setpriv", "apt-get install util-linux")
    unprivileged = [setpriv, "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    program = f"""
import json, os, subprocess, sys
os.environ["SERVER_SECRET"] = "s3cret"
script = "tr '\\\\0' '\\\\n' < /proc/%d/environ | grep -c SERVER_SECRET" % os.getpid()
for hide in ([], [{str(hiding / "secret")!r}]):
    spec = dict(parent=os.getpid(), keep=["PATH"], descriptors=dict(), hide=hide, kept=[])
    os.environ["A2A_CLAUDE_SUPERVISOR"] = json.dumps(spec)
    run = subprocess.run([*sys.argv[1:], "/bin/sh", "-c", script], capture_output=True, text=True)
    print(run.stdout.strip())
"""
    # A new process image: what /proc shows is the environment that it was started with.
    start = [*unprivileged, "env", "SERVER_SECRET=s3cret", sys.executable, "-c", program, *command()]
    run = subprocess.run(start, capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["1", "0"], run.stderr

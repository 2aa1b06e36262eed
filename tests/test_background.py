"""`start`, `stop`, `restart`, `status` and `logs`: real servers in the background of this machine."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from a2a_claude.cli import main
from a2a_claude.instances import Place, birth
from tests.serving import PATIENCE, ROOT, environment, write_agent

Run = Callable[..., subprocess.CompletedProcess[str]]
KEY = "sk-ant-of-the-shell"
SCRIPTED = ("--executor", "scripted", "--port", "0")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a command in a project with an agent `reviewer`; whatever is still running is stopped at the end."""
    write_agent(tmp_path)
    variables = environment(XDG_STATE_HOME=str(tmp_path / "state"), WORKSPACE_DIR=str(tmp_path), ANTHROPIC_API_KEY=KEY)

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "a2a_claude", *arguments],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    yield command
    command("stop", "reviewer", "--timeout", "5")


def place(folder: Path) -> Place:
    return Place("reviewer", folder / "state" / "a2a-claude" / "reviewer")


def process_of(output: str) -> psutil.Process:
    found = re.search(r"process (\d+)", output)
    assert found, output
    return psutil.Process(int(found[1]))


def test_a_started_agent_is_ready_when_start_returns_and_gone_when_stop_returns(run: Run) -> None:
    started = run("start", "reviewer", *SCRIPTED)
    assert started.returncode == 0, started.stderr
    process = process_of(started.stdout)
    url = re.search(r"http://127\.0\.0\.1:\d+", started.stdout)
    assert url
    called = run("call", url[0], "hello")
    assert called.returncode == 0, called.stderr
    status = run("status", "reviewer")
    assert (status.returncode, status.stdout.endswith(f"{url[0]}, ready\n")) == (0, True)
    assert json.loads(run("status", "--json").stdout)["pid"] == process.pid
    assert run("stop", "reviewer").stdout == "reviewer: stopped\n"
    assert not process.is_running()
    assert run("status", "reviewer").returncode == 3


def test_start_leaves_a_running_agent_alone_and_restart_uses_its_last_options(run: Run) -> None:
    first = process_of(run("start", "reviewer", *SCRIPTED, "--agent-name", "Mine").stdout)
    again = run("start", "agents/reviewer")
    assert "already running" in again.stdout
    assert process_of(again.stdout) == first
    restarted = run("restart", "reviewer")
    assert restarted.returncode == 0, restarted.stderr
    assert process_of(restarted.stdout) != first
    assert "Mine listens on" in run("logs", "reviewer", "-n", "1").stdout


@pytest.mark.parametrize(
    ("options", "says"),
    [(("--executor", "nobody"), "no executor is named nobody"), (("--set", "server.prot=1"), "did you mean 'port'")],
)
def test_an_agent_that_does_not_start_says_why(run: Run, options: tuple[str, ...], says: str) -> None:
    failed = run("start", "reviewer", *options)
    assert failed.returncode == 1
    assert "reviewer did not start: it ended with exit code" in failed.stderr
    assert says in failed.stderr
    assert run("status", "reviewer").returncode == 3


def test_one_that_is_never_ready_is_not_left_behind(run: Run, tmp_path: Path) -> None:
    failed = run("start", "reviewer", *SCRIPTED, "--timeout", "0.01")
    assert (failed.returncode, "was not ready after 0.01 s" in failed.stderr) == (1, True)
    state = str(place(tmp_path).folder)
    assert [each.pid for each in psutil.process_iter(["cmdline"]) if state in (each.info["cmdline"] or [])] == []


def test_two_starts_at_once_start_one(run: Run) -> None:
    outputs: list[str] = []
    threads = [
        threading.Thread(target=lambda: outputs.append(run("start", "reviewer", *SCRIPTED).stdout)) for _ in range(2)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted("already" in each for each in outputs) == [False, True]
    assert len({process_of(each).pid for each in outputs}) == 1


def test_another_process_with_the_recorded_number_is_never_touched(run: Run, tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        where = place(tmp_path)
        where.folder.mkdir(parents=True)
        record = {"name": "reviewer", "pid": bystander.pid, "created": 1.0, "birth": "1", "url": "http://127.0.0.1:1"}
        (where.folder / "instance.json").write_text(json.dumps({**record, "arguments": []}))
        assert run("status", "reviewer").stdout == "reviewer: not running\n"
        assert run("stop", "reviewer").stdout == "reviewer: not running\n"
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n")


def test_a_server_is_found_again_after_the_clock_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    me = psutil.Process()
    record = {
        "name": "reviewer",
        "pid": me.pid,
        "created": me.create_time(),
        "birth": birth(me),
        "url": "http://[::1]:1",
    }
    (where.folder / "instance.json").write_text(json.dumps({**record, "arguments": []}))
    monkeypatch.setattr(psutil.Process, "create_time", lambda _self: me.create_time() + 7200)
    found = where.running()
    assert found is not None
    assert found.pid == me.pid


NO_ADDRESSES = [
    "http://127.0.0.1",
    "",
    "http://[",
    "http://127.0.0.1:x",
    "http://127.0.0.1:99999",
    ["http://a:1"],
    None,
]


@pytest.mark.parametrize("url", NO_ADDRESSES)
def test_a_record_without_an_address_is_told(run: Run, tmp_path: Path, url: object) -> None:
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        born = birth(psutil.Process(process.pid))
        record = {"name": "reviewer", "pid": process.pid, "created": 1.0, "birth": born, "url": url, "arguments": []}
        (where.folder / "instance.json").write_text(json.dumps(record))
        status = run("status", "reviewer")
        (where.folder / "instance.json").unlink()
        process.communicate(b"\n")
    assert (status.returncode, "has no address that can be asked" in status.stdout) == (1, True), status.stderr


WRONG: list[object] = [None, True, -1, 0, 1.5, 1 << 40, 1e300, float("nan"), "1", "", "\0", [], [1], {}, {"a": []}]
TEXTS = ["", "{", "[]", "7", "null", '"text"', "[" * 100_000, "\xff", '{"pid": 1}', '{"pid": 1' + "0" * 5000 + "}"]


def damaged() -> Iterator[str]:
    """Records of a process that lives, each with one thing wrong; and what is no record."""
    me = psutil.Process()
    record = {"name": "reviewer", "pid": me.pid, "created": 1.0, "birth": birth(me), "url": "http://a:1"}
    for key in (*record, "arguments"):
        for wrong in WRONG:
            yield json.dumps({**record, "arguments": [], key: wrong})
        yield json.dumps({name: each for name, each in {**record, "arguments": []}.items() if name != key})
    yield from TEXTS


def test_a_damaged_record_is_no_traceback_and_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_agent(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("a2a_claude.commands.status.ask", lambda *_: "nobody is asked")
    monkeypatch.setattr(Place, "stop", lambda *_: True)  # this very process
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    for text in damaged():
        (where.folder / "instance.json").write_text(text, "latin-1")
        for command in (["status"], ["status", "--json"], ["status", "reviewer"], ["stop", "reviewer"]):
            done = CliRunner().invoke(main, command)
            assert done.exception is None or isinstance(done.exception, SystemExit), text
        recorded = where.recorded()
        assert isinstance(recorded, list)
        assert all(isinstance(each, str) for each in recorded)


@pytest.mark.parametrize("key", ["name", "created", "url", "arguments"])
def test_a_process_is_found_whatever_else_is_wrong_with_its_record(tmp_path: Path, key: str) -> None:
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    me = psutil.Process()
    for wrong in WRONG:
        record = {"name": "a", "pid": me.pid, "created": 1.0, "birth": birth(me), "url": "u", "arguments": []}
        (where.folder / "instance.json").write_text(json.dumps({**record, key: wrong}))
        found = where.running()
        assert found is not None
        assert found.pid == me.pid


def test_a_start_that_is_broken_off_leaves_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[subprocess.Popen[bytes]] = []

    def ctrl_c(process: subprocess.Popen[bytes], *_: object) -> str:
        begun.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr("a2a_claude.instances._ready", ctrl_c)
    where = place(tmp_path)
    with where.locked(), pytest.raises(KeyboardInterrupt):
        where.start(["nobody"], PATIENCE)
    assert [each.returncode for each in begun] == [-signal.SIGKILL]


def test_a_start_that_is_terminated_leaves_no_server(tmp_path: Path) -> None:
    write_agent(tmp_path)
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    # The server never says that it is ready.
    (hooks / "sitecustomize.py").write_text("import sys, time\nif 'serve' in sys.argv: time.sleep(600)\n")
    state = tmp_path / "state"
    variables = environment(XDG_STATE_HOME=str(state), WORKSPACE_DIR=str(tmp_path))
    variables["PYTHONPATH"] = os.pathsep.join([str(hooks), *filter(None, [variables.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "a2a_claude", "start", "reviewer", *SCRIPTED]
    starting = subprocess.Popen(command, cwd=tmp_path, env=variables)

    def servers() -> list[psutil.Process]:
        shown = str(place(tmp_path).folder)
        return [each for each in psutil.process_iter(["cmdline"]) if shown in (each.info["cmdline"] or [])]

    while not (found := servers()):
        assert starting.poll() is None
    starting.terminate()
    assert starting.wait(PATIENCE) == 128 + signal.SIGTERM
    psutil.wait_procs(found, PATIENCE)
    assert servers() == []


def test_words_of_callers_in_the_log_are_no_lines_of_it(run: Run, tmp_path: Path) -> None:
    where = place(tmp_path)
    where.folder.mkdir(parents=True)
    forged = "x\n2026-12-02T10:00:00Z INFO    all is well\x1b[2J"
    line = {"time": "2026-12-02T10:00:00Z", "level": "error", "message": forged, "who": forged, "error": forged}
    where.log.write_text(f"{json.dumps(line)}\nplain \x1b[2J\n")
    shown = run("logs", "reviewer").stdout
    assert [each for each in shown.splitlines() if re.match(r"2026\S+ INFO", each)] == []
    assert "\x1b" not in shown


def test_a_server_that_does_not_stop_in_time_is_killed_and_said_to_be(run: Run) -> None:
    process = process_of(run("start", "reviewer", *SCRIPTED).stdout)
    process.suspend()
    stopped = run("stop", "reviewer", "--timeout", "0.2")
    assert "was killed" in stopped.stdout
    assert not process.is_running()


def test_a_crash_is_seen_and_the_next_start_works(run: Run) -> None:
    process = process_of(run("start", "reviewer", *SCRIPTED).stdout)
    process.kill()
    psutil.wait_procs([process], PATIENCE)
    assert run("status", "reviewer").stdout == "reviewer: not running\n"
    assert run("start", "reviewer", *SCRIPTED).returncode == 0


def test_stopping_waits_for_a_start_under_way(tmp_path: Path) -> None:
    where = place(tmp_path)
    with where.locked(), open(where.folder / "instance.lock") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize(
    "arguments",
    [("start", "nobody/at/all"), ("stop", ".."), ("logs", "agents")]
    + [(command, "reviwer") for command in ("start", "stop", "restart", "status", "logs")],
)
def test_what_names_no_agent_is_refused(run: Run, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    write_agent(tmp_path, "second", server={"port": 4000})
    refused = run(*arguments)
    assert (refused.returncode, "hint:" in refused.stderr) == (2, True)
    assert not (tmp_path / "state").exists()


def test_an_agent_whose_config_is_gone_is_still_stopped(run: Run, tmp_path: Path) -> None:
    process = process_of(run("start", "reviewer", *SCRIPTED).stdout)
    shutil.rmtree(tmp_path / "agents" / "reviewer")
    assert run("stop", "reviewer").stdout == "reviewer: stopped\n"
    assert not process.is_running()


def test_a_failed_start_shows_the_log_as_logs_does(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        failed = run("start", "reviewer", "--executor", "scripted", "--port", str(taken.getsockname()[1]))
    assert re.search(r"^\d{4}-\d\d-\d\dT\S+ ERROR   cannot listen on 127\.0\.0\.1 port", failed.stderr, re.MULTILINE)


def test_logs_are_readable_and_followed(run: Run, tmp_path: Path) -> None:
    assert run("logs", "reviewer").returncode == 1
    run("start", "reviewer", *SCRIPTED)
    assert re.match(r"\d{4}-\d\d-\d\dT\S+ INFO    ", run("logs", "reviewer").stdout)
    assert json.loads(run("logs", "reviewer", "--json", "-n", "1").stdout)["level"] == "info"
    lines = place(tmp_path).follow()
    with open(place(tmp_path).log, "a", buffering=1) as log:
        log.write("one more\n")
        # What was there before the first step is not repeated: the step comes after the write.
        threading.Timer(0.1, log.write, ["and another\n"]).start()
        assert next(lines) == "and another"


def test_secrets_of_the_shell_are_not_recorded_and_files_are_private(run: Run, tmp_path: Path) -> None:
    assert KEY in process_of(run("start", "reviewer", *SCRIPTED).stdout).environ().values()
    files = [path for path in place(tmp_path).folder.rglob("*") if path.is_file()]
    assert place(tmp_path).log in files
    for path in files:
        assert KEY.encode() not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_scripts_of_the_shipped_agents_do_the_same(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "a2a-claude").write_text(f'#!/bin/sh\nexec {sys.executable} -m a2a_claude "$@"\n')
    (programs / "a2a-claude").chmod(0o755)
    variables = environment(
        XDG_STATE_HOME=str(tmp_path / "state"), WORKSPACE_DIR=str(tmp_path), PATH=f"{programs}:{os.environ['PATH']}"
    )

    def script(agent: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = [str(ROOT / "agents" / agent / "start.sh"), *arguments]
        return subprocess.run(
            program, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path
        )

    try:
        for agent in ("example", "reviewer"):
            started = script(agent, "start", *SCRIPTED)
            assert started.returncode == 0, started.stderr
            assert script(agent, "status").stdout.endswith("ready\n")
            assert "listens on" in script(agent, "logs").stdout
    finally:
        stopped = [script(agent, "stop").stdout for agent in ("example", "reviewer")]
    assert stopped == ["example: stopped\n", "reviewer: stopped\n"]
    assert script("example").returncode == 2

"""The compiled units on booted machines with systemd 252 and 257: the wheel, the real CLI, an API on loopback."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.claude_support import require_cli
from tests.e2e.caller import COMPLETED, FAILED, Caller, bash, eventually, free_port, text
from tests.e2e.fleet import KEY, KEY_PATTERN, compiled, install
from tests.e2e.machine import Machine
from tests.fake_anthropic_api import FakeAPI

pytestmark = pytest.mark.slow

STATE = "/var/lib/a2a-claude"
EXAMPLE, REVIEWER = "a2a-claude-example.service", "a2a-claude-reviewer.service"
# As an operator would write them with `systemctl edit`: what the tests wait for comes sooner.
DENIED = "127.7.7.7"
DROP_IN = f"[Service]\nRestartSec=1s\nWatchdogSec=8s\nIPAddressDeny={DENIED}\n"


@dataclass
class Host:
    """A machine on which the agents of this checkout are installed."""

    machine: Machine
    ports: dict[str, int]
    api: FakeAPI

    def caller(self, agent: str) -> Caller:
        return Caller(f"http://127.0.0.1:{self.ports[agent]}")

    @property
    def example(self) -> Caller:
        return self.caller("example")

    def asked(self) -> str:
        """All that Claude has sent to the API: prompts, and what its tools gave."""
        return str([each["body"] for each in self.api.messages])

    def pid(self, unit: str) -> str:
        return self.machine.shown(unit, "MainPID")["MainPID"]

    def said(self) -> list[dict[str, str]]:
        """What the example's server has logged."""
        entries = self.machine.journal(EXAMPLE)
        return [each for each in entries if each.get("SYSLOG_IDENTIFIER") == "a2a-claude-example"]

    def until_there_is(self, name: str) -> None:
        """Waits for a file in the workspace of the example."""
        file = f"{STATE}/example/workspace/{name}"
        eventually(lambda: self.machine.attempt("test", "-e", file).returncode == 0, f"{name} is there")

    def restarted(self, unit: str, before: str) -> bool:
        shown = self.machine.shown(unit, "MainPID", "ActiveState")
        return shown["ActiveState"] == "active" and shown["MainPID"] != before


@pytest.fixture(scope="module")
def host(machine: Machine, api: FakeAPI, tmp_path_factory: pytest.TempPathFactory) -> Host:
    require_cli()
    ports = {name: free_port() for name in ("example", "reviewer")}
    layers = {
        "example/agent.e2e.yaml": {"server": {"port": ports["example"]}, "claude": {"allowedTools": ["Bash"]}},
        "reviewer/agent.e2e.yaml": {
            "server": {"port": ports["reviewer"]},
            "deploy": {"systemd": {"socketActivation": True}},
        },
    }
    deploy = compiled(tmp_path_factory.mktemp("fleet"), layers, "--target", "config", "--target", "systemd")
    for name in ports:
        machine.put(f"/etc/systemd/system/a2a-claude-{name}.service.d/e2e.conf", DROP_IN)
        install(machine, deploy, name, {"ANTHROPIC_BASE_URL": api.url, "CLAUDE_CODE_MAX_RETRIES": "0"})
    begun = time.monotonic()
    machine.run(f"systemctl start {EXAMPLE}")
    found = Host(machine, ports, api)
    version = machine.run("systemctl --version").split()[1]
    print(f"\nsystemd {version}: {EXAMPLE} is ready after {time.monotonic() - begun:.1f} s")
    return found


def test_a_start_ends_when_the_agent_answers(host: Host) -> None:
    shown = host.machine.shown(EXAMPLE, "ActiveState", "SubState", "StatusText", "NRestarts")
    listens = f"Listening on http://127.0.0.1:{host.ports['example']}"
    assert shown == {"ActiveState": "active", "SubState": "running", "StatusText": listens, "NRestarts": "0"}
    assert host.example.card().name == "Claude Workspace Engineer"


def test_claude_runs_a_command_in_the_workspace(host: Host) -> None:
    task = host.example.send(bash("pwd; id --user --name; echo made > here.txt; ls /proc/self/fd"), {"text": "done"})
    assert (task.status.state, text(task)) == (COMPLETED, "done")
    assert f"{STATE}/example/workspace" in host.asked()
    assert host.machine.run(f"cat {STATE}/example/workspace/here.txt") == "made"


def test_the_secret_reaches_the_api_and_not_the_shell(host: Host) -> None:
    credentials, secrets = f"/run/credentials/{EXAMPLE}", "/etc/a2a-claude/example/secrets"
    store = f"{STATE}/example/tasks.sqlite3"
    looks = f"""
        cat {credentials}/ANTHROPIC_API_KEY {secrets}/ANTHROPIC_API_KEY {store}; env; cat /proc/[0-9]*/environ
        head --bytes=1 /proc/$CLAUDE_PID/mem
        grep --recursive --files-with-matches '{KEY_PATTERN}' {STATE}/example /etc /run /tmp | sed 's/^/found in /'
        grep --files-with-matches '{KEY_PATTERN}' /proc/[0-9]*/environ /proc/[0-9]*/cmdline | sed 's/^/found in /'
        echo looked
    """
    task = host.example.send(bash(looks), {"text": "done"})
    assert task.status.state == COMPLETED
    last = host.api.messages[-1]
    assert last["headers"]["x-api-key"] == KEY
    said = str(last["body"]["messages"][-1])
    assert "looked" in said
    assert "found in" not in said
    assert [each for each in (credentials, secrets) if f"{each}/ANTHROPIC_API_KEY: Permission denied" not in said] == []
    assert f"{store}: Permission denied" in said
    assert "CLAUDE_CODE_SESSION_ID=" in said  # its own environment was read, and that of the CLI was not
    assert "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR" not in said
    # The memory of the CLI, which has the key: with ProtectProc=invisible, who may not read a process does not see it.
    assert re.search(r"cannot open \W+/proc/[0-9]+/mem\W+for reading: No such file", said)
    assert KEY not in host.asked()
    assert KEY not in str(host.machine.journal(EXAMPLE))


def test_only_an_agent_that_writes_can_write_its_workspace(host: Host) -> None:
    host.machine.run(f"systemctl start {REVIEWER}")
    denied = {
        unit: host.machine.as_unit(unit, f"touch {STATE}/{name}/workspace/new {STATE}/{name}/home/new").stderr
        for unit, name in ((EXAMPLE, "example"), (REVIEWER, "reviewer"))
    }
    assert denied[EXAMPLE] == ""
    assert denied[REVIEWER] == f"touch: cannot touch '{STATE}/reviewer/workspace/new': Read-only file system\n"


def test_an_address_that_is_denied_does_not_answer(host: Host) -> None:
    reaches = "timeout 2 bash -c 'echo > /dev/tcp/{}/9'; echo \"{} ended with $?\";"
    host.example.send(bash(reaches.format("127.7.7.8", "8") + reaches.format(DENIED, "7")), {"text": "done"})
    said = str(host.api.messages[-1]["body"]["messages"][-1])
    assert "8 ended with 1" in said  # refused by nobody but the kernel: no program listens there
    assert "7 ended with 124" in said


def test_the_first_request_starts_an_agent_with_a_socket(host: Host) -> None:
    host.machine.put(f"{STATE}/private/reviewer/workspace/note.txt", "")
    host.machine.run(f"systemctl stop {REVIEWER}")
    host.machine.run("systemctl start a2a-claude-reviewer.socket")
    assert host.machine.shown(REVIEWER, "ActiveState") == {"ActiveState": "inactive"}
    begun = time.monotonic()
    task = host.caller("reviewer").send({"text": "reviewed"})
    print(f"the first request is answered by Claude after {time.monotonic() - begun:.1f} s")
    assert (task.status.state, text(task)) == (COMPLETED, "reviewed")
    assert host.machine.shown(REVIEWER, "ActiveState") == {"ActiveState": "active"}
    # A connection that comes while it stops is for the next one.
    host.machine.run(f"systemctl stop {REVIEWER}")
    assert host.caller("reviewer").task(task.id) == task


def test_a_killed_server_comes_back_with_its_tasks_and_its_sessions(host: Host) -> None:
    done = host.example.send({"text": "first"}, context="kept")
    running = host.example.send(bash("touch begun; sleep 1000"), wait=False)
    host.until_there_is("begun")
    before = host.pid(EXAMPLE)
    host.machine.run(f"systemctl kill --kill-whom=main --signal=KILL {EXAMPLE}")
    eventually(lambda: host.restarted(EXAMPLE, before), "a new server runs")
    assert host.machine.attempt("pgrep", "--full", "sleep 1000").stdout == ""
    assert host.example.task(done.id) == done
    failed = host.example.task(running.id)
    assert (failed.status.state, failed.metadata["reason"]) == (FAILED, "server_restarted")
    assert [each["PRIORITY"] for each in host.said() if running.id in each["MESSAGE"]] == ["4"]
    again = host.example.send({"text": "second"}, context=done.context_id)
    assert text(again) == "second"
    assert "first" in str(host.api.messages[-1]["body"]["messages"])  # Claude's session went on


def test_a_wedged_server_is_restarted_by_the_watchdog(host: Host) -> None:
    before = host.pid(EXAMPLE)
    host.machine.run(f"systemctl kill --kill-whom=main --signal=STOP {EXAMPLE}")
    begun = time.monotonic()
    eventually(lambda: host.restarted(EXAMPLE, before), "a new server runs")
    print(f"wedged with WatchdogSec=8s: a new server after {time.monotonic() - begun:.1f} s")
    assert any("Watchdog timeout" in each["MESSAGE"] for each in host.machine.journal(EXAMPLE))
    assert text(host.example.send({"text": "awake"})) == "awake"


def test_a_stop_lets_a_running_turn_end(host: Host) -> None:
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(host.example.send, bash("touch stopping; sleep 3; echo slept"), {"text": "finished"})
        host.until_there_is("stopping")
        begun = time.monotonic()
        host.machine.run(f"systemctl stop {EXAMPLE}")
        print(f"stopped in a turn of 3 s after {time.monotonic() - begun:.1f} s")
        task = turn.result()
    assert (task.status.state, text(task)) == (COMPLETED, "finished")
    shown = host.machine.shown(EXAMPLE, "Result", "ExecMainStatus", "ActiveState")
    assert shown == {"Result": "success", "ExecMainStatus": "0", "ActiveState": "inactive"}
    host.machine.run(f"systemctl start {EXAMPLE}")
    assert host.example.task(task.id) == task


def test_the_running_unit_is_as_confined_as_it_was_written(host: Host) -> None:
    scored = host.machine.run(f"systemd-analyze security {EXAMPLE} --threshold=15")
    print(scored.splitlines()[-1].strip())


def test_journal_lines_have_a_priority(host: Host) -> None:
    found = [(each["PRIORITY"], each["MESSAGE"]) for each in host.said()]
    assert ("6", "[a2a-claude:server] Stopped") in found
    assert any(priority == "4" and "CLAUDE_MODEL is not set" in message for priority, message in found)
    assert not any(message.startswith("<") for _, message in found)

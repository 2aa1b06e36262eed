"""Yesterday's agent on a booted machine takes today's files, and gives them back; what is wrong stops nothing."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from a2a.types import a2a_pb2 as pb

from tests.claude_support import require_cli
from tests.e2e.caller import COMPLETED, Caller, free_port, text
from tests.e2e.fleet import compile_again, compiled, install
from tests.e2e.machine import Machine
from tests.fake_anthropic_api import FakeAPI

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("machine", ["systemd 252"], indirect=True),
]

UNIT, CONFIG = "a2a-claude-triage.service", "/etc/a2a-claude/triage/agent.json"
STORE = "/var/lib/a2a-claude/triage/tasks.sqlite3"
TARGETS = ("--target", "config", "--target", "systemd")


def layers(port: int, version: str, memory: str) -> dict[str, dict[str, object]]:
    return {
        "triage/agent.yaml": {
            "agentCard": {"name": "Triage", "description": "Sorts.", "version": version},
            "server": {"port": port},
            "deploy": {"systemd": {"memoryMax": memory}},
        },
        "defaults.e2e.yaml": {"logging": {"level": "info"}},
    }


@dataclass
class Host:
    """A machine that runs yesterday's agent `triage`, which has done a task."""

    machine: Machine
    api: FakeAPI
    folder: Path
    port: int
    done: pb.Task

    @property
    def caller(self) -> Caller:
        return Caller(f"http://127.0.0.1:{self.port}")

    def write(self, version: str, memory: str) -> None:
        for name, layer in layers(self.port, version, memory).items():
            (self.folder / "agents" / name).write_text(json.dumps(layer))

    def take(self) -> None:
        """Installs deploy/ as it is."""
        variables = {"ANTHROPIC_BASE_URL": self.api.url, "CLAUDE_CODE_MAX_RETRIES": "0"}
        install(self.machine, self.folder / "deploy", "triage", variables)

    @property
    def started(self) -> str:
        """When the running server was started, and by which process."""
        return str(self.machine.shown(UNIT, "ExecMainPID", "ExecMainStartTimestampMonotonic", "ActiveState"))

    def files(self) -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in (self.folder / "deploy").rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def host(machine: Machine, api: FakeAPI, tmp_path_factory: pytest.TempPathFactory) -> Host:
    require_cli()
    folder, port = tmp_path_factory.mktemp("upgrade"), free_port()
    compiled(folder, layers(port, "1.0.0", "1Gi"), *TARGETS)
    found = Host(machine, api, folder, port, pb.Task())
    found.take()
    machine.run(f"systemctl start {UNIT}")
    found.done = found.caller.send({"text": "of yesterday"})
    assert found.done.status.state == COMPLETED
    return found


def test_an_upgrade_and_a_rollback_keep_tasks_and_contexts(host: Host) -> None:
    host.write("2.0.0", "2Gi")
    diff = compile_again(host.folder, *TARGETS, "--diff")
    assert diff.returncode == 3
    assert {'+    "version": "2.0.0"', "-MemoryMax=1G", "+MemoryMax=2G"} <= set(diff.stdout.splitlines())
    compile_again(host.folder, *TARGETS).check_returncode()
    for version, memory in (("2.0.0", 2), ("1.0.0", 1)):
        host.write(version, f"{memory}Gi")
        compile_again(host.folder, *TARGETS).check_returncode()
        host.take()
        host.machine.run(f"systemctl restart {UNIT}")
        assert host.caller.card().version == version
        assert host.machine.shown(UNIT, "MemoryMax") == {"MemoryMax": str(memory << 30)}
        assert host.caller.task(host.done.id) == host.done
        again = host.caller.send({"text": f"of {version}"}, context=host.done.context_id)
        assert text(again) == f"of {version}"
        assert "of yesterday" in str(host.api.messages[-1]["body"]["messages"])


def test_an_invalid_config_changes_neither_files_nor_what_runs(host: Host) -> None:
    before, running = host.files(), host.started
    (host.folder / "agents/triage/agent.yaml").write_text("server:\n  prot: 4000\n")
    done = compile_again(host.folder, *TARGETS)
    assert done.returncode == 1
    assert "agents/triage/agent.yaml:2:3: error" in done.stderr
    assert host.files() == before
    assert host.started == running
    assert host.caller.task(host.done.id) == host.done
    host.write("1.0.0", "1Gi")


def test_a_bad_file_that_is_installed_all_the_same_fails_with_its_line_and_leaves_the_store_alone(host: Host) -> None:
    good = (host.machine.root / CONFIG.lstrip("/")).read_text()
    host.machine.run(f"systemctl stop {UNIT}")
    store = host.machine.run(f"sha256sum {STORE}")
    host.machine.put(CONFIG, '{"server": {"prot": 4000}}')
    assert host.machine.attempt("systemctl", "start", UNIT).returncode != 0
    rests = {"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "78", "NRestarts": "0"}
    assert host.machine.shown(UNIT, *rests) == rests
    assert any(f"{CONFIG}:1:13: error" in each["MESSAGE"] for each in host.machine.journal(UNIT))
    assert host.machine.run(f"sha256sum {STORE}") == store
    host.machine.put(CONFIG, good)
    host.machine.run(f"systemctl restart {UNIT}")
    assert host.caller.task(host.done.id) == host.done


def test_a_store_of_a_newer_version_is_refused_by_name_until_that_version_is_back(host: Host) -> None:
    host.machine.run(f"systemctl stop {UNIT}")
    file = host.machine.root / STORE.lstrip("/").replace("lib/", "lib/private/")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        (own,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute("PRAGMA user_version = 99")
    assert host.machine.attempt("systemctl", "start", UNIT).returncode != 0
    words = f"{STORE} was written by a newer a2a-claude (store version 99"
    assert any(words in each["MESSAGE"] for each in host.machine.journal(UNIT))
    host.machine.run(f"systemctl stop {UNIT}")
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {own}")
    host.machine.run(f"systemctl start {UNIT}")
    assert host.caller.task(host.done.id) == host.done

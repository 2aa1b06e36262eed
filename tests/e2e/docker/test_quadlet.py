"""The rendered Quadlet units on a booted Debian 13: started by systemctl, asked by clients, stopped in a turn."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.console import ROOT, check, commands_of
from tests.docker_engine import Engine
from tests.e2e.caller import COMPLETED, Caller, bash, eventually, text
from tests.e2e.docker.compose import TOKEN
from tests.e2e.docker.confinement import check_shell
from tests.e2e.docker.images import PROFILE
from tests.e2e.fleet import KEY, compiled
from tests.e2e.machine import ForContainers, Machine, booted, own_network
from tests.fake_anthropic_api import FakeAPI
from tests.trixie import root_with

pytestmark = pytest.mark.slow

# Of the addresses for benchmarks (RFC 2544): nobody's network.
ADDRESS, HOST = "198.18.78.2", "198.18.78.1"
PORTS = {"example": 3030, "reviewer": 3031}
UNITS = [f"a2a-claude-{name}" for name in PORTS]
IMAGE = "localhost/a2a-claude/{}:1.0.0"
# The machine's control groups count no processes, its agents' API is the tests', their callers are on another host, and
# the example's image has the config of other tests, in which there is no authentication.
DROP_IN = """[Container]
PidsLimit=0
HealthInterval=3s
Environment=ANTHROPIC_BASE_URL={api} CLAUDE_CODE_MAX_RETRIES=0 ADVERTISE_HOST={address}
"""
SERVE = (
    "Exec=a2a-claude serve /etc/a2a-claude/example/agent.json --hostname 0.0.0.0"
    " --set server.auth.bearer.tokensVariable=CALLER_TOKENS\n"
)
# test_images.py has podman's builder build the images.
BUILT = """#!/bin/sh
if [ "$1" = build ]; then exec podman image exists "$6"; fi
exec /usr/bin/podman "$@"
"""
SECRETS = {"ANTHROPIC_API_KEY": ("key.txt", KEY), "CALLER_TOKENS": ("tokens.txt", f"me:{TOKEN}\n")}


@dataclass
class Host:
    """A machine with podman, and a caller of each agent."""

    machine: Machine
    callers: dict[str, Caller]

    def inspected(self, name: str) -> dict[str, Any]:
        [found] = json.loads(self.machine.run(f"podman inspect a2a-claude-{name}"))
        return dict(found)


@pytest.fixture(scope="module")
def host(
    engine: Engine, images: dict[str, str], api: FakeAPI, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("quadlet")
    layers = json.loads(json.dumps(PROFILE))
    for name, port in PORTS.items():
        layer = layers.setdefault(f"{name}/agent.e2e.yaml", {})
        layer.setdefault("server", {"auth": {"bearer": {"tokensVariable": "CALLER_TOKENS"}}})
        layer.setdefault("deploy", {})["quadlet"] = {"publish": str(port)}
    # What the image has as its workspace is more than a mount of podman can be called.
    del layers["reviewer/agent.e2e.yaml"]["deploy"]["docker"]["workspace"]
    deploy = compiled(folder, layers, "--target", "quadlet")
    storage = folder / "containers"
    storage.mkdir()
    engine.docker("save", "--output", storage / "images.tar", *images.values())
    disk = root_with("/usr/lib/podman/aardvark-dns", "aardvark-dns")
    with (
        own_network(f"a2a{os.getpid()}", ADDRESS, HOST) as network,
        booted(disk, folder, {}, ForContainers(network, storage)) as machine,
    ):
        machine.attempt("podman", "load", "--input", "/var/lib/containers/images.tar", timeout=300).check_returncode()
        (storage / "images.tar").unlink()
        drop_in = DROP_IN.format(api=f"http://{HOST}:{api.server_address[1]}", address=ADDRESS)
        for name, image in images.items():
            machine.run(f"podman tag {image} {IMAGE.format(name)}")
            for file in (deploy / name / "quadlet").iterdir():
                machine.put(f"/root/deploy/{name}/quadlet/{file.name}", file.read_text())
            own = drop_in + (SERVE if name == "example" else "")
            machine.put(f"/etc/containers/systemd/a2a-claude-{name}.container.d/test.conf", own)
        machine.put("/usr/local/bin/podman", BUILT, 0o755)
        for secret, (path, content) in SECRETS.items():
            machine.put(f"/root/{path}", content, 0o600)
            machine.run(f"podman secret create a2a-claude-example-{secret} /root/{path}")

        def shell(script: str) -> subprocess.CompletedProcess[str]:
            return machine.attempt("bash", "--norc", "-c", f"cd /root; exec 2>&1\n{script}", timeout=240)

        begun = time.monotonic()
        check(commands_of(ROOT / "docs" / "containers.md", "podman"), shell, lenient=True)
        print(f"\nQuadlet: the reviewer as the documentation starts it, after {time.monotonic() - begun:.1f} s")
        machine.run("cp -r /root/deploy/example/quadlet/. /etc/containers/systemd/")
        machine.run("systemctl daemon-reload")
        machine.run("systemctl start a2a-claude-example")
        yield Host(machine, {name: Caller(f"http://{ADDRESS}:{port}", TOKEN) for name, port in PORTS.items()})
        machine.attempt("systemctl", "stop", *UNITS)


@pytest.mark.parametrize("name", PORTS)
def test_a_unit_is_active_when_its_container_is_healthy(host: Host, name: str) -> None:
    shown = host.machine.shown(f"a2a-claude-{name}", "ActiveState", "SubState", "Type")
    assert shown == {"ActiveState": "active", "SubState": "running", "Type": "notify"}
    assert host.inspected(name)["State"]["Health"]["Status"] == "healthy"


@pytest.mark.parametrize("name", PORTS)
def test_a_client_of_another_host_is_answered(host: Host, api: FakeAPI, name: str) -> None:
    task = host.callers[name].send({"text": f"the {name} answers"})
    assert (task.status.state, text(task)) == (COMPLETED, f"the {name} answers")
    assert api.messages[-1]["headers"]["x-api-key"] == KEY


def test_an_agent_reaches_another_by_its_name(host: Host) -> None:
    assert "Claude Reviewer" in host.machine.run("podman exec a2a-claude-example a2a-claude card http://reviewer:3031")


def test_the_shell_is_confined_and_sees_no_secret(host: Host, api: FakeAPI) -> None:
    check_shell(host.callers["reviewer"], api)
    for name in PORTS:
        told = json.dumps(host.inspected(name)) + json.dumps(host.machine.journal(f"a2a-claude-{name}"))
        assert KEY not in told
        assert TOKEN not in told


def test_a_stop_lets_a_running_turn_end_and_a_start_has_it(host: Host) -> None:
    caller = host.callers["reviewer"]
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(caller.send, bash("touch /tmp/stopping; sleep 3"), {"text": "finished"})
        probe = ("podman", "exec", "a2a-claude-reviewer", "test", "-e", "/tmp/stopping")
        eventually(lambda: host.machine.attempt(*probe).returncode == 0, "the command runs")
        host.machine.run("systemctl stop a2a-claude-reviewer")
        task = turn.result()
    assert (task.status.state, text(task)) == (COMPLETED, "finished")
    shown = host.machine.shown("a2a-claude-reviewer", "ActiveState", "Result")
    assert shown == {"ActiveState": "inactive", "Result": "success"}
    host.machine.run("systemctl start a2a-claude-reviewer")
    assert caller.task(task.id) == task


def test_a_server_that_dies_is_started_again_with_its_tasks(host: Host) -> None:
    caller = host.callers["reviewer"]
    task = caller.send({"text": "kept"})
    before = host.inspected("reviewer")["Id"]
    host.machine.run("podman kill --signal KILL a2a-claude-reviewer")
    again = {"ActiveState": "active", "NRestarts": "1"}
    eventually(lambda: host.machine.shown("a2a-claude-reviewer", *again) == again, "systemd has started it again")
    assert host.inspected("reviewer")["Id"] != before
    assert caller.task(task.id) == task


def test_a_config_that_no_restart_mends_is_not_tried_again(host: Host) -> None:
    unit, broken = "a2a-claude-reviewer", "/etc/containers/systemd/a2a-claude-reviewer.container.d/broken.conf"
    serve = "a2a-claude serve /etc/a2a-claude/reviewer/agent.json --set server.prot=1"
    host.machine.put(broken, f"[Container]\nExec={serve}\n")
    host.machine.run("systemctl daemon-reload")
    assert host.machine.attempt("systemctl", "restart", unit).returncode != 0
    rests = {"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0"}
    assert host.machine.shown(unit, *rests) == rests
    assert any("did you mean 'port'" in each["MESSAGE"] for each in host.machine.journal(unit))
    host.machine.run(f"rm {broken}")
    host.machine.run("systemctl daemon-reload")
    host.machine.run(f"systemctl start {unit}")

"""The rendered `compose.yaml` by Compose itself: up, asked by clients, down and up again, stopped in a turn."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docker_engine import Engine
from tests.e2e.caller import COMPLETED, Caller, bash, eventually, text
from tests.e2e.docker.compose import SUBNET, TOKEN, UID, overlay, program, supplied
from tests.e2e.docker.confinement import check_shell
from tests.e2e.docker.images import PROFILE, WORKSPACE
from tests.e2e.fleet import KEY, compiled
from tests.fake_anthropic_api import FakeAPI
from tests.tools import require

pytestmark = pytest.mark.slow

PROJECT = "a2a-claude-e2e"
# Where they are published by default, and their cards say so.
PUBLISHED = {"example": "127.0.0.1:3030", "reviewer": "127.0.0.1:3031"}


@dataclass
class Project:
    """The services of the fleet, and a caller of each."""

    engine: Engine
    folder: Path
    callers: dict[str, Caller]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        files = [f"--file={self.folder / 'deploy/compose.yaml'}", f"--file={self.folder / 'mine.yaml'}"]
        command: list[str | Path] = [program(), f"--project-name={PROJECT}", *files, *arguments]
        environ = {"DOCKER_HOST": self.engine.host, "PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    def compose(self, *arguments: str) -> str:
        """The standard output of a command that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"{arguments[0]}: {done.stdout}{done.stderr}{self.run('logs').stdout[-3000:]}"
        return done.stdout

    def up(self) -> float:
        """Seconds until all services were healthy."""
        begun = time.monotonic()
        self.compose("up", "--no-build", "--detach", "--wait")
        return time.monotonic() - begun

    def inspected(self, service: str) -> dict[str, Any]:
        [found] = json.loads(self.engine.docker("inspect", self.compose("ps", "--all", "--quiet", service).strip()))
        return dict(found)


@contextmanager
def forwarded() -> Iterator[None]:
    """Packets between containers pass where a firewall drops what it does not know: the tests' engine sets none."""
    iptables = require("iptables", "apt-get install iptables")
    rule = ("FORWARD", "--source", SUBNET, "--destination", SUBNET, "--jump", "ACCEPT")
    subprocess.run([iptables, "--wait", "--insert", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run([iptables, "--wait", "--delete", *rule], check=True)


@pytest.fixture(scope="module")
def project(
    engine: Engine, images: dict[str, str], api: FakeAPI, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("compose")
    secrets = supplied(folder / "secrets")
    layers = json.loads(json.dumps(PROFILE))
    for name, image in images.items():
        layer = layers.setdefault(f"{name}/agent.e2e.yaml", {})
        layer.setdefault("server", {"auth": {"bearer": {"tokensVariable": "CALLER_TOKENS"}}})
        layer["secrets"] = secrets
        layer.setdefault("deploy", {}).setdefault("docker", {})["image"] = image
    compiled(folder, layers, "--target", "compose")
    serve = ["a2a-claude", "serve", "/etc/a2a-claude/example/agent.json", "--hostname", "0.0.0.0"]
    # The images have the configs of other tests, in which the example has no authentication.
    serve += ["--set", "server.auth.bearer.tokensVariable=CALLER_TOKENS"]
    mine = overlay(PROJECT, api, {"healthcheck": {"interval": "1s"}})
    mine["services"]["example"]["command"] = serve
    (folder / "mine.yaml").write_text(json.dumps(mine))
    callers = {name: Caller(f"http://{each}", TOKEN) for name, each in PUBLISHED.items()}
    found = Project(engine, folder, callers)
    with forwarded():
        try:
            print(f"\nCompose: both services healthy after {found.up():.1f} s")
            yield found
        finally:
            found.run("down", "--volumes", "--timeout=0")


@pytest.mark.parametrize("name", ["reviewer", "example"])
def test_a_client_reaches_each_service_at_its_published_port(project: Project, api: FakeAPI, name: str) -> None:
    task = project.callers[name].send({"text": f"the {name} answers"})
    assert (task.status.state, text(task)) == (COMPLETED, f"the {name} answers")
    assert api.messages[-1]["headers"]["x-api-key"] == KEY


def test_a_service_reaches_another_by_its_name(project: Project) -> None:
    assert "Claude Reviewer" in project.compose(
        "exec", "--no-TTY", "example", "a2a-claude", "card", "http://reviewer:3031"
    )


def test_a_service_is_confined_and_its_shell_sees_no_secret(project: Project, api: FakeAPI) -> None:
    check_shell(project.callers["reviewer"], api)
    for name in project.callers:
        found = project.inspected(name)
        assert (found["HostConfig"]["ReadonlyRootfs"], found["HostConfig"]["CapDrop"]) == (True, ["ALL"])
        assert found["Config"]["User"] == f"{UID}:{UID}"
        assert not [each for each in found["Config"]["Env"] if KEY in each or TOKEN in each]


def test_tasks_and_conversations_outlive_the_containers(project: Project, api: FakeAPI) -> None:
    caller = project.callers["reviewer"]
    before = caller.send(bash("echo kept > kept.txt"), {"text": "remember the heron"})
    old = project.inspected("reviewer")["Id"]
    project.compose("down")
    print(f"down and up again: healthy after {project.up():.1f} s")
    assert project.inspected("reviewer")["Id"] != old
    assert caller.task(before.id) == before
    after = caller.send(bash("cat kept.txt"), {"text": "done"}, context=before.context_id)
    assert after.status.state == COMPLETED
    assert "remember the heron" in str(api.messages[-1]["body"]["messages"])
    assert "kept" in str(api.messages[-1]["body"]["messages"][-1])


def test_a_stop_lets_a_running_turn_end(project: Project) -> None:
    caller = project.callers["reviewer"]
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(caller.send, bash("touch stopping; sleep 3"), {"text": "finished"})
        probe = ("exec", "--no-TTY", "reviewer", "test", "-e", f"{WORKSPACE}/stopping")
        eventually(lambda: project.run(*probe).returncode == 0, "the command runs")
        project.compose("stop", "reviewer")
        task = turn.result()
    assert (task.status.state, text(task)) == (COMPLETED, "finished")
    assert project.inspected("reviewer")["State"]["ExitCode"] == 0
    project.up()
    assert caller.task(task.id) == task

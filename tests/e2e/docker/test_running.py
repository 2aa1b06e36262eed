"""A compiled image as a service: confined, with secrets as files, asked by a client, stopped in a turn."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docker_engine import Engine
from tests.e2e.caller import COMPLETED, Caller, bash, eventually, free_port, text
from tests.e2e.docker.images import WORKSPACE
from tests.e2e.fleet import KEY, KEY_PATTERN
from tests.fake_anthropic_api import FakeAPI

pytestmark = pytest.mark.slow

TOKEN = "the-token-of-a-caller"
UID = 10001


@dataclass
class Service:
    """The container of the reviewer and its caller."""

    engine: Engine
    container: str
    caller: Caller

    @property
    def state(self) -> str:
        shown = "{{.State.Status}} {{.State.Health.Status}}"
        return self.engine.docker("inspect", "--format", shown, self.container).strip()

    def until_healthy(self) -> float:
        """Seconds that it took."""
        begun = time.monotonic()
        eventually(lambda: self.state != "running starting", "its health is known")
        assert self.state == "running healthy", self.engine.run("logs", self.container)
        return time.monotonic() - begun


@pytest.fixture(scope="module")
def service(
    engine: Engine, images: dict[str, str], api: FakeAPI, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    secrets = tmp_path_factory.mktemp("secrets")
    for name, content in {"ANTHROPIC_API_KEY": KEY, "CALLER_TOKENS": f"me:{TOKEN}\n"}.items():
        (secrets / name).write_text(content)
    subprocess.run(["chown", "--recursive", str(UID), secrets], check=True)
    subprocess.run(["chmod", "--recursive", "u=rX,go=", secrets], check=True)
    port = free_port()
    # The command in the Dockerfile's head, but for the network, which the tests' engine has no other of.
    options = ["--read-only", "--tmpfs=/tmp:size=1g", "--cap-drop=ALL", "--security-opt=no-new-privileges"]
    options += ["--stop-timeout=45", "--env=CLAUDE_CODE_MAX_RETRIES=0"]
    options += ["--volume", WORKSPACE, "--volume", f"{secrets}:/run/secrets:ro"]
    options += ["--network=host", "--health-interval=1s", f"--env=PORT={port}", f"--env=ANTHROPIC_BASE_URL={api.url}"]
    container = engine.docker("run", "--detach", *options, images["reviewer"]).strip()
    found = Service(engine, container, Caller(f"http://127.0.0.1:{port}", TOKEN))
    try:
        seconds = found.until_healthy()
        sizes = {name: engine.docker("image", "inspect", "--format={{.Size}}", each) for name, each in images.items()}
        print("\nimages:", ", ".join(f"{name} {int(size) / 1e6:.0f} MB" for name, size in sizes.items()), end="; ")
        print(f"healthy after {seconds:.1f} s")
        yield found
    finally:
        engine.docker("rm", "--force", "--volumes", container)


def test_claude_runs_a_command_for_a_client(service: Service, api: FakeAPI) -> None:
    writes = "id --user; echo made > here.txt && cat here.txt; touch /etc/x /opt/x; grep CapEff /proc/self/status"
    task = service.caller.send(bash(writes), {"text": "done"})
    assert (task.status.state, text(task)) == (COMPLETED, "done")
    said = str(api.messages[-1]["body"]["messages"][-1])
    for expected in (str(UID), "made", "'/etc/x': Read-only file system", "CapEff:\\t0000000000000000"):
        assert expected in said
    assert api.messages[-1]["headers"]["x-api-key"] == KEY


def test_the_shell_does_not_see_the_secrets(service: Service, api: FakeAPI) -> None:
    looks = f"""
        cat /run/secrets/ANTHROPIC_API_KEY /run/secrets/CALLER_TOKENS /var/lib/a2a-claude/tasks.sqlite3
        env; cat /proc/[0-9]*/environ; head --bytes=1 /proc/$CLAUDE_PID/mem
        grep --files-with-matches --extended-regexp '{KEY_PATTERN}|the-token-of[-]a-caller' /proc/[0-9]*/environ |
            sed 's/^/found in /'
        echo looked
    """
    assert service.caller.send(bash(looks), {"text": "done"}).status.state == COMPLETED
    said = str(api.messages[-1]["body"]["messages"][-1])
    assert "looked" in said
    assert "found in" not in said
    assert "ANTHROPIC_BASE_URL=" in said  # its own environment was read
    assert re.search(r"cannot open \W+/proc/[0-9]+/mem\W+for reading: Permission denied", said)  # the CLI has the key
    for path in ("/run/secrets/ANTHROPIC_API_KEY", "/run/secrets/CALLER_TOKENS", "/var/lib/a2a-claude/tasks.sqlite3"):
        assert f"{path}: Permission denied" in said


def test_a_stop_lets_a_running_turn_end_and_a_start_has_it(service: Service) -> None:
    with ThreadPoolExecutor() as pool:
        turn = pool.submit(service.caller.send, bash("touch stopping; sleep 3"), {"text": "finished"})
        probe = ("exec", service.container, "test", "-e", f"{WORKSPACE}/stopping")
        eventually(lambda: service.engine.run(*probe).returncode == 0, "the command runs")
        begun = time.monotonic()
        service.engine.docker("stop", "--time=45", service.container)
        print(f"stopped in a turn of 3 s after {time.monotonic() - begun:.1f} s")
        task = turn.result()
    assert (task.status.state, text(task)) == (COMPLETED, "finished")
    assert service.engine.docker("inspect", "--format={{.State.ExitCode}}", service.container).strip() == "0"
    service.engine.docker("start", service.container)
    service.until_healthy()
    assert service.caller.task(task.id) == task


def test_no_secret_is_in_a_layer_or_in_what_docker_tells(
    service: Service, images: dict[str, str], tmp_path: Path
) -> None:
    engine = service.engine
    engine.docker("save", "--output", tmp_path / "images.tar", *images.values())

    def holds(text: str) -> bool:
        return not subprocess.run(
            ["grep", "--text", "--quiet", "--fixed-strings", text, tmp_path / "images.tar"], check=False
        ).returncode

    assert holds("Cite the file and line")  # of the reviewer's config
    told = [engine.docker("history", "--no-trunc", each) for each in images.values()]
    told += [engine.docker("inspect", each) for each in (*images.values(), service.container)]
    for secret in (KEY, TOKEN):
        assert not holds(secret)
        assert secret not in "".join(told)
        assert secret not in json.dumps(engine.run("logs", service.container).stderr)

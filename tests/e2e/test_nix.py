"""`nix run` by Nix 2.8 and 2.26, with a nixpkgs that is small: a client is answered by the CLI that is on PATH."""

from __future__ import annotations

import json
import platform
import signal
import subprocess
import time
from pathlib import Path

import claude_agent_sdk
import pytest

from a2a_claude.config.loader import Options, load_fleet
from a2a_claude.targets import docker
from tests.claude_support import require_cli
from tests.e2e.caller import COMPLETED, Caller, bash, eventually, free_port, text
from tests.e2e.fleet import KEY
from tests.fake_anthropic_api import FakeAPI
from tests.nix.flake import Flake
from tests.nix.installation import PROJECT, Nix, nix_of

pytestmark = pytest.mark.slow

SDK = Path(claude_agent_sdk.__file__).parent


@pytest.fixture(scope="module", params=["machine", "trixie"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nix:
    return nix_of(request.param, tmp_path_factory.mktemp("nix"))


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """A folder to import claude-agent-sdk from as nixpkgs has it: without a CLI."""
    package = tmp_path / "packages" / SDK.name
    package.mkdir(parents=True)
    for each in SDK.iterdir():
        if each.name != "_bundled":
            (package / each.name).symlink_to(each)
    return package.parent


def test_an_app_serves_its_agent_with_claude_code_of_nixpkgs(
    installed: Nix, api: FakeAPI, sdk: Path, tmp_path: Path
) -> None:
    require_cli()
    flake = Flake(installed, tmp_path, sdk, SDK / "_bundled" / "claude")
    port, log, workspace = free_port(), tmp_path / "log", tmp_path / "workspace"
    workspace.mkdir()
    passed = [f"--port={port}", f"--workspace={workspace}", f"--state-dir={tmp_path / 'state'}"]
    passed += ["--set", "claude.allowedTools=[Bash]"]
    variables = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url, "CLAUDE_CODE_MAX_RETRIES": "0"}
    begun = time.monotonic()
    with flake.start("run", ".#example", passed=tuple(passed), log=log, **variables) as process:
        try:
            eventually(lambda: "listens on" in log.read_text() or process.poll() is not None, "it listens")
            print(f"\nnix run: listens after {time.monotonic() - begun:.1f} s, build included")
            caller = Caller(f"http://127.0.0.1:{port}")
            assert caller.card().name == "Claude Workspace Engineer"
            task = caller.send(bash("echo made > here.txt; echo $PATH; readlink /proc/$PPID/exe"), {"text": "done"})
            assert (task.status.state, text(task)) == (COMPLETED, "done")
            assert (workspace / "here.txt").read_text() == "made\n"
            assert f"{installed.folder}/store/" in str(api.messages[-1]["body"]["messages"][-1])
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0, log.read_text()
        finally:
            process.kill()


def test_an_image_of_nix_is_configured_like_the_compiled_one(installed: Nix, tmp_path: Path) -> None:
    link = tmp_path / "stream"
    done = Flake(installed, tmp_path).run("build", ".#image-reviewer", "--out-link", str(link))
    assert done.returncode == 0, done.stderr
    image = json.loads(subprocess.run([link], check=True, capture_output=True, text=True).stdout)
    config = image["config"]
    [loaded] = load_fleet([PROJECT / "agents" / "reviewer"], Options()).loaded
    assert loaded.agent is not None
    dockerfile = next(each.text for each in docker.render(loaded.agent) if each.path == "Dockerfile")

    def command(words: list[str]) -> str:
        return json.dumps(["a2a-claude", *words[1:]])

    assert config["Cmd"][0].endswith("/bin/a2a-claude")
    assert f"\nCMD {command(config['Cmd'])}\n" in dockerfile
    assert f" CMD {command(config['Healthcheck']['Test'][1:])}\n" in dockerfile
    assert f"USER {config['User']}\n" in dockerfile
    assert f"VOLUME {json.dumps(list(config['Volumes']))}\n" in dockerfile
    assert f"STOPSIGNAL {config['StopSignal']}\n" in dockerfile
    variables = dict(each.split("=", 1) for each in config["Env"])
    assert config["WorkingDir"] == variables["WORKSPACE_DIR"]
    for name in variables.keys() - {"PATH", "SSL_CERT_FILE"}:
        assert f'{name}="{variables[name]}"' in dockerfile


def test_the_test_for_a_virtual_machine_is_one_of_units_that_there_are(installed: Nix, tmp_path: Path) -> None:
    link = tmp_path / "vm"
    check = f".#checks.{platform.machine()}-linux.vm"
    done = Flake(installed, tmp_path).run("build", check, "--out-link", str(link))
    assert done.returncode == 0, done.stderr
    made = json.loads(link.read_text())
    compile(made["testScript"], "testScript", "exec")
    for agent in ("echo", "reader", "waiting"):
        unit = made["units"][f"a2a-claude-{agent}.service"]
        assert f"/a2a-claude serve /etc/a2a-claude/{agent}/agent.json --executor scripted\n" in unit
        assert "LoadCredential=ANTHROPIC_API_KEY:/run/a-key\n" in unit
    assert "a2a-claude-waiting.socket" in made["units"]

"""The agents of this checkout as images: by docker, BuildKit and buildah, small beside each other, and confined."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from a2a_claude import __version__
from tests.docker_engine import Buildah, Engine
from tests.e2e.docker.images import DEBIAN, HARDENED, PYTHON, WORKSPACE, build_image

pytestmark = pytest.mark.slow


def on_python(context: Path, folder: Path) -> Path:
    """A copy of a build context that starts from PYTHON."""
    copy = shutil.copytree(context, folder / context.name)
    text = (copy / "Dockerfile").read_text()
    (copy / "Dockerfile").write_text(text.replace(f"FROM {DEBIAN} AS", f"FROM {PYTHON} AS"))
    return copy


def layers(engine: Engine, image: str) -> list[str]:
    diffs: list[str] = json.loads(engine.docker("image", "inspect", "--format", "{{json .RootFS.Layers}}", image))
    return diffs


@pytest.mark.parametrize("name", ["example", "reviewer"])
def test_an_image_runs_hardened_as_the_numeric_user(engine: Engine, images: dict[str, str], name: str) -> None:
    def inside(*command: str) -> str:
        return engine.docker("run", *HARDENED, images[name], *command).strip()

    assert inside("a2a-claude", "--version") == f"a2a-claude, version {__version__}"
    assert inside("/opt/claude/claude", "--version").endswith("(Claude Code)")
    assert inside("python3", "-c", "import os; print(os.getuid(), os.getgid(), os.path.expanduser('~'))") == (
        "10001 10001 /var/lib/a2a-claude"
    )
    bundled = "import claude_agent_sdk, os; print(os.listdir(os.path.dirname(claude_agent_sdk.__file__) + '/_bundled'))"
    assert "claude" in inside("/opt/a2a-claude/bin/python", "-c", bundled)
    assert json.loads(inside("cat", f"/etc/a2a-claude/{name}/agent.json"))["server"]["port"] in (3030, 3031)
    inside("sh", "-ec", 'mkdir "$CLAUDE_CONFIG_DIR" && test "$(stat -c %u:%a .)" = 10001:700 && git --version')
    assert inside("sh", "-c", f"echo x > /etc/a2a-claude/{name}/agent.json || echo refused") == "refused"
    inside("grep", "--quiet", "BEGIN CERTIFICATE", "/etc/ssl/certs/ca-certificates.crt")


def test_what_the_config_says_is_in_the_image(engine: Engine, images: dict[str, str]) -> None:
    (image,) = json.loads(engine.docker("image", "inspect", images["reviewer"]))
    assert image["Config"]["WorkingDir"] == WORKSPACE
    assert image["Config"]["Labels"]["com.example.team"] == "$it's"
    assert engine.docker("run", *HARDENED, images["reviewer"], "pwd") == WORKSPACE + "\n"
    assert (
        engine.docker("run", *HARDENED, images["reviewer"], "cat", "/etc/a2a-claude/reviewer/memory/CLAUDE.md")
        == "Be kind.\n"
    )


def test_a_confined_server_becomes_healthy_and_stops_when_told(engine: Engine, images: dict[str, str]) -> None:
    serve = ("a2a-claude", "serve", "/etc/a2a-claude/example/agent.json", "--hostname=0.0.0.0", "--executor=scripted")
    options = (*HARDENED[1:], "--detach", "--health-interval=1s")
    server = engine.docker(
        "run", *options, images["example"], *serve, "--set", "server.auth.allowUnauthenticated=true"
    ).strip()
    try:
        for _ in range(120):
            health = engine.docker("inspect", "--format", "{{.State.Status}} {{.State.Health.Status}}", server).strip()
            if health != "running starting":
                break
            time.sleep(1)
        assert health == "running healthy", engine.run("logs", server)
        assert "tasks.sqlite3" in engine.docker("exec", server, "ls", "/var/lib/a2a-claude").split()
        engine.docker("stop", "--time=60", server)
        assert engine.docker("inspect", "--format", "{{.State.ExitCode}}", server).strip() == "0"
    finally:
        engine.docker("rm", "--force", "--volumes", server)


def test_an_open_server_does_not_listen_where_a_port_is_published(engine: Engine, images: dict[str, str]) -> None:
    serve = ("a2a-claude", "serve", "/etc/a2a-claude/example/agent.json", "--hostname=0.0.0.0", "--executor=scripted")
    done = engine.run("run", *HARDENED, images["example"], *serve)
    assert done.returncode == 78
    assert "server.auth" in done.stdout + done.stderr


def test_a_second_agent_adds_kilobytes(engine: Engine, images: dict[str, str]) -> None:
    # Oldest first: the base, Debian's packages, Claude Code, our environment; then what differs between agents.
    assert layers(engine, images["reviewer"])[:4] == layers(engine, images["example"])[:4]
    listed = engine.docker("history", "--human=false", "--format", "{{.Size}}", images["example"]).split()
    base, debian, claude, environment, *added = [int(each) for each in reversed(listed)]
    print(f"base {base}, Debian packages {debian}, Claude Code {claude}, environment {environment} bytes;", end=" ")
    print(f"a second agent adds {sum(added)}")
    assert claude > 300e6
    assert 0 < sum(added) < 1e6


def test_buildkit_on_another_base_makes_the_very_same_large_layers(
    engine: Engine, images: dict[str, str], index: str, deploy: Path, tmp_path: Path
) -> None:
    engine.require_buildkit()
    image = build_image(engine, index, on_python(deploy / "example", tmp_path), "buildkit", buildkit=True)
    count = len(layers(engine, PYTHON)) + 1
    claude_and_environment = layers(engine, image)[count : count + 2]
    assert claude_and_environment == layers(engine, images["example"])[2:4]
    assert engine.docker("run", *HARDENED, image, "a2a-claude", "--version") == f"a2a-claude, version {__version__}\n"
    engine.docker("image", "rm", "--force", image)


def test_buildah_builds_them_without_a_daemon(
    engine: Engine, images: dict[str, str], index: str, deploy: Path, tmp_path: Path
) -> None:
    index_argument = f"--build-arg=PIP_INDEX_URL={index}"
    buildah = Buildah(tmp_path / "buildah")
    engine.docker("save", "--output", tmp_path / "base.tar", PYTHON)
    buildah("pull", "--quiet", f"docker-archive:{tmp_path / 'base.tar'}")
    options = ("--isolation=chroot", "--network=host", "--format=docker", "--layers", index_argument)
    for name in images:
        image = buildah("bud", "--quiet", *options, on_python(deploy / name, tmp_path)).strip()
        config = buildah.config(image)
        assert config["User"] == "10001:10001"
        assert config["WorkingDir"] == (WORKSPACE if name == "reviewer" else "/workspace")
        container = buildah("from", image).strip()
        run = ("run", "--isolation=chroot", container, "--")
        assert buildah(*run, "a2a-claude", "--version") == f"a2a-claude, version {__version__}\n"
        assert buildah(*run, "/opt/claude/claude", "--version").endswith("(Claude Code)\n")
        buildah("rm", container)
    buildah("rmi", "--all", "--force")

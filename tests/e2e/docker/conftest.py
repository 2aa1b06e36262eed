"""Docker's engine, and both agents' images as it builds them from what `compile` renders."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.docker_engine import Engine, debian_archive, running_engine
from tests.e2e.docker.images import DEBIAN, PROFILE, PYTHON, build_image
from tests.e2e.fleet import KEY, compiled
from tests.fake_anthropic_api import FakeAPI
from tests.tools import require


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    with running_engine() as engine:
        yield engine


@pytest.fixture(scope="package")
def api() -> Iterator[FakeAPI]:
    """The API that Claude talks to, also from a network of containers."""
    api = FakeAPI(host="0.0.0.0").start()
    yield api
    api.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="package")
def wheelhouse(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel and all that its runtime needs, laid out as a simple index (PEP 503)."""
    uv = require("uv", "pip install uv")
    folder = tmp_path_factory.mktemp("wheelhouse")
    wheels = folder / "wheels"
    subprocess.run([uv, "venv", "--quiet", "--seed", "--python", sys.executable, folder / "venv"], check=True)
    download: list[str | Path] = [
        folder / "venv" / "bin" / "pip",
        "download",
        "--quiet",
        "--dest",
        wheels,
        f"{wheel}[runtime]",
    ]
    # What the images run: Debian 12's Python.
    subprocess.run([*download, "--only-binary", ":all:", "--python-version", "3.11"], check=True, capture_output=True)
    for wheel in wheels.glob("*.whl"):
        project = folder / "simple" / re.sub(r"[-_.]+", "-", wheel.name.split("-")[0]).lower()
        project.mkdir(parents=True, exist_ok=True)
        (project / wheel.name).hardlink_to(wheel)
    return folder


@pytest.fixture(scope="package")
def index(wheelhouse: Path) -> Iterator[str]:
    """The URL of a package index on loopback."""
    handler = partial(QuietHandler, directory=str(wheelhouse / "simple"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="package")
def deploy(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agents of this checkout, compiled for the tests' base image and with the wheel in their build contexts."""
    folder = tmp_path_factory.mktemp("docker")
    memory = folder / "agents/reviewer/memory"
    memory.mkdir(parents=True)
    (memory / "CLAUDE.md").write_text("Be kind.\n")
    deploy = compiled(folder, PROFILE, "--target", "config", "--target", "docker")
    for agent in ("example", "reviewer"):
        shutil.copy(wheel, deploy / agent)
        # What somebody keeps beside the files, as an operator may: no image gets it.
        (deploy / agent / ".env").write_text(KEY)
        # As a strict umask leaves it.
        (deploy / agent / "agent.json").chmod(0o600)
    return deploy


@pytest.fixture(scope="package")
def bases(engine: Engine, index: str, deploy: Path, request: pytest.FixtureRequest) -> None:
    """The images DEBIAN, which has no Python, and PYTHON, which has all that a build asks for but Claude."""
    assert request.config.cache is not None
    engine.docker("import", debian_archive(request.config.cache.mkdir("debian")), DEBIAN)
    engine.docker("build", "--network=host", "--target=base", "--tag", PYTHON, deploy / "example")
    venv = "apt-get update && apt-get install --yes --no-install-recommends python3-venv"
    engine.docker("build", "--network=host", "--tag", PYTHON, "-", stdin=f"FROM {PYTHON}\nRUN {venv}\n")


@pytest.fixture(scope="package")
def images(engine: Engine, index: str, deploy: Path, bases: None) -> Iterator[dict[str, str]]:
    """Both agents' images by docker's classic builder."""
    built = {name: build_image(engine, index, deploy / name, name) for name in ("reviewer", "example")}
    yield built
    # The builder stage would stay behind without a name to remove it by.
    builder = build_image(engine, index, deploy / "example", "builder", "--target=builder")
    engine.docker("image", "rm", "--force", *built.values(), builder, DEBIAN, PYTHON)

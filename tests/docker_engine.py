"""Docker's engine, the one that runs here or one of the tests' own; buildah; a Debian base image without a registry."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.tools import absent, require, require_root

INSTALL = "apt-get install docker.io"


@dataclass(frozen=True)
class Engine:
    """`client` talks to the engine at `host`."""

    client: str
    host: str

    def docker(self, *arguments: str | Path, buildkit: bool = False, stdin: str | None = None) -> str:
        """The standard output of a docker command that must succeed."""
        done = self.run(*arguments, buildkit=buildkit, stdin=stdin)
        assert done.returncode == 0, f"docker {arguments[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def run(
        self, *arguments: str | Path, buildkit: bool = False, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DOCKER_HOST": self.host, "DOCKER_BUILDKIT": str(int(buildkit))}
        command = [self.client, *map(str, arguments)]
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)

    @property
    def answers(self) -> bool:
        return self.run("info").returncode == 0

    def require_buildkit(self) -> None:
        """Clients up to 20.10 drive the engine's own BuildKit; later ones need the buildx plugin for it."""
        major = int(self.docker("version", "--format", "{{.Client.Version}}").split(".")[0])
        if major > 20 and self.run("buildx", "version").returncode:
            absent("docker buildx", "apt-get install docker-buildx")


class Buildah:
    """buildah with images of its own."""

    def __init__(self, folder: Path) -> None:
        program = require("buildah", "apt-get install buildah")
        self.command = [program, "--root", str(folder / "root"), "--runroot", str(folder / "run")]

    def __call__(self, *arguments: str | Path) -> str:
        command = [*self.command, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"buildah {arguments[0]}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def config(self, image: str) -> dict[str, Any]:
        config: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]
        return config


@contextmanager
def running_engine() -> Iterator[Engine]:
    """The engine that the environment points to, else one with its own data that ends with the block."""
    # The client that came with Debian's engine is the one that can drive its BuildKit.
    client = shutil.which("docker", path="/usr/bin") or require("docker", INSTALL)
    there = Engine(client, os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    if there.answers:
        yield there
        return
    require_root()
    daemon = require("dockerd", INSTALL)
    # Not in pytest's folder: a socket's path is at most 107 bytes, and /tmp may be memory.
    with tempfile.TemporaryDirectory(prefix="a2a-docker-", dir="/var/tmp") as name:
        folder = Path(name)
        own = Engine(client, f"unix://{folder}/docker.sock")
        command = [daemon, "--host", own.host, "--bridge=none", "--iptables=false", "--pidfile", f"{folder}/pid"]
        command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
        command += [
            "--containerd-namespace=a2a-claude-tests",
            "--containerd-plugins-namespace=a2a-claude-tests-plugins",
        ]
        with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                for _ in range(60):
                    if own.answers or process.poll() is not None:
                        break
                    time.sleep(1)
                assert own.answers, (folder / "log").read_text()[-3000:]
                yield own
            finally:
                process.terminate()
                process.wait()
                # The engine leaves the host's network namespace mounted there.
                for namespace in folder.glob("exec/netns/*"):
                    subprocess.run(["umount", namespace], check=True)


def debian_archive(cache: Path) -> Path:
    """A tar of Debian 12's smallest root folder, without Python, as `docker import` takes it; made once in `cache`."""
    archive = cache / "bookworm.tar"
    if not archive.exists():
        require_root()
        debootstrap = require("debootstrap", "apt-get install debootstrap")
        with tempfile.TemporaryDirectory(prefix="a2a-debian-", dir="/var/tmp") as root:
            subprocess.run([debootstrap, "--variant=minbase", "bookworm", root], check=True, stdout=subprocess.DEVNULL)
            partial = archive.with_suffix(".partial")
            subprocess.run(["tar", "-C", root, "--exclude=./var/cache/apt/*", "-cf", partial, "."], check=True)
            partial.rename(archive)
    return archive

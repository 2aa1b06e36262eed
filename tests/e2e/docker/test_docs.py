"""The commands of the documentation for Docker, by a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import check, commands_of, name, pages_for
from tests.docker_engine import Engine
from tests.e2e.docker.images import DEBIAN, WHEEL
from tests.fake_anthropic_api import FakeAPI
from tests.test_docs import checkout, shell_in

__all__ = ["checkout"]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("docker")]

# Without a registry, and on an engine without a bridge: the base and the packages are the tests' own, and the container
# has the host's network, where the API of the tests is.
DOCKER = """#!/bin/bash
export DOCKER_HOST={host} DOCKER_BUILDKIT=0
case $1 in
    build) cp {wheel} "${{@: -1}}" && exec {client} build --network host --build-arg PIP_INDEX_URL={index} "${{@:2}}" ;;
    run) exec {client} run --network host --env ANTHROPIC_BASE_URL={api} "${{@:2}}" 2> /dev/null ;;
    *) exec {client} "$@" ;;
esac
"""


@pytest.fixture
def host(
    engine: Engine, images: dict[str, str], index: str, wheelhouse: Path, api: FakeAPI, checkout: Path
) -> Iterator[Path]:
    """The checkout with `docker` on PATH and the key for Claude in key.txt."""
    wheel = wheelhouse / "wheels" / WHEEL
    program = checkout / "bin" / "docker"
    program.write_text(
        DOCKER.format(host=engine.host, client=engine.client, index=index, api=api.url, wheel=wheel), "utf-8"
    )
    program.chmod(0o755)
    layer = {"deploy": {"package": WHEEL, "docker": {"baseImage": DEBIAN}}}
    (checkout / "agents" / "defaults.prod.yaml").write_text(json.dumps(layer))
    (checkout / "key.txt").write_text("sk-ant-api03-a-key\n")
    yield checkout
    engine.run("rm", "--force", "--volumes", "reviewer")
    engine.run("volume", "rm", "reviewer-state", "reviewer-workspace")
    engine.run("image", "rm", "--force", "a2a-claude/reviewer:1.0.0")


@pytest.mark.parametrize("page", pages_for("docker"), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, host: Path) -> None:
    check(commands_of(page, "docker"), shell_in(host))

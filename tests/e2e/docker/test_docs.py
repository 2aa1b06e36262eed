"""The commands of the documentation for Docker, by a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import check, commands_of, name, pages_for
from tests.docker_engine import Engine
from tests.e2e.docker.compose import AGENTS, overlay, program
from tests.e2e.docker.images import DEBIAN, WHEEL
from tests.fake_anthropic_api import FakeAPI
from tests.test_docs import checkout, shell_in

__all__ = ["checkout"]

pytestmark = pytest.mark.slow

PROJECT = "a2a-claude-docs"
# Without a registry, and on an engine without a bridge: the base and the packages are the tests' own, and the container
# has the host's network, where the API of the tests is.
DOCKER = """#!/bin/bash
export DOCKER_HOST={host} DOCKER_BUILDKIT=0
case $1 in
    build) cp {wheel} "${{@: -1}}" && exec {client} build --network host --build-arg PIP_INDEX_URL={index} "${{@:2}}" ;;
    run) exec {client} run --network host --env ANTHROPIC_BASE_URL={api} "${{@:2}}" 2> /dev/null ;;
    compose)
        for folder in deploy/*/; do cp {wheel} "$folder"; done
        exec {compose} --project-name {project} "${{@:2:2}}" --file compose.tests.yaml "${{@:4}}" 2>> compose.log ;;
    *) exec {client} "$@" ;;
esac
"""

# The secrets of this machine's own agents stay as they are.
INSTALL = """#!/bin/bash
exec /usr/bin/install "${{@/#\\/etc\\/a2a-claude/{etc}}}"
"""
SECRETS = ("ANTHROPIC_API_KEY", "CALLER_TOKENS")


@pytest.fixture
def host(
    engine: Engine, images: dict[str, str], index: str, wheelhouse: Path, api: FakeAPI, checkout: Path
) -> Iterator[Path]:
    """The checkout with `docker` on PATH, and the key for Claude and the tokens of callers in files."""
    wheel = wheelhouse / "wheels" / WHEEL
    text = DOCKER.format(
        host=engine.host,
        client=engine.client,
        index=index,
        api=api.url,
        wheel=wheel,
        compose=program(),
        project=PROJECT,
    )
    docker = checkout / "bin" / "docker"
    docker.write_text(text, "utf-8")
    docker.chmod(0o755)
    layer = {"deploy": {"package": WHEEL, "docker": {"baseImage": DEBIAN}}}
    (checkout / "agents" / "defaults.prod.yaml").write_text(json.dumps(layer))
    install = checkout / "bin" / "install"
    install.write_text(INSTALL.format(etc=checkout / "etc"), "utf-8")
    install.chmod(0o755)
    for agent in AGENTS:  # which pages have of their own, or have told how
        secrets = {each: {"file": f"{checkout}/etc/{agent}/secrets/{each}"} for each in SECRETS}
        auth = {"server": {"auth": {"bearer": {"tokensVariable": "CALLER_TOKENS"}}}, "secrets": secrets}
        (checkout / "agents" / agent / "agent.prod.yaml").write_text(json.dumps(auth))
    build = {"network": "host", "args": {"PIP_INDEX_URL": index}}
    (checkout / "compose.tests.yaml").write_text(json.dumps(overlay(PROJECT, api, {"build": build})))
    (checkout / "key.txt").write_text("sk-ant-api03-a-key\n")
    (checkout / "tokens.txt").write_text("alice:alice-has-a-token-of-her-own\n")
    yield checkout
    shell_in(checkout)("docker compose -f deploy/compose.yaml down --volumes --timeout 0")
    engine.run("rm", "--force", "--volumes", "reviewer")
    engine.run("volume", "rm", "reviewer-state", "reviewer-workspace")
    engine.run("image", "rm", "--force", "a2a-claude/reviewer:1.0.0", "a2a-claude/example:1.0.0")


@pytest.mark.parametrize("page", pages_for("docker"), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, host: Path) -> None:
    check(commands_of(page, "docker"), shell_in(host), lenient=True)

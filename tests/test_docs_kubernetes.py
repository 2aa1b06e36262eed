"""The commands of the documentation for Kubernetes, by kubectl against an API that holds objects to their schema."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console import ROOT, check, commands_of, name, pages_for
from tests.kubernetes_api import API
from tests.test_docs import checkout, shell_in
from tests.tools import IN_CI
from tests.trixie import root_with

__all__ = ["checkout"]


def kubectl() -> str:
    """A script that is kubectl: this machine's, or that of Debian 13, started by the loader that it was made for."""
    if not IN_CI and (found := shutil.which("kubectl")):
        return f'#!/bin/sh\nexec {found} "$@"\n'
    root = root_with("/usr/bin/kubectl", "kubectl")
    libraries = root / "usr" / "lib" / f"{platform.machine()}-linux-gnu"
    loader = next(libraries.glob("ld-linux-*.so.*"))
    return f'#!/bin/sh\nexec {loader} --library-path {libraries} {root}/usr/bin/kubectl "$@"\n'


@pytest.fixture
def cluster(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[API]:
    """An API that `kubectl` in the checkout talks to; the files with the secrets are there."""
    program = checkout / "bin" / "kubectl"
    program.write_text(kubectl())
    program.chmod(0o755)
    (checkout / "key.txt").write_text("sk-ant-api03-a-key")
    (checkout / "tokens.txt").write_text("alice:a-token")
    with API() as api:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": api.url}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        }
        (checkout / "kubeconfig").write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(checkout / "kubeconfig"))
        monkeypatch.setenv("HOME", str(checkout))  # where it keeps what it has discovered
        yield api


@pytest.mark.parametrize("page", pages_for("kubernetes"), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, checkout: Path, cluster: API) -> None:
    check(commands_of(page, "kubernetes"), shell_in(checkout))
    secret = cluster.objects["/api/v1/namespaces/default/secrets/reviewer-secrets"]
    assert secret["data"].keys() == {"ANTHROPIC_API_KEY", "CALLER_TOKENS"}


@pytest.mark.parametrize(("kibibytes", "enough"), [(200, True), (256, False), (900, False)])
def test_a_large_agent_is_applied_as_the_page_says(kibibytes: int, enough: bool, checkout: Path, cluster: API) -> None:
    prompt = ("Say what you see, and why. " * 40 + "\n") * (kibibytes * 1024 // 1081)
    changed = {"claude": {"systemPromptAppend": prompt}, "server": {"auth": {"allowUnauthenticated": True}}}
    (checkout / "agents" / "reviewer" / "agent.large.yaml").write_text(json.dumps(changed))
    [command] = re.findall(r"`(kubectl apply --server-side [^`]*)`", (ROOT / "docs" / "kubernetes.md").read_text())
    shell = shell_in(checkout)
    done = shell("a2a-claude compile --agent reviewer --profile large --target kubernetes")
    assert done.returncode == 0, done.stdout
    plain = shell(command.replace(" --server-side", ""))
    assert ("metadata.annotations: Too long" not in plain.stdout, plain.returncode == 0) == (enough, enough)
    cluster.objects.clear()
    done = shell(command)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("serverside-applied") == len(cluster.objects) == 5

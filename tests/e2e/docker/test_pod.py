"""The pod of the rendered Kubernetes objects, made by Docker as the kubelet would: its mounts, its user, its probes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.certificates import Authority
from tests.docker_engine import Engine
from tests.e2e.caller import COMPLETED, Caller, bash, eventually, text
from tests.e2e.docker.compose import TOKEN
from tests.e2e.docker.images import PROFILE, WORKSPACE
from tests.e2e.fleet import KEY, compiled
from tests.fake_anthropic_api import FakeAPI

pytestmark = pytest.mark.slow

# Of the addresses for benchmarks (RFC 2544): nobody's network.
SUBNET, HOST, ADDRESS = "198.18.79.0/24", "198.18.79.1", "198.18.79.2"
TLS = {"certificateFile": "/etc/tls/tls.crt", "keyFile": "/etc/tls/tls.key", "clientCaFile": "/etc/tls/ca.crt"}


def pod_and_config(folder: Path, server: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """The spec of the reviewer's pod, what its ConfigMap holds, and the names of its claims."""
    layers = json.loads(json.dumps(PROFILE))
    layers["reviewer/agent.e2e.yaml"]["server"] |= server
    deploy = compiled(folder, layers, "--target", "kubernetes")
    rendered = (deploy / "reviewer" / "kubernetes" / "agent.yaml").read_text()
    objects = {each["kind"]: each for each in yaml.safe_load_all(rendered)}
    spec = objects["StatefulSet"]["spec"]
    claims = [each["metadata"]["name"] for each in spec["volumeClaimTemplates"]]
    return spec["template"]["spec"], objects["ConfigMap"]["data"], claims


def volume(folder: Path, content: dict[str, str] | None, mode: int, group: int) -> Path:
    """A volume as the kubelet leaves it to a pod with fsGroup: root's, and what the group may do on it added."""
    folder.mkdir(parents=True)
    for name, each in (content or {}).items():
        (folder / name).write_text(each)
        os.chown(folder / name, 0, group)
        (folder / name).chmod(mode | 0o440)
    os.chown(folder, 0, group)
    folder.chmod(0o2755 if content else 0o2775)
    return folder


@pytest.fixture
def network(engine: Engine) -> Iterator[str]:
    options = ["--subnet", SUBNET, "--gateway", HOST]
    # One that an engine left that was killed is used again, not a second one beside it.
    options.append("--opt=com.docker.network.bridge.name=a2a-claude-e2e")
    engine.docker("network", "create", *options, "a2a-claude-e2e-pod")
    yield "a2a-claude-e2e-pod"
    engine.run("network", "rm", "a2a-claude-e2e-pod")


def passes(engine: Engine, pod: str, ports: dict[str, int], probe: dict[str, Any]) -> bool:
    """Whether a probe succeeds: a request to the pod's address, whatever its certificate, or a command in it."""
    if command := probe.get("exec", {}).get("command"):
        return engine.run("exec", pod, *command).returncode == 0
    get = probe["httpGet"]
    url = f"{get.get('scheme', 'HTTP').lower()}://{ADDRESS}:{ports[get['port']]}{get['path']}"
    try:
        answer = httpx.get(url, timeout=5, verify=False, trust_env=False)  # noqa: S501 - as the kubelet does
    except httpx.TransportError:
        return False
    return 200 <= answer.status_code < 400


@pytest.mark.parametrize("probes", ["httpGet", "exec"])
def test_mounts_user_and_probes_fit_together(
    engine: Engine, images: dict[str, str], api: FakeAPI, network: str, tmp_path: Path, probes: str
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("reviewer", "localhost", "reviewer")
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.file}
    pod, config, claims = pod_and_config(tmp_path, {"tls": TLS} if probes == "exec" else {})
    [container] = pod["containers"]
    context, confined = pod["securityContext"], container["securityContext"]
    group = context["fsGroup"]
    secrets = {"ANTHROPIC_API_KEY": KEY, "CALLER_TOKENS": f"me:{TOKEN}\n"}

    held: dict[str, Path] = {name: volume(tmp_path / name, None, 0, group) for name in claims}
    for each in pod["volumes"]:
        folder = tmp_path / "volumes" / each["name"]
        match each:
            case {"configMap": _}:
                held[each["name"]] = volume(folder, config, 0o644, group)
            case {"projected": {"defaultMode": mode, "sources": sources}}:
                keys = [item for source in sources for item in source["secret"]["items"]]
                content = {item["path"]: secrets[item["key"]] for item in keys}
                held[each["name"]] = volume(folder, content, mode, group)
            case {"secret": {"secretName": "reviewer-files", "defaultMode": mode}}:
                content = {f"etc-tls-{name}": path.read_text() for name, path in files.items()}
                held[each["name"]] = volume(folder, content, mode, group)
            case {"emptyDir": _}:
                held[each["name"]] = volume(folder, None, 0, group)

    options = ["--network", network, "--ip", ADDRESS, f"--user={context['runAsUser']}:{context['runAsGroup']}"]
    options += [f"--group-add={group}", f"--read-only={confined['readOnlyRootFilesystem']}".lower()]
    options += [f"--cap-drop={each}" for each in confined["capabilities"]["drop"]]
    options += ["--security-opt=no-new-privileges"] if not confined["allowPrivilegeEscalation"] else []
    for mount in container["volumeMounts"]:
        source = held[mount["name"]] / mount.get("subPath", "")
        options += ["--volume", f"{source}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"]
    options += [f"--env=ANTHROPIC_BASE_URL=http://{HOST}:{api.server_address[1]}", f"--env=ADVERTISE_HOST={ADDRESS}"]
    name = engine.docker("run", "--detach", *options, images["reviewer"], *container.get("command", [])).strip()
    try:
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert probes in container[kind]
            eventually(lambda kind=kind: passes(engine, name, ports, container[kind]), kind)  # type: ignore[misc]
        if probes == "httpGet":
            looks = bash("id; touch here /tmp/x /etc/x; cat /run/secrets/ANTHROPIC_API_KEY; echo looked")
            task = Caller(f"http://{ADDRESS}:{ports['http']}", TOKEN).send(looks, {"text": "done"})
            assert (task.status.state, text(task)) == (COMPLETED, "done")
            said = str(api.messages[-1]["body"]["messages"][-1])
            for expected in (f"uid={context['runAsUser']}", "Read-only file system", "looked"):
                assert expected in said
            assert "/run/secrets/ANTHROPIC_API_KEY: Permission denied" in said
            assert engine.run("exec", name, "test", "-e", f"{WORKSPACE}/here").returncode == 0
            engine.docker("exec", name, *container["lifecycle"]["preStop"]["exec"]["command"])
        engine.docker("stop", f"--time={pod['terminationGracePeriodSeconds']}", name)
        assert engine.docker("inspect", "--format={{.State.ExitCode}}", name).strip() == "0"
    finally:
        engine.docker("rm", "--force", "--volumes", name)

"""The Kubernetes target: what the API's schemas and kustomize make of the objects, and what is refused instead."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from a2a_claude.config.agent import Agent
from a2a_claude.config.loader import load_fleet
from a2a_claude.targets import Unrenderable
from a2a_claude.targets.hardening import directives
from a2a_claude.targets.kubernetes import render, render_fleet
from a2a_claude.targets.kubernetes_network import ports
from tests.containers import CARD, full, plain
from tests.support import make_agent
from tests.trixie import folder_in, root_with, run_in

VERSIONS = ["1.29.0", "1.33.0", "1.37.0"]
AGENTS = {"plain": plain(), "full": full()}


def files(agent: Agent) -> dict[str, str]:
    return {each.path: each.text for each in render(agent)}


def objects(agent: Agent) -> dict[str, Any]:
    """By kind; there is one of each."""
    found = [each for text in files(agent).values() for each in yaml.safe_load_all(text)]
    assert len({each["kind"] for each in found}) == len(found)
    return {each["kind"]: each for each in found}


def pod(agent: Agent) -> dict[str, Any]:
    found: dict[str, Any] = objects(agent)["StatefulSet"]["spec"]["template"]["spec"]
    return found


def container(agent: Agent) -> dict[str, Any]:
    (found,) = pod(agent)["containers"]
    return dict(found)


# --- The real readers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_api_of_each_version_accepts_every_object(agent: Agent, version: str) -> None:
    for kind, each in objects(agent).items():
        if kind != "Kustomization":
            kubernetes_validate.validate(each, version, strict=True)


def test_the_validator_refuses_an_unknown_key() -> None:
    broken = objects(plain())["StatefulSet"]
    broken["spec"]["template"]["spec"]["containers"][0]["redOnly"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def fleet() -> dict[str, str]:
    agents = list(AGENTS.values())
    tree = {f"{agent.name}/{path}": text for agent in agents for path, text in files(agent).items()}
    return tree | {each.path: each.text for each in render_fleet(agents)}


def check_build(built: str) -> None:
    """Kustomize gives every object as it was rendered, with the namespace of its agent."""
    read = {(each["metadata"].get("namespace"), each["kind"]): each for each in yaml.safe_load_all(built)}
    wanted = {}
    for agent in AGENTS.values():
        namespace = agent.config.deploy.kubernetes.namespace
        for kind, each in objects(agent).items():
            if kind != "Kustomization":
                metadata = each["metadata"] | ({"namespace": namespace} if namespace else {})
                wanted[namespace, kind] = {**each, "metadata": metadata}
    assert read == wanted


def test_kustomize_builds_the_fleet() -> None:
    root = root_with("/usr/bin/kustomize", "kustomize")
    with folder_in(root, fleet()) as folder:
        check_build(run_in(root, "kustomize", "build", folder).stdout)


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not there; kustomize itself is what CI has")
def test_kubectl_builds_the_fleet(tmp_path: Path) -> None:
    for path, text in fleet().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    command = ["kubectl", "kustomize", str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}, check=True
    )
    check_build(done.stdout)


def test_whatever_a_config_holds_is_in_the_config_map_as_lines() -> None:
    prompt = "".join(map(chr, [*range(32, 0xFF), 0x2028, 0xFEFF, 0xFFFE, 0x1F600]))
    agent = make_agent({"agentCard": CARD, "claude": {"systemPromptAppend": prompt}})
    assert "\n  agent.json: |\n    {\n" in files(agent)["kubernetes/agent.yaml"]
    assert in_config_map(agent) == {key: each for key, each in agent.document.items() if key != "deploy"}


def in_config_map(agent: Agent) -> Any:
    return json.loads(objects(agent)["ConfigMap"]["data"]["agent.json"])


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_a_server_takes_what_is_in_the_config_map(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / agent.name / "agent.json"
    file.parent.mkdir()
    file.write_text(objects(agent)["ConfigMap"]["data"]["agent.json"], "utf-8")
    fleet = load_fleet([file])
    assert [each for each in fleet.diagnostics if each.severity == "error"] == []
    (read,) = fleet.agents
    assert {**read.document, "deploy": agent.document["deploy"]} == agent.document


def test_only_what_a_server_reads_replaces_the_pods() -> None:
    more = make_agent({"agentCard": CARD, "deploy": {"kubernetes": {"memory": "2Gi"}, "compose": {"publish": "80"}}})
    less = make_agent({"agentCard": CARD})
    assert objects(more)["ConfigMap"] == objects(less)["ConfigMap"]
    assert objects(more)["StatefulSet"] != objects(less)["StatefulSet"]


@pytest.mark.parametrize("name", ["a", "a--b-", "x" * 52, "x" * 53, "x" * 63, "x" * 44 + "-" * 10, "null", "n"])
def test_every_name_of_an_agent_has_one_that_kubernetes_takes(name: str) -> None:
    found = objects(make_agent({"agentCard": CARD}, name=name))["StatefulSet"]
    label = found["metadata"]["labels"]["app.kubernetes.io/instance"]
    assert found["metadata"]["name"] == label
    assert re.fullmatch("[a-z]([a-z0-9-]{0,50}[a-z0-9])?", label)
    assert label == name or len(name) > 52 or name.endswith("-")


# --- What is rendered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS.values(), ids=AGENTS)
def test_the_pod_keeps_to_the_restricted_standard(agent: Agent) -> None:
    spec, one = pod(agent), container(agent)
    uid = agent.config.deploy.docker.uid
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": uid,
        "runAsGroup": uid,
        "fsGroup": uid,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["automountServiceAccountToken"] is False
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"configMap", "emptyDir", "projected", "secret", "persistentVolumeClaim"}


def test_everything_around_the_pods_means_these_pods_and_no_others() -> None:
    for agent in AGENTS.values():
        found = objects(agent)
        labels = found["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == agent.name
        for kind, key in (
            ("StatefulSet", "selector"),
            ("PodDisruptionBudget", "selector"),
            ("NetworkPolicy", "podSelector"),
        ):
            assert found[kind]["spec"][key] == {"matchLabels": labels}
        assert found["Service"]["spec"]["selector"] == labels
        assert found["StatefulSet"]["spec"]["serviceName"] == found["Service"]["metadata"]["name"]
        # A node with the only pod of an agent can be drained.
        assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 1


def test_several_pods_are_on_several_nodes() -> None:
    assert "topologySpreadConstraints" not in pod(plain())
    (spread,) = pod(full())["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == objects(full())["Service"]["spec"]["selector"]


def test_a_pod_asks_for_what_the_config_says_and_may_not_take_more_memory() -> None:
    resources = {name: container(agent)["resources"] for name, agent in AGENTS.items()}
    assert resources["full"] == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    assert resources["plain"]["limits"]["memory"] == resources["plain"]["requests"]["memory"]
    (volume,) = [each for each in pod(plain())["volumes"] if "emptyDir" in each]
    assert volume["emptyDir"] == {"sizeLimit": "1Gi"}
    claim = objects(full())["StatefulSet"]["spec"]["volumeClaimTemplates"][0]["spec"]
    assert (claim["storageClassName"], claim["resources"]) == ("fast", {"requests": {"storage": "10Gi"}})
    assert pod(full())["imagePullSecrets"] == [{"name": "registry"}]


def test_an_image_that_no_config_names_is_never_pulled() -> None:
    policies = {name: container(agent).get("imagePullPolicy") for name, agent in AGENTS.items()}
    assert policies == {"plain": "Never", "full": None}


def test_a_changed_config_has_another_name_and_the_pods_use_it() -> None:
    changed = make_agent({"agentCard": {**CARD, "name": "Other"}, "server": {"port": 3031}})
    names = [objects(each)["ConfigMap"]["metadata"]["name"] for each in (plain(), changed)]
    assert len(set(names)) == 2
    for agent, name in zip((plain(), changed), names, strict=True):
        assert {"name": "config", "configMap": {"name": name}} in pod(agent)["volumes"]
        assert objects(agent)["ConfigMap"]["immutable"] is True


def test_secrets_are_files_of_secrets_and_nowhere_else() -> None:
    (volume,) = [each for each in pod(full())["volumes"] if each["name"] == "secrets"]
    assert volume["projected"]["defaultMode"] == 0o400
    assert [each["secret"] for each in volume["projected"]["sources"]] == [
        {"name": "full-secrets", "items": [{"key": "ANTHROPIC_API_KEY", "path": "ANTHROPIC_API_KEY"}]},
        {"name": "shared", "items": [{"key": "opt", "path": "OPTIONAL"}], "optional": True},
        {"name": "full-secrets", "items": [{"key": "PLAIN", "path": "PLAIN"}]},
        {"name": "full-secrets", "items": [{"key": "SEALED", "path": "SEALED"}]},
    ]
    assert [each["name"] for each in container(full())["env"]] == ["CLAUDE_MODEL"]
    assert not any("secretKeyRef" in str(each) for each in container(full())["env"])


def test_what_the_config_names_on_a_host_comes_from_a_secret_of_files() -> None:
    mounts = {each["mountPath"]: each.get("subPath") for each in container(full())["volumeMounts"]}
    assert mounts["/etc/a2a/tls.crt"] == "etc-a2a-tls.crt"
    assert mounts["/etc/a2a/tokens"] == "etc-a2a-tokens"


@pytest.mark.parametrize(
    ("tls", "probe"),
    [
        (None, {"httpGet": {"path": "/ready", "port": "http"}}),
        ({}, {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTPS"}}),
        (
            {"clientCaFile": "/ca"},
            {
                "exec": {
                    "command": [
                        *("a2a-claude", "healthcheck", "/etc/a2a-claude/reviewer/agent.json", "--hostname", "0.0.0.0")
                    ]
                }
            },
        ),
    ],
    ids=["http", "https", "mTLS"],
)
def test_the_kubelet_asks_in_a_way_that_the_server_answers(tls: dict[str, Any] | None, probe: dict[str, Any]) -> None:
    server = {} if tls is None else {"tls": {"certificateFile": "/c", "keyFile": "/k", **tls}}
    found = container(make_agent({"agentCard": CARD, "server": server}))
    assert found["readinessProbe"].items() >= probe.items()
    live = found["livenessProbe"]
    assert live["httpGet"]["path"] == "/health" if "httpGet" in live else live["exec"]["command"][-1] == "--live"
    assert found["startupProbe"].keys() - {"periodSeconds", "failureThreshold"} == probe.keys()


def test_a_pod_has_the_time_that_its_turns_may_take_to_end() -> None:
    assert pod(plain())["terminationGracePeriodSeconds"] == 5 + 30 + 15
    assert pod(full())["terminationGracePeriodSeconds"] == 5 + 61 + 15


@pytest.mark.parametrize(("agent", "read_only"), [(plain(), False), (full(), True)], ids=["writer", "reader"])
def test_the_workspace_is_read_only_for_who_does_not_write(agent: Agent, read_only: bool) -> None:
    (mount,) = [each for each in container(agent)["volumeMounts"] if each["name"] == "workspace"]
    assert mount.get("readOnly", False) is read_only
    claims = [each["metadata"]["name"] for each in objects(agent)["StatefulSet"]["spec"]["volumeClaimTemplates"]]
    given = agent.config.deploy.kubernetes.workspace_claim
    assert claims == (["state"] if given else ["state", "workspace"])


def test_replicas_are_the_autoscalers_where_there_is_one() -> None:
    assert objects(plain())["StatefulSet"]["spec"]["replicas"] == 1
    assert "HorizontalPodAutoscaler" not in objects(plain())
    assert "replicas" not in objects(full())["StatefulSet"]["spec"]
    scaler = objects(full())["HorizontalPodAutoscaler"]["spec"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 5)
    assert scaler["scaleTargetRef"]["name"] == objects(full())["StatefulSet"]["metadata"]["name"]


def test_pods_reach_what_the_config_names_and_no_metadata_service() -> None:
    assert ports(plain()) == [443]
    assert ports(full()) == [443, 3040, 3128, 6432, 8443]
    policy = objects(full())["NetworkPolicy"]["spec"]
    assert [each["port"] for each in policy["ingress"][0]["ports"]] == [3031]
    blocks = [each["ipBlock"] for each in policy["egress"][1]["to"] if "ipBlock" in each]
    assert "169.254.0.0/16" in blocks[0]["except"]
    host = make_agent({"agentCard": CARD, "claude": {"credentials": []}})
    blocks = [each["ipBlock"] for each in objects(host)["NetworkPolicy"]["spec"]["egress"][1]["to"][1:]]
    assert all("except" not in each for each in blocks)


@pytest.mark.parametrize(
    "url",
    [
        *("", "${A}", "http://[", "http://a:99999/", "a", "$A:1", "http://${A:-b}:x/", "db:6432", "postgresql://"),
        *("postgresql:///db", "postgresql:///db?host=/run/postgresql&port=5433", "postgresql://db?port=x"),
    ],
)
def test_a_url_that_says_no_port_opens_none(url: str) -> None:
    agent = make_agent({"agentCard": CARD, "claude": {"env": {"A": url}}})
    assert ports(agent) == [443]


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"store": {"url": "postgresql://a:${PW}@one:5433,two:5434/db"}}, [5433, 5434]),
        ({"store": {"url": "postgresql://a:${PW}@one,two:5434/db"}}, [5432, 5434]),
        ({"store": {"url": "postgresql://[fd00::1]:5440/db"}}, [5440]),
        ({"store": {"url": "postgresql://db?port=5436"}}, [5436]),
        ({"store": {"url": "postgres:///db?host=db&port=5435"}}, [5435]),
        ({"store": {"url": "postgres:///db?host=db"}}, [5432]),
        ({"claude": {"env": {"HTTPS_PROXY": "http://a:${PW}@proxy:3128"}}}, [3128]),
        ({"claude": {"env": {"https_proxy": "proxy:3128"}}}, [3128]),
        ({"claude": {"env": {"HTTPS_PROXY": "${PROXY:-proxy:3129}"}}}, [3129]),
        ({"claude": {"env": {"HTTPS_PROXY": "${PROXY}"}}}, []),
        ({"claude": {"env": {"ALL_PROXY": "socks5h://proxy"}}}, [1080]),
        ({"claude": {"env": {"ALL_PROXY": "socks5://proxy:1081"}}}, [1081]),
        ({"mcp": {"a": {"type": "stdio", "command": "a", "env": {"URL": "ws://b:8765"}}}}, [8765]),
        ({"mcp": {"a": {"type": "stdio", "command": "a", "enabled": False, "env": {"URL": "ws://b:8765"}}}}, []),
    ],
)
def test_pods_reach_the_ports_that_proxies_databases_and_programs_are_at(
    document: dict[str, Any], found: list[int]
) -> None:
    store = {"store": {"type": "postgresql", **document["store"]}} if "store" in document else {}
    assert ports(make_agent({"agentCard": CARD, **document, **store})) == sorted([443, *found])


def test_pods_ask_names_of_the_clusters_dns_alone() -> None:
    (dns, *_) = objects(plain())["NetworkPolicy"]["spec"]["egress"]
    assert [(each["protocol"], each["port"]) for each in dns["ports"]] == [("UDP", 53), ("TCP", 53)]
    pods, node = dns["to"]
    assert pods["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kube-system"}
    assert pods["podSelector"]["matchLabels"] == {"k8s-app": "kube-dns"}
    assert node == {"ipBlock": {"cidr": "169.254.20.10/32"}}


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "168.63.129.16"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fe80::a9fe:a9fe"),
    ],
)
def test_no_metadata_service_is_reached(address: str) -> None:
    blocks = [each["ipBlock"] for each in objects(plain())["NetworkPolicy"]["spec"]["egress"][1]["to"][1:]]
    (block,) = [each for each in blocks if ip_address(address) in ip_network(each["cidr"])]
    assert any(ip_address(address) in ip_network(each) for each in block["except"])
    denied = directives("strict")["IPAddressDeny"]
    assert isinstance(denied, str)
    assert any(ip_address(address) in ip_network(each) for each in denied.split())


@pytest.mark.parametrize(
    ("name", "document", "path"),
    [
        ("a", {"deploy": {"docker": {"workspace": "/a:b"}}}, "deploy.docker.workspace"),
        ("a", {"deploy": {"docker": {"workspace": "/a\uffff"}}}, "deploy.docker.workspace"),
        ("a", {"deploy": {"docker": {"workspace": "/usr/bin"}}}, "deploy.docker.workspace"),
        (
            "a",
            {"deploy": {"kubernetes": {"autoscale": {"minReplicas": 5, "maxReplicas": 2}}}},
            "deploy.kubernetes.autoscale.minReplicas",
        ),
        ("a", {"server": {"tls": {"certificateFile": "/a:b", "keyFile": "/k"}}}, "server.tls.certificateFile"),
        ("a", {"agentCard": {**CARD, "description": "a\0"}}, "agentCard.description"),
        ("a", {"claude": {"systemPromptAppend": "x" * 2**20}}, "claude.systemPromptAppend"),
        ("a", {"claude": {"env": {f"A{i}": "x" * 2**14 for i in range(80)}}}, "claude.env"),
        ("a", {"mcp": {"m": {"type": "stdio", "command": "m", "args": ["-v", "x" * 2**20]}}}, "mcp.m.args[1]"),
    ],
)
def test_what_kubernetes_does_not_take_is_refused(name: str, document: dict[str, Any], path: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(make_agent({"agentCard": CARD, **document}, name=name))
    assert (refusal.value.path, bool(refusal.value.hint)) == (path, True)


@pytest.mark.parametrize(
    ("description", "said"), [("x" * 1000, "x" * 1000), ("x" * 1001, "x" * 999 + "…"), ("é" * 2**17, "é" * 999 + "…")]
)
def test_a_long_description_is_cut_before_the_api_refuses_its_annotation(description: str, said: str) -> None:
    agent = make_agent({"agentCard": {**CARD, "description": description}})
    assert objects(agent)["StatefulSet"]["metadata"]["annotations"] == {"kubernetes.io/description": said}


NAMES = [
    ("deploy", "kubernetes", "storageClass"), ("deploy", "kubernetes", "workspaceClaim"),
    ("deploy", "kubernetes", "imagePullSecret"), ("secrets", "TOKEN", "kubernetes", "name"),
]  # fmt: skip


@pytest.mark.parametrize("path", NAMES, ids=".".join)
@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *(("a", True), ("a.b-c.9", True), ("9a", True), ("a--b", True), ("x" * 253, True), ("a.b", True)),
        *(("a..b", False), ("a.-b", False), ("a-.b", False), ("-a", False), ("a-", False), ("a.", False)),
        *((".a", False), ("A", False), ("a_b", False), ("a/b", False), ("x" * 254, False), ("", False), ("é", False)),
    ],
)
def test_a_name_is_one_that_the_api_takes(tmp_path: Path, path: tuple[str, ...], name: str, is_one: bool) -> None:
    document: Any = name
    for key in reversed(path):
        document = {key: document}
    file = tmp_path / "a" / "agent.json"
    file.parent.mkdir()
    file.write_text(json.dumps(document), "utf-8")
    found = [each for each in load_fleet([file]).diagnostics if each.severity == "error"]
    assert not found if is_one else [(each.rule, bool(each.hint)) for each in found] == [("bad-format", True)]


@pytest.mark.parametrize(("key", "is_one"), [("a.B_c-1", True), (".env", True), (".", False), ("..a", False)])
def test_a_key_of_a_secret_is_one_that_the_api_takes(tmp_path: Path, key: str, is_one: bool) -> None:
    file = tmp_path / "a" / "agent.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"secrets": {"TOKEN": {"kubernetes": {"name": "a", "key": key}}}}), "utf-8")
    assert [each.severity for each in load_fleet([file]).diagnostics if each.severity == "error"] == (
        [] if is_one else ["error"]
    )


@pytest.mark.parametrize(("agent", "protocol"), [(plain(), "http"), (full(), "https")], ids=["plain", "TLS"])
def test_the_service_tells_proxies_what_the_server_speaks(agent: Agent, protocol: str) -> None:
    (port,) = objects(agent)["Service"]["spec"]["ports"]
    assert port["appProtocol"] == protocol


@pytest.mark.parametrize(
    ("certificate", "key", "wanted"),
    [
        ("/etc/tls/a.crt", "/etc/tls/a.key", ["etc-tls-a.crt", "etc-tls-a.key"]),
        ("/a/b", "/a-b", ["a-b-[0-9a-f]{8}"] * 2),
        ("/ключ", "/серт", ["--[0-9a-f]{8}"] * 2),
        ("/..x/y", "/" + "a/" * 200, ["x-y-[0-9a-f]{8}", "(a-){100}-[0-9a-f]{8}"]),
        ("/etc/one.pem", "/etc/one.pem", ["etc-one.pem"]),
    ],
)
def test_each_file_has_a_key_of_its_own_that_a_secret_can_have(certificate: str, key: str, wanted: list[str]) -> None:
    agent = make_agent({"agentCard": CARD, "server": {"tls": {"certificateFile": certificate, "keyFile": key}}})
    mounts = [each for each in container(agent)["volumeMounts"] if each["name"] == "files"]
    assert [each["mountPath"] for each in mounts] == list(dict.fromkeys([certificate, key]))
    found = [each["subPath"] for each in mounts]
    assert len(set(found)) == len(wanted)
    assert all(re.fullmatch(pattern, each) for pattern, each in zip(wanted, found, strict=True)), found

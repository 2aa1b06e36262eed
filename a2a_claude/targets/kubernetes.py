"""`kubernetes/`: an agent as the objects that run it, under a kustomization, and a kustomization of the fleet.

Every agent is a StatefulSet, whose pods keep their volumes: Claude's transcripts are there, also when tasks are in
PostgreSQL. Source: the API reference of Kubernetes 1.31.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact, Unrenderable, container
from a2a_claude.targets.config import compiled
from a2a_claude.targets.kubernetes_network import policy
from a2a_claude.targets.kubernetes_pod import Object, pod
from a2a_claude.targets.yaml_text import check, document

_HEAD = (
    "Rendered by a2a-claude: change the agent's config and compile again, or patch it in a kustomization of your own."
)
_KUSTOMIZATION_HEAD = f"""\
{_HEAD}
  kubectl apply --kustomize .
"""

_BEYOND_ASCII = re.compile("[^\n -~]+")
_LARGEST_CONFIG = 1024 * 1024
# All annotations of an object have 256 KiB, and kubectl keeps a copy of the whole object in one of them.
_LONGEST_DESCRIPTION = 1000


def render(agent: Agent) -> list[Artifact]:
    """`agent.yaml` with the objects, and its `kustomization.yaml`, a base for those of others.

    Unrenderable for a path that cannot be mounted, or too large a config.
    """
    text = _compiled(agent)
    config = _config_name(agent, text)
    objects = [
        _config(agent, config, text),
        _stateful_set(agent, config),
        _service(agent),
        _policy(agent),
        _budget(agent),
    ]
    if agent.config.deploy.kubernetes.autoscale:
        objects.append(_autoscaler(agent))
    kustomization = _kustomization(["agent.yaml"], agent.config.deploy.kubernetes.namespace)
    return [
        Artifact("kubernetes/agent.yaml", f"# {_HEAD}\n" + "".join(f"---\n{document(each)}" for each in objects)),
        Artifact("kubernetes/kustomization.yaml", document(kustomization, _KUSTOMIZATION_HEAD)),
    ]


def render_fleet(agents: Iterable[Agent]) -> list[Artifact]:
    """A `kustomization.yaml` of every agent."""
    kustomization = _kustomization([f"{each.name}/kubernetes" for each in agents], None)
    return [Artifact("kustomization.yaml", document(kustomization, _KUSTOMIZATION_HEAD))]


def labels(agent: Agent) -> dict[str, str]:
    """What tells the pods of an agent from all others, and never changes: a StatefulSet's selector cannot."""
    return {"app.kubernetes.io/name": "a2a-claude", "app.kubernetes.io/instance": container.host_name(agent)}


def _object(agent: Agent, version: str, kind: str, **rest: Any) -> Object:
    metadata: Object = {
        "name": rest.pop("name", container.host_name(agent)),
        "labels": {**labels(agent), "app.kubernetes.io/managed-by": "a2a-claude"},
    }
    if annotations := rest.pop("annotations", None):
        metadata["annotations"] = annotations
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _kustomization(resources: Iterable[str], namespace: str | None) -> Object:
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        **({"namespace": namespace} if namespace else {}),
        "resources": list(resources),
    }


# --- Configuration ----------------------------------------------------------------------------------------------------


def _compiled(agent: Agent) -> str:
    """agent.json in ASCII, which stays readable as lines of YAML whatever it holds. Without `deploy`, which no server
    reads: pods are not replaced for another number of them."""
    text = compiled({key: each for key, each in agent.document.items() if key != "deploy"})
    return _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1].replace("\x7f", "\\u007f"), text)


def _config_name(agent: Agent, text: str) -> str:
    """Changes with the config, so that pods are replaced when it does, and a rollback finds the old one."""
    return f"{container.host_name(agent)}-config-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _config(agent: Agent, name: str, text: str) -> Object:
    if len(text.encode()) > _LARGEST_CONFIG:
        reason = "most of an agent that is larger, compiled, than the 1 MiB of a ConfigMap"
        raise Unrenderable(_heaviest(agent.document), reason, "shorten it, or put it into a file of memory")
    return _object(agent, "v1", "ConfigMap", name=name, immutable=True, data={"agent.json": text})


def _heaviest(document: Any) -> str:
    """The config path of what makes up more than half of `document`, or of its part that does, and so on."""
    path = ""
    while isinstance(document, dict | list) and document:
        children = document.items() if isinstance(document, dict) else enumerate(document)
        sizes = {key: (len(json.dumps(each)), each) for key, each in children}
        key, (size, largest) = max(sizes.items(), key=lambda each: each[1][0])
        if path and size * 2 < sum(each for each, _ in sizes.values()):
            break
        path += f"[{key}]" if isinstance(document, list) else f".{key}" if path else str(key)
        document = largest
    return path


# --- What runs it -----------------------------------------------------------------------------------------------------


def _stateful_set(agent: Agent, config: str) -> Object:
    deploy = agent.config.deploy.kubernetes
    claims = ["state"] if deploy.workspace_claim else ["state", "workspace"]
    spec = {
        # An autoscaler decides how many there are.
        **({} if deploy.autoscale else {"replicas": deploy.replicas}),
        "serviceName": container.host_name(agent),
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels(agent)},
        "template": {"metadata": {"labels": labels(agent)}, "spec": pod(agent, config, labels(agent))},
        "volumeClaimTemplates": [_claim(agent, each) for each in claims],
    }
    description = _shortened(check(agent.config.agent_card.description, "agentCard.description"))
    annotations = {"kubernetes.io/description": description} if description else None
    return _object(agent, "apps/v1", "StatefulSet", annotations=annotations, spec=spec)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_DESCRIPTION else f"{text[: _LONGEST_DESCRIPTION - 1]}…"


def _claim(agent: Agent, name: str) -> Object:
    deploy = agent.config.deploy.kubernetes
    return {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            **({"storageClassName": deploy.storage_class} if deploy.storage_class else {}),
            "resources": {"requests": {"storage": deploy.storage}},
        },
    }


# --- Around it --------------------------------------------------------------------------------------------------------


def _service(agent: Agent) -> Object:
    server = agent.config.server
    protocol = "https" if server.tls else "http"
    ports = [{"name": "http", "port": server.port, "targetPort": "http", "appProtocol": protocol}]
    return _object(agent, "v1", "Service", spec={"selector": labels(agent), "ports": ports})


def _policy(agent: Agent) -> Object:
    return _object(agent, "networking.k8s.io/v1", "NetworkPolicy", spec=policy(agent, labels(agent)))


def _budget(agent: Agent) -> Object:
    # Nodes can be drained even of a single replica, and of several only one after the other.
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels(agent)}}
    return _object(agent, "policy/v1", "PodDisruptionBudget", spec=spec)


def _autoscaler(agent: Agent) -> Object:
    scale = agent.config.deploy.kubernetes.autoscale
    assert scale is not None  # noqa: S101 - the caller looked
    if scale.min_replicas > scale.max_replicas:
        raise Unrenderable(
            "deploy.kubernetes.autoscale.minReplicas",
            f"{scale.min_replicas} is more than maxReplicas, {scale.max_replicas}",
            "raise maxReplicas, or lower this",
        )
    target = {"type": "Utilization", "averageUtilization": scale.cpu_percent}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": container.host_name(agent)},
        "minReplicas": scale.min_replicas,
        "maxReplicas": scale.max_replicas,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    return _object(agent, "autoscaling/v2", "HorizontalPodAutoscaler", spec=spec)

"""The pod of an agent, which keeps to the Pod Security Standard "restricted"."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable, container
from a2a_claude.targets.yaml_text import check

_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9._-]+")
_KEY = re.compile(r"(?!\.\.?$|\.\.)[A-Za-z0-9._-]{1,253}")
# Requests that arrive while a pod's address is taken out of the Service are still answered.
_LEAVING_SECONDS = 5

Object = dict[str, Any]


def pod(agent: Agent, config: str, labels: dict[str, str]) -> Object:
    """The spec of the pod. `config` is the name of the ConfigMap that holds agent.json, `labels` are the pod's.

    Unrenderable for a path that cannot be mounted.
    """
    deploy, user = agent.config.deploy.kubernetes, agent.config.deploy.docker.uid
    several = deploy.autoscale is not None or deploy.replicas > 1
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _LEAVING_SECONDS + container.stop_seconds(agent),
        **({"imagePullSecrets": [{"name": deploy.image_pull_secret}]} if deploy.image_pull_secret else {}),
        **({"topologySpreadConstraints": [spread]} if several else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(agent)],
        "volumes": _volumes(agent, config),
    }


def _container(agent: Agent) -> Object:
    deploy = agent.config.deploy.kubernetes
    return {
        "name": "agent",
        "image": container.image(agent),
        # A name that the agent was given here is nobody's in a registry: it is put on the nodes, or not there.
        **({} if agent.config.deploy.docker.image else {"imagePullPolicy": "Never"}),
        "ports": [{"name": "http", "containerPort": agent.config.server.port}],
        **({"env": env} if (env := [_variable(agent, each) for each in container.variables(agent)]) else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": deploy.cpu, "memory": deploy.memory}, "limits": {"memory": deploy.memory}},
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_LEAVING_SECONDS)]}}},
        "startupProbe": {**_probe(agent, "/health"), "periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": {**_probe(agent, "/ready"), "periodSeconds": 5, "timeoutSeconds": 5},
        "livenessProbe": {**_probe(agent, "/health"), "periodSeconds": 20, "timeoutSeconds": 5, "failureThreshold": 3},
        "volumeMounts": _mounts(agent),
    }


def _variable(agent: Agent, name: str) -> Object:
    key = {"name": f"{container.host_name(agent)}-env", "key": name, "optional": True}
    return {"name": name, "valueFrom": {"configMapKeyRef": key}}


def _probe(agent: Agent, path: str) -> Object:
    tls = agent.config.server.tls
    if tls and tls.client_ca_file:  # the kubelet has no certificate to show
        live = ["--live"] if path == "/health" else []
        return {"exec": {"command": [*container.healthcheck(agent), *live]}}
    return {"httpGet": {"path": path, "port": "http", **({"scheme": "HTTPS"} if tls else {})}}


# --- Volumes ----------------------------------------------------------------------------------------------------------


def _volumes(agent: Agent, config: str) -> list[Object]:
    claim = agent.config.deploy.kubernetes.workspace_claim
    volumes: list[Object] = [
        {"name": "config", "configMap": {"name": config}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    # With fsGroup, the group of the pod can read what its owner, root, can.
    if agent.secrets:
        sources = [_secret(agent, each) for each in container.secrets(agent)]
        volumes.append({"name": "secrets", "projected": {"defaultMode": 0o400, "sources": sources}})
    if _files(agent):
        volumes.append(
            {"name": "files", "secret": {"secretName": f"{container.host_name(agent)}-files", "defaultMode": 0o400}}
        )
    if claim:
        volumes.append({"name": "workspace", "persistentVolumeClaim": {"claimName": claim}})
    return volumes


def _secret(agent: Agent, name: str) -> Object:
    secret = agent.secrets[name]
    place = secret.kubernetes
    return {
        "secret": {
            "name": place.name if place else f"{container.host_name(agent)}-secrets",
            "items": [{"key": (place.key if place else None) or name, "path": name}],
            **({"optional": True} if secret.optional else {}),
        }
    }


def _mounts(agent: Agent) -> list[Object]:
    read_only = {} if agent.writes_workspace else {"readOnly": True}
    workspace = _mountable(container.workspace(agent), "deploy.docker.workspace")
    config = {"name": "config", "mountPath": container.config_file(agent), "subPath": "agent.json", "readOnly": True}
    files = [
        {"name": "files", "mountPath": path, "subPath": key, "readOnly": True} for path, key in _files(agent).items()
    ]
    secrets = {"name": "secrets", "mountPath": container.SECRETS, "readOnly": True}
    return [
        {"name": "state", "mountPath": container.STATE},
        {"name": "workspace", "mountPath": workspace, **read_only},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - in the container
        config,
        *([secrets] if agent.secrets else []),
        *files,
    ]


def _files(agent: Agent) -> dict[str, str]:
    """The keys of the Secret `<agent>-files` by the path that each is mounted at: the path with hyphens, and a digest
    of it where that is no key, or another file's as well."""
    paths = [_mountable(each.path, each.origin) for each in container.host_files(agent)]
    keys = Counter(map(_plain_key, paths))
    return {
        path: key if keys[key] == 1 and _KEY.fullmatch(key) else f"{key[:200].lstrip('.')}-{_digest(path)}"
        for path, key in zip(paths, map(_plain_key, paths), strict=True)
    }


def _plain_key(path: str) -> str:
    return _NOT_IN_KEYS.sub("-", path.strip("/"))


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:8]


def _mountable(path: str, origin: str) -> str:
    if ":" in path:
        raise Unrenderable(origin, "has a colon, which no mount of Kubernetes can have", "rename it")
    return check(container.path(path, origin), origin)

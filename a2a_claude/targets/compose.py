"""`compose.yaml`: a service of the Compose specification for an agent, and one file with all agents of the fleet.

Sources: the Compose specification, chapters "Services", "Secrets" and "Interpolation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact, container
from a2a_claude.targets.systemd_paths import secret_file
from a2a_claude.targets.yaml_text import document

_HEAD = """\
Rendered by a2a-claude: change the agent's config and compile again, or lay a file of your own over this one:

  docker compose -f compose.yaml -f mine.yaml up --build --detach

Secrets are files on this host, readable by the numeric user of the service. One that is optional is an empty file.
Variables are those of the env_file, which may be missing. None is taken from the environment of this command.
"""


def render(agent: Agent) -> list[Artifact]:
    """`compose.yaml` of one agent, whose image is built from the folder it is in. Unrenderable for paths and ports that
    Compose cannot take."""
    model = _project(f"a2a-claude-{container.name(agent)}", [(agent, ".")])
    return [Artifact("compose.yaml", document(model, _HEAD))]


def render_fleet(agents: Iterable[Agent]) -> list[Artifact]:
    """`compose.yaml` with a service for each agent, on one network, in which a service's name is its host name."""
    model = _project("a2a-claude", [(each, f"./{each.name}") for each in agents])
    return [Artifact("compose.yaml", document(model, _HEAD))]


def literal(value: Any) -> Any:
    """`value` with `$$` for every dollar in its strings: Compose interpolates all values, and no keys."""
    match value:
        case str():
            return value.replace("$", "$$")
        case Mapping():
            return {key: literal(each) for key, each in value.items()}
        case list():
            return [literal(each) for each in value]
    return value


def _project(name: str, agents: Iterable[tuple[Agent, str]]) -> dict[str, Any]:
    services: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    volumes: dict[str, Any] = {}
    for agent, context in agents:
        services[agent.name] = _service(agent, context)
        secrets |= {
            f"{agent.name}-{each}": {"file": container.path(_secret_file(agent, each), f"secrets.{each}.file")}
            for each in container.secrets(agent)
        }
        # Named, so that the file of the agent and that of the fleet mean the same state.
        kept = ["state"] if agent.config.deploy.compose.workspace else ["state", "workspace"]
        volumes |= {f"{agent.name}-{each}": {"name": f"a2a-claude-{agent.name}-{each}"} for each in kept}
    model = {"name": name, "services": services, "secrets": secrets, "volumes": volumes}
    found: dict[str, Any] = literal({key: each for key, each in model.items() if each})
    return found


def _service(agent: Agent, context: str) -> dict[str, Any]:
    deploy = agent.config.deploy.compose
    user = agent.config.deploy.docker.uid
    service = {
        "image": container.image(agent),
        "build": {"context": context},
        # A name that the agent was given here is nobody's in a registry, and what somebody else calls so is not it.
        "pull_policy": None if agent.config.deploy.docker.image else "never",
        "restart": "unless-stopped",
        "user": f"{user}:{user}",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": [container.TMP],
        "mem_limit": _bytes(deploy.memory),
        "pids_limit": deploy.pids_limit,
        "cpus": deploy.cpus,
        "ports": [container.published(agent, deploy.publish, "deploy.compose.publish")],
        # As on a systemd host. A name under `environment` would have the value of whoever runs `docker compose`.
        "env_file": [{"path": container.env_file(agent), "required": False}],
        "secrets": [{"source": f"{agent.name}-{each}", "target": each} for each in container.secrets(agent)],
        "volumes": _mounts(agent),
        "stop_grace_period": f"{container.stop_seconds(agent)}s",
        # Without start_interval: Compose refuses it where Docker is older than 25, as in Debian 12.
        "healthcheck": {
            "test": ["CMD", *container.healthcheck(agent)],
            "interval": "10s",
            "timeout": "5s",
            "start_period": "30s",
            "retries": 3,
        },
    }
    return {key: each for key, each in service.items() if each is not None and each not in ([], {})}


def _mounts(agent: Agent) -> list[dict[str, Any]]:
    """The state, the workspace, and the files of the host that the config names. A folder that is not there is told
    instead of made, which Docker would do as root."""
    deploy = agent.config.deploy.compose
    workspace = {"target": container.workspace(agent), "read_only": not agent.writes_workspace}
    if deploy.workspace:
        workspace = _bind(container.path(deploy.workspace, "deploy.compose.workspace")) | workspace
    else:
        workspace = {"type": "volume", "source": f"{agent.name}-workspace"} | workspace
    state = {"type": "volume", "source": f"{agent.name}-state", "target": container.STATE}
    files = [
        _bind(path) | {"target": path, "read_only": True}
        for path in (container.path(each.path, each.origin) for each in container.host_files(agent))
    ]
    return [state, workspace, *files]


def _bind(source: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "bind": {"create_host_path": False}}


def _secret_file(agent: Agent, name: str) -> str:
    """The file of a systemd host, unless it is encrypted there: then what it is decrypted to, on a file system in
    memory."""
    if agent.secrets[name].encrypted:
        return f"/run/a2a-claude/{agent.name}/secrets/{name}"
    return secret_file(agent, name)


def _bytes(size: str) -> str:
    """`4Gi` as Compose writes it: `4g`."""
    return size.removesuffix("i").lower() if size.endswith("i") else f"{size}b"

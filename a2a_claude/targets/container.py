"""What Compose, Quadlet and Kubernetes have in common: all three run the image of the target `docker`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from math import ceil

from a2a_claude.config.agent import Agent, Variable
from a2a_claude.targets import Unrenderable
from a2a_claude.targets.docker import AGENT_NAME, IMAGE, STOP_MARGIN, every_address, operand
from a2a_claude.targets.docker import workspace as workspace_of_image

SECRETS = "/run/secrets"
STATE = "/var/lib/a2a-claude"
TMP = "/tmp:size=1g"  # noqa: S108 - in the container
"""A bounded file system in memory, as Docker and Podman write it. Its bound would be half of the host's memory."""

_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_.-]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_VARIABLE = re.compile("[A-Za-z_][A-Za-z0-9_]{0,127}")
_HOST = re.compile(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?")
_WORKSPACE = "claude.workingDirectory"


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file that the server reads, at the same path on the host and in the container."""

    path: str
    origin: str


def name(agent: Agent) -> str:
    """The agent's name, as part of the names of containers, volumes and files."""
    return operand("name", agent.name, AGENT_NAME, "name the agent's folder by lower-case letters, digits and -")


def host_name(agent: Agent) -> str:
    """The agent's name, or where it is none for a host (RFC 1123, section 2.1), its beginning and a digest.

    At most 52 characters: of a StatefulSet's name, a label with eleven more is made.
    """
    if _HOST.fullmatch(agent.name):
        return agent.name
    return f"{agent.name[:43].rstrip('-')}-{hashlib.sha256(agent.name.encode()).hexdigest()[:8]}"


def image(agent: Agent) -> str:
    """What the image is called: `deploy.docker.image`, or `a2a-claude/<agent>:<version>` with the card's version."""
    given = agent.config.deploy.docker.image
    if given is None:
        tag = _NOT_IN_TAGS.sub("-", agent.config.agent_card.version).lstrip("-.")[:128]
        given = f"a2a-claude/{host_name(agent)}:{tag or 'latest'}"
    return operand("deploy.docker.image", given, IMAGE, "write [registry/]name[:tag][@digest]")


def config_file(agent: Agent) -> str:
    """Where the image has the compiled agent.json."""
    return f"/etc/a2a-claude/{name(agent)}/agent.json"


def env_file(agent: Agent) -> str:
    """Where Compose, Quadlet and systemd find the variables of the agent that are no secrets, if there are any."""
    return f"/etc/a2a-claude/{name(agent)}/env"


def healthcheck(agent: Agent) -> list[str]:
    """The command that asks the server in the container whether it is ready."""
    return ["a2a-claude", "healthcheck", config_file(agent), "--hostname", every_address(agent)]


def stop_seconds(agent: Agent) -> int:
    """How long the server may take to end: running turns (timeouts.shutdown), then its clients and its store."""
    return ceil(agent.config.timeouts.shutdown / 1000) + STOP_MARGIN


def published(agent: Agent, publish: str | None, origin: str) -> str:
    """`address:port:port` for the agent's port, on the host's loopback unless the config says another address."""
    port = agent.config.server.port
    address, _, outside = (publish or f"127.0.0.1:{port}").rpartition(":")
    try:
        fits = 0 < int(outside) <= 65535 and (not address or IPv4Address(address))
    except ValueError:
        fits = False
    if not fits:
        raise Unrenderable(origin, f"{publish} is no port, or no address and port", "write 127.0.0.1:3031")
    return f"{address}:{outside}:{port}" if address else f"{outside}:{port}"


def variables(agent: Agent) -> list[str]:
    """The variables, not secret, that the config refers to. The workspace's is set in the image."""
    return [
        operand(each.name, each.name, _VARIABLE, "name it like a variable")
        for each in agent.plain_variables
        if each.name != "WORKSPACE_DIR" and not _is_workspace(each)
    ]


def _is_workspace(variable: Variable) -> bool:
    return bool(variable.uses) and all(use.path == _WORKSPACE for use in variable.uses)


def secrets(agent: Agent) -> list[str]:
    """The names of the secrets, each to be a file of that name in /run/secrets."""
    return [operand(f"secrets.{each}", each, _VARIABLE, "name it like a variable") for each in agent.secrets]


def workspace(agent: Agent) -> str:
    """Where the container has the workspace; Unrenderable for a path that it cannot be mounted at."""
    return path(workspace_of_image(agent), "deploy.docker.workspace")


def host_files(agent: Agent) -> list[HostFile]:
    """What the config names by a path outside of the image: certificates, tokens and keys of callers. Each once."""
    return list({each.path: each for each in _named_files(agent)}.values())


def _named_files(agent: Agent) -> Iterator[HostFile]:
    server = agent.config.server
    if tls := server.tls:
        yield HostFile(tls.certificate_file, "server.tls.certificateFile")
        yield HostFile(tls.key_file, "server.tls.keyFile")
        if tls.client_ca_file:
            yield HostFile(tls.client_ca_file, "server.tls.clientCaFile")
    if server.auth.bearer and server.auth.bearer.tokens_file:
        yield HostFile(server.auth.bearer.tokens_file, "server.auth.bearer.tokensFile")
    if server.auth.api_key and server.auth.api_key.keys_file:
        yield HostFile(server.auth.api_key.keys_file, "server.auth.apiKey.keysFile")
    if server.auth.jwt and server.auth.jwt.jwks_file:
        yield HostFile(server.auth.jwt.jwks_file, "server.auth.jwt.jwksFile")


def path(text: str, origin: str) -> str:
    """An absolute path of the host or the container; Unrenderable for one that engines would read otherwise."""
    if found := _CONTROL.search(text):
        raise Unrenderable(origin, f"has the character U+{ord(found[0]):04X}", "rename it")
    if not text.startswith("/") or {".", ".."} & set(text.split("/")):
        raise Unrenderable(origin, "is no absolute path, or has . or .. in it", "write the whole path")
    sizes = [len(each.encode()) for each in text.split("/")]
    if max(sizes) > 255 or sum(sizes) + len(sizes) > 4096:
        raise Unrenderable(origin, "is longer than a path may be", "shorten it")
    return text

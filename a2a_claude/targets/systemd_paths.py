"""Which paths of the host an agent's service sees, and which it may write: systemd.exec(5), "Sandboxing"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from a2a_claude.config.agent import Agent
from a2a_claude.config.references import Reference, parse
from a2a_claude.targets import Unrenderable

# What ProtectHome=tmpfs and PrivateTmp=yes replace: a path in them is only there when it is bound.
_HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # noqa: S108


@dataclass(frozen=True, slots=True)
class HostPath:
    """A path on the host and the config path it came from."""

    text: str
    origin: str

    def is_in(self, *folders: str) -> bool:
        """Whether it is one of `folders` or below."""
        return any(self.text == each or self.text.startswith(each.rstrip("/") + "/") for each in folders)


def config_file(agent: Agent) -> str:
    """Where a systemd host keeps the compiled agent.json."""
    return agent.config.deploy.systemd.config_file or f"/etc/a2a-claude/{agent.name}/agent.json"


def secret_file(agent: Agent, name: str) -> str:
    """Where a systemd or NixOS host keeps a secret of the agent."""
    return agent.secrets[name].file or f"/etc/a2a-claude/{agent.name}/secrets/{name}"


def workspace_on_host(agent: Agent) -> HostPath | None:
    """The workspace when the config names a folder of the host for it; None for the one under the state directory."""
    if path := agent.config.deploy.systemd.workspace:
        return HostPath(path, "deploy.systemd.workspace")
    match parse(agent.config.claude.working_directory):
        case [Reference(name="WORKSPACE_DIR", default=str(default))] if default.startswith("/"):
            return HostPath(default, "claude.workingDirectory")
    return _literal(agent.config.claude.working_directory, "claude.workingDirectory")


def workspace_is_given(agent: Agent) -> bool:
    """Whether the unit sets WORKSPACE_DIR: not when the config takes the workspace from another variable."""
    pieces = parse(agent.config.claude.working_directory)
    elsewhere = any(isinstance(each, Reference) and each.name != "WORKSPACE_DIR" for each in pieces)
    return not elsewhere or workspace_on_host(agent) is not None


def bound(agent: Agent) -> tuple[list[HostPath], list[HostPath]]:
    """The paths that are bound into the service to be read, and to be written too.

    Raises Unrenderable when the executable would not be there.
    """
    config = agent.config
    readable = list(_indexed(config.deploy.systemd.read_only_paths, "deploy.systemd.readOnlyPaths"))
    writable = list(_indexed(config.deploy.systemd.read_write_paths, "deploy.systemd.readWritePaths"))
    workspace = workspace_on_host(agent)
    for path in ([workspace] if workspace else []) + list(_additional(agent)):
        (writable if agent.writes_workspace else readable).append(path)
    readable += [each for each in _read_by_server(agent) if each.is_in(*_HIDDEN)]
    executable = HostPath(config.deploy.systemd.executable, "deploy.systemd.executable")
    if executable.is_in(*_HIDDEN) and not executable.is_in(*(each.text for each in readable + writable)):
        raise Unrenderable(
            executable.origin,
            "is in a folder that the service cannot see",
            "install a2a-claude under /opt, or name its folder in deploy.systemd.readOnlyPaths",
        )
    return readable, writable


def _indexed(texts: tuple[str, ...], origin: str) -> Iterator[HostPath]:
    return (HostPath(text, f"{origin}[{index}]") for index, text in enumerate(texts))


def _additional(agent: Agent) -> Iterator[HostPath]:
    for index, text in enumerate(agent.config.claude.additional_directories):
        if path := _literal(text, f"claude.additionalDirectories[{index}]"):
            yield path


def _read_by_server(agent: Agent) -> Iterator[HostPath]:
    config = agent.config
    yield HostPath(str(PurePosixPath(config_file(agent)).parent), "deploy.systemd.configFile")
    if override := _literal(config.claude.executable_path_override or "", "claude.executablePathOverride"):
        yield override
    if tls := config.server.tls:
        yield HostPath(tls.certificate_file, "server.tls.certificateFile")
        yield HostPath(tls.key_file, "server.tls.keyFile")
        if tls.client_ca_file:
            yield HostPath(tls.client_ca_file, "server.tls.clientCaFile")


def _literal(text: str, origin: str) -> HostPath | None:
    """An absolute path without references; what the environment decides is not known here."""
    pieces = [each for each in parse(text) if isinstance(each, str)]
    path = "".join(pieces)
    return HostPath(path, origin) if len(pieces) == len(parse(text)) and path.startswith("/") else None

"""An agent's systemd unit, its socket and `env.example`: systemd.service(5), systemd.exec(5), systemd.socket(5)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from a2a_claude.config.agent import Agent, Variable
from a2a_claude.targets import Artifact
from a2a_claude.targets import systemd_syntax as syntax
from a2a_claude.targets.hardening import directives
from a2a_claude.targets.systemd_paths import bound, config_file, secret_file, workspace_is_given, workspace_on_host
from a2a_claude.targets.template import Quoted, fill

_AGENT = r"[a-z][a-z0-9-]{0,62}"
_USER = r"[a-z_][a-z0-9_-]{0,30}"
_UNIT = r"[A-Za-z0-9:_.@-]+\.(service|target|mount|socket)"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,127}"

# Besides running turns (timeouts.shutdown), the server closes its clients and its store.
_CLOSING_SECONDS = 15


def render(agent: Agent) -> list[Artifact]:
    """`a2a-claude-<agent>.service` and `env.example`, with `deploy.systemd.socketActivation` also the socket.

    Raises Unrenderable for a value that systemd cannot read back, or that cannot work in the unit's sandbox.
    """
    unit = f"a2a-claude-{syntax.name(agent.name, 'name', _AGENT)}"
    artifacts = [Artifact(f"{unit}.service", _service(agent)), Artifact("env.example", _env_example(agent))]
    if agent.config.deploy.systemd.socket_activation:
        artifacts.append(Artifact(f"{unit}.socket", _socket(agent)))
    return artifacts


def _service(agent: Agent) -> str:
    deploy = agent.config.deploy.systemd
    workspace = workspace_on_host(agent)
    readable, writable = bound(agent)
    url = agent.config.agent_card.documentation_url
    return fill(
        "systemd/service",
        **_common(agent),
        documentation=syntax.url(url, "agentCard.documentationUrl") if url else None,
        after=[syntax.name(each, "deploy.systemd.after", _UNIT) for each in deploy.after],
        mounts=[syntax.path(each.text, each.origin) for each in (*readable, *writable)],
        executable=syntax.executable(deploy.executable, "deploy.systemd.executable"),
        config_file=syntax.path_argument(config_file(agent), "deploy.systemd.configFile"),
        user=syntax.name(deploy.user, "deploy.systemd.user", _USER) if deploy.user else None,
        own_workspace=workspace is None and workspace_is_given(agent),
        workspace=syntax.word(f"WORKSPACE_DIR={workspace.text}", workspace.origin) if workspace else None,
        writes=agent.writes_workspace,
        environment_files=[
            syntax.path_pattern(each, f"deploy.systemd.environmentFiles[{index}]")
            for index, each in enumerate(deploy.environment_files)
        ],
        credentials=list(_credentials(agent)),
        readable=[syntax.path(each.text, each.origin) for each in readable],
        writable=[syntax.path(each.text, each.origin) for each in writable],
        stop_seconds=-(-agent.config.timeouts.shutdown // 1000) + _CLOSING_SECONDS,
        memory=syntax.name(deploy.memory_max.removesuffix("i"), "deploy.systemd.memoryMax", "[0-9]+[KMG]?"),
        tasks=deploy.tasks_max,
        cpu=deploy.cpu_quota,
        host_authenticates=not agent.config.claude.credentials,
        hardening=[
            line
            for name, value in directives(deploy.profile, deploy.min_version).items()
            for line in syntax.directive(name, value)
        ],
    )


def _socket(agent: Agent) -> str:
    server = agent.config.server
    listen = syntax.socket_address(server.hostname, server.port, "server.hostname")
    return fill("systemd/socket", **_common(agent), listen=listen)


def _env_example(agent: Agent) -> str:
    given = workspace_is_given(agent)
    return fill(
        "systemd/env.example",
        **_common(agent),
        variables=[
            {"name": syntax.name(each.name, each.name, _VARIABLE), "notes": list(_notes(each))}
            for each in agent.plain_variables
            if not (given and each.name == "WORKSPACE_DIR")
        ],
        secrets=[syntax.comment(each) for each in _secret_notes(agent)],
    )


def _common(agent: Agent) -> dict[str, Quoted | bool]:
    return {
        "agent": syntax.name(agent.name, "name", _AGENT),
        "title": syntax.line(f"A2A agent “{agent.config.agent_card.name}” ({agent.name})", "agentCard.name"),
        "socket": agent.config.deploy.systemd.socket_activation,
    }


# --- secrets and variables --------------------------------------------------------------------------------------------


def _credentials(agent: Agent) -> Iterator[dict[str, Quoted | bool]]:
    for name, secret in agent.secrets.items():
        origin = f"secrets.{name}.file"
        file = secret_file(agent, name)
        yield {
            "name": syntax.name(name, f"secrets.{name}", _VARIABLE),
            "file": syntax.path_line(file, origin),
            "hide": syntax.path(file, origin, prefix="-"),
            "encrypted": secret.encrypted,
            "optional": secret.optional,
        }


def _notes(variable: Variable) -> Iterator[Quoted]:
    for use in variable.uses:
        yield syntax.comment(f"{use.path} ({use.where})")
    if variable.default is not None:
        yield syntax.comment(f"Default: {json.dumps(variable.default, ensure_ascii=False)}")
    elif variable.required:
        yield syntax.comment("Required.")


def _secret_notes(agent: Agent) -> Iterator[str]:
    for name, secret in agent.secrets.items():
        about = [
            "encrypted by systemd-creds" if secret.encrypted else "",
            "optional" if secret.optional else "",
            secret.description or "",
        ]
        yield ": ".join([secret_file(agent, name), ", ".join(filter(None, [name, *about]))])

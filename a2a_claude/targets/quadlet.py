"""Quadlet: an agent as `.container`, `.volume` and `.network` files, which podman's generator makes units of.

Sources: podman-systemd.unit(5) of podman 5.4, podman-run(1), systemd.syntax(7). The generator hands most values on as
words of `ExecStart=`, where systemd expands `%` and `$`.
"""

from __future__ import annotations

import json
import re

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact, Unrenderable, container
from a2a_claude.targets import systemd_syntax as syntax
from a2a_claude.targets.template import Quoted, fill

# The generator copies the source of a mount into RequiresMountsFor= unquoted, and a mount is a list split at commas.
_NOT_IN_MOUNTS = re.compile(r"[\s\"'\\$,]")
_SIZE = "[0-9]+[KMG]?"
# What a service has of its manager or of a user's session (systemd.exec(5), "Environment Variables in Spawned
# Processes"), or podman of both; and what the image sets.
_OF_THE_HOST = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|SHLVL|PWD|OLDPWD|MAIL|LANG|LANGUAGE|TERM|HOSTNAME|TMPDIR|DISPLAY|WAYLAND_DISPLAY"
    "|XAUTHORITY|INVOCATION_ID|JOURNAL_STREAM|LOG_NAMESPACE|MAINPID|MANAGERPID|NOTIFY_SOCKET|PIDFILE|CLAUDE_CONFIG_DIR"
    "|(RUNTIME|STATE|CACHE|LOGS|CONFIGURATION|CREDENTIALS)_DIRECTORY|LISTEN_(FDS|FDNAMES|PID|PIDFDID)"
    "|SSH_(AGENT_PID|ASKPASS|AUTH_SOCK|CLIENT|CONNECTION|TTY)|WATCHDOG_(PID|USEC)|MEMORY_PRESSURE_(WATCH|WRITE)"
    "|CONTAINER_(HOST|SSHKEY|CONNECTION)|DOCKER_(CONFIG|HOST)|(LC|LD|XDG|DBUS|SYSTEMD|PODMAN|CONTAINERS)_.*"
)


def render(agent: Agent) -> list[Artifact]:
    """The files to put into /etc/containers/systemd. Unrenderable for a path or port that podman would misread."""
    name = f"a2a-claude-{container.name(agent)}"
    own_workspace = agent.config.deploy.quadlet.workspace is None
    artifacts = [
        Artifact(f"quadlet/{name}.container", _container(agent)),
        Artifact("quadlet/a2a-claude.network", fill("quadlet/network")),
    ]
    for each in ["state", "workspace"] if own_workspace else ["state"]:
        text = fill("quadlet/volume", name=Quoted(f"{name}-{each}"))
        artifacts.append(Artifact(f"quadlet/{name}-{each}.volume", text))
    return artifacts


def mount(source: str, origin: str, target: str, target_origin: str, read_only: bool) -> Quoted:
    """`Mount=` of a file or folder of the host; Unrenderable for a path that the generator does not hand on as is."""
    pair = [_mountable(source, origin), _mountable(target, target_origin)]
    return Quoted(f"type=bind,source={pair[0]},destination={pair[1]},ro={'true' if read_only else 'false'}")


def _mountable(text: str, origin: str) -> str:
    if found := _NOT_IN_MOUNTS.search(container.path(text, origin)):
        raise Unrenderable(origin, f"has {found[0]!r}, which no mount of Quadlet can have", "rename it")
    return syntax.line(text, origin)


def _container(agent: Agent) -> str:
    docker, deploy = agent.config.deploy.docker, agent.config.deploy.quadlet
    target = (container.workspace(agent), "deploy.docker.workspace")
    read_only = not agent.writes_workspace
    workspace = (deploy.workspace, "deploy.quadlet.workspace") if deploy.workspace else None
    files = [(each.path, each.origin) for each in container.host_files(agent)]
    image = container.image(agent)
    variables = container.variables(agent)
    local = docker.image is None
    return fill(
        "quadlet/container",
        agent=Quoted(container.name(agent)),
        title=syntax.line(f"A2A agent “{agent.config.agent_card.name}” ({agent.name})", "agentCard.name"),
        image=Quoted(f"localhost/{image}" if local else image),
        publish=Quoted(container.published(agent, deploy.publish, "deploy.quadlet.publish")),
        user=docker.uid,
        state=Quoted(container.STATE),
        workspace=mount(*workspace, *target, read_only) if workspace else None,
        own_workspace=None if workspace else _volume_target(*target),
        read_only=read_only,
        files=[mount(*each, *each, read_only=True) for each in files],
        variables=[Quoted(each) for each in variables if not _OF_THE_HOST.fullmatch(each)],
        left=[Quoted(each) for each in variables if _OF_THE_HOST.fullmatch(each)],
        env_file=Quoted(container.env_file(agent)),
        tmp=Quoted(container.TMP),
        secrets=[Quoted(each) for each in container.secrets(agent)],
        # Of an array that begins with "CMD", podman makes a single word.
        health=Quoted(json.dumps(container.healthcheck(agent), separators=(",", ":"))),
        update=_update(docker.image) if deploy.auto_update else None,
        stop_seconds=container.stop_seconds(agent),
        stop_seconds_of_podman=container.stop_seconds(agent) + 10,
        memory=syntax.name(deploy.memory.removesuffix("i"), "deploy.quadlet.memory", _SIZE),
    )


def _update(image: str | None) -> Quoted:
    """Where podman looks for a newer image: of a name that nobody gave, on this host. (podman-auto-update(1).)"""
    if image is None:
        return Quoted("local")
    if "@" in image or ":" not in image.rpartition("/")[2]:
        reason = "an image without a tag, or with a digest, is never a newer one"
        hint = "give deploy.docker.image a tag and no digest, or leave this out"
        raise Unrenderable("deploy.quadlet.autoUpdate", reason, hint)
    return Quoted("registry")


def _volume_target(text: str, origin: str) -> Quoted:
    if ":" in text:
        raise Unrenderable(origin, "has a colon, which no volume of podman can have", "rename it")
    return Quoted(_mountable(text, origin))

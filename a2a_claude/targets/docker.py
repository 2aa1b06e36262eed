"""`Dockerfile` and `.dockerignore`: an image of one agent, built from the agent's own folder `deploy/<agent>/`.

The syntax is the Dockerfile reference's as of Docker 20.10, which BuildKit and buildah read alike: no heredocs, no
`--mount`, no `--chmod`, no `# syntax=`.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from math import ceil
from pathlib import PurePosixPath

from a2a_claude import __version__
from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact, Unrenderable
from a2a_claude.targets.template import Quoted, fill

# The parsers read lines of at most 64 KiB, and take seconds, in quadratic time, for values near to that.
LONGEST_VALUE = 32_000

# Seconds that a server may need to stop beyond timeouts.shutdown; Docker kills it after 10 in all unless told.
STOP_MARGIN = 15

AGENT_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")
APT_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
IMAGE_PATH = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
IMAGE = re.compile(
    rf"[a-z0-9]+([._-][a-z0-9]+)*(:[0-9]{{1,5}})?(/{IMAGE_PATH})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[a-f0-9]{64})?"
)
LABEL_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
REQUIREMENT = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?([=<>!~]{1,3}[A-Za-z0-9][A-Za-z0-9._+!-]*,?)*"
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHEEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._+-]*/)*[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")

# What the image and its engine have for themselves: no workspace is one of them, below one, or around one.
_TAKEN = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt/a2a-claude", "/opt/claude", "/proc", "/run", "/sbin"),
    *("/sys", "/tmp", "/usr", "/var/lib/a2a-claude"),  # noqa: S108 - in the container
)
# Where others have folders, too: a workspace may be below one of them.
_SHARED = ("/home", "/media", "/mnt", "/root", "/srv")


def double_quoted(path: str, text: str) -> Quoted:
    r"""`text` as a value of LABEL or ENV: in double quotes, with `\`, `"` and `$` escaped.

    `path` is the config path that Unrenderable names when a control character, which no escape expresses, a lone
    surrogate or too long a text makes it impossible. (Dockerfile reference, "Environment replacement".)
    """
    _refuse(path, text, ("Cc", "Cs"), "put it on one line; longer text belongs into a file of the workspace")
    return _fits(path, '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"')


def exec_form(path: str, *words: str) -> Quoted:
    """`words` as a JSON array for RUN, CMD, ENTRYPOINT and HEALTHCHECK: no shell reads them and nothing is expanded.

    Unrenderable for what JSON or an argument vector cannot carry: NUL, lone surrogates, or too long a line.
    """
    for word in words:
        if "\0" in word:
            raise Unrenderable(path, "a NUL cannot be part of an argument", "remove it")
        _refuse(path, word, ("Cs",), "remove it")
    return _fits(path, json.dumps(words))


def operand(path: str, text: str, grammar: re.Pattern[str], hint: str) -> Quoted:
    """`text` bare, as FROM, COPY and apt-get take it; Unrenderable unless the whole of it matches `grammar`.

    A grammar admits no blank, quote, `$`, `\\` or `#`, so that neither the Dockerfile's parser nor a shell can read
    more into the text than a word.
    """
    if not grammar.fullmatch(text):
        raise Unrenderable(path, f"{text!r} is not a word that a Dockerfile takes here", hint)
    return Quoted(text)


def _refuse(path: str, text: str, categories: tuple[str, ...], hint: str) -> None:
    for character in text:
        if unicodedata.category(character) in categories:
            raise Unrenderable(path, f"a Dockerfile cannot express the character U+{ord(character):04X}", hint)


def _fits(path: str, quoted: str) -> Quoted:
    if len(quoted.encode()) > LONGEST_VALUE:
        reason = f"longer than the {LONGEST_VALUE} bytes that a value in a Dockerfile may have"
        raise Unrenderable(path, reason, "shorten it, or put it into a file of the workspace")
    return Quoted(quoted)


def render(agent: Agent) -> list[Artifact]:
    """`Dockerfile` and `.dockerignore`; Unrenderable names the config path of a value that does not fit into them."""
    docker = agent.config.deploy.docker
    name = operand("name", agent.name, AGENT_NAME, "name the agent's folder by lower-case letters, digits and -")
    home = f"/etc/a2a-claude/{name}"
    served = (f"{home}/agent.json", "--hostname", every_address(agent))
    has_memory = any(each.startswith("memory/") for each in agent.files)
    wheel, package = _package(agent)
    dockerfile = fill(
        "docker/Dockerfile.j2",
        agent=name,
        base_image=operand("deploy.docker.baseImage", docker.base_image, IMAGE, "write [registry/]name[:tag][@digest]"),
        wheel=wheel,
        package=package,
        apt_packages=[
            operand(f"deploy.docker.aptPackages[{i}]", each, APT_PACKAGE, "name a Debian package")
            for i, each in enumerate(docker.apt_packages)
        ],
        uid=docker.uid,
        make_directories=_make_directories(agent),
        workspace=double_quoted("deploy.docker.workspace", docker.workspace),
        labels=_labels(agent),
        port=agent.config.server.port,
        stop_timeout=ceil(agent.config.timeouts.shutdown / 1000) + STOP_MARGIN,
        has_memory=has_memory,
        healthcheck=exec_form("server.hostname", "a2a-claude", "healthcheck", *served),
        serve=exec_form("server.hostname", "a2a-claude", "serve", *served),
        secrets=[operand(f"secrets.{each}", each, VARIABLE, "name it like a variable") for each in agent.secrets],
    )
    kept = ["agent.json", *(["memory"] if has_memory else []), *([wheel] if wheel else [])]
    ignore = fill("docker/dockerignore.j2", kept=[Quoted(each) for each in kept])
    return [Artifact("Dockerfile", dockerfile), Artifact(".dockerignore", ignore)]


def _package(agent: Agent) -> tuple[Quoted | None, Quoted]:
    """The wheel to copy from the build context, if any, and the argument of pip as a word of the shell."""
    path, package = "deploy.package", agent.config.deploy.package
    if package is None:
        package = f"a2a-claude[runtime]=={__version__}"
    if package.endswith(".whl"):
        wheel = operand(path, package, WHEEL, "give the path of a wheel inside the agent's compiled folder")
        return wheel, Quoted(f"'/build/{wheel.rpartition('/')[2]}[runtime]'")
    requirement = operand(path, package, REQUIREMENT, "write a requirement such as a2a-claude[runtime]==1.0.0")
    return None, Quoted(f"'{requirement}'")


def workspace(agent: Agent) -> str:
    """`deploy.docker.workspace`; Unrenderable for a place that hides what the image or its engine needs."""
    path = agent.config.deploy.docker.workspace
    place = PurePosixPath("/" + posixpath.normpath(path).lstrip("/"))
    taken = any(place.is_relative_to(each) or PurePosixPath(each).is_relative_to(place) for each in _TAKEN)
    if not path.startswith("/") or taken or str(place) in _SHARED:
        raise Unrenderable(
            "deploy.docker.workspace", f"{path!r} is no place of its own in the image", "use a path such as /workspace"
        )
    return path


def _make_directories(agent: Agent) -> Quoted:
    uid = agent.config.deploy.docker.uid
    owner = (f"--owner={uid}", f"--group={uid}")
    made = ("/var/lib/a2a-claude", workspace(agent))
    return exec_form("deploy.docker.workspace", "install", "--directory", "--mode=0700", *owner, *made)


def every_address(agent: Agent) -> str:
    """The address that a server in a container listens on: all of them, since nobody reaches a container's loopback."""
    # A container that is only reachable by IPv6 needs its wildcard, which a config asks for by name.
    return "::" if agent.config.server.hostname == "::" else "0.0.0.0"  # noqa: S104


def _labels(agent: Agent) -> list[tuple[Quoted, Quoted]]:
    """The OCI image spec's predefined annotation keys, then the config's own labels over them, sorted."""
    card = agent.config.agent_card
    labels = {
        "org.opencontainers.image.title": ("agentCard.name", card.name),
        "org.opencontainers.image.description": ("agentCard.description", " ".join(card.description.split())),
        "org.opencontainers.image.version": ("agentCard.version", card.version),
    }
    for key, value in agent.config.deploy.docker.labels.items():
        labels[key] = (f"deploy.docker.labels.{key}", value)
    return [
        (operand(path, key, LABEL_KEY, "use lower-case letters, digits, . and -"), double_quoted(path, value))
        for key, (path, value) in sorted(labels.items())
    ]

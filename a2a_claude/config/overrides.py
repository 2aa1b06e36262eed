"""The layers above the files: environment variables and `--set path=value`, as documents with places of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from a2a_claude.config.diagnostics import Diagnostic, Span, error
from a2a_claude.config.node import Entry, Node, Scalar
from a2a_claude.config.source import Source
from a2a_claude.config.yaml_reader import MAX_DEPTH, read_yaml

_STEP = re.compile(r'(?:"([^"]+)"|([^.="\[\]]+))(\.|=)')


def _text(value: str) -> Scalar:
    return value.replace("$", "$$")  # a value of the environment is literal: never expanded again


def _plain(value: str) -> Scalar:
    return value


def _number(value: str) -> Scalar:
    return int(value) if re.fullmatch(r"[0-9]{1,9}", value) else value


ENVIRONMENT: dict[str, tuple[tuple[str, str], Callable[[str], Scalar]]] = {
    "PORT": (("server", "port"), _number),
    "ADVERTISE_HOST": (("server", "advertiseHost"), _plain),
    "WORKSPACE_DIR": (("claude", "workingDirectory"), _text),
    "CLAUDE_MODEL": (("claude", "model"), _text),
    "CLAUDE_EFFORT": (("claude", "effort"), _plain),
    "STREAM_ARTIFACTS": (("features", "streamArtifactChunks"), lambda value: value == "true"),
    "LOG_LEVEL": (("logging", "level"), lambda value: value.lower()),
    "AGENT_NAME": (("agentCard", "name"), _plain),
    "AGENT_DESCRIPTION": (("agentCard", "description"), _plain),
}
"""Variables that override a config value when an agent is served, and how each is read. HOSTNAME is not one of them:
every container has it."""


def environment_layer(environ: Mapping[str, str]) -> list[Node]:
    """A layer for each variable of `ENVIRONMENT` that is set and not empty."""
    layers = []
    for name, (path, read) in ENVIRONMENT.items():
        if value := environ.get(name):
            source = Source(f"environment variable {name}", value)
            layers.append(nested(path, Node(read(value), source, 0, 0, 0, len(value), value)))
    return layers


def nested(path: tuple[str, ...], node: Node) -> Node:
    """A document that holds `node` at `path`."""
    for step in reversed(path):
        key = Node(step, node.source, node.line, 0, node.line, node.column)
        node = Node({step: Entry(key, node)}, node.source, node.line, node.column, node.end_line, node.end_column)
    return node


@cache
def setting_layer(option: str) -> tuple[Node | None, list[Diagnostic]]:
    """The layer of one `--set path=value`. The value is YAML; a key that has a dot stands in double quotes."""
    source = Source("--set", option)
    path: list[str] = []
    at = 0
    while (match := _STEP.match(option, at)) and len(path) < MAX_DEPTH:
        path.append(match[1] or match[2])
        at = match.end()
        if match[3] == "=":
            break
    else:
        span = Span(source, 0, at, 0, max(len(option), at + 1))
        hint = "write --set path.to.key=value; lists are replaced whole: --set 'claude.allowedTools=[Read]'"
        return None, [error("bad-setting", "this is not path=value", span, hint)]
    source.text = " " * at + option[at:]  # the value alone, where it stands in the option
    node, diagnostics = read_yaml(source)
    source.text = option
    if node is None and not diagnostics:
        node = Node(None, source, 0, at, 0, at, "")
    return (None if node is None else nested(tuple(path), node)), diagnostics

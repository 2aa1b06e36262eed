"""The graph of a fleet, made of its agents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from a2a_claude.config.agent import Agent
from a2a_claude.config.checks import is_loopback
from a2a_claude.config.credentials import is_secret_flag, mask_line
from a2a_claude.config.model import McpServerHttp, McpServerStdio, Server

Kind = Literal["agent", "mcp"]
_PORTS = {"http": 80, "https": 443}
_REFERENCE = re.compile(r"\$\{(\w+)[^}]*\}")
# Up to the last @ of the authority; or, where no port follows the colon, of a password that has a slash.
_USER = re.compile(r"://(?:[^/]*@|[^/:@\[]*:(?!\d*(?:/|$)|\$)[^@]*@)")


@dataclass(frozen=True, slots=True)
class Need:
    """A secret that an agent needs. `uses` are the config paths that refer to it, of Claude's own credentials none."""

    name: str
    optional: bool
    uses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgentNode:
    """An agent of the fleet. `callers` are the schemes that admit them, or in words who may call without one; `open`
    says that it is whoever reaches it."""

    name: str
    title: str
    description: str
    version: str
    address: str
    port: int
    mode: str
    writes: bool
    model: str | None
    store: str
    callers: tuple[str, ...]
    open: bool
    secrets: tuple[Need, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """What agents use and the fleet does not hold: an MCP server, or an agent of others. `target` is its URL or
    command, without credentials."""

    id: str
    kind: Kind
    name: str
    target: str


@dataclass(frozen=True, slots=True)
class Edge:
    """`source`, an agent, uses `target`, an agent or the id of something outside, and calls it `name`."""

    source: str
    target: str
    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Graph:
    """Everything sorted by name, so that the same fleet gives the same graph."""

    agents: tuple[AgentNode, ...]
    outside: tuple[Outside, ...]
    edges: tuple[Edge, ...]


def graph_of(agents: Sequence[Agent]) -> Graph:
    """The graph of `agents`: a sub-agent is one of them when its URL leads to that one's address."""
    outside: dict[tuple[Kind, str, str], Outside] = {}
    edges: list[Edge] = []

    def beyond(kind: Kind, name: str, target: str) -> str:
        made = Outside(f"{kind}-{len(outside) + 1}", kind, name, target)
        return outside.setdefault((kind, name, target), made).id

    for agent in agents:
        for each in agent.config.sub_agents.agents:
            url = each.endpoint_url_override or each.agent_card_url
            target = _in_fleet(url, agents) or beyond("agent", each.name, _shown(url))
            edges.append(Edge(agent.name, target, "agent", each.name))
        for name, server in agent.config.mcp.items():
            if server.enabled:
                edges.append(Edge(agent.name, beyond("mcp", name, _of(server)), "mcp", name))
    nodes = tuple(sorted((_node(each) for each in agents), key=lambda node: node.name))
    known = tuple(sorted(outside.values(), key=lambda each: (each.kind, each.name, each.target)))
    ids = {each.id: f"{each.kind}-{number}" for number, each in enumerate(known, 1)}
    return Graph(
        nodes,
        tuple(Outside(ids[each.id], each.kind, each.name, each.target) for each in known),
        tuple(
            sorted(
                {Edge(each.source, ids.get(each.target, each.target), each.kind, each.name) for each in edges},
                key=lambda each: (each.source, each.kind, each.name, each.target),
            )
        ),
    )


def _node(agent: Agent) -> AgentNode:
    config = agent.config
    server = config.server
    callers, is_open = _callers(server)
    return AgentNode(
        name=agent.name,
        title=config.agent_card.name,
        description=" ".join(config.agent_card.description.split()),
        version=config.agent_card.version,
        address=_shown(server.public_url or "")
        or f"{'https' if server.tls else 'http'}://{_host(server.hostname)}:{server.port}",
        port=server.port,
        mode=config.claude.permission_mode,
        writes=agent.writes_workspace,
        model=config.claude.model,
        store=config.store.type,
        callers=callers,
        open=is_open,
        secrets=tuple(_needs(agent)),
    )


def _callers(server: Server) -> tuple[tuple[str, ...], bool]:
    auth = server.auth
    schemes = {"bearer": auth.bearer, "API key": auth.api_key, "JWT": auth.jwt, "mTLS": auth.mtls}
    if named := tuple(name for name, scheme in schemes.items() if scheme):
        return named, False
    if is_loopback(server.hostname):
        return ("this machine",), False
    return (("anybody",), True) if auth.allow_unauthenticated else (("nobody: it does not start",), False)


def _needs(agent: Agent) -> Iterator[Need]:
    uses = {each.name: tuple(sorted({use.path for use in each.uses})) for each in agent.variables}
    for name, secret in agent.secrets.items():
        yield Need(name, secret.optional, uses.get(name, ()))


def _host(hostname: str) -> str:
    return f"[{hostname}]" if ":" in hostname else hostname


def _of(server: McpServerHttp | McpServerStdio) -> str:
    """Where an MCP server is, without what is secret: a query may hold a key, an argument too."""
    if isinstance(server, McpServerHttp):
        return _shown(server.url)
    words = [server.command, *server.args]
    secret = [False, *map(is_secret_flag, words)]
    return mask_line(" ".join("***" if hidden else _shown(word) for word, hidden in zip(words, secret, strict=False)))


def _shown(value: str) -> str:
    """A URL without user, query and fragment, whatever they are called, and references without their defaults; any
    other word with what is a credential by its form or name masked."""
    value = _REFERENCE.sub(r"${\1}", value)
    if "://" in value or value.startswith("${"):
        value = _USER.sub("://", re.split("[?#]", value, maxsplit=1)[0], count=1)
    return mask_line(value)


def _in_fleet(url: str, agents: Sequence[Agent]) -> str | None:
    """The agent that a URL leads to: the one whose public URL is the longest above it; or by its port on this machine,
    on its advertised host, or on a host with its name, which it has in Compose, Quadlet and Kubernetes."""
    wanted = _place(url)
    if wanted is None:
        return None
    host, port, path = wanted
    public = [(each.name, _place(each.config.server.public_url or "")) for each in agents]
    below = [
        (len(place[2]), name)
        for name, place in public
        if place and place[:2] == (host, port) and path.startswith(place[2])
    ]
    if below:
        return max(below)[1]
    for agent in agents:
        server = agent.config.server
        at_home = is_loopback(host) or host in (agent.name, server.advertise_host, server.hostname)
        if at_home and port == server.port:
            return agent.name
    return None


def _place(url: str) -> tuple[str, int, str] | None:
    """Host, port and path, which ends with a slash."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port, f"{parts.path.rstrip('/')}/") if parts.hostname and port else None

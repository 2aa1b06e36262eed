"""Whom the pods of an agent may talk to: NetworkPolicy, networking.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from a2a_claude.config.agent import Agent
from a2a_claude.config.model import McpServerHttp, SubAgentAuthOauth2ClientCredentials
from a2a_claude.config.references import parse
from a2a_claude.targets.hardening import METADATA

_EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}
_POSTGRESQL = {"postgresql": 5432, "postgres": 5432}
_SOCKS = dict.fromkeys(("socks", "socks4", "socks4a", "socks5", "socks5h"), 1080)
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, **_POSTGRESQL, **_SOCKS}

# CoreDNS and kube-dns have this label in every distribution but OpenShift. The address is the one that the
# NodeLocal DNSCache listens on, on the node itself, which no selector of pods means.
_DNS: list[dict[str, Any]] = [
    {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    },
    {"ipBlock": {"cidr": "169.254.20.10/32"}},
]


def policy(agent: Agent, labels: dict[str, str]) -> dict[str, Any]:
    """The spec of a NetworkPolicy. In: the agent's port. Out: the cluster's DNS, 443, and the ports of the URLs in the
    config.

    Never the metadata service of a cloud, unless the agent has no credentials but those of its host.
    """
    anywhere: list[dict[str, Any]] = [{"namespaceSelector": {}}]
    for version, cidr in _EVERYWHERE.items():
        metadata = [each for each in METADATA if ip_network(each).version == version]
        without = {"except": metadata} if agent.config.claude.credentials else {}
        anywhere.append({"ipBlock": {"cidr": cidr, **without}})
    return {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": agent.config.server.port}]}],
        "egress": [
            {"to": _DNS, "ports": [{"protocol": each, "port": 53} for each in ("UDP", "TCP")]},
            {"to": anywhere, "ports": [{"protocol": "TCP", "port": each} for each in ports(agent)]},
        ],
    }


def ports(agent: Agent) -> list[int]:
    """443, and the ports of all URLs in the config, of a reference by its default; sorted."""
    return sorted({443, *(port for each in _urls(agent) for port in _ports_of(each))})


def _urls(agent: Agent) -> Iterator[str]:
    config = agent.config
    yield from map(_known, filter(None, _services(agent)))
    # Such as ANTHROPIC_BASE_URL and HTTPS_PROXY.
    programs = (each for each in config.mcp.values() if not isinstance(each, McpServerHttp) and each.enabled)
    for env in (config.claude.env, *(each.env for each in programs)):
        for name, value in env.items():
            url = _known(value)
            # A proxy may be written as host:port, which curl and others take for an HTTP proxy's.
            is_bare = name.lower().endswith("_proxy") and "://" not in url and ":" in url
            yield f"http://{url}" if is_bare else url


def _services(agent: Agent) -> Iterator[str | None]:
    config = agent.config
    for server in config.mcp.values():
        if isinstance(server, McpServerHttp) and server.enabled:
            yield server.url
    for each in config.sub_agents.agents:
        yield each.agent_card_url
        yield each.endpoint_url_override
        if isinstance(each.auth, SubAgentAuthOauth2ClientCredentials):
            yield each.auth.token_url
    yield config.events.http_url
    yield config.store.url
    yield config.observability.tracing.endpoint
    if config.server.auth.jwt:
        yield config.server.auth.jwt.issuer
        yield config.server.auth.jwt.jwks_url


def _known(text: str) -> str:
    """`text` with the default of each reference; x stands for what nothing is known of."""
    return "".join(each if isinstance(each, str) else each.default or "x" for each in parse(text))


def _ports_of(url: str) -> Iterator[int]:
    """The ports of a URL: of PostgreSQL's there may be several, and one in its query (libpq, "Connection URIs")."""
    try:
        parts = urlsplit(url)
        asked = dict(parse_qsl(parts.query)) if parts.scheme in _POSTGRESQL else {}
        found = [urlsplit(f"//{each}") for each in parts.netloc.rpartition("@")[2].split(",")]
        given = [each.port for each in found if each.hostname]
        if asked.get("host", "/")[0] != "/" and not given:
            given = [None]
        given = [int(each) for each in asked["port"].split(",")] if "port" in asked and given else given
    except ValueError:
        return
    for port in given:
        if number := port or _PORTS.get(parts.scheme):
            yield number

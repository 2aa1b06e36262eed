"""Whom the pods of an agent may talk to: NetworkPolicy, networking.k8s.io/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from a2a_claude.config.agent import Agent
from a2a_claude.config.model import McpServerHttp, SubAgentAuthOauth2ClientCredentials
from a2a_claude.config.references import parse

# What hands out the credentials of a node: docs/hardening.md has the same for systemd.
_METADATA = {"0.0.0.0/0": ["169.254.0.0/16", "100.100.100.200/32"], "::/0": ["fd00:ec2::254/128"]}
_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "postgres": 5432}


def policy(agent: Agent, labels: dict[str, str]) -> dict[str, Any]:
    """The spec of a NetworkPolicy. In: the agent's port. Out: DNS, 443, and the ports of the URLs in the config.

    Never the metadata service of a cloud, unless the agent has no credentials but those of its host.
    """
    anywhere: list[dict[str, Any]] = [{"namespaceSelector": {}}]
    for cidr, metadata in _METADATA.items():
        without = {"except": metadata} if agent.config.claude.credentials else {}
        anywhere.append({"ipBlock": {"cidr": cidr, **without}})
    return {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": agent.config.server.port}]}],
        "egress": [
            {"ports": [{"protocol": each, "port": 53} for each in ("UDP", "TCP")]},
            {"to": anywhere, "ports": [{"protocol": "TCP", "port": each} for each in ports(agent)]},
        ],
    }


def ports(agent: Agent) -> list[int]:
    """443, and the ports of all URLs in the config, of a reference by its default; sorted."""
    return sorted({443, *(port for each in _urls(agent) if (port := _port(each)) is not None)})


def _urls(agent: Agent) -> Iterator[str | None]:
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
    yield from config.claude.env.values()  # such as ANTHROPIC_BASE_URL and HTTPS_PROXY


def _port(url: str | None) -> int | None:
    text = "".join(each if isinstance(each, str) else each.default or "x" for each in parse(url or ""))
    try:
        parts = urlsplit(text)
        return (parts.port or _PORTS.get(parts.scheme)) if parts.hostname else None
    except ValueError:
        return None

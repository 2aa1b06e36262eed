"""The agent card, made from the agent's config: pure v1.0, or with the members that v0.3 clients read as well.

Sources: A2A v1.0 sections 4.4, 8 and Appendix A (v0.3 clients); v0.3 section 5.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from a2a_claude.a2a.versions import TRACE_EXTENSION, V03, V1
from a2a_claude.config.agent import Agent
from a2a_claude.config.model import AgentCard, Server, Skill

Card = dict[str, Any]

JSONRPC_PATH: Final = "/a2a/jsonrpc"
REST_PATH: Final = "/a2a/rest"

_TRACE_DESCRIPTION: Final = (
    "What the agent did while it worked (tools, files, usage), as artifacts for telemetry; not meant for a model."
)


def base_url(server: Server) -> str:
    """Where callers reach the agent by its config: never the address that it binds, never what a request claims."""
    if server.public_url:
        return server.public_url.rstrip("/")
    host = server.advertise_host
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    scheme = "https" if server.tls is not None else server.advertise_protocol
    return f"{scheme}://{host}:{server.port}"


def declared_extensions(agent: Agent) -> list[tuple[str, bool]]:
    """The extensions of an agent: URI and whether it is required."""
    events = agent.config.events
    return [(TRACE_EXTENSION, False)] if events.enabled and events.transport == "a2a" else []


def core_card(agent: Agent, base: str, extensions: Iterable[tuple[str, bool]], *, legacy: bool = True) -> Card:
    """The v1.0 card as ProtoJSON writes it: required members always, others when they say something.

    `base` is the URL that the interfaces are under; `legacy` lists the v0.3 interfaces, too.
    """
    config = agent.config.agent_card
    card: Card = {
        "name": config.name,
        "description": config.description or config.name,
        "supportedInterfaces": _interfaces(base, legacy),
        "version": config.version,
        "capabilities": _capabilities(agent, extensions),
        "defaultInputModes": _modes(config.default_input_modes) or ["text/plain"],
        "defaultOutputModes": _modes(config.default_output_modes) or ["text/plain"],
        "skills": [_skill(each) for each in config.skills] or [_derived_skill(agent.name, config)],
    }
    if config.provider is not None:
        provider = config.provider
        card["provider"] = {"organization": provider.organization, "url": provider.url or base}
    if config.documentation_url:
        card["documentationUrl"] = config.documentation_url
    if config.icon_url:
        card["iconUrl"] = config.icon_url
    schemes = _security_schemes(agent.config.server)
    if schemes:
        card["securitySchemes"] = schemes
        # Any one of them admits a caller: alternatives, not a conjunction.
        card["securityRequirements"] = [
            {"schemes": {name: {"list": list(_scopes(agent.config.server, name))}}} for name in schemes
        ]
    return card


def hybrid_card(core: Mapping[str, Any]) -> Card:
    """A v1.0 card with the members of v0.3 added: each version's clients ignore what they do not know."""
    legacy = [each for each in core["supportedInterfaces"] if each["protocolVersion"].startswith(V03)]
    if not legacy:
        return dict(core)
    by_transport = {each["protocolBinding"]: each["url"] for each in legacy}
    first = legacy[0]
    capabilities = core["capabilities"]
    card = {
        **core,
        "protocolVersion": "0.3.0",
        "url": first["url"],
        "preferredTransport": first["protocolBinding"],
        "additionalInterfaces": [{"transport": name, "url": url} for name, url in by_transport.items()],
        "capabilities": {**capabilities, "stateTransitionHistory": False},
        "supportsAuthenticatedExtendedCard": capabilities["extendedAgentCard"],
    }
    if "securitySchemes" in core:
        card["securitySchemes"] = {name: _legacy_scheme(each) for name, each in core["securitySchemes"].items()}
        card["security"] = [
            {name: scopes["list"] for name, scopes in each["schemes"].items()} for each in core["securityRequirements"]
        ]
    return card


def _interfaces(base: str, legacy: bool) -> list[dict[str, str]]:
    # The aliases 0.3.0 are for clients and servers that compare the whole string.
    versions = (V1, V03, "0.3.0") if legacy else (V1,)
    return [
        {"url": f"{base}{path}", "protocolBinding": binding, "protocolVersion": version}
        for version in versions
        for binding, path in (("JSONRPC", JSONRPC_PATH), ("HTTP+JSON", REST_PATH))
    ]


def _capabilities(agent: Agent, extensions: Iterable[tuple[str, bool]]) -> dict[str, Any]:
    config = agent.config.agent_card
    capabilities: dict[str, Any] = {
        "streaming": config.streaming,
        "pushNotifications": config.push_notifications,
        "extendedAgentCard": config.extended_card,
    }
    declared = [_extension(uri, required) for uri, required in extensions]
    if declared:
        capabilities["extensions"] = declared
    return capabilities


def _extension(uri: str, required: bool) -> dict[str, Any]:
    extension: dict[str, Any] = {"uri": uri}
    if uri == TRACE_EXTENSION:
        extension["description"] = _TRACE_DESCRIPTION
    if required:
        extension["required"] = True
    return extension


def _modes(modes: Iterable[str]) -> list[str]:
    return ["text/plain" if each == "text" else each for each in modes]


def _skill(skill: Skill) -> dict[str, Any]:
    card: dict[str, Any] = {
        "id": skill.id,
        "name": skill.name,
        "description": skill.description or skill.name,
        # Required and, as every required array, not empty (section 5.7).
        "tags": list(skill.tags) or [skill.id],
    }
    if skill.examples:
        card["examples"] = list(skill.examples)
    if skill.input_modes:
        card["inputModes"] = _modes(skill.input_modes)
    if skill.output_modes:
        card["outputModes"] = _modes(skill.output_modes)
    return card


def _derived_skill(name: str, card: AgentCard) -> dict[str, Any]:
    return {"id": name, "name": card.name, "description": card.description or card.name, "tags": [name]}


def _security_schemes(server: Server) -> dict[str, dict[str, Any]]:
    auth = server.auth
    schemes: dict[str, dict[str, Any]] = {}
    if auth.bearer is not None:
        schemes["bearer"] = {"httpAuthSecurityScheme": {"scheme": "Bearer"}}
    if auth.api_key is not None:
        schemes["apiKey"] = {"apiKeySecurityScheme": {"location": "header", "name": auth.api_key.header}}
    if auth.jwt is not None:
        issuer = auth.jwt.issuer.rstrip("/")
        if issuer.startswith("https://") and auth.jwt.jwks_file is None:
            url = f"{issuer}/.well-known/openid-configuration"
            schemes["openIdConnect"] = {"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}
        else:
            schemes["jwt"] = {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}}
    if auth.mtls:
        schemes["mtls"] = {"mtlsSecurityScheme": {"description": "A client certificate that the server trusts."}}
    return schemes


def _scopes(server: Server, scheme: str) -> tuple[str, ...]:
    return server.auth.jwt.scopes if server.auth.jwt is not None and scheme in ("openIdConnect", "jwt") else ()


def _legacy_scheme(core: Mapping[str, Any]) -> dict[str, Any]:
    (member, scheme), *_ = core.items()
    match member:
        case "apiKeySecurityScheme":
            legacy = {"type": "apiKey", "in": scheme["location"], "name": scheme["name"]}
        case "httpAuthSecurityScheme":
            legacy = {"type": "http", **scheme}
        case "openIdConnectSecurityScheme":
            legacy = {"type": "openIdConnect", **scheme}
        case _:
            legacy = {"type": "mutualTLS", **scheme}
    return {**core, **legacy}

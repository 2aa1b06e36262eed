"""The typed configuration of an agent. Generated from schema/agent.schema.json by schema/generate.py: do not edit."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


def named(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a mapping without its annotations (`x-…`, `$comment`, `$schema`)."""
    return {key: value for key, value in mapping.items() if not key.startswith(("x-", "$"))}


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    extends: tuple[str, ...]
    config_dir: str | None
    agent_card: AgentCard
    server: Server
    claude: Claude
    session: Session
    features: Features
    timeouts: Timeouts
    logging: Logging
    mcp: Mapping[str, McpServer]
    events: Events
    memory: Memory
    sub_agents: SubAgents
    store: Store
    push: Push
    secrets: Mapping[str, Secret]
    observability: Observability
    deploy: Deploy

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Config:
        """From a checked document with its defaults filled in."""
        return cls(
            extends=tuple(data["extends"]),
            config_dir=data.get("configDir"),
            agent_card=AgentCard.load(data["agentCard"]),
            server=Server.load(data["server"]),
            claude=Claude.load(data["claude"]),
            session=Session.load(data["session"]),
            features=Features.load(data["features"]),
            timeouts=Timeouts.load(data["timeouts"]),
            logging=Logging.load(data["logging"]),
            mcp={key: load_mcp_server(each) for key, each in named(data["mcp"]).items()},
            events=Events.load(data["events"]),
            memory=Memory.load(data["memory"]),
            sub_agents=SubAgents.load(data["subAgents"]),
            store=Store.load(data["store"]),
            push=Push.load(data["push"]),
            secrets={key: Secret.load(each) for key, each in named(data["secrets"]).items()},
            observability=Observability.load(data["observability"]),
            deploy=Deploy.load(data["deploy"]),
        )


@dataclass(frozen=True, slots=True)
class AgentCard:
    """What other agents see of this one."""

    name: str
    description: str
    version: str
    protocol_version: str | None
    skills: tuple[Skill, ...]
    default_input_modes: tuple[str, ...]
    default_output_modes: tuple[str, ...]
    streaming: bool
    push_notifications: bool
    state_transition_history: bool
    extended_card: bool
    documentation_url: str | None
    icon_url: str | None
    provider: Provider | None
    signing: Signing

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> AgentCard:
        """From a checked document with its defaults filled in."""
        return cls(
            name=data["name"],
            description=data["description"],
            version=data["version"],
            protocol_version=data.get("protocolVersion"),
            skills=tuple(Skill.load(each) for each in data["skills"]),
            default_input_modes=tuple(data["defaultInputModes"]),
            default_output_modes=tuple(data["defaultOutputModes"]),
            streaming=data["streaming"],
            push_notifications=data["pushNotifications"],
            state_transition_history=data["stateTransitionHistory"],
            extended_card=data["extendedCard"],
            documentation_url=data.get("documentationUrl"),
            icon_url=data.get("iconUrl"),
            provider=None if (value := data.get("provider")) is None else Provider.load(value),
            signing=Signing.load(data["signing"]),
        )


@dataclass(frozen=True, slots=True)
class Skill:
    """One thing the agent offers."""

    id: str
    name: str
    description: str
    tags: tuple[str, ...]
    examples: tuple[str, ...]
    input_modes: tuple[str, ...]
    output_modes: tuple[str, ...]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Skill:
        """From a checked document with its defaults filled in."""
        return cls(
            id=data["id"],
            name=data["name"],
            description=data["description"],
            tags=tuple(data["tags"]),
            examples=tuple(data["examples"]),
            input_modes=tuple(data["inputModes"]),
            output_modes=tuple(data["outputModes"]),
        )


@dataclass(frozen=True, slots=True)
class Provider:
    """Who runs the agent."""

    organization: str
    url: str | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Provider:
        """From a checked document with its defaults filled in."""
        return cls(
            organization=data["organization"],
            url=data.get("url"),
        )


@dataclass(frozen=True, slots=True)
class Signing:
    """Signs the card as a JWS (RFC 7515)."""

    enabled: bool
    private_key_jwk_env_var: str | None
    key_id: str | None
    algorithm: Literal["ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Signing:
        """From a checked document with its defaults filled in."""
        return cls(
            enabled=data["enabled"],
            private_key_jwk_env_var=data.get("privateKeyJwkEnvVar"),
            key_id=data.get("keyId"),
            algorithm=data["algorithm"],
        )


@dataclass(frozen=True, slots=True)
class Server:
    """Where the agent listens and whom it serves."""

    port: int
    hostname: str
    advertise_host: str
    advertise_protocol: Literal["http", "https"]
    public_url: str | None
    trusted_proxies: tuple[str, ...]
    tls: Tls | None
    auth: Auth
    limits: Limits
    cors_origins: tuple[str, ...]
    rest_media_type: Literal["application/a2a+json", "application/json"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Server:
        """From a checked document with its defaults filled in."""
        return cls(
            port=data["port"],
            hostname=data["hostname"],
            advertise_host=data["advertiseHost"],
            advertise_protocol=data["advertiseProtocol"],
            public_url=data.get("publicUrl"),
            trusted_proxies=tuple(data["trustedProxies"]),
            tls=None if (value := data.get("tls")) is None else Tls.load(value),
            auth=Auth.load(data["auth"]),
            limits=Limits.load(data["limits"]),
            cors_origins=tuple(data["corsOrigins"]),
            rest_media_type=data["restMediaType"],
        )


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS by the server itself; leave it out behind a proxy that terminates TLS."""

    certificate_file: str
    key_file: str
    client_ca_file: str | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Tls:
        """From a checked document with its defaults filled in."""
        return cls(
            certificate_file=data["certificateFile"],
            key_file=data["keyFile"],
            client_ca_file=data.get("clientCaFile"),
        )


@dataclass(frozen=True, slots=True)
class Auth:
    """Who may call. Any one of the configured schemes admits a caller. Without a scheme the agent is open, which is refused on a non-loopback address unless allowUnauthenticated is true."""

    allow_unauthenticated: bool
    bearer: AuthBearer | None
    api_key: AuthApiKey | None
    jwt: AuthJwt | None
    mtls: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Auth:
        """From a checked document with its defaults filled in."""
        return cls(
            allow_unauthenticated=data["allowUnauthenticated"],
            bearer=None if (value := data.get("bearer")) is None else AuthBearer.load(value),
            api_key=None if (value := data.get("apiKey")) is None else AuthApiKey.load(value),
            jwt=None if (value := data.get("jwt")) is None else AuthJwt.load(value),
            mtls=data["mtls"],
        )


@dataclass(frozen=True, slots=True)
class AuthBearer:
    """Opaque bearer tokens, one "principal:token" or "principal:sha256:<hex>" a line; re-read when the file changes."""

    tokens_file: str | None
    tokens_variable: str | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> AuthBearer:
        """From a checked document with its defaults filled in."""
        return cls(
            tokens_file=data.get("tokensFile"),
            tokens_variable=data.get("tokensVariable"),
        )


@dataclass(frozen=True, slots=True)
class AuthApiKey:
    """API keys in a header, in the same line format as bearer tokens."""

    header: str
    keys_file: str | None
    keys_variable: str | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> AuthApiKey:
        """From a checked document with its defaults filled in."""
        return cls(
            header=data["header"],
            keys_file=data.get("keysFile"),
            keys_variable=data.get("keysVariable"),
        )


@dataclass(frozen=True, slots=True)
class AuthJwt:
    """Signed tokens of an OpenID Connect issuer (RFC 7519)."""

    issuer: str
    audience: str
    jwks_url: str | None
    jwks_file: str | None
    algorithms: tuple[Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"], ...]
    principal_claim: str
    scopes: tuple[str, ...]
    leeway: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> AuthJwt:
        """From a checked document with its defaults filled in."""
        return cls(
            issuer=data["issuer"],
            audience=data["audience"],
            jwks_url=data.get("jwksUrl"),
            jwks_file=data.get("jwksFile"),
            algorithms=tuple(data["algorithms"]),
            principal_claim=data["principalClaim"],
            scopes=tuple(data["scopes"]),
            leeway=data["leeway"],
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a caller can ask for; each refusal says which bound it met."""

    max_body_bytes: int
    max_parts: int
    max_json_depth: int
    max_metadata_bytes: int
    max_file_bytes: int
    fetch_file_urls: bool
    requests_per_minute: int
    max_concurrent_tasks: int
    max_queued_tasks: int
    max_streams: int
    max_history_length: int
    max_push_configs: int
    header_timeout: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Limits:
        """From a checked document with its defaults filled in."""
        return cls(
            max_body_bytes=data["maxBodyBytes"],
            max_parts=data["maxParts"],
            max_json_depth=data["maxJsonDepth"],
            max_metadata_bytes=data["maxMetadataBytes"],
            max_file_bytes=data["maxFileBytes"],
            fetch_file_urls=data["fetchFileUrls"],
            requests_per_minute=data["requestsPerMinute"],
            max_concurrent_tasks=data["maxConcurrentTasks"],
            max_queued_tasks=data["maxQueuedTasks"],
            max_streams=data["maxStreams"],
            max_history_length=data["maxHistoryLength"],
            max_push_configs=data["maxPushConfigs"],
            header_timeout=data["headerTimeout"],
        )


@dataclass(frozen=True, slots=True)
class Claude:
    """How Claude works."""

    working_directory: str
    model: str | None
    fallback_model: str | None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None
    thinking: Thinking | None
    output_format: OutputFormat | None
    permission_mode: Literal["acceptEdits", "dontAsk", "plan", "bypassPermissions", "default"]
    dangerously_allow_bypass_permissions: bool
    approvals: Literal["deny", "inputRequired"]
    approval_policy: tuple[ApprovalRule, ...]
    allowed_tools: tuple[str, ...]
    disallowed_tools: tuple[str, ...]
    system_prompt_append: str | None
    custom_system_prompt: str | None
    setting_sources: tuple[Literal["user", "project", "local"], ...]
    marketplaces: Mapping[str, Marketplace]
    enabled_plugins: Mapping[str, bool]
    max_turns: int | None
    max_budget_usd: float | None
    additional_directories: tuple[str, ...]
    sandbox: Mapping[str, Any] | None
    executable_path_override: str | None
    credentials: tuple[str, ...]
    context_file: str
    context_prompt: str | None
    env: Mapping[str, str]
    agents: Mapping[str, ClaudeAgent]
    skills: Any | None
    hooks: Hooks
    background: Background

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Claude:
        """From a checked document with its defaults filled in."""
        return cls(
            working_directory=data["workingDirectory"],
            model=data.get("model"),
            fallback_model=data.get("fallbackModel"),
            effort=data.get("effort"),
            thinking=None if (value := data.get("thinking")) is None else load_thinking(value),
            output_format=None if (value := data.get("outputFormat")) is None else OutputFormat.load(value),
            permission_mode=data["permissionMode"],
            dangerously_allow_bypass_permissions=data["dangerouslyAllowBypassPermissions"],
            approvals=data["approvals"],
            approval_policy=tuple(ApprovalRule.load(each) for each in data["approvalPolicy"]),
            allowed_tools=tuple(data["allowedTools"]),
            disallowed_tools=tuple(data["disallowedTools"]),
            system_prompt_append=data.get("systemPromptAppend"),
            custom_system_prompt=data.get("customSystemPrompt"),
            setting_sources=tuple(data["settingSources"]),
            marketplaces={key: Marketplace.load(each) for key, each in named(data["marketplaces"]).items()},
            enabled_plugins=named(data["enabledPlugins"]),
            max_turns=data.get("maxTurns"),
            max_budget_usd=data.get("maxBudgetUsd"),
            additional_directories=tuple(data["additionalDirectories"]),
            sandbox=data.get("sandbox"),
            executable_path_override=data.get("executablePathOverride"),
            credentials=tuple(data["credentials"]),
            context_file=data["contextFile"],
            context_prompt=data.get("contextPrompt"),
            env=named(data["env"]),
            agents={key: ClaudeAgent.load(each) for key, each in named(data["agents"]).items()},
            skills=data.get("skills"),
            hooks=Hooks.load(data["hooks"]),
            background=Background.load(data["background"]),
        )


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """Structured output; the result becomes a data part of the response."""

    type: Literal["json_schema"]
    schema: Mapping[str, Any]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> OutputFormat:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            schema=data["schema"],
        )


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """One rule of the approval policy."""

    tool: str
    argument: Mapping[str, str]
    decision: Literal["allow", "deny", "ask"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ApprovalRule:
        """From a checked document with its defaults filled in."""
        return cls(
            tool=data["tool"],
            argument=named(data["argument"]),
            decision=data["decision"],
        )


@dataclass(frozen=True, slots=True)
class Marketplace:
    """A plugin marketplace."""

    source: Mapping[str, Any]
    install_location: str | None
    auto_update: bool | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Marketplace:
        """From a checked document with its defaults filled in."""
        return cls(
            source=data["source"],
            install_location=data.get("installLocation"),
            auto_update=data.get("autoUpdate"),
        )


@dataclass(frozen=True, slots=True)
class ClaudeAgent:
    """A sub-agent inside Claude."""

    description: str
    prompt: str
    tools: tuple[str, ...] | None
    disallowed_tools: tuple[str, ...] | None
    model: str | None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None
    permission_mode: Literal["acceptEdits", "dontAsk", "plan", "default"] | None
    max_turns: int | None
    skills: tuple[str, ...] | None
    mcp_servers: tuple[str, ...] | None
    memory: Literal["user", "project", "local"] | None
    initial_prompt: str | None
    background: bool | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ClaudeAgent:
        """From a checked document with its defaults filled in."""
        return cls(
            description=data["description"],
            prompt=data["prompt"],
            tools=None if (value := data.get("tools")) is None else tuple(value),
            disallowed_tools=None if (value := data.get("disallowedTools")) is None else tuple(value),
            model=data.get("model"),
            effort=data.get("effort"),
            permission_mode=data.get("permissionMode"),
            max_turns=data.get("maxTurns"),
            skills=None if (value := data.get("skills")) is None else tuple(value),
            mcp_servers=None if (value := data.get("mcpServers")) is None else tuple(value),
            memory=data.get("memory"),
            initial_prompt=data.get("initialPrompt"),
            background=data.get("background"),
        )


@dataclass(frozen=True, slots=True)
class HookMatcher:
    """Hooks for the tools that a pattern matches."""

    matcher: str | None
    hooks: tuple[HookCommand, ...]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> HookMatcher:
        """From a checked document with its defaults filled in."""
        return cls(
            matcher=data.get("matcher"),
            hooks=tuple(HookCommand.load(each) for each in data["hooks"]),
        )


@dataclass(frozen=True, slots=True)
class Background:
    """What happens to work that Claude leaves running when its turn ends."""

    hold: tuple[str, ...]
    idle_timeout: int
    at_end: Literal["stop", "leave"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Background:
        """From a checked document with its defaults filled in."""
        return cls(
            hold=tuple(data["hold"]),
            idle_timeout=data["idleTimeout"],
            at_end=data["atEnd"],
        )


@dataclass(frozen=True, slots=True)
class Session:
    """How contextIds map to Claude sessions and processes."""

    title_prefix: str | None
    reuse_by_context: bool
    ttl: int
    cleanup_interval: int
    max_live_clients: int
    client_idle_timeout: int
    client_max_turns: int
    client_max_memory: str
    parallel_starts: int
    spare_clients: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Session:
        """From a checked document with its defaults filled in."""
        return cls(
            title_prefix=data.get("titlePrefix"),
            reuse_by_context=data["reuseByContext"],
            ttl=data["ttl"],
            cleanup_interval=data["cleanupInterval"],
            max_live_clients=data["maxLiveClients"],
            client_idle_timeout=data["clientIdleTimeout"],
            client_max_turns=data["clientMaxTurns"],
            client_max_memory=data["clientMaxMemory"],
            parallel_starts=data["parallelStarts"],
            spare_clients=data["spareClients"],
        )


@dataclass(frozen=True, slots=True)
class Features:
    """Switches."""

    stream_artifact_chunks: bool
    emit_thinking_events: bool
    emit_tool_events: bool
    emit_file_change_events: bool
    emit_todo_events: bool
    emit_rate_limit_events: bool
    hold_task_for_background_work: bool
    emit_background_task_events: bool
    track_usage: bool | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Features:
        """From a checked document with its defaults filled in."""
        return cls(
            stream_artifact_chunks=data["streamArtifactChunks"],
            emit_thinking_events=data["emitThinkingEvents"],
            emit_tool_events=data["emitToolEvents"],
            emit_file_change_events=data["emitFileChangeEvents"],
            emit_todo_events=data["emitTodoEvents"],
            emit_rate_limit_events=data["emitRateLimitEvents"],
            hold_task_for_background_work=data["holdTaskForBackgroundWork"],
            emit_background_task_events=data["emitBackgroundTaskEvents"],
            track_usage=data.get("trackUsage"),
        )


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds in time."""

    prompt: int
    approval: int
    shutdown: int
    polling_interval: int | None
    health_check: int | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Timeouts:
        """From a checked document with its defaults filled in."""
        return cls(
            prompt=data["prompt"],
            approval=data["approval"],
            shutdown=data["shutdown"],
            polling_interval=data.get("pollingInterval"),
            health_check=data.get("healthCheck"),
        )


@dataclass(frozen=True, slots=True)
class Logging:
    """Logs."""

    level: Literal["debug", "info", "warn", "warning", "error"]
    format: Literal["auto", "text", "json"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Logging:
        """From a checked document with its defaults filled in."""
        return cls(
            level=data["level"],
            format=data["format"],
        )


@dataclass(frozen=True, slots=True)
class Events:
    """Sideband events about a turn."""

    enabled: bool
    transport: Literal["a2a", "http"]
    delivery: Literal["requested", "always"]
    stored: bool
    http_url: str | None
    http_timeout: int
    http_headers: Mapping[str, str]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Events:
        """From a checked document with its defaults filled in."""
        return cls(
            enabled=data["enabled"],
            transport=data["transport"],
            delivery=data["delivery"],
            stored=data["stored"],
            http_url=data.get("httpUrl"),
            http_timeout=data["httpTimeout"],
            http_headers=named(data["httpHeaders"]),
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """Files put into the workspace for Claude; they need project in claude.settingSources to be read."""

    instructions: str | None
    skills: tuple[str, ...]
    overwrite: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Memory:
        """From a checked document with its defaults filled in."""
        return cls(
            instructions=data.get("instructions"),
            skills=tuple(data["skills"]),
            overwrite=data["overwrite"],
        )


@dataclass(frozen=True, slots=True)
class SubAgents:
    """Other A2A agents that this one may call as tools."""

    agents: tuple[SubAgent, ...]
    options: SubAgentOptions

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgents:
        """From a checked document with its defaults filled in."""
        return cls(
            agents=tuple(SubAgent.load(each) for each in data["agents"]),
            options=SubAgentOptions.load(data["options"]),
        )


@dataclass(frozen=True, slots=True)
class SubAgent:
    """An A2A agent that this one may call."""

    name: str
    agent_card_url: str
    endpoint_url_override: str | None
    auth: SubAgentAuth | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgent:
        """From a checked document with its defaults filled in."""
        return cls(
            name=data["name"],
            agent_card_url=data["agentCardUrl"],
            endpoint_url_override=data.get("endpointUrlOverride"),
            auth=None if (value := data.get("auth")) is None else load_sub_agent_auth(value),
        )


@dataclass(frozen=True, slots=True)
class SubAgentOptions:
    """How the other agents are called."""

    response_mode: Literal["structured", "compact", "artifact", "raw"]
    probe_timeout_ms: float
    sync_budget_ms: float

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgentOptions:
        """From a checked document with its defaults filled in."""
        return cls(
            response_mode=data["responseMode"],
            probe_timeout_ms=data["probeTimeoutMs"],
            sync_budget_ms=data["syncBudgetMs"],
        )


@dataclass(frozen=True, slots=True)
class Store:
    """Where tasks, push registrations and sessions are kept."""

    type: Literal["sqlite", "memory", "postgresql"]
    path: str
    url: str | None
    retention_age: int
    retention_count: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Store:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            path=data["path"],
            url=data.get("url"),
            retention_age=data["retentionAge"],
            retention_count=data["retentionCount"],
        )


@dataclass(frozen=True, slots=True)
class Push:
    """Delivery of push notifications."""

    timeout: int
    max_attempts: int
    allow_http: bool
    allowed_hosts: tuple[str, ...]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Push:
        """From a checked document with its defaults filled in."""
        return cls(
            timeout=data["timeout"],
            max_attempts=data["maxAttempts"],
            allow_http=data["allowHttp"],
            allowed_hosts=tuple(data["allowedHosts"]),
        )


@dataclass(frozen=True, slots=True)
class Secret:
    """How one secret is supplied."""

    description: str | None
    optional: bool
    file: str | None
    encrypted: bool
    kubernetes: SecretKubernetes | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Secret:
        """From a checked document with its defaults filled in."""
        return cls(
            description=data.get("description"),
            optional=data["optional"],
            file=data.get("file"),
            encrypted=data["encrypted"],
            kubernetes=None if (value := data.get("kubernetes")) is None else SecretKubernetes.load(value),
        )


@dataclass(frozen=True, slots=True)
class SecretKubernetes:
    """Where it is in Kubernetes."""

    name: str
    key: str | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SecretKubernetes:
        """From a checked document with its defaults filled in."""
        return cls(
            name=data["name"],
            key=data.get("key"),
        )


@dataclass(frozen=True, slots=True)
class Observability:
    """Metrics and traces."""

    metrics: bool
    tracing: Tracing

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Observability:
        """From a checked document with its defaults filled in."""
        return cls(
            metrics=data["metrics"],
            tracing=Tracing.load(data["tracing"]),
        )


@dataclass(frozen=True, slots=True)
class Tracing:
    """Traces over OTLP."""

    enabled: bool
    endpoint: str | None
    protocol: Literal["http/protobuf", "grpc"]
    service_name: str | None
    sample_ratio: float
    propagate: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Tracing:
        """From a checked document with its defaults filled in."""
        return cls(
            enabled=data["enabled"],
            endpoint=data.get("endpoint"),
            protocol=data["protocol"],
            service_name=data.get("serviceName"),
            sample_ratio=data["sampleRatio"],
            propagate=data["propagate"],
        )


@dataclass(frozen=True, slots=True)
class Deploy:
    """What differs in the rendered files."""

    package: str | None
    docker: DeployDocker
    systemd: DeploySystemd
    nix: DeployNix
    compose: DeployCompose
    quadlet: DeployQuadlet
    kubernetes: DeployKubernetes

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Deploy:
        """From a checked document with its defaults filled in."""
        return cls(
            package=data.get("package"),
            docker=DeployDocker.load(data["docker"]),
            systemd=DeploySystemd.load(data["systemd"]),
            nix=DeployNix.load(data["nix"]),
            compose=DeployCompose.load(data["compose"]),
            quadlet=DeployQuadlet.load(data["quadlet"]),
            kubernetes=DeployKubernetes.load(data["kubernetes"]),
        )


@dataclass(frozen=True, slots=True)
class DeployDocker:
    """The container image."""

    base_image: str
    image: str | None
    uid: int
    apt_packages: tuple[str, ...]
    labels: Mapping[str, str]
    workspace: str

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployDocker:
        """From a checked document with its defaults filled in."""
        return cls(
            base_image=data["baseImage"],
            image=data.get("image"),
            uid=data["uid"],
            apt_packages=tuple(data["aptPackages"]),
            labels=named(data["labels"]),
            workspace=data["workspace"],
        )


@dataclass(frozen=True, slots=True)
class DeploySystemd:
    """The systemd unit."""

    executable: str
    config_file: str | None
    user: str | None
    workspace: str | None
    workspace_access: Literal["auto", "read-only", "read-write"]
    profile: Literal["strict", "cli-sandbox"]
    min_version: int
    memory_max: str
    tasks_max: int
    cpu_quota: int | None
    environment_files: tuple[str, ...]
    read_only_paths: tuple[str, ...]
    read_write_paths: tuple[str, ...]
    after: tuple[str, ...]
    socket_activation: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeploySystemd:
        """From a checked document with its defaults filled in."""
        return cls(
            executable=data["executable"],
            config_file=data.get("configFile"),
            user=data.get("user"),
            workspace=data.get("workspace"),
            workspace_access=data["workspaceAccess"],
            profile=data["profile"],
            min_version=data["minVersion"],
            memory_max=data["memoryMax"],
            tasks_max=data["tasksMax"],
            cpu_quota=data.get("cpuQuota"),
            environment_files=tuple(data["environmentFiles"]),
            read_only_paths=tuple(data["readOnlyPaths"]),
            read_write_paths=tuple(data["readWritePaths"]),
            after=tuple(data["after"]),
            socket_activation=data["socketActivation"],
        )


@dataclass(frozen=True, slots=True)
class DeployNix:
    """The NixOS module."""

    open_firewall: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployNix:
        """From a checked document with its defaults filled in."""
        return cls(
            open_firewall=data["openFirewall"],
        )


@dataclass(frozen=True, slots=True)
class DeployCompose:
    """The Compose service."""

    publish: str | None
    workspace: str | None
    memory: str
    cpus: float | None
    pids_limit: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployCompose:
        """From a checked document with its defaults filled in."""
        return cls(
            publish=data.get("publish"),
            workspace=data.get("workspace"),
            memory=data["memory"],
            cpus=data.get("cpus"),
            pids_limit=data["pidsLimit"],
        )


@dataclass(frozen=True, slots=True)
class DeployQuadlet:
    """The Quadlet units for podman."""

    publish: str | None
    workspace: str | None
    memory: str
    auto_update: bool

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployQuadlet:
        """From a checked document with its defaults filled in."""
        return cls(
            publish=data.get("publish"),
            workspace=data.get("workspace"),
            memory=data["memory"],
            auto_update=data["autoUpdate"],
        )


@dataclass(frozen=True, slots=True)
class DeployKubernetes:
    """The Kubernetes objects."""

    namespace: str | None
    replicas: int
    storage: str
    storage_class: str | None
    workspace_claim: str | None
    memory: str
    cpu: str
    image_pull_secret: str | None
    autoscale: DeployKubernetesAutoscale | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployKubernetes:
        """From a checked document with its defaults filled in."""
        return cls(
            namespace=data.get("namespace"),
            replicas=data["replicas"],
            storage=data["storage"],
            storage_class=data.get("storageClass"),
            workspace_claim=data.get("workspaceClaim"),
            memory=data["memory"],
            cpu=data["cpu"],
            image_pull_secret=data.get("imagePullSecret"),
            autoscale=None if (value := data.get("autoscale")) is None else DeployKubernetesAutoscale.load(value),
        )


@dataclass(frozen=True, slots=True)
class DeployKubernetesAutoscale:
    """Horizontal autoscaling; needs the postgresql store."""

    min_replicas: int
    max_replicas: int
    cpu_percent: int

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DeployKubernetesAutoscale:
        """From a checked document with its defaults filled in."""
        return cls(
            min_replicas=data["minReplicas"],
            max_replicas=data["maxReplicas"],
            cpu_percent=data["cpuPercent"],
        )


@dataclass(frozen=True, slots=True)
class ThinkingAdaptive:
    """Claude decides when to think."""

    type: Literal["adaptive"]
    display: Literal["summarized", "omitted"] | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ThinkingAdaptive:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            display=data.get("display"),
        )


@dataclass(frozen=True, slots=True)
class ThinkingEnabled:
    """Thinking with a fixed budget."""

    type: Literal["enabled"]
    budget_tokens: int | None
    display: Literal["summarized", "omitted"] | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ThinkingEnabled:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            budget_tokens=data.get("budgetTokens"),
            display=data.get("display"),
        )


@dataclass(frozen=True, slots=True)
class ThinkingDisabled:
    """No extended thinking."""

    type: Literal["disabled"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ThinkingDisabled:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
        )


@dataclass(frozen=True, slots=True)
class McpServerStdio:
    """A program that speaks MCP on its standard streams."""

    type: Literal["stdio"]
    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    enabled: bool
    startup_timeout_sec: float | None
    tool_timeout_sec: float | None
    enabled_tools: tuple[str, ...] | None
    disabled_tools: tuple[str, ...] | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> McpServerStdio:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            command=data["command"],
            args=tuple(data["args"]),
            env=named(data["env"]),
            enabled=data["enabled"],
            startup_timeout_sec=data.get("startupTimeoutSec"),
            tool_timeout_sec=data.get("toolTimeoutSec"),
            enabled_tools=None if (value := data.get("enabledTools")) is None else tuple(value),
            disabled_tools=None if (value := data.get("disabledTools")) is None else tuple(value),
        )


@dataclass(frozen=True, slots=True)
class McpServerHttp:
    """A server reached by Streamable HTTP."""

    type: Literal["http"]
    url: str
    headers: Mapping[str, str]
    enabled: bool
    startup_timeout_sec: float | None
    tool_timeout_sec: float | None
    enabled_tools: tuple[str, ...] | None
    disabled_tools: tuple[str, ...] | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> McpServerHttp:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            url=data["url"],
            headers=named(data["headers"]),
            enabled=data["enabled"],
            startup_timeout_sec=data.get("startupTimeoutSec"),
            tool_timeout_sec=data.get("toolTimeoutSec"),
            enabled_tools=None if (value := data.get("enabledTools")) is None else tuple(value),
            disabled_tools=None if (value := data.get("disabledTools")) is None else tuple(value),
        )


@dataclass(frozen=True, slots=True)
class SubAgentAuthNone:
    """No authentication."""

    mode: Literal["none"]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgentAuthNone:
        """From a checked document with its defaults filled in."""
        return cls(
            mode=data["mode"],
        )


@dataclass(frozen=True, slots=True)
class SubAgentAuthBearer:
    """A bearer token."""

    mode: Literal["bearer"]
    token: str

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgentAuthBearer:
        """From a checked document with its defaults filled in."""
        return cls(
            mode=data["mode"],
            token=data["token"],
        )


@dataclass(frozen=True, slots=True)
class SubAgentAuthApiKey:
    """A key in a header."""

    mode: Literal["api_key"]
    token: str
    header_name: str

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgentAuthApiKey:
        """From a checked document with its defaults filled in."""
        return cls(
            mode=data["mode"],
            token=data["token"],
            header_name=data["headerName"],
        )


@dataclass(frozen=True, slots=True)
class SubAgentAuthOauth2ClientCredentials:
    """OAuth 2.0 client credentials (RFC 6749 section 4.4)."""

    mode: Literal["oauth2_client_credentials"]
    token_url: str
    client_id: str
    client_secret: str
    scopes: tuple[str, ...]

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> SubAgentAuthOauth2ClientCredentials:
        """From a checked document with its defaults filled in."""
        return cls(
            mode=data["mode"],
            token_url=data["tokenUrl"],
            client_id=data["clientId"],
            client_secret=data["clientSecret"],
            scopes=tuple(data["scopes"]),
        )


@dataclass(frozen=True, slots=True)
class Hooks:
    """Commands that Claude Code runs at its own events, as in its settings."""

    Pre_tool_use: tuple[HookMatcher, ...] | None
    Post_tool_use: tuple[HookMatcher, ...] | None
    Post_tool_use_failure: tuple[HookMatcher, ...] | None
    User_prompt_submit: tuple[HookMatcher, ...] | None
    Stop: tuple[HookMatcher, ...] | None
    Subagent_start: tuple[HookMatcher, ...] | None
    Subagent_stop: tuple[HookMatcher, ...] | None
    Pre_compact: tuple[HookMatcher, ...] | None
    Notification: tuple[HookMatcher, ...] | None
    Permission_request: tuple[HookMatcher, ...] | None
    Session_start: tuple[HookMatcher, ...] | None
    Session_end: tuple[HookMatcher, ...] | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Hooks:
        """From a checked document with its defaults filled in."""
        return cls(
            Pre_tool_use=None if (value := data.get("PreToolUse")) is None else tuple(HookMatcher.load(each) for each in value),
            Post_tool_use=None if (value := data.get("PostToolUse")) is None else tuple(HookMatcher.load(each) for each in value),
            Post_tool_use_failure=None if (value := data.get("PostToolUseFailure")) is None else tuple(HookMatcher.load(each) for each in value),
            User_prompt_submit=None if (value := data.get("UserPromptSubmit")) is None else tuple(HookMatcher.load(each) for each in value),
            Stop=None if (value := data.get("Stop")) is None else tuple(HookMatcher.load(each) for each in value),
            Subagent_start=None if (value := data.get("SubagentStart")) is None else tuple(HookMatcher.load(each) for each in value),
            Subagent_stop=None if (value := data.get("SubagentStop")) is None else tuple(HookMatcher.load(each) for each in value),
            Pre_compact=None if (value := data.get("PreCompact")) is None else tuple(HookMatcher.load(each) for each in value),
            Notification=None if (value := data.get("Notification")) is None else tuple(HookMatcher.load(each) for each in value),
            Permission_request=None if (value := data.get("PermissionRequest")) is None else tuple(HookMatcher.load(each) for each in value),
            Session_start=None if (value := data.get("SessionStart")) is None else tuple(HookMatcher.load(each) for each in value),
            Session_end=None if (value := data.get("SessionEnd")) is None else tuple(HookMatcher.load(each) for each in value),
        )


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A command to run."""

    type: Literal["command"]
    command: str
    timeout: int | None

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> HookCommand:
        """From a checked document with its defaults filled in."""
        return cls(
            type=data["type"],
            command=data["command"],
            timeout=data.get("timeout"),
        )


Thinking = ThinkingAdaptive | ThinkingEnabled | ThinkingDisabled


def load_thinking(data: Mapping[str, Any]) -> Thinking:
    """The thinking that `type` names; ValueError when it names none."""
    match data["type"]:
        case "adaptive":
            return ThinkingAdaptive.load(data)
        case "enabled":
            return ThinkingEnabled.load(data)
        case "disabled":
            return ThinkingDisabled.load(data)
        case other:
            raise ValueError(f"type: {other!r}")


McpServer = McpServerStdio | McpServerHttp


def load_mcp_server(data: Mapping[str, Any]) -> McpServer:
    """The mcpServer that `type` names; ValueError when it names none."""
    match data["type"]:
        case "stdio":
            return McpServerStdio.load(data)
        case "http":
            return McpServerHttp.load(data)
        case other:
            raise ValueError(f"type: {other!r}")


SubAgentAuth = SubAgentAuthNone | SubAgentAuthBearer | SubAgentAuthApiKey | SubAgentAuthOauth2ClientCredentials


def load_sub_agent_auth(data: Mapping[str, Any]) -> SubAgentAuth:
    """The subAgentAuth that `mode` names; ValueError when it names none."""
    match data["mode"]:
        case "none":
            return SubAgentAuthNone.load(data)
        case "bearer":
            return SubAgentAuthBearer.load(data)
        case "api_key":
            return SubAgentAuthApiKey.load(data)
        case "oauth2_client_credentials":
            return SubAgentAuthOauth2ClientCredentials.load(data)
        case other:
            raise ValueError(f"mode: {other!r}")

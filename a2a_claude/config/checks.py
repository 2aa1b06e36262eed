"""Rules between fields of one agent, which a schema cannot state."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from a2a_claude.config import permission_checks, published
from a2a_claude.config.diagnostics import Diagnostic, error, note, warning
from a2a_claude.config.node import Node, dotted
from a2a_claude.config.view import View

Found = Iterator[Diagnostic]
RESERVED_MCP_SERVER = "a2a-subagents"
_MODELS = re.compile(
    r"(?:[\w.:/@-]+[./])?claude-[a-z0-9.@:-]+(?:\[1m\])?|(?:sonnet|opus|haiku|opusplan|default|inherit)(?:\[1m\])?"
)
_WRITING_TOOLS = ("Write", "Edit", "NotebookEdit", "Bash")


def check(root: Node, document: Any) -> list[Diagnostic]:
    """Everything that these rules find in the completed `document` of one agent, whose positions are in `root`."""
    view = View(root, document)
    return [diagnostic for rule in _RULES for diagnostic in rule(view)]


def _prompts(view: View) -> Found:
    if view.get(str, "claude", "customSystemPrompt") and view.get(str, "claude", "systemPromptAppend"):
        pair = ("systemPromptAppend", "customSystemPrompt")
        first, second = sorted((view.key("claude", each) for each in pair), key=lambda s: (s.source.name, s.line))
        message = "customSystemPrompt and systemPromptAppend exclude each other"
        hint = "keep customSystemPrompt to replace the prompt of Claude Code, systemPromptAppend to add to it"
        yield error("two-prompts", message, second, hint, (("the other one", first),))


def _mcp(view: View) -> Found:
    allowed = view.strings("claude", "allowedTools")
    bypass = view.get(str, "claude", "permissionMode") == "bypassPermissions"
    asked = permission_checks.asks(view)
    for name, server in view.mapping("mcp").items():
        where = ("mcp", name)
        if name == RESERVED_MCP_SERVER:
            message = f"the MCP server name {name} is reserved for sub-agents"
            yield error("reserved-name", message, view.key(*where), "choose another name, or use subAgents")
            continue
        if not isinstance(server, dict) or server.get("enabled") is False:
            continue
        if server.get("type") == "http" and isinstance(server.get("url"), str):
            yield from _url(view, *where, "url")
        if not bypass and not asked and not any(_admits(rule, name) for rule in allowed):
            message = f"no claude.allowedTools entry admits the tools of the MCP server {name}"
            hint = f"add mcp__{name}__* to claude.allowedTools, or single tools of it"
            yield warning("mcp-unreachable", message, view.key(*where), hint)


def _admits(rule: str, server: str) -> bool:
    base = f"mcp__{server}"
    return rule in (base, "mcp__*", "*") or rule.startswith(base + "__")


def _tools(view: View) -> Found:
    allowed, disallowed = view.strings("claude", "allowedTools"), set(view.strings("claude", "disallowedTools"))
    plan = view.get(str, "claude", "permissionMode") == "plan"
    for index, rule in enumerate(allowed):
        where = ("claude", "allowedTools", index)
        tool = rule.split("(", 1)[0]
        if rule in disallowed or tool in disallowed:
            message = f"{rule} is allowed, and {tool if tool in disallowed else rule} is disallowed, which wins"
            yield warning("tool-conflict", message, view.span(*where), "remove it from one of the two lists")
        elif plan and not permission_checks.asks_caller(view) and tool in _WRITING_TOOLS and "(" not in rule:
            message = f"{rule} is allowed, but plan mode never writes"
            yield warning("plan-writes", message, view.span(*where), "remove it, or use another permissionMode")


def _plugins(view: View) -> Found:
    marketplaces = view.mapping("claude", "marketplaces")
    for plugin in view.mapping("claude", "enabledPlugins"):
        marketplace = plugin.rpartition("@")[2]
        if marketplace and marketplace not in marketplaces:
            message = f"the marketplace {marketplace} of this plugin is not declared under claude.marketplaces"
            known = f"declared: {', '.join(marketplaces)}" if marketplaces else "none is declared"
            yield error("undeclared-marketplace", message, view.key("claude", "enabledPlugins", plugin), known)
    for name, marketplace in marketplaces.items():
        source = marketplace.get("source") if isinstance(marketplace, dict) else None
        if isinstance(source, dict) and source.get("source") not in ("directory", "file", "npm", None):
            pinned = source.get("sha") or source.get("ref")
            if not pinned:
                message = f"the marketplace {name} is not pinned: its plugins can change between two sessions"
                where = view.key("claude", "marketplaces", name)
                yield warning("unpinned-marketplace", message, where, "add sha: <commit>, or ref: <tag>, to its source")


def _model(view: View) -> Found:
    for key in ("model", "fallbackModel"):
        model = view.get(str, "claude", key)
        if model and "$" not in model and not all(_MODELS.fullmatch(each.strip()) for each in model.split(",")):
            hint = "models are named like claude-sonnet-5, or sonnet, opus and haiku"
            yield note("unknown-model", f"{model} is no model name that we know", view.span("claude", key), hint)


def is_loopback(host: str) -> bool:
    """Whether a server bound to `host` is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _exposure(view: View) -> Found:
    host = view.get(str, "server", "hostname")
    if host is None or is_loopback(host):
        return
    where = view.span("server", "hostname")
    if not view.get(str, "server", "publicUrl") and view.root.find(("server", "advertiseHost")) is None:
        message = f"bound to {host}, but the card has no address that callers can use"
        yield warning("no-public-url", message, where, "set server.publicUrl to the URL that callers use")
    auth = view.mapping("server", "auth")
    if not auth.get("allowUnauthenticated") and not _schemes(auth):
        message = f"bound to {host} without authentication: anyone who reaches it can spend money and run tools"
        hint = (
            "configure server.auth, or set server.auth.allowUnauthenticated: true behind something that authenticates"
        )
        yield warning("no-auth", message, where, hint)


def _schemes(auth: dict[str, Any]) -> list[str]:
    return [each for each in ("bearer", "apiKey", "jwt") if isinstance(auth.get(each), dict)] + (
        ["mtls"] if auth.get("mtls") is True else []
    )


def _auth(view: View) -> Found:
    for scheme, kind in (("bearer", "tokens"), ("apiKey", "keys")):
        found = view.get(dict, "server", "auth", scheme)
        if found is not None and not found.get(f"{kind}File") and not found.get(f"{kind}Variable"):
            message = f"server.auth.{scheme} has no {kind}, so nobody could call"
            hint = f"set {kind}File or {kind}Variable"
            yield error("auth-incomplete", message, view.key("server", "auth", scheme), hint)
    if view.get(bool, "server", "auth", "mtls") and not view.get(str, "server", "tls", "clientCaFile"):
        message = "server.auth.mtls needs the authorities of client certificates"
        yield error("auth-incomplete", message, view.key("server", "auth", "mtls"), "set server.tls.clientCaFile")
    if view.get(bool, "agentCard", "extendedCard") and not _schemes(view.mapping("server", "auth")):
        message = "agentCard.extendedCard is for authenticated callers, and server.auth has no scheme"
        hint = "configure server.auth, or remove extendedCard"
        yield error("auth-incomplete", message, view.key("agentCard", "extendedCard"), hint)


def _signing(view: View) -> Found:
    if view.get(bool, "agentCard", "signing", "enabled") and not view.get(
        str, "agentCard", "signing", "privateKeyJwkEnvVar"
    ):
        message = "agentCard.signing is enabled without a key"
        where = view.key("agentCard", "signing", "enabled")
        yield error("signing-key", message, where, "name the variable that holds it in privateKeyJwkEnvVar")


def _events(view: View) -> Found:
    if view.get(str, "events", "transport") != "http" or view.get(bool, "events", "enabled") is False:
        return
    if not view.get(str, "events", "httpUrl"):
        message = "events.transport http needs events.httpUrl"
        yield error("events-url", message, view.span("events", "transport"), "set events.httpUrl")
    else:
        yield from _url(view, "events", "httpUrl")


def _sub_agents(view: View) -> Found:
    first: dict[str, int] = {}
    for index, agent in enumerate(view.get(list, "subAgents", "agents") or []):
        where = ("subAgents", "agents", index)
        name = agent.get("name") if isinstance(agent, dict) else None
        if isinstance(name, str):
            if name in first:
                before = view.span("subAgents", "agents", first[name], "name")
                message = f"the sub-agent name {name} is used twice"
                hint = "names are prefixes of tools; give each its own"
                yield error("duplicate-name", message, view.span(*where, "name"), hint, (("first used here", before),))
            first.setdefault(name, index)
        for key in ("agentCardUrl", "endpointUrlOverride"):
            if view.get(str, *where, key) is not None:
                yield from _url(view, *where, key)


def _url(view: View, *path: str | int) -> Found:
    """A URL without references must be an absolute http(s) URL; with references it is checked when it is resolved."""
    text = view.get(str, *path) or ""
    if "$" in text:
        return
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good or any(each.isspace() for each in text):
        message = f"{dotted(path)} is no absolute http or https URL"
        yield error("bad-url", message, view.span(*path), "write https://host/path")


def _output_schema(view: View) -> Found:
    schema = view.get(dict, "claude", "outputFormat", "schema")
    if schema is None:
        return
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as problem:
        path = ("claude", "outputFormat", "schema", *problem.absolute_path)
        message = f"claude.outputFormat.schema is no JSON Schema at {dotted(path[3:]) or 'its root'}"
        yield error("bad-output-schema", message, view.span(*path), "see https://json-schema.org")


def _paths(view: View) -> Found:
    further = range(len(view.get(list, "claude", "additionalDirectories") or []))
    for path in [("claude", "workingDirectory"), *(("claude", "additionalDirectories", index) for index in further)]:
        text = view.get(str, *path)
        if text and "$" not in text and not text.startswith("/"):
            message = f"{dotted(path)} is relative, and a server has no fixed place to start from"
            yield error(
                "relative-path", message, view.span(*path), "write an absolute path, or a reference such as ${DIR}"
            )


def _workspace(view: View) -> Found:
    if not view.get(str, "claude", "workingDirectory"):
        message = "claude.workingDirectory is not set"
        hint = "set it, for example to ${WORKSPACE_DIR}; without it the environment must hold WORKSPACE_DIR"
        yield note("no-workspace", message, view.key("claude"), hint)


def _store(view: View) -> Found:
    kind = view.get(str, "store", "type")
    if kind == "postgresql" and not view.get(str, "store", "url"):
        hint = "set store.url, its password by reference"
        yield error("store-url", "store.type postgresql needs store.url", view.span("store", "type"), hint)
    elif kind == "postgresql":
        message = "store.type postgresql is not served by this version: the server does not start"
        hint = "use store.type: sqlite, and one replica"
        yield warning("store-unserved", message, view.span("store", "type"), hint)
    path = view.get(str, "store", "path") or ""
    if path.startswith("/") or ".." in path.split("/"):
        message = "store.path must stay inside the state directory"
        yield error("relative-path", message, view.span("store", "path"), "write a plain file name")
    replicas = view.get(int, "deploy", "kubernetes", "replicas") or 0
    scaled = view.get(dict, "deploy", "kubernetes", "autoscale") is not None
    if kind != "postgresql" and (replicas > 1 or scaled):
        key = "autoscale" if scaled else "replicas"
        message = f"several replicas cannot share a store of type {kind}"
        hint = "use one replica; the store that they could share, postgresql, is not served by this version"
        yield error("replicas-share", message, view.key("deploy", "kubernetes", key), hint)


def _card(view: View) -> Found:
    if not view.get(list, "agentCard", "skills"):
        message = "the card has no skills; one is derived from its name and description"
        yield note("no-skills", message, view.key("agentCard"), "list what the agent offers under agentCard.skills")


def _claude_agents(view: View) -> Found:
    servers = view.mapping("mcp")
    for name in view.mapping("claude", "agents"):
        for index, server in enumerate(view.strings("claude", "agents", name, "mcpServers")):
            if server not in servers:
                message = f"{server} is no server under mcp"
                hint = f"declared: {', '.join(servers)}" if servers else "none is declared"
                where = view.span("claude", "agents", name, "mcpServers", index)
                yield error("unknown-mcp-server", message, where, hint)


_RULES: tuple[Callable[[View], Found], ...] = (
    permission_checks.permission_mode,
    permission_checks.approvals,
    _prompts,
    _mcp,
    _tools,
    _plugins,
    _model,
    _exposure,
    published.check,
    _auth,
    _signing,
    _events,
    _sub_agents,
    _output_schema,
    _paths,
    _workspace,
    _store,
    _card,
    _claude_agents,
)

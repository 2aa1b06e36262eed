"""The paths of the HTTP+JSON bindings (A2A v1.0 section 11.3; v0.3 section 3.5.3).

They are matched here and not by URI templates because a task id may hold `:` and `/` (percent-encoded), any path may
start with a tenant, and a verb such as `:cancel` must never be taken for the end of an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from a2a_claude.a2a import operations as op
from a2a_claude.a2a.operations import Operation
from a2a_claude.a2a.validation import acceptable_tenant
from a2a_claude.a2a.versions import V03, V1

# The mounted base first: under the bare root, it would be a tenant.
BASES: Final = ("/a2a/rest", "")


class Endpoint(NamedTuple):
    """One path with what its methods do; `template` is its name in logs and metrics."""

    version: str
    template: str
    methods: Mapping[str, Operation]


class Match(NamedTuple):
    """A path that is one of ours: the tenant (or empty) and the ids in it, decoded, by their v1.0 field name."""

    endpoint: Endpoint
    tenant: str
    ids: Mapping[str, str]


_CONFIGS: Final = "pushNotificationConfigs"
_SUBSCRIBE: Final = {"GET": op.SUBSCRIBE, "POST": op.SUBSCRIBE}
_ENDPOINTS: Final[Mapping[str, Mapping[str, Operation]]] = {
    "/message:send": {"POST": op.SEND},
    "/message:stream": {"POST": op.STREAM},
    "/tasks": {"GET": op.LIST},
    "/tasks/{id}": {"GET": op.GET},
    "/tasks/{id}:cancel": {"POST": op.CANCEL},
    "/tasks/{id}:subscribe": _SUBSCRIBE,
    "/tasks/{taskId}/pushNotificationConfigs": {"POST": op.PUSH_CREATE, "GET": op.PUSH_LIST},
    "/tasks/{taskId}/pushNotificationConfigs/{id}": {"GET": op.PUSH_GET, "DELETE": op.PUSH_DELETE},
    "/extendedAgentCard": {"GET": op.EXTENDED_CARD},
}
_V1: Final = {template: Endpoint(V1, template, methods) for template, methods in _ENDPOINTS.items()}
_V03: Final = {
    template: Endpoint(V03, f"/v1{template}", methods)
    for template, methods in _ENDPOINTS.items()
    if template not in ("/tasks", "/extendedAgentCard")
} | {"/card": Endpoint(V03, "/v1/card", {"GET": op.EXTENDED_CARD})}
_OLD_CARD: Final = Endpoint(V03, "/agent/authenticatedExtendedCard", {"GET": op.EXTENDED_CARD})

ENDPOINTS: Final = (*_V1.values(), *_V03.values(), _OLD_CARD)


def match(path: str, legacy: bool = True) -> Match | None:
    """What a path means, None when nothing; `path` is percent-encoded, as it came. `legacy` takes v0.3 paths, too."""
    base = next(each for each in BASES if path.startswith(f"{each}/"))
    raw = path[len(base) :].rstrip("/").split("/")[1:]
    try:
        segments = [unquote(each, errors="strict") for each in raw]
    except UnicodeDecodeError:
        return None
    if not segments or not all(segments):
        return None
    if segments[0] == "v1":
        return _resource(_V03, raw[1:], segments[1:], "") if legacy else None
    if segments == ["agent", "authenticatedExtendedCard"] and legacy:
        return Match(_OLD_CARD, "", {})
    if (found := _resource(_V1, raw, segments, "")) is not None or len(segments) < 2:
        return found
    tenant = segments[0]
    return _resource(_V1, raw[1:], segments[1:], tenant) if acceptable_tenant(tenant) else None


def binding(path: str) -> str:
    """Whose error form a path gets, known or not: `jsonrpc`, `rest` or `rest-v03`."""
    if path in ("/", "", "/a2a/jsonrpc", "/a2a/jsonrpc/"):
        return "jsonrpc"
    inner = path.removeprefix(BASES[0])
    return "rest-v03" if inner.startswith("/v1/") or inner == "/v1" else "rest"


def _resource(endpoints: Mapping[str, Endpoint], raw: list[str], segments: list[str], tenant: str) -> Match | None:
    match segments:
        case [single]:
            endpoint = endpoints.get(f"/{single}")
            return Match(endpoint, tenant, {}) if endpoint else None
        case ["tasks", _]:
            # Only a literal colon starts a verb: one that is part of the id is percent-encoded, or no verb follows it.
            encoded, colon, verb = raw[1].rpartition(":")
            if colon and verb in ("cancel", "subscribe"):
                task_id = unquote(encoded)
                return Match(endpoints["/tasks/{id}:" + verb], tenant, {"id": task_id}) if task_id else None
            return Match(endpoints["/tasks/{id}"], tenant, {"id": segments[1]})
        case ["tasks", task_id, name] if name == _CONFIGS:
            return Match(endpoints["/tasks/{taskId}/pushNotificationConfigs"], tenant, {"taskId": task_id})
        case ["tasks", task_id, name, config_id] if name == _CONFIGS:
            ids = {"taskId": task_id, "id": config_id}
            return Match(endpoints["/tasks/{taskId}/pushNotificationConfigs/{id}"], tenant, ids)
    return None

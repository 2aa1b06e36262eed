"""The methods of JSON-RPC v0.3: how their params and results map to the operations of v1.0.

Source: https://a2a-protocol.org/v0.3.0/specification/ section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from a2a.utils.errors import TaskNotFoundError

from a2a_claude.a2a import operations as op
from a2a_claude.a2a import v03_objects as objects
from a2a_claude.a2a.errors import invalid_params

Json = Any


class Method(NamedTuple):
    """One v0.3 method: its operation, params to v1.0, result from v1.0.

    `always_streams`: strict clients of that version read an event stream even when the request fails.
    """

    operation: op.Operation
    to_core: Callable[[dict[str, Json]], Json]
    from_core: Callable[[Json], Json]
    always_streams: bool = False


def _send(params: dict[str, Json]) -> Json:
    return {
        "message": objects.to_core_message(params.get("message")),
        "configuration": objects.to_core_configuration(params.get("configuration")),
        "metadata": params.get("metadata"),
    }


def _get(params: dict[str, Json]) -> Json:
    # A length of 0 sets no bound in v0.3 as the SDKs have it; in v1.0 it leaves the history out.
    return {"id": params.get("id"), "historyLength": params.get("historyLength") or None}


def _task(params: dict[str, Json]) -> Json:
    return {"id": params.get("id"), "metadata": params.get("metadata")}


def _push_set(params: dict[str, Json]) -> Json:
    config = objects.to_core_push_config(params.get("pushNotificationConfig"))
    if not isinstance(config, dict):
        raise invalid_params(("pushNotificationConfig", "must be an object"))
    return {**config, "taskId": params.get("taskId")}


def _push_id(params: dict[str, Json]) -> Json:
    missing = [(name, "is required") for name in ("id", "pushNotificationConfigId") if not params.get(name)]
    if missing:
        raise invalid_params(*missing)
    return {"taskId": params["id"], "id": params["pushNotificationConfigId"]}


def _push_list(params: dict[str, Json]) -> Json:
    if not params.get("id"):
        raise invalid_params(("id", "is required"))
    return {"taskId": params["id"]}


def _first(page: Json) -> Json:
    if not page["configs"]:
        raise TaskNotFoundError("The task has no push notification config")
    return objects.push_config(page["configs"][0])


# v0.3 lets a client leave out which config of a task it means.
PUSH_GET_ANY: Final = Method(op.PUSH_LIST, _push_list, _first)


def method_for(name: str, params: Mapping[str, Json]) -> Method | None:
    """The v0.3 method of that name; None when there is none."""
    if name == "tasks/pushNotificationConfig/get" and not params.get("pushNotificationConfigId"):
        return PUSH_GET_ANY
    return METHODS.get(name)


METHODS: Final[Mapping[str, Method]] = {
    "message/send": Method(op.SEND, _send, objects.event),
    "message/stream": Method(op.STREAM, _send, objects.event, always_streams=True),
    "tasks/get": Method(op.GET, _get, objects.task),
    "tasks/cancel": Method(op.CANCEL, _task, objects.task),
    "tasks/resubscribe": Method(op.SUBSCRIBE, _task, objects.event, always_streams=True),
    "tasks/pushNotificationConfig/set": Method(op.PUSH_CREATE, _push_set, objects.push_config),
    "tasks/pushNotificationConfig/get": Method(op.PUSH_GET, _push_id, objects.push_config),
    "tasks/pushNotificationConfig/list": Method(
        op.PUSH_LIST, _push_list, lambda page: [objects.push_config(each) for each in page["configs"]]
    ),
    "tasks/pushNotificationConfig/delete": Method(op.PUSH_DELETE, _push_id, lambda _: None),
    "agent/getAuthenticatedExtendedCard": Method(op.EXTENDED_CARD, lambda _: {}, lambda card: card),
}

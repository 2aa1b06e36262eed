"""The ProtoJSON of A2A v0.3's protobuf (its HTTP+JSON binding) from and to the JSON of v1.0.

The official SDKs speak this in v0.3 REST, not the `kind` objects of JSON-RPC. Source: a2a.proto of v0.3.0.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from a2a_claude.a2a.v03_objects import ROLES, to_core_configuration, to_core_part

Json = Any


class ProtoShapes:
    """Translates for one caller.

    `doubled` is for the Python SDK: it puts the base64 text of a file into a `bytes` field, which ProtoJSON encodes
    once more, and it reads files the same way.
    """

    def __init__(self, doubled: bool = False) -> None:
        self._doubled = doubled

    def event(self, core: Mapping[str, Json]) -> dict[str, Json]:
        """A v1.0 StreamResponse or SendMessageResponse."""
        if "task" in core:
            return {"task": self.task(core["task"])}
        if "message" in core:
            return {"message": self.message(core["message"])}
        if "statusUpdate" in core:
            update = dict(core["statusUpdate"])
            update["status"] = self._status(update.get("status", {}))
            if update["status"]["state"] in _TERMINAL:
                update["final"] = True
            return {"statusUpdate": update}
        update = dict(core["artifactUpdate"])
        update["artifact"] = self._artifact(update.get("artifact", {}))
        return {"artifactUpdate": update}

    def task(self, core: Mapping[str, Json]) -> dict[str, Json]:
        """A v1.0 Task."""
        compat = {**core, "status": self._status(core.get("status", {}))}
        if "history" in core:
            compat["history"] = [self.message(each) for each in core["history"]]
        if "artifacts" in core:
            compat["artifacts"] = [self._artifact(each) for each in core["artifacts"]]
        return compat

    def message(self, core: Mapping[str, Json]) -> dict[str, Json]:
        """A v1.0 Message: its parts are called `content`."""
        compat = {key: value for key, value in core.items() if key not in ("parts", "referenceTaskIds")}
        return compat | {"content": [self._part(each) for each in core.get("parts", ())]}

    def to_core_send(self, body: Json) -> Json:
        """A v0.3 SendMessageRequest; old JavaScript clients call the message `request`."""
        body = in_camel_case(body)
        if not isinstance(body, dict):
            return body
        message = body.get("message", body.get("request"))
        if isinstance(message, dict):
            parts = message.get("content", message.get("parts"))
            message = {key: value for key, value in message.items() if key not in ("content", "parts")}
            message["parts"] = [self._to_core_part(each) for each in parts] if isinstance(parts, list) else parts
            role = message.get("role")
            message["role"] = ROLES.get(role, role) if isinstance(role, str) else role
        configuration = to_core_configuration(body.get("configuration"), "pushNotification")
        if isinstance(configuration, dict) and "blocking" not in body["configuration"]:
            # ProtoJSON leaves out a false boolean: both SDKs say "do not wait" by saying nothing.
            configuration["returnImmediately"] = True
        return {"message": message, "configuration": configuration, "metadata": body.get("metadata")}

    def _status(self, core: Mapping[str, Json]) -> dict[str, Json]:
        compat = dict(core)
        compat["state"] = _CANCELLED if core.get("state") == _CANCELED else core.get("state", "TASK_STATE_UNSPECIFIED")
        if "message" in core:
            compat["message"] = self.message(core["message"])
        return compat

    def _artifact(self, core: Mapping[str, Json]) -> dict[str, Json]:
        return {**core, "parts": [self._part(each) for each in core.get("parts", ())]}

    def _part(self, core: Mapping[str, Json]) -> dict[str, Json]:
        compat = {key: core[key] for key in ("text", "metadata") if key in core}
        if "raw" in core or "url" in core:
            raw = core.get("raw", "")
            bytes_ = base64.b64encode(raw.encode()).decode() if self._doubled else raw
            file = {"fileWithBytes": bytes_} if "raw" in core else {"fileWithUri": core["url"]}
            names = {"mediaType": "mimeType", "filename": "name"}
            compat["file"] = file | {new: core[old] for old, new in names.items() if core.get(old)}
        elif "data" in core:
            data = core["data"]
            if not isinstance(data, dict):
                data = {"value": data}
                compat["metadata"] = {**compat.get("metadata", {}), "data_part_compat": True}
            compat["data"] = {"data": data}
        return compat

    def _to_core_part(self, compat: Json) -> Json:
        if not isinstance(compat, dict):
            return compat
        plain = {key: value for key, value in compat.items() if key != "kind"}
        file, data = compat.get("file"), compat.get("data")
        if isinstance(file, dict):
            names = {"fileWithBytes": "bytes", "fileWithUri": "uri"}
            renamed = {names.get(key, key): value for key, value in file.items()}
            if self._doubled and isinstance(renamed.get("bytes"), str):
                renamed["bytes"] = _once(renamed["bytes"])
            plain["file"] = renamed
        if isinstance(data, dict) and isinstance(data.get("data"), dict):
            plain["data"] = data["data"]
        return to_core_part(plain)


_CANCELED = "TASK_STATE_CANCELED"
_CANCELLED = "TASK_STATE_CANCELLED"
_TERMINAL = frozenset(("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", _CANCELLED, "TASK_STATE_REJECTED"))


def push_config(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 TaskPushNotificationConfig under its resource name."""
    config = {key: core[key] for key in ("id", "url", "token") if core.get(key)}
    if "authentication" in core:
        info = core["authentication"]
        config["authentication"] = {"schemes": [info["scheme"]] if info.get("scheme") else []}
        if info.get("credentials"):
            config["authentication"]["credentials"] = info["credentials"]
    name = f"tasks/{core.get('taskId', '')}/pushNotificationConfigs/{core.get('id', '')}"
    return {"name": name, "pushNotificationConfig": config}


def to_core_push_create(body: Json) -> tuple[Json, str]:
    """A request to create a config: its PushNotificationConfig (v0.3 object) and the id that the request gives it.

    The Python SDK sends `{parent, configId, config: {name, pushNotificationConfig}}`, the JavaScript SDK only what is
    in `config`.
    """
    body = in_camel_case(body)
    if not isinstance(body, dict):
        return body, ""
    inner = body.get("config")
    outer: dict[str, Json] = inner if isinstance(inner, dict) else body
    config = outer.get("pushNotificationConfig")
    asked = body.get("configId")
    name = outer.get("name")
    if not asked and isinstance(name, str) and "/pushNotificationConfigs/" in name:
        asked = name.rpartition("/pushNotificationConfigs/")[2]
    return (config if config is not None else {}), asked if isinstance(asked, str) and asked != "undefined" else ""


def in_camel_case(value: Json) -> Json:
    """ProtoJSON may name fields in snake_case; what callers put into `metadata` and `data` keeps its names."""
    if isinstance(value, list):
        return [in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    renamed = {}
    for key, each in value.items():
        first, *others = key.split("_")
        name = first + "".join(each.capitalize() for each in others)
        renamed[name] = each if name in ("metadata", "data") else in_camel_case(each)
    return renamed


def _once(doubled: str) -> str:
    try:
        inner = base64.b64decode(doubled, validate=True).decode("ascii")
        if inner and base64.b64encode(base64.b64decode(inner, validate=True)).decode() == inner:
            return inner
    except (binascii.Error, ValueError):
        pass
    return doubled

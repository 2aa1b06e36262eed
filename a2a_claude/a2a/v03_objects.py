"""The objects of A2A v0.3 (JSON-RPC: told apart by `kind`) from and to those of v1.0, JSON to JSON.

Source: https://a2a-protocol.org/v0.3.0/specification/ sections 6 and 7; where v1.0 says more than v0.3 can, the
conventions of the official SDKs. What is wrong in a request is left as it is: the decoder names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = Any

_FINAL: Final = frozenset(("completed", "canceled", "failed", "rejected"))
ROLES: Final = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}


def state(name: str) -> str:
    """`TASK_STATE_INPUT_REQUIRED` as `input-required`."""
    plain = name.removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "unknown" if plain == "unspecified" else plain


def part(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 Part as a TextPart, FilePart or DataPart; data that is no object is wrapped and marked."""
    metadata = core.get("metadata")
    if "text" in core:
        compat: dict[str, Json] = {"kind": "text", "text": core["text"]}
    elif "raw" in core or "url" in core:
        file = {"bytes": core["raw"]} if "raw" in core else {"uri": core["url"]}
        if core.get("mediaType"):
            file["mimeType"] = core["mediaType"]
        if core.get("filename"):
            file["name"] = core["filename"]
        compat = {"kind": "file", "file": file}
    else:
        data = core.get("data")
        if not isinstance(data, dict):
            data, metadata = {"value": data}, {**(metadata or {}), "data_part_compat": True}
        compat = {"kind": "data", "data": data}
    if metadata is not None:
        compat["metadata"] = metadata
    return compat


def message(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 Message."""
    role = "user" if core.get("role") == "ROLE_USER" else "agent"
    compat = {
        "kind": "message",
        "messageId": core.get("messageId", ""),
        "role": role,
        "parts": [part(each) for each in core.get("parts", ())],
    }
    return compat | _present(core, "contextId", "taskId", "referenceTaskIds", "extensions", "metadata")


def status(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 TaskStatus."""
    compat: dict[str, Json] = {"state": state(core.get("state", "TASK_STATE_UNSPECIFIED"))}
    if "message" in core:
        compat["message"] = message(core["message"])
    return compat | _present(core, "timestamp")


def artifact(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 Artifact."""
    compat = {"artifactId": core.get("artifactId", ""), "parts": [part(each) for each in core.get("parts", ())]}
    return compat | _present(core, "name", "description", "metadata", "extensions")


def task(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 Task."""
    compat: dict[str, Json] = {
        "kind": "task",
        "id": core.get("id", ""),
        "contextId": core.get("contextId", ""),
        "status": status(core.get("status", {})),
    }
    if core.get("history"):
        compat["history"] = [message(each) for each in core["history"]]
    if core.get("artifacts"):
        compat["artifacts"] = [artifact(each) for each in core["artifacts"]]
    return compat | _present(core, "metadata")


def event(core: Mapping[str, Json]) -> dict[str, Json]:
    """What a v1.0 StreamResponse or SendMessageResponse wraps: a Task, a Message or an update event."""
    if "task" in core:
        return task(core["task"])
    if "message" in core:
        return message(core["message"])
    if "statusUpdate" in core:
        update = core["statusUpdate"]
        new = status(update.get("status", {}))
        compat = {
            "kind": "status-update",
            "taskId": update.get("taskId", ""),
            "contextId": update.get("contextId", ""),
            "status": new,
            "final": new["state"] in _FINAL,
        }
    else:
        update = core["artifactUpdate"]
        compat = {
            "kind": "artifact-update",
            "taskId": update.get("taskId", ""),
            "contextId": update.get("contextId", ""),
            "artifact": artifact(update.get("artifact", {})),
            "append": update.get("append", False),
            "lastChunk": update.get("lastChunk", False),
        }
    return compat | _present(update, "metadata")


def push_config(core: Mapping[str, Json]) -> dict[str, Json]:
    """A v1.0 TaskPushNotificationConfig: nested, with a list of schemes."""
    config = _present(core, "id", "token") | {"url": core.get("url", "")}
    if "authentication" in core:
        info = core["authentication"]
        config["authentication"] = {"schemes": [info["scheme"]] if info.get("scheme") else []}
        config["authentication"] |= _present(info, "credentials")
    return {"taskId": core.get("taskId", ""), "pushNotificationConfig": config}


def to_core_part(compat: Json) -> Json:
    """A part of a request; one without `kind` is taken for what its members say."""
    if not isinstance(compat, dict):
        return compat
    core = {key: compat[key] for key in ("text", "data", "metadata") if key in compat}
    # Clients older than v0.3 call the discriminator `type`.
    kind, file = compat.get("kind", compat.get("type")), compat.get("file")
    if kind not in (None, "text", "file", "data"):
        return {}
    if isinstance(file, dict):
        names = {"bytes": "raw", "uri": "url", "mimeType": "mediaType", "name": "filename"}
        core |= {new: file[old] for old, new in names.items() if file.get(old) is not None}
    metadata = core.get("metadata")
    if isinstance(metadata, dict) and metadata.get("data_part_compat") is True and isinstance(core.get("data"), dict):
        core["data"] = core["data"].get("value")
        core["metadata"] = {key: value for key, value in metadata.items() if key != "data_part_compat"}
    elif "data" in core and not isinstance(core["data"], dict):
        return {}
    return core


def to_core_message(compat: Json) -> Json:
    """The message of a request."""
    if not isinstance(compat, dict):
        return compat
    core = {key: value for key, value in compat.items() if key not in ("kind", "content")}
    role, parts = compat.get("role"), compat.get("parts")
    if isinstance(role, str):
        core["role"] = ROLES.get(role, role)
    if isinstance(parts, list):
        core["parts"] = [to_core_part(each) for each in parts]
    return core


def to_core_push_config(compat: Json) -> Json:
    """A PushNotificationConfig of a request; of several schemes the first counts, v1.0 has one."""
    if not isinstance(compat, dict):
        return compat
    core = {key: compat[key] for key in ("id", "url", "token") if key in compat}
    info = compat.get("authentication")
    if isinstance(info, dict):
        schemes = info.get("schemes")
        first = schemes[0] if isinstance(schemes, list) and schemes else schemes
        if first or info.get("credentials"):
            core["authentication"] = {"scheme": first or None, "credentials": info.get("credentials")}
    elif info is not None:
        core["authentication"] = info
    return core


def to_core_configuration(compat: Json, push: str = "pushNotificationConfig") -> Json:
    """The configuration of a request: waits unless `blocking` is false; a historyLength of 0 sets no bound."""
    if not isinstance(compat, dict):
        return compat
    core = {"acceptedOutputModes": compat.get("acceptedOutputModes")}
    if (config := compat.get(push)) is not None:
        core["taskPushNotificationConfig"] = to_core_push_config(config)
    if compat.get("historyLength") not in (None, 0):
        core["historyLength"] = compat["historyLength"]
    blocking = compat.get("blocking")
    core["returnImmediately"] = not blocking if isinstance(blocking, bool) else blocking
    return core


def _present(core: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: core[name] for name in names if core.get(name) not in (None, "", [])}

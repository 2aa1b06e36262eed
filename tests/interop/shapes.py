"""Requests and results of A2A v1.0 and v0.3 as JSON, behind one face: what a test asks and what it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

JSON = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A task as tests look at it. `state` is `completed`, `input-required`, …; `artifacts` and `history` are texts."""

    id: str
    context: str
    state: str
    answer: str
    artifacts: list[str]
    history: list[str]


def state(name: str) -> str:
    """A state's name of either version, in v0.3's spelling."""
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


def texts(parts: list[JSON]) -> str:
    """The text of parts of either version."""
    return "".join(part["text"] for part in parts)


def task(found: JSON) -> Task:
    """A task of either version."""
    status = found["status"]
    return Task(
        found["id"],
        found["contextId"],
        state(status["state"]),
        texts(status.get("message", {}).get("parts", [])),
        [texts(each["parts"]) for each in found.get("artifacts", [])],
        [texts(each["parts"]) for each in found.get("history", [])],
    )


class V1:
    """A2A v1.0, as ProtoJSON."""

    def send(
        self,
        text: str,
        script: JSON | None = None,
        *,
        task_id: str = "",
        context_id: str = "",
        at_once: bool = False,
        parts: list[JSON] | None = None,
        webhook: str = "",
    ) -> JSON:
        """The request of `send` and `stream`."""
        message: JSON = {"messageId": str(uuid4()), "role": "ROLE_USER"}
        message["parts"] = [{"text": text}] if parts is None else parts
        message |= {name: value for name, value in (("taskId", task_id), ("contextId", context_id)) if value}
        if script:
            message["metadata"] = {"script": script}
        configuration: JSON = {"returnImmediately": True} if at_once else {}
        if webhook:
            configuration["taskPushNotificationConfig"] = {"id": "inline", "url": webhook}
        return {"message": message, "configuration": configuration}

    def sent(self, found: JSON) -> Task | str:
        """What `send` gave: a task, or the text of a message."""
        return task(found["task"]) if "task" in found else texts(found["message"]["parts"])

    def event(self, found: JSON) -> tuple[str, str]:
        """One event of a stream: its kind in v0.3's spelling, and its state or text."""
        ((member, event),) = found.items()
        match member:
            case "task":
                return "task", task(event).state
            case "statusUpdate":
                return "status-update", state(event["status"]["state"])
            case "artifactUpdate":
                return "artifact-update", texts(event["artifact"]["parts"])
            case _:
                return "message", texts(event["parts"])

    def push_set(self, task_id: str, config_id: str, url: str, token: str) -> JSON:
        return {"taskId": task_id, "id": config_id, "url": url, "token": token}

    def push_get(self, task_id: str, config_id: str) -> JSON:
        """Also of `push_delete`."""
        return {"taskId": task_id, "id": config_id}

    def push_list(self, task_id: str) -> JSON:
        return {"taskId": task_id}

    def push_config(self, found: JSON) -> tuple[str, str, str, str]:
        """Task, config, URL and token."""
        return found["taskId"], found["id"], found["url"], found.get("token", "")

    def push_configs(self, found: Any) -> list[tuple[str, str, str, str]]:
        """What `push_list` gave."""
        return [self.push_config(each) for each in found.get("configs", [])]


class V03:
    """A2A v0.3, as its JSON Schema has it."""

    def send(
        self,
        text: str,
        script: JSON | None = None,
        *,
        task_id: str = "",
        context_id: str = "",
        at_once: bool = False,
        parts: list[JSON] | None = None,
        webhook: str = "",
    ) -> JSON:
        """The request of `send` and `stream`."""
        request = V1().send(text, script, task_id=task_id, context_id=context_id, parts=parts)
        message = request["message"] | {"kind": "message", "role": "user"}
        message["parts"] = [{"kind": "text", **part} for part in message["parts"]]
        configuration: JSON = {"blocking": not at_once}
        if webhook:
            configuration["pushNotificationConfig"] = {"id": "inline", "url": webhook}
        return {"message": message, "configuration": configuration}

    def sent(self, found: JSON) -> Task | str:
        """What `send` gave: a task, or the text of a message."""
        return task(found) if found["kind"] == "task" else texts(found["parts"])

    def event(self, found: JSON) -> tuple[str, str]:
        """One event of a stream: its kind, and its state or text."""
        match found["kind"]:
            case "task":
                return "task", task(found).state
            case "status-update":
                return "status-update", state(found["status"]["state"])
            case "artifact-update":
                return "artifact-update", texts(found["artifact"]["parts"])
            case _:
                return "message", texts(found["parts"])

    def push_set(self, task_id: str, config_id: str, url: str, token: str) -> JSON:
        return {"taskId": task_id, "pushNotificationConfig": {"id": config_id, "url": url, "token": token}}

    def push_get(self, task_id: str, config_id: str) -> JSON:
        """Also of `push_delete`."""
        return {"id": task_id, "pushNotificationConfigId": config_id}

    def push_list(self, task_id: str) -> JSON:
        return {"id": task_id}

    def push_config(self, found: JSON) -> tuple[str, str, str, str]:
        """Task, config, URL and token."""
        config = found["pushNotificationConfig"]
        return found["taskId"], config["id"], config["url"], config.get("token", "")

    def push_configs(self, found: Any) -> list[tuple[str, str, str, str]]:
        """What `push_list` gave."""
        return [self.push_config(each) for each in found]


SHAPES: dict[str, V1 | V03] = {"1.0": V1(), "0.3": V03()}

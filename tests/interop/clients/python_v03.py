"""A client on a2a-sdk 0.3, driven by lines of JSON on stdin; see ../drivers.py."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

import httpx
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from pydantic import BaseModel

OPERATIONS = {
    "get": ("get_task", types.TaskQueryParams),
    "cancel": ("cancel_task", types.TaskIdParams),
    "subscribe": ("resubscribe", types.TaskIdParams),
    "push_set": ("set_task_callback", types.TaskPushNotificationConfig),
    "push_get": ("get_task_callback", types.GetTaskPushNotificationConfigParams),
}


def plain(found: Any) -> Any:
    if isinstance(found, tuple):  # a task and what has changed it
        return plain(found[1] or found[0])
    return found.model_dump(mode="json", by_alias=True, exclude_none=True) if isinstance(found, BaseModel) else found


async def perform(card: types.AgentCard, config: ClientConfig, operation: str, request: dict[str, Any]) -> Any:
    # Everything about a message but its text belongs to the client: one for each step, then.
    configuration = request.get("configuration", {})
    config = replace(config, streaming=operation != "send", polling=configuration.get("blocking") is False)
    if webhook := configuration.get("pushNotificationConfig"):
        config.push_notification_configs = [types.PushNotificationConfig(**webhook)]
    client = ClientFactory(config).create(card)
    match operation:
        case "send" | "stream":
            result = client.send_message(types.Message(**request["message"]))
        case "extended_card":
            return plain(await client.get_card())
        case _:
            if operation not in OPERATIONS:
                raise NotImplementedError(operation)
            method, kind = OPERATIONS[operation]
            result = getattr(client, method)(kind(**request))
    if not hasattr(result, "__aiter__"):
        return plain(await result)
    events = []
    async for event in result:
        events.append(plain(event))
        if operation == "subscribe" and len(events) == 1:
            await client.cancel_task(types.TaskIdParams(id=request["id"]))
    return events[0] if operation == "send" else events


def told(error: Exception) -> dict[str, Any]:
    code = getattr(getattr(error, "error", None), "code", None) or getattr(error, "status_code", None)
    return {"error": type(error).__name__, "code": code, "message": str(error)}


async def main() -> None:
    settings = json.loads(sys.argv[1])
    forced: dict[str, str] = {}

    async def force(request: httpx.Request) -> None:
        request.headers.update(forced)

    async with httpx.AsyncClient(event_hooks={"request": [force]}, timeout=60, trust_env=False) as http:
        for line in sys.stdin:
            step = json.loads(line)
            try:
                match step["do"]:
                    case "headers":
                        forced, result = step["request"], None
                    case "card":
                        card = await A2ACardResolver(http, settings["url"]).get_agent_card()
                        config = ClientConfig(httpx_client=http, supported_transports=[settings["binding"]])
                        result = plain(card)
                    case operation:
                        result = await perform(card, config, operation, step["request"])
                answer = {"result": result}
            except Exception as error:  # noqa: BLE001 # whatever the client raises is what its user sees
                answer = told(error)
            print(json.dumps(answer), flush=True)


asyncio.run(main())

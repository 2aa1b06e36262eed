"""A client on a2a-sdk 1.x, driven by lines of JSON on stdin; see ../drivers.py."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

OPERATIONS = {
    "send": ("send_message", pb.SendMessageRequest),
    "stream": ("send_message", pb.SendMessageRequest),
    "get": ("get_task", pb.GetTaskRequest),
    "list": ("list_tasks", pb.ListTasksRequest),
    "cancel": ("cancel_task", pb.CancelTaskRequest),
    "subscribe": ("subscribe", pb.SubscribeToTaskRequest),
    "push_set": ("create_task_push_notification_config", pb.TaskPushNotificationConfig),
    "push_get": ("get_task_push_notification_config", pb.GetTaskPushNotificationConfigRequest),
    "push_list": ("list_task_push_notification_configs", pb.ListTaskPushNotificationConfigsRequest),
    "push_delete": ("delete_task_push_notification_config", pb.DeleteTaskPushNotificationConfigRequest),
    "extended_card": ("get_extended_agent_card", pb.GetExtendedAgentCardRequest),
}


async def connect(http: httpx.AsyncClient, settings: dict[str, Any]) -> tuple[pb.AgentCard, dict[bool, Client]]:
    card = await A2ACardResolver(http, settings["url"]).get_agent_card()
    spoken = pb.AgentCard()
    spoken.CopyFrom(card)
    del spoken.supported_interfaces[:]
    spoken.supported_interfaces.extend(
        each for each in card.supported_interfaces if each.protocol_version == settings["version"]
    )
    return card, {
        streaming: ClientFactory(
            ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[settings["binding"]])
        ).create(spoken)
        for streaming in (True, False)
    }


async def perform(clients: dict[bool, Client], operation: str, request: dict[str, Any]) -> Any:
    method, kind = OPERATIONS[operation]
    result = getattr(clients[operation != "send"], method)(ParseDict(request, kind()))
    if not hasattr(result, "__aiter__"):
        found = await result
        return None if found is None else MessageToDict(found)
    events = []
    async for event in result:
        events.append(MessageToDict(event))
        if operation == "subscribe" and len(events) == 1:
            await clients[False].cancel_task(pb.CancelTaskRequest(id=request["id"]))
    return events[0] if operation == "send" else events


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
                        card, clients = await connect(http, settings)
                        result = MessageToDict(card)
                    case operation:
                        result = await perform(clients, operation, step["request"])
                answer = {"result": result}
            except Exception as error:  # noqa: BLE001 # whatever the client raises is what its user sees
                answer = {"error": type(error).__name__, "message": str(error)}
            print(json.dumps(answer), flush=True)


asyncio.run(main())

"""That the server which the documentation starts for a kit answers it, and as that kit wants."""

from __future__ import annotations

import json
import os
from typing import Any

import httpx

KIT, URL = os.environ["KIT"], os.environ["KIT_URL"]


def post(path: str, body: dict[str, Any]) -> httpx.Response:
    # 1.0-dev knows no token, but it sends the version; the others send what the variable says.
    own = {"A2A-Version": "1.0"} if KIT == "1.0-dev" else json.loads(os.environ["A2A_AUTH_HEADERS"])
    with httpx.Client(base_url=URL, headers=own) as client:
        return client.post(path, json=body)


def message(role: str, part: dict[str, str]) -> dict[str, Any]:
    return {"message": {"messageId": "tck-complete-task-1" if KIT == "1.0-dev" else "1", "role": role, "parts": [part]}}


def card() -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{URL}/.well-known/agent-card.json").json()
    return found


def test_a_message_over_json_rpc() -> None:
    if KIT == "0.3.0.beta4":
        params = message("user", {"kind": "text", "text": "hello"})
        params["message"]["kind"] = "message"
        params["configuration"] = {"blocking": False}
        body = post("/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}).json()
        assert body["result"]["status"]["state"] in ("submitted", "working"), body
    else:
        params = message("ROLE_USER", {"text": "hello"})
        params["configuration"] = {"returnImmediately": KIT == "main"}
        body = post("/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).json()
        wanted = ("COMPLETED",) if KIT == "1.0-dev" else ("SUBMITTED", "WORKING")
        assert body["result"]["task"]["status"]["state"] in [f"TASK_STATE_{each}" for each in wanted], body


def test_a_card_without_members_of_another_version() -> None:
    assert ("url" in card()) == (KIT == "0.3.0.beta4")


class TestCapabilityExtensionRequired:
    def test_a_caller_without_it_is_refused(self) -> None:
        answer = post("/message:send", message("ROLE_USER", {"text": "hello"}))
        assert answer.status_code == 400
        assert "EXTENSION_SUPPORT_REQUIRED" in answer.text

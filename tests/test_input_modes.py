"""What the card promises to take is taken, and nothing else."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError
from google.protobuf.struct_pb2 import Value

from a2a_claude.a2a.app import App, make_app
from a2a_claude.a2a.input_modes import InputModes
from a2a_claude.config.media_types import admits, of_name
from tests.a2a_support import JSON, V1, lifecycle_handler, running
from tests.support import make_agent

TEXT, DATA = Part(text="hello"), Part(data=Value(number_value=1))
PNG, PDF = Part(raw=b"x", media_type="image/png"), Part(raw=b"x", filename="a.pdf")
URL, NAMELESS = Part(url="https://example.org/a/b.png?c=d.pdf"), Part(raw=b"x")
EVERYTHING = (TEXT, DATA, PNG, PDF, URL, NAMELESS)


def skill(*modes: str) -> dict[str, Any]:
    return {"id": "s", "name": "S", "description": "D", "inputModes": list(modes)}


@pytest.mark.parametrize(
    ("card", "taken"),
    [
        ({}, EVERYTHING),
        ({"defaultInputModes": ["text"]}, EVERYTHING),
        ({"defaultInputModes": []}, EVERYTHING),
        ({"skills": [skill("image/png")]}, EVERYTHING),
        ({"defaultInputModes": ["image/png"], "skills": [skill("text")]}, EVERYTHING),
        ({"defaultInputModes": ["*/*"]}, EVERYTHING),
        ({"defaultInputModes": ["text", "data", "file"]}, EVERYTHING),
        ({"defaultInputModes": ["text/plain"]}, (TEXT,)),
        ({"defaultInputModes": ["Text/Plain; charset=utf-8"]}, (TEXT,)),
        ({"defaultInputModes": ["application/json"]}, (DATA,)),
        ({"defaultInputModes": ["text", "image/*"]}, (TEXT, PNG, URL)),
        ({"defaultInputModes": ["text", "image"]}, (TEXT, PNG, URL)),
        ({"defaultInputModes": ["text/plain"], "skills": [skill("application/pdf")]}, (TEXT, PDF)),
        ({"defaultInputModes": ["application/octet-stream"]}, (NAMELESS,)),
    ],
)
def test_a_part_is_taken_when_the_card_names_its_type(card: dict[str, Any], taken: tuple[Part, ...]) -> None:
    modes = InputModes(make_agent({"agentCard": card}).config.agent_card)
    for part in EVERYTHING:
        if part in taken:
            modes.check(Message(parts=[part]))
        else:
            with pytest.raises(ContentTypeNotSupportedError, match=r"message\.parts\[0\]: this agent takes"):
                modes.check(Message(parts=[part]))


def test_a_text_of_any_kind_is_text() -> None:
    modes = InputModes(make_agent({"agentCard": {"defaultInputModes": ["text/plain"]}}).config.agent_card)
    modes.check(Message(parts=[Part(text="# x", media_type="text/markdown")]))


@pytest.mark.parametrize(
    ("modes", "kind", "expected"),
    [
        (["text/plain"], "text/plain; charset=utf-8", True),
        (["TEXT/*"], "text/csv", True),
        (["text"], "text/csv", True),
        (["data"], "application/json", True),
        (["image"], "image/png", True),
        (["*"], "image/png", True),
        (["text/*"], "textual/x", False),
        (["application/json"], "application/json+x", False),
        ([], "text/plain", False),
    ],
)
def test_ranges_and_words_stand_for_types(modes: list[str], kind: str, expected: bool) -> None:
    assert admits(modes, kind) is expected


def test_a_packed_file_is_what_it_is_packed_as() -> None:
    assert [of_name(each) for each in ("a.tar.gz", "a.png", "a", "a.unheard-of")] == [
        "application/gzip",
        "image/png",
        "application/octet-stream",
        "application/octet-stream",
    ]


def test_both_versions_refuse_with_the_error_of_the_specification_before_there_is_a_task() -> None:
    agent = make_agent({"agentCard": {"defaultInputModes": ["text/plain"]}})

    async def make() -> App:
        return make_app(agent, await lifecycle_handler(agent))

    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": "eA==", "mediaType": "image/png"}]}
    older = {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [{"kind": "file", "file": {"bytes": "eA==", "mimeType": "image/png"}}],
    }
    with running(make) as server, httpx.Client(base_url=server.url) as client:

        def call(method: str, params: Any, headers: dict[str, str]) -> Any:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post("/a2a/jsonrpc", json=body, headers=headers).json()

        refused = call("SendMessage", {"message": message}, V1)["error"]
        assert (refused["code"], refused["data"][0]["reason"]) == (-32005, "CONTENT_TYPE_NOT_SUPPORTED")
        assert call("message/send", {"message": older}, JSON)["error"]["code"] == -32005
        assert "CONTENT_TYPE_NOT_SUPPORTED" in client.post("/message:send", json={"message": message}, headers=V1).text
        assert call("ListTasks", {}, V1)["result"]["tasks"] == []

# ruff: noqa: E501 - a case is a line
"""The wire rules as a table: a request in, status, headers and body out, against a real server.

Each case of `FAULTS` is named after a fault of a2a-sdk 1.3.0's own server that this binding must not have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import orjson
import pytest
from a2a.utils import errors as a2a_errors
from a2a.utils.errors import A2AError

from a2a_claude.a2a.app import App, make_app
from tests.a2a_support import (
    JSON,
    V1,
    AsAnn,
    Client,
    Running,
    events,
    lifecycle_handler,
    running,
    sdk_handler,
    user_message,
    user_message_v03,
)
from tests.support import make_agent

DOCUMENT = {
    "agentCard": {"pushNotifications": True, "extendedCard": True},
    "server": {
        "limits": {"maxBodyBytes": 20_000, "maxParts": 5, "maxJsonDepth": 20, "maxMetadataBytes": 300},
        "auth": {"bearer": {"tokensVariable": "TOKENS"}},
    },
}
HOOK = "https://example.com/hook"
INFO = "type.googleapis.com/google.rpc.ErrorInfo"


@pytest.fixture(scope="module", params=["a2a-sdk", "lifecycle"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    agent = make_agent(DOCUMENT)

    async def make() -> App:
        handler = sdk_handler() if request.param == "a2a-sdk" else await lifecycle_handler(agent)
        return make_app(agent, handler, middleware=[AsAnn()])

    with running(make) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[Client]:
    with Client(base_url=server.url, timeout=10) as made:
        yield made


def rest(client: Client, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    content = None if body is None else orjson.dumps(body)
    return client.request(method, path, content=content, headers={**V1, **headers})


def v03(client: Client, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    content = None if body is None else orjson.dumps(body)
    return client.request(method, path, content=content, headers={**JSON, "User-Agent": "test", **headers})


def code(response: httpx.Response) -> int:
    found: int = response.json()["error"]["code"]
    return found


# --- every operation, in both bindings of both versions --------------------------------------------------------------


def test_v1_jsonrpc_speaks_every_operation(client: Client) -> None:
    sent = client.rpc("SendMessage", {"message": user_message("ask")}).json()
    assert sent["id"] == 7
    assert set(sent) == {"jsonrpc", "id", "result"}
    task = sent["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert client.rpc("GetTask", {"id": task["id"]}).json()["result"]["id"] == task["id"]
    listed = client.rpc("ListTasks", {"contextId": task["contextId"]}).json()["result"]
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    assert (listed["nextPageToken"], listed["pageSize"], listed["totalSize"]) == ("", 50, 1)
    assert "artifacts" not in listed["tasks"][0]
    config = {"taskId": task["id"], "id": "c1", "url": HOOK, "token": "t"}
    made = client.rpc("CreateTaskPushNotificationConfig", config).json()["result"]
    assert made == config
    assert client.rpc("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "c1"}).json()["result"] == config
    configs = client.rpc("ListTaskPushNotificationConfigs", {"taskId": task["id"]}).json()["result"]
    assert configs == {"configs": [config], "nextPageToken": ""}
    deleted = client.rpc("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "c1"}).json()
    assert deleted == {"jsonrpc": "2.0", "id": 7, "result": None}
    assert client.rpc("CancelTask", {"id": task["id"]}).json()["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    streamed = events(client.rpc("SendStreamingMessage", {"message": user_message("parts")}))
    assert [next(iter(each["result"])) for each in streamed] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert {each["id"] for each in streamed} == {7}
    card = client.rpc("GetExtendedAgentCard", None, **{"X-User": "ann"}).json()["result"]
    assert card["capabilities"]["extendedAgentCard"] is True
    assert "url" not in card


@pytest.mark.parametrize("base", ["/a2a/rest", "", "/a2a/rest/acme", "/acme", "/a2a/rest/caf%C3%A9%20x"])
def test_v1_rest_speaks_every_operation_with_and_without_a_tenant(client: Client, base: str) -> None:
    sent = rest(client, "POST", f"{base}/message:send", {"message": user_message("ask")})
    assert sent.headers["content-type"] == "application/a2a+json"
    assert sent.headers["a2a-version"] == "1.0"
    task = sent.json()["task"]
    path = f"{base}/tasks/{task['id']}"
    assert rest(client, "GET", path).json()["id"] == task["id"]
    assert rest(client, "GET", f"{path}?historyLength=0").json().keys().isdisjoint({"history"})
    listed = rest(client, "GET", f"{base}/tasks?contextId={task['contextId']}&pageSize=3&includeArtifacts=false").json()
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]
    made = rest(client, "POST", f"{path}/pushNotificationConfigs", {"id": "c/1", "url": HOOK}).json()
    assert (made["taskId"], made["id"]) == (task["id"], "c/1")
    assert rest(client, "GET", f"{path}/pushNotificationConfigs/c%2F1").json() == made
    assert len(rest(client, "GET", f"{path}/pushNotificationConfigs").json()["configs"]) == 1
    deleted = rest(client, "DELETE", f"{path}/pushNotificationConfigs/c%2F1")
    assert (deleted.status_code, deleted.json()) == (200, {})
    assert rest(client, "POST", f"{path}:cancel").json()["status"]["state"] == "TASK_STATE_CANCELED"
    streamed = events(rest(client, "POST", f"{base}/message:stream", {"message": user_message("parts")}))
    assert [next(iter(each)) for each in streamed] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
    card = rest(client, "GET", f"{base}/extendedAgentCard", **{"X-User": "ann"})
    assert card.json()["capabilities"]["extendedAgentCard"] is True


def test_the_media_type_of_answers_is_the_configured_one_and_of_errors_never() -> None:
    agent = make_agent({"server": {"restMediaType": "application/json"}})
    with running(lambda: make_app(agent, sdk_handler())) as server, Client(base_url=server.url) as client:
        for path, status in (("/tasks", 200), (f"/tasks/{UNKNOWN}", 404)):
            response = rest(client, "GET", path)
            assert (response.status_code, response.headers["content-type"]) == (status, "application/json")


def test_v03_jsonrpc_speaks_every_operation(client: Client) -> None:
    def call(method: str, params: Any = None) -> Any:
        return client.rpc(method, params, version=None).json()["result"]

    task = call("message/send", {"message": user_message_v03("ask")})
    assert (task["kind"], task["status"]["state"]) == ("task", "input-required")
    assert task["history"][0]["role"] == "user"
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "hi"}]
    assert call("tasks/get", {"id": task["id"], "historyLength": 0})["history"] == task["history"]
    config = {"id": "c1", "url": HOOK, "authentication": {"schemes": ["Bearer"], "credentials": "x"}}
    nested = {"taskId": task["id"], "pushNotificationConfig": config}
    assert call("tasks/pushNotificationConfig/set", nested) == nested
    by_id = {"id": task["id"], "pushNotificationConfigId": "c1"}
    assert call("tasks/pushNotificationConfig/get", by_id) == nested
    assert call("tasks/pushNotificationConfig/list", {"id": task["id"]}) == [nested]
    assert call("tasks/cancel", {"id": task["id"]})["status"]["state"] == "canceled"
    assert call("message/send", {"message": user_message_v03("message")})["kind"] == "message"
    response = client.rpc("message/stream", {"message": user_message_v03("parts")}, version=None)
    streamed = [each["result"] for each in events(response)]
    assert [each["kind"] for each in streamed] == ["task", "status-update", "artifact-update", "status-update"]
    assert [each.get("final") for each in streamed] == [None, False, None, True]
    text, raw, url, data = streamed[2]["artifact"]["parts"]
    assert text == {"kind": "text", "text": "Grüße 🎉"}
    assert raw["file"] == {"bytes": "AP8=", "mimeType": "application/octet-stream", "name": "b.bin"}
    assert url["file"] == {"uri": "https://example.com/o.txt", "mimeType": "text/plain"}
    assert data == {"kind": "data", "data": {"value": "no object"}, "metadata": {"data_part_compat": True}}
    card = client.rpc("agent/getAuthenticatedExtendedCard", version=None, **{"X-User": "ann"}).json()["result"]
    assert card["url"].endswith("/a2a/jsonrpc")
    assert card["supportsAuthenticatedExtendedCard"] is True


@pytest.mark.parametrize("base", ["/a2a/rest/v1", "/v1"])
def test_v03_rest_speaks_every_operation_in_protojson(client: Client, base: str) -> None:
    message = {"messageId": "ask-1", "role": "ROLE_USER", "content": [{"text": "hi"}, {"data": {"data": {"a": 1}}}]}
    configuration = {"blocking": True, "historyLength": 5}
    sent = v03(client, "POST", f"{base}/message:send", {"message": message, "configuration": configuration})
    assert sent.headers["content-type"] == "application/json"
    task = sent.json()["task"]
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert task["status"]["message"]["content"] == [{"text": "Which one?"}]
    assert task["history"][0]["content"] == [{"text": "hi"}, {"data": {"data": {"a": 1}}}]
    path = f"{base}/tasks/{task['id']}"
    assert v03(client, "GET", f"{path}?historyLength=1").json()["id"] == task["id"]
    python = {"parent": "tasks/x", "configId": "c1", "config": {"name": "n", "pushNotificationConfig": {"url": HOOK}}}
    name = f"tasks/{task['id']}/pushNotificationConfigs/c1"
    made = v03(client, "POST", f"{path}/pushNotificationConfigs", python).json()
    assert made == {"name": name, "pushNotificationConfig": {"id": "c1", "url": HOOK}}
    javascript = {"name": f"tasks/{task['id']}/pushNotificationConfigs/c2", "pushNotificationConfig": {"url": HOOK}}
    assert v03(client, "POST", f"{path}/pushNotificationConfigs", javascript).json()["name"].endswith("/c2")
    assert v03(client, "GET", f"{path}/pushNotificationConfigs/c1").json() == made
    assert len(v03(client, "GET", f"{path}/pushNotificationConfigs").json()["configs"]) == 2
    deleted = v03(client, "DELETE", f"{path}/pushNotificationConfigs/c1")
    assert (deleted.status_code, deleted.json()) == (200, {})
    assert v03(client, "POST", f"{path}:cancel", {"name": f"tasks/{task['id']}"}).json()["status"]["state"] == (
        "TASK_STATE_CANCELLED"
    )
    message = {"messageId": "parts-1", "role": "ROLE_USER", "content": [{"text": "hi"}]}
    streamed = events(v03(client, "POST", f"{base}/message:stream", {"message": message}))
    assert [next(iter(each)) for each in streamed] == ["task", "statusUpdate", "artifactUpdate", "statusUpdate"]
    assert streamed[2]["artifactUpdate"]["artifact"]["parts"][1]["file"]["fileWithBytes"] == "AP8="
    assert streamed[3]["statusUpdate"]["final"] is True
    card = v03(client, "GET", f"{base}/card", **{"X-User": "ann"}).json()
    assert card["protocolVersion"] == "0.3.0"


# --- errors: code, HTTP status, canonical status and reason ----------------------------------------------------------

UNKNOWN = "00000000-0000-0000-0000-000000000000"


class Refusal(NamedTuple):
    operation: str
    method: str
    path: str
    params: dict[str, Any]
    code: int
    status: int
    canonical: str
    reason: str


REFUSALS = [
    Refusal("GetTask", "GET", f"/tasks/{UNKNOWN}", {"id": UNKNOWN}, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    Refusal("CancelTask", "POST", f"/tasks/{UNKNOWN}:cancel", {"id": UNKNOWN}, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    Refusal("SubscribeToTask", "GET", f"/tasks/{UNKNOWN}:subscribe", {"id": UNKNOWN}, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    Refusal("SubscribeToTask", "POST", f"/tasks/{UNKNOWN}:subscribe", {"id": UNKNOWN}, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    Refusal("CancelTask", "POST", "/tasks/{done}:cancel", {"id": "{done}"}, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    Refusal("SubscribeToTask", "POST", "/tasks/{done}:subscribe", {"id": "{done}"}, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    Refusal("GetTask", "GET", "/tasks/{done}?historyLength=-1", {"id": "{done}", "historyLength": -1}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Refusal("GetTask", "GET", "/tasks/{done}?historyLength=x", {"id": "{done}", "historyLength": "x"}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Refusal("ListTasks", "GET", "/tasks?pageSize=0", {"pageSize": 0}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Refusal("ListTasks", "GET", "/tasks?pageSize=101", {"pageSize": 101}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Refusal("ListTasks", "GET", "/tasks?includeArtifacts=maybe", {"includeArtifacts": "maybe"}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    Refusal("ListTasks", "GET", "/tasks?statusTimestampAfter=today", {"statusTimestampAfter": "today"}, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: f"{case.method} {case.path} {case.code}")
def test_an_error_has_its_code_and_reason_in_both_bindings(client: Client, case: Refusal) -> None:
    done = client.task()["id"]
    params = {
        key: value.replace("{done}", done) if isinstance(value, str) else value for key, value in case.params.items()
    }
    answer = client.rpc(case.operation, params)
    assert answer.status_code == 200
    error = answer.json()["error"]
    assert error["code"] == case.code
    assert error["data"][0] == {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": case.reason,
        "domain": "a2a-protocol.org",
        "metadata": error["data"][0]["metadata"],
    }
    response = rest(client, case.method, case.path.replace("{done}", done))
    assert response.status_code == case.status
    assert response.headers["content-type"] == "application/json"
    body = response.json()["error"]
    assert (body["code"], body["status"], body["details"][0]["reason"]) == (case.status, case.canonical, case.reason)
    if case.code == -32602:
        fields = [each["field"] for each in error["data"][1]["fieldViolations"]]
        assert fields == [each["field"] for each in body["details"][1]["fieldViolations"]]
        assert set(fields) <= set(case.params)


# A2A v1.0.1 section 5.4, and v0.3 section 8: error, JSON-RPC code, that of v0.3, HTTP status, google.rpc code, reason.
ERRORS: list[tuple[type[A2AError], int, int, int, str, str]] = [
    (a2a_errors.TaskNotFoundError, -32001, -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    (a2a_errors.TaskNotCancelableError, -32002, -32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
    (a2a_errors.PushNotificationNotSupportedError, -32003, -32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED"),
    (a2a_errors.UnsupportedOperationError, -32004, -32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION"),
    (a2a_errors.ContentTypeNotSupportedError, -32005, -32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"),
    (a2a_errors.InvalidAgentResponseError, -32006, -32006, 500, "INTERNAL", "INVALID_AGENT_RESPONSE"),
    (a2a_errors.ExtendedAgentCardNotConfiguredError, -32007, -32007, 400, "FAILED_PRECONDITION", "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
    (a2a_errors.ExtensionSupportRequiredError, -32008, -32600, 400, "FAILED_PRECONDITION", "EXTENSION_SUPPORT_REQUIRED"),
    (a2a_errors.VersionNotSupportedError, -32009, -32600, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED"),
    (a2a_errors.InvalidRequestError, -32600, -32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
    (a2a_errors.MethodNotFoundError, -32601, -32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
    (a2a_errors.InvalidParamsError, -32602, -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
    (a2a_errors.InternalError, -32603, -32603, 500, "INTERNAL", "INTERNAL_ERROR"),
]  # fmt: skip


class Refusing:
    """A handler that answers everything with `error`."""

    error: A2AError

    async def get(self, *_: Any) -> Any:
        raise self.error

    send = list = cancel = stream = subscribe = get


@pytest.fixture(scope="module")
def refusing() -> Iterator[tuple[Client, Refusing]]:
    handler: Any = Refusing()
    with running(lambda: make_app(make_agent({}), handler)) as server, Client(base_url=server.url, timeout=10) as made:
        yield made, handler


@pytest.mark.parametrize(
    ("kind", "rpc", "rpc_v03", "status", "canonical", "reason"), ERRORS, ids=[row[-1] for row in ERRORS]
)
def test_every_error_of_the_specification_has_its_numbers_and_names(
    refusing: tuple[Client, Refusing],
    kind: type[A2AError],
    rpc: int,
    rpc_v03: int,
    status: int,
    canonical: str,
    reason: str,
) -> None:
    client, handler = refusing
    handler.error = kind("in these words", {"taskId": "t", "count": 3, "list": [1], "nothing": None})
    info = {"@type": INFO, "reason": reason, "domain": "a2a-protocol.org", "metadata": {"taskId": "t", "count": "3"}}
    answer = client.rpc("GetTask", {"id": "t"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json()["error"] == {"code": rpc, "message": "in these words", "data": [info]}
    assert code(client.rpc("tasks/get", {"id": "t"}, version=None)) == rpc_v03
    response = rest(client, "GET", "/tasks/t")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    error = {"code": status, "status": canonical, "message": "in these words", "details": [info]}
    assert response.json() == {"error": error}
    response = v03(client, "GET", "/v1/tasks/t")
    assert (response.status_code, response.headers["content-type"]) == (status, "application/json")
    assert (response.json()["code"], response.json()["message"]) == (rpc_v03, "in these words")


RPC_ERRORS: list[tuple[str, bytes, int, Any]] = [
    ("no JSON", b"{", -32700, None),
    ("nothing", b"", -32700, None),
    ("not UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"\xff"}}', -32700, None),
    ("a batch", b"[]", -32600, None),
    ("no object", b'"x"', -32600, None),
    ("no jsonrpc", b'{"id":1,"method":"GetTask"}', -32600, 1),
    ("jsonrpc 1.0", b'{"jsonrpc":"1.0","id":"a","method":"GetTask"}', -32600, "a"),
    ("a boolean id", b'{"jsonrpc":"2.0","id":true,"method":"GetTask"}', -32600, None),
    ("a float id", b'{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}', -32600, None),
    ("an object id", b'{"jsonrpc":"2.0","id":{},"method":"GetTask"}', -32600, None),
    ("no method", b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    ("an empty method", b'{"jsonrpc":"2.0","id":1,"method":""}', -32600, 1),
    ("a number as method", b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    ("an unknown method", b'{"jsonrpc":"2.0","id":null,"method":"tasks/list"}', -32601, None),
    ("params in an array", b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', -32602, 1),
    ("too deep", b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + b'{"a":' * 30 + b"1" + b"}" * 31, -32600, None),
    ("far too deep", b"[" * 5000 + b"]" * 5000, -32700, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "expected", "request_id"), [case[1:] for case in RPC_ERRORS], ids=[c[0] for c in RPC_ERRORS]
)
def test_a_malformed_json_rpc_request_is_refused_by_stage(
    client: Client, body: bytes, expected: int, request_id: Any
) -> None:
    for path in ("/a2a/jsonrpc", "/"):
        response = client.post(path, content=body, headers=V1)
        assert response.status_code == 200
        assert response.json()["id"] == request_id
        assert code(response) == expected


def test_an_internal_error_keeps_its_text_to_itself(client: Client) -> None:
    for response in (
        client.rpc("SendMessage", {"message": user_message("boom")}),
        rest(client, "POST", "/message:send", {"message": user_message("boom")}),
    ):
        assert "secret" not in response.text
        assert "Traceback" not in response.text


# --- messages ---------------------------------------------------------------------------------------------------------


def _message(**changes: Any) -> dict[str, Any]:
    message = {**user_message(), **changes}
    return {"message": {key: value for key, value in message.items() if value is not ...}}


BAD_MESSAGES: list[tuple[dict[str, Any], str]] = [
    ({}, "message"),
    (_message(parts=[]), "message.parts"),
    (_message(parts="x"), "message.parts"),
    (_message(parts=...), "message.parts"),
    (_message(parts=[{}]), "message.parts[0]"),
    (_message(parts=[{"metadata": {}}]), "message.parts[0]"),
    (_message(parts=[{"text": "a"}, {"text": "a", "url": "https://e"}]), "message.parts[1].url"),
    (_message(parts=[{"text": 5}]), "message.parts[0].text"),
    (_message(parts=[{"raw": "%%"}]), "message.parts[0].raw"),
    (_message(parts=[7]), "message.parts[0]"),
    (_message(parts=[{"text": "a"}] * 6), "message.parts"),
    (_message(role=...), "message.role"),
    (_message(role="ROLE_UNSPECIFIED"), "message.role"),
    (_message(role="ROLE_AGENT"), "message.role"),
    (_message(role="user"), "message.role"),
    (_message(messageId=""), "message.messageId"),
    (_message(metadata={"a": "x" * 400}), "metadata"),
    (_message(metadata=[]), "message.metadata"),
    ({**_message(), "configuration": {"historyLength": -1}}, "configuration.historyLength"),
    ({**_message(), "configuration": {"returnImmediately": "yes"}}, "configuration.returnImmediately"),
    ({**_message(), "configuration": {"acceptedOutputModes": "text"}}, "configuration.acceptedOutputModes"),
    ({**_message(), "configuration": {"taskPushNotificationConfig": {"url": "ftp://e"}}}, "configuration.taskPushNotificationConfig.url"),
    ({**_message(), "tenant": "tasks"}, "tenant"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("params", "field"), BAD_MESSAGES, ids=[f"{field}-{n}" for n, (_, field) in enumerate(BAD_MESSAGES)]
)
def test_a_bad_message_is_refused_by_the_name_of_its_field(client: Client, params: Any, field: str) -> None:
    error = client.rpc("SendMessage", params).json()["error"]
    assert error["code"] == -32602
    assert field in [each["field"] for each in error["data"][1]["fieldViolations"]]
    assert field in error["message"]
    response = rest(client, "POST", "/message:send", params)
    assert response.status_code == 400
    assert response.json()["error"]["details"][1] == error["data"][1]
    stream = rest(client, "POST", "/message:stream", params)
    assert stream.status_code == 400


@pytest.mark.parametrize(
    "params",
    [
        _message(parts=[{"text": ""}]),
        _message(parts=[{"data": None}]),
        _message(parts=[{"data": [1, "x"]}, {"data": 5}, {"raw": "AP8"}, {"raw": "_-8="}]),
        _message(parts=[{"text": "a", "url": None, "media_type": "text/plain"}]),
        _message(unknownField={"x": 1}, referenceTaskIds=["a"], reference_task_ids=None),
        {
            **_message(),
            "configuration": {"historyLength": "3", "returnImmediately": False, "acceptedOutputModes": ["a/b"]},
        },
        {"message": {"message_id": "work-s", "role": 1, "parts": [{"text": "snake_case and numbers"}]}},
        _message(contextId="", taskId=""),
    ],
)
def test_what_protojson_allows_is_accepted(client: Client, params: Any) -> None:
    answer = client.rpc("SendMessage", params).json()
    assert answer["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED", answer


# --- version and extensions -------------------------------------------------------------------------------------------

VERSIONS: list[tuple[str, str | None, str, int | None]] = [
    ("GetTask", "1.0", "", -32001),
    ("GetTask", "1.0.1", "", -32001),
    ("GetTask", "1.0.0-rc.1", "", -32001),
    ("GetTask", None, "?A2A-Version=1.0", -32001),
    ("GetTask", None, "?a2a-version=1.0", -32001),
    ("GetTask", None, "", -32009),
    ("GetTask", "", "", -32009),
    ("GetTask", "0.3", "", -32009),
    ("GetTask", "1", "", -32009),
    ("GetTask", "1.1", "", -32009),
    ("GetTask", "1.7", "", -32009),
    ("GetTask", "2.0", "", -32009),
    ("GetTask", "abc", "", -32009),
    ("GetTask", "1.0", "?A2A-Version=2.0", -32001),
    ("tasks/get", None, "", -32001),
    ("tasks/get", "0.3", "", -32001),
    ("tasks/get", "0.3.0", "", -32001),
    ("tasks/get", "1.0", "", -32600),
    ("Unknown", "9.9", "", -32601),
]


@pytest.mark.parametrize(("method", "version", "query", "expected"), VERSIONS)
def test_the_version_is_agreed_on_by_header_or_query(
    client: Client, method: str, version: str | None, query: str, expected: int
) -> None:
    headers = {**JSON, **({"A2A-Version": version} if version is not None else {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": UNKNOWN}}
    response = client.post(f"/a2a/jsonrpc{query}", content=orjson.dumps(body), headers=headers)
    assert code(response) == expected
    if expected == -32009:
        assert "1.0" in response.json()["error"]["message"]
    if method == "GetTask":
        status = client.get(f"/tasks/{UNKNOWN}{query}", headers=headers).status_code
        assert status == (404 if expected == -32001 else 400)


def test_a_v03_path_refuses_a_v1_caller_in_the_v03_form(client: Client) -> None:
    response = client.get(f"/v1/tasks/{UNKNOWN}", headers=V1)
    assert response.status_code == 400
    assert response.json()["code"] == -32600
    assert client.get(f"/v1/tasks/{UNKNOWN}").json()["code"] == -32001


TRACE = "urn:x-a2a:trace:v1"


@pytest.mark.parametrize(
    ("headers", "echo"),
    [
        ({}, None),
        ({"A2A-Extensions": TRACE}, TRACE),
        ({"A2A-Extensions": f"urn:unknown ,{TRACE}"}, TRACE),
        ({"A2A-Extensions": "urn:unknown"}, None),
        ({"X-A2A-Extensions": TRACE}, None),
    ],
)
def test_activated_extensions_are_echoed_and_unknown_ones_ignored(
    client: Client, headers: dict[str, str], echo: str | None
) -> None:
    response = client.rpc("SendMessage", {"message": user_message()}, **headers)
    assert response.headers.get("a2a-extensions") == echo
    assert "result" in response.json()
    stream = rest(client, "POST", "/message:stream", {"message": user_message()}, **headers)
    assert stream.headers.get("a2a-extensions") == echo


def test_a_repeated_extension_header_counts_as_one_list(client: Client) -> None:
    headers = [*V1.items(), ("A2A-Extensions", "urn:unknown"), ("a2a-extensions", TRACE)]
    assert client.get("/tasks", headers=headers).headers["a2a-extensions"] == TRACE


def test_v03_callers_ask_for_extensions_by_the_old_header(client: Client) -> None:
    params = {"message": user_message_v03()}
    response = client.rpc("message/send", params, version=None, **{"X-A2A-Extensions": TRACE})
    assert response.headers["x-a2a-extensions"] == TRACE


def test_a_required_extension_must_be_asked_for() -> None:
    agent = make_agent({})
    with (
        running(
            lambda: make_app(agent, sdk_handler(), extensions=[("urn:needed", True), ("urn:other", False)])
        ) as server,
        Client(base_url=server.url) as client,
    ):
        refused = client.rpc("SendMessage", {"message": user_message()}).json()["error"]
        assert refused["code"] == -32008
        assert "urn:needed" in refused["message"]
        assert rest(client, "GET", "/tasks").status_code == 400
        old = client.rpc("message/send", {"message": user_message_v03()}, version=None)
        assert code(old) == -32600
        headers = {"A2A-Extensions": "urn:needed"}
        assert "result" in client.rpc("SendMessage", {"message": user_message()}, **headers).json()
        declared = client.get("/.well-known/agent-card.json").json()["capabilities"]["extensions"]
        assert declared == [{"uri": "urn:needed", "required": True}, {"uri": "urn:other"}]


def test_what_the_card_does_not_offer_is_refused() -> None:
    agent = make_agent({"agentCard": {"streaming": False, "pushNotifications": False}})
    with running(lambda: make_app(agent, sdk_handler(), legacy=False)) as server, Client(base_url=server.url) as client:
        assert code(client.rpc("SendStreamingMessage", {"message": user_message()})) == -32004
        assert code(client.rpc("SubscribeToTask", {"id": UNKNOWN})) == -32004
        for name in ("Create", "Get", "Delete"):
            params = {"taskId": "t", "id": "c", "url": HOOK}
            assert code(client.rpc(f"{name}TaskPushNotificationConfig", params)) == -32003
        assert code(client.rpc("ListTaskPushNotificationConfigs", {"taskId": "t"})) == -32003
        inline = {"message": user_message(), "configuration": {"taskPushNotificationConfig": {"url": HOOK}}}
        assert code(client.rpc("SendMessage", inline)) == -32003
        assert code(client.rpc("GetExtendedAgentCard", {})) == -32004
        # v0.3 is off: its methods and paths are unknown.
        assert code(client.rpc("message/send", {"message": user_message_v03()}, version=None)) == -32601
        assert client.get("/v1/tasks/x").status_code == 404
        assert client.get("/v1/card").status_code == 404


# --- HTTP -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/a2a/jsonrpc", 405, {"POST", "OPTIONS"}),
        ("PUT", "/", 405, {"POST", "OPTIONS"}),
        ("DELETE", "/tasks/x:cancel", 405, {"POST", "OPTIONS"}),
        ("GET", "/a2a/rest/tasks/x:cancel", 405, {"POST", "OPTIONS"}),
        ("DELETE", "/tasks/x", 405, {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/message:send", 405, {"POST", "OPTIONS"}),
        ("PATCH", "/v1/card", 405, {"GET", "HEAD", "OPTIONS"}),
        ("POST", "/.well-known/agent-card.json", 405, {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/nowhere", 404, None),
        ("GET", "/v1/nowhere", 404, None),
        ("GET", "/v1/tasks", 404, None),
        ("GET", "/tasks/tasks", 404, None),
        ("GET", "/tasks/x/y", 404, None),
        ("GET", "/tasks//x", 404, None),
        ("GET", "/a2a/rest", 404, None),
        ("GET", "/a2a/rest/v1/v1/card", 404, None),
        ("GET", "/tasks/tasks/x/pushNotificationConfigs", 404, None),
        ("GET", "/%ff/tasks", 404, None),
        ("GET", "/tasks/:cancel", 404, None),
        ("BREW", "/tasks", 400, None),
    ],
)
def test_what_there_is_not_is_refused_in_json(
    client: Client, method: str, path: str, status: int, allow: set[str] | None
) -> None:
    response = rest(client, method, path)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    if path in ("/", "/a2a/jsonrpc"):
        assert (body["jsonrpc"], body["id"], body["error"]["code"]) == ("2.0", None, -32600)
    elif path.startswith(("/v1", "/a2a/rest/v1")):
        assert isinstance(body["code"], int)
        assert isinstance(body["message"], str)
    else:
        assert body["error"]["code"] == status
    if allow is not None:
        assert set(re.split(r",\s*", response.headers["allow"])) == allow


@pytest.mark.parametrize("path", ["/a2a/jsonrpc", "/tasks", "/v1/tasks/x", "/.well-known/agent-card.json"])
def test_options_names_the_methods(client: Client, path: str) -> None:
    response = client.options(path)
    assert response.status_code == 200
    assert response.headers["allow"]


def test_head_answers_like_get_without_the_body(client: Client) -> None:
    task = client.task()["id"]
    head, get = (client.request(method, f"/tasks/{task}", headers=V1) for method in ("HEAD", "GET"))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


@pytest.mark.parametrize(
    ("path", "content_type", "status", "expected"),
    [
        ("/a2a/jsonrpc", "text/plain", 415, -32005),
        ("/a2a/jsonrpc", "application/x-www-form-urlencoded", 415, -32005),
        ("/a2a/jsonrpc", "application/json; charset=utf-8", 200, -32700),
        ("/a2a/jsonrpc", "APPLICATION/JSON", 200, -32700),
        ("/message:send", "text/plain", 415, 415),
        ("/message:send", "application/a2a+json", 400, 400),
        ("/v1/message:send", "text/plain", 415, -32005),
    ],
)
def test_another_media_type_than_json_is_refused(
    client: Client, path: str, content_type: str, status: int, expected: int
) -> None:
    headers = {"Content-Type": content_type} | ({} if path.startswith("/v1") else {"A2A-Version": "1.0"})
    response = client.post(path, content=b"{not json", headers=headers)
    assert response.status_code == status
    body = response.json()
    assert (body.get("error") or body)["code"] == expected


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/a2a/jsonrpc", "/message:send", "/v1/message:send"])
def test_a_body_over_the_bound_is_refused_while_it_is_read(client: Client, path: str, chunked: bool) -> None:
    headers = V1 if not path.startswith("/v1") else JSON
    body = b" " * 30_000
    content: Any = (body[at : at + 1000] for at in range(0, len(body), 1000)) if chunked else body
    response = client.post(path, content=content, headers=headers)
    assert response.status_code == 413
    found = response.json()
    assert (found.get("error") or found)["code"] == (413 if path == "/message:send" else -32600)
    assert "20000" in response.text


def test_a_refusal_by_middleware_has_the_form_of_the_binding(client: Client) -> None:
    forms: list[tuple[str, Callable[[Any], Any]]] = [
        ("/a2a/jsonrpc", lambda body: body["error"]["code"] == -32600),
        ("/tasks", lambda body: body["error"]["status"] == "UNAUTHENTICATED"),
        ("/v1/card", lambda body: body["code"] == -32600),
    ]
    for path, fits in forms:
        response = client.get(path, headers={"X-Deny": "1"})
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert fits(response.json())


@pytest.mark.parametrize("path", ["/a2a/jsonrpc/", "/a2a/rest/message:send/", "/message:send/", "/v1/message:send/"])
def test_a_trailing_slash_changes_nothing(client: Client, path: str) -> None:
    headers = JSON if path.startswith("/v1") else V1
    assert client.post(path, content=b"{}", headers=headers).status_code != 404


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/acme/message:send", {"tenant": "other", "message": user_message()}),
        ("/tasks/t1/pushNotificationConfigs", {"taskId": "t2", "url": HOOK}),
        ("/tasks/t1/pushNotificationConfigs", {"task_id": "t2", "url": HOOK}),
        ("/tasks/t1:cancel", {"id": "t2"}),
    ],
)
def test_a_body_must_not_contradict_its_path(client: Client, path: str, body: Any) -> None:
    response = rest(client, "POST", path, body)
    assert response.status_code == 400
    assert "in the path" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/message:send", "/tasks/x:cancel", "/v1/message:send", "/v1/tasks/x:cancel"])
def test_a_body_must_be_an_object(client: Client, path: str) -> None:
    headers = JSON if path.startswith("/v1") else V1
    response = client.post(path, content=b"[1]", headers=headers)
    assert response.status_code == 400


def test_a_task_id_may_hold_any_character(client: Client) -> None:
    for raw in ("a%2Fb", "a:b", "a%3Acancel", "a%20%C3%A9", "pushNotificationConfigs"):
        error = rest(client, "GET", f"/tasks/{raw}").json()["error"]
        assert error["details"][0]["reason"] == "TASK_NOT_FOUND"


# --- the faults of a2a-sdk 1.3.0's server -----------------------------------------------------------------------------


def test_fault_02_a_required_extension_is_enforced_and_the_activated_are_echoed(client: Client) -> None:
    response = rest(client, "GET", "/tasks", **{"A2A-Extensions": TRACE})
    assert response.headers["a2a-extensions"] == TRACE


def test_fault_05_an_unknown_enum_value_in_a_filter_is_refused(client: Client) -> None:
    for wrong in ("TASK_STATE_RUNNING", "completed", "99"):
        response = rest(client, "GET", f"/tasks?status={wrong}")
        assert response.status_code == 400
        assert "TASK_STATE_WORKING" in response.json()["error"]["message"]
        assert code(client.rpc("ListTasks", {"status": wrong})) == -32602


def test_fault_11_error_metadata_is_strings_only(client: Client) -> None:
    answers = [client.rpc("GetTask", {}), client.rpc("ListTasks", {"pageSize": 0}), client.rpc("GetTask", {}, "9.9")]
    for answer in answers:
        metadata = answer.json()["error"]["data"][0]["metadata"]
        assert all(isinstance(value, str) for value in metadata.values())


def test_fault_14_v03_json_rpc_errors_are_invalid_params_by_field(client: Client) -> None:
    cases: list[tuple[str, Any]] = [
        ("message/send", {}),
        ("message/send", {"message": {"kind": "message", "messageId": "m", "parts": [{"kind": "text", "text": "x"}]}}),
        ("message/send", {"message": {**user_message_v03(), "parts": []}}),
        ("message/send", {"message": {**user_message_v03(), "parts": [{"kind": "hologram", "text": "x"}]}}),
        ("message/send", {"message": {**user_message_v03(), "parts": [{"type": "hologram", "text": "x"}]}}),
        ("message/send", {"message": {**user_message_v03(), "parts": [{"kind": "data", "data": [1]}]}}),
        ("message/send", {"message": {**user_message_v03(), "parts": [{"kind": "file", "file": {}}]}}),
        ("message/send", {"message": {**user_message_v03(), "role": "boss"}}),
        ("tasks/get", {}),
        ("tasks/get", {"id": 5}),
        ("tasks/get", {"id": "x", "historyLength": -1}),
        ("tasks/cancel", {}),
        ("tasks/pushNotificationConfig/set", {"taskId": "t"}),
        ("tasks/pushNotificationConfig/set", {"pushNotificationConfig": {"url": HOOK}}),
        ("tasks/pushNotificationConfig/get", {}),
        ("tasks/pushNotificationConfig/delete", {"id": "t"}),
    ]
    for method, params in cases:
        error = client.rpc(method, params, version=None).json()["error"]
        assert error["code"] == -32602, (method, params, error)
        assert error["data"][1]["fieldViolations"]


def test_fault_14_v03_push_get_without_config_id_and_delete_with_null(client: Client) -> None:
    task = client.task("ask")["id"]

    def call(name: str, params: Any) -> Any:
        return client.rpc(f"tasks/pushNotificationConfig/{name}", params, version=None).json()

    assert call("get", {"id": task})["error"]["code"] == -32001
    call("set", {"taskId": task, "pushNotificationConfig": {"id": "c", "url": HOOK}})
    assert call("get", {"id": task})["result"]["pushNotificationConfig"]["id"] == "c"
    assert call("delete", {"id": task, "pushNotificationConfigId": "c"}) == {"jsonrpc": "2.0", "id": 7, "result": None}


def test_fault_12_anonymous_configs_do_not_overwrite_each_other(client: Client) -> None:
    task = client.task("ask")["id"]

    def configs() -> list[tuple[str, str]]:
        page = client.rpc("ListTaskPushNotificationConfigs", {"taskId": task}).json()["result"]
        return [(each["id"], each["url"]) for each in page["configs"]]

    def set_v03(url: str) -> None:
        client.rpc(
            "tasks/pushNotificationConfig/set", {"taskId": task, "pushNotificationConfig": {"url": url}}, version=None
        )

    set_v03(HOOK)
    set_v03(HOOK)
    assert configs() == [("default", HOOK)]
    set_v03("https://example.com/other")
    assert len(configs()) == 2
    snake = {"config": {"push_notification_config": {"url": "https://example.com/3", "authentication": {}}}}
    assert v03(client, "POST", f"/v1/tasks/{task}/pushNotificationConfigs", snake).status_code == 200
    assert ("default", HOOK) in configs()


def test_fault_15_v03_rest_takes_snake_case(client: Client) -> None:
    part = {"file": {"file_with_uri": "https://e/x", "mime_type": "a/b"}, "metadata": {"snake_case": {"x_y": 1}}}
    message = {"message_id": "ask-1", "role": "ROLE_USER", "content": [part, {"data": {"data": {"a_b": 1}}}]}
    body = {"message": message, "configuration": {"accepted_output_modes": ["text/plain"], "blocking": True}}
    task = v03(client, "POST", "/v1/message:send", body).json()["task"]
    assert task["history"][0]["content"] == [
        {
            "metadata": {"snake_case": {"x_y": 1}},
            "file": {"fileWithUri": "https://e/x", "mimeType": "a/b"},
        },
        {"data": {"data": {"a_b": 1}}},
    ]
    message = {**message, "task_id": task["id"], "context_id": task["contextId"], "message_id": "work-2"}
    again = v03(client, "POST", "/v1/message:send", {"message": message}).json()["task"]
    assert (again["id"], again["status"]["state"]) == (task["id"], "TASK_STATE_COMPLETED")


def test_fault_15_v03_rest_refuses_what_is_missing_in_its_own_form(client: Client) -> None:
    message = {"messageId": "m", "content": [{"text": "x"}]}
    cases = [
        v03(client, "POST", "/v1/message:send", {"message": message}),
        v03(client, "POST", "/v1/message:send", {}),
        v03(client, "GET", "/v1/tasks/x?historyLength=-1"),
        v03(client, "POST", "/v1/tasks/x/pushNotificationConfigs", {}),
        v03(client, "GET", f"/v1/tasks/{UNKNOWN}:subscribe"),
        v03(client, "POST", f"/v1/tasks/{UNKNOWN}:subscribe"),
    ]
    for response, (status, expected) in zip(cases, [(400, -32602)] * 4 + [(404, -32001)] * 2, strict=True):
        assert (response.status_code, response.json()["code"]) == (status, expected)


def test_fault_15_the_python_sdk_encodes_files_twice_in_v03_rest(client: Client) -> None:
    def send(data: str, agent: str) -> Any:
        part = {"file": {"fileWithBytes": data, "mimeType": "text/plain", "name": "n"}}
        message = {"messageId": "work", "role": "ROLE_USER", "content": [part]}
        sent = v03(client, "POST", "/v1/message:send", {"message": message}, **{"User-Agent": agent}).json()
        return rest(client, "GET", f"/tasks/{sent['task']['id']}").json()["history"][0]["parts"][0], sent

    once, _ = send("dGVzdA==", "node")
    twice, echoed = send("ZEdWemRBPT0=", "python-httpx/0.28")
    assert once == twice == {"raw": "dGVzdA==", "filename": "n", "mediaType": "text/plain"}
    assert echoed["task"]["history"][0]["content"][0]["file"]["fileWithBytes"] == "ZEdWemRBPT0="


def test_fault_15_v03_resubscribe_always_streams(client: Client) -> None:
    response = client.rpc("tasks/resubscribe", {"id": UNKNOWN}, version=None)
    (event,) = events(response)
    assert (event["id"], event["error"]["code"]) == (7, -32001)


@pytest.mark.parametrize(
    ("change", "wanted"), [({"taskId": UNKNOWN}, -32001), ({"parts": []}, -32602), ({"role": "boss"}, -32602)]
)
def test_v03_message_stream_always_streams(client: Client, change: dict[str, Any], wanted: int) -> None:
    params = {"message": user_message_v03() | change}
    (event,) = events(client.rpc("message/stream", params, version=None))
    assert (event["id"], event["error"]["code"]) == (7, wanted)


def test_v03_rest_errors_have_the_name_that_the_official_client_looks_for(client: Client) -> None:
    response = v03(client, "GET", f"/v1/tasks/{UNKNOWN}")
    assert (response.status_code, response.json()["code"], response.json()["type"]) == (
        404,
        -32001,
        "TaskNotFoundError",
    )


def test_fault_16_lists_have_no_empty_members(client: Client) -> None:
    task = client.task("parts")
    page = rest(client, "GET", f"/tasks?contextId={task['contextId']}&includeArtifacts=true").json()
    part = page["tasks"][0]["artifacts"][0]["parts"][0]
    assert part == {"text": "Grüße 🎉"}


def test_text_is_utf8_and_not_escaped(client: Client) -> None:
    assert "Grüße 🎉" in client.rpc("SendStreamingMessage", {"message": user_message("parts")}).text


def test_an_answer_without_id_is_given_with_a_null_id(client: Client) -> None:
    body = {"jsonrpc": "2.0", "method": "GetTask", "params": {"id": UNKNOWN}}
    response = client.post("/a2a/jsonrpc", content=orjson.dumps(body), headers=V1)
    assert response.json()["id"] is None


@pytest.mark.parametrize("request_id", ["", "x", 0, -5, 2**53 + 1, None, "7"])
def test_the_id_is_echoed_exactly(client: Client, request_id: Any) -> None:
    body = {"jsonrpc": "2.0", "id": request_id, "method": "ListTasks", "params": {"pageSize": 1}}
    answer = client.post("/a2a/jsonrpc", content=orjson.dumps(body), headers=V1).json()
    assert answer["id"] == request_id
    assert type(answer["id"]) is type(request_id)


def test_the_extended_card_is_for_authenticated_callers(client: Client) -> None:
    for path, headers in (("/extendedAgentCard", V1), ("/v1/card", JSON), ("/agent/authenticatedExtendedCard", JSON)):
        refused = client.get(path, headers=headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers={**headers, "X-User": "ann"}).status_code == 200
    assert client.rpc("GetExtendedAgentCard", {}).status_code == 401

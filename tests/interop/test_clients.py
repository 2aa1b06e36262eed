"""Clients of other makers call a real server: every operation, both protocol versions, both bindings.

The clients are the official SDKs of the two languages that most callers use, each in its current release and in its
last one of A2A v0.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4

import pytest

from tests.interop.drivers import KINDS, ClientError, Driver, Kind, driving
from tests.interop.shapes import SHAPES, Task, task
from tests.serving import Served, environment, serving

TOKEN = "alice-token-0123456789"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WEBHOOK = "https://localhost:9/hook"  # never called: these tasks end before it is registered, or are deleted first


# How clients call a refusal: by a class, by the code of JSON-RPC, or by HTTP's status when they read no more than that.
TASK_NOT_FOUND = r"TaskNotFound|-32001|\b404\b|Resource not found"
NOT_CANCELABLE = r"TaskNotCancelable|-32002|HTTP Error 400"
UNSUPPORTED = r"UnsupportedOperation|-32004|HTTP Error 400"
INVALID = r"InvalidParams|RequestMalformed|-32602|HTTP Error 400"
VERSION = r"VersionNotSupported|version '7.5' is not supported|HTTP Error 400"
UNAUTHENTICATED = r"Unauthenticated|\b401\b"


def refused(wanted: str) -> AbstractContextManager[Any]:
    """The client raises, and says why."""
    return pytest.raises(ClientError, match=wanted)


class Agent:
    """A server as one client sees it."""

    def __init__(self, kind: Kind, call: Driver) -> None:
        self.kind, self.call, self.shape = kind, call, SHAPES[kind.shape]

    def send(self, text: str = "hello", script: dict[str, Any] | None = None, **more: Any) -> Task:
        """A message that a task comes of."""
        found = self.shape.sent(self.call("send", self.shape.send(text, script, **more)))
        assert isinstance(found, Task)
        return found

    def get(self, task_id: str, **more: Any) -> Task:
        return task(self.call("get", {"id": task_id, **more}))

    def cancel(self, task_id: str) -> Task:
        return task(self.call("cancel", {"id": task_id}))

    def subscribe(self, task_id: str) -> list[tuple[str, str]]:
        return [self.shape.event(each) for each in self.call("subscribe", {"id": task_id})]

    def stream(self, text: str = "hello", script: dict[str, Any] | None = None, **more: Any) -> list[tuple[str, str]]:
        return [self.shape.event(each) for each in self.call("stream", self.shape.send(text, script, **more))]

    def lacks(self, operation: str) -> bool:
        """Whether this client has no method for it, which is no matter of the server."""
        if operation not in self.kind.lacks:
            return False
        with pytest.raises(ClientError):
            self.call(operation, self.shape.push_get("x", "x"))
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    config: dict[str, Any] = {
        "agentCard": {
            "name": "Reviewer",
            "description": "Reviews.",
            "version": "1",
            "pushNotifications": True,
            "extendedCard": True,
        },
        "server": {
            "auth": {"bearer": {"tokensVariable": "TOKENS"}},
            "limits": {"requestsPerMinute": 0, "maxConcurrentTasks": 32},
        },
        "push": {"allowedHosts": ["localhost"], "maxAttempts": 1},
    }
    with serving(tmp_path_factory.mktemp("interop"), environ=environment(TOKENS=f"alice:{TOKEN}"), **config) as served:
        yield served


@pytest.fixture(scope="module", params=KINDS, ids=str)
def connected(request: pytest.FixtureRequest, server: Served) -> Iterator[Agent]:
    kind: Kind = request.param
    with driving(kind, server.url) as call:
        agent = Agent(kind, call)
        assert call("card")["name"] == "Reviewer"
        yield agent


@pytest.fixture
def agent(connected: Agent) -> Agent:
    """A client with a token."""
    connected.call("headers", BEARER)
    return connected


def test_the_card_names_the_agent_and_the_interfaces_that_the_client_looks_for(agent: Agent, server: Served) -> None:
    card = agent.call("card")
    assert card["description"] == "Reviews."
    assert [each["id"] for each in card["skills"]] == ["reviewer"]
    assert str(server.port) in str(card["supportedInterfaces"] if agent.kind.shape == "1.0" else card["url"])


def test_the_extended_card_is_for_authenticated_callers(agent: Agent) -> None:
    assert agent.call("extended_card")["name"] == "Reviewer"


def test_send_waits_for_the_end(agent: Agent) -> None:
    found = agent.send("grüße ✓", {"chunks": 3, "size": 4})
    assert (found.state, found.answer) == ("completed", "grüße ✓")
    assert found.artifacts == ["0 ··1 ··2 ··"]


def test_send_gives_a_bare_message(agent: Agent) -> None:
    found = agent.call("send", agent.shape.send("hello", {"end": "message"}))
    assert agent.shape.sent(found) == "hello"


def test_send_does_not_wait_when_it_is_told_so_and_cancel_ends_the_task(agent: Agent) -> None:
    sent = agent.send(script={"end": "hang"}, at_once=True)
    assert sent.state in ("submitted", "working")
    assert agent.cancel(sent.id).state == "canceled"
    assert agent.get(sent.id).state == "canceled"


def test_a_follow_up_goes_on_with_the_task(agent: Agent) -> None:
    asked = agent.send("first", {"end": "input-required"})
    assert asked.state == "input-required"
    done = agent.send("second", task_id=asked.id)
    assert (done.id, done.context, done.state) == (asked.id, asked.context, "completed")
    assert agent.get(asked.id).history[0] == "first"


def test_a_stream_has_every_event_in_order(agent: Agent) -> None:
    kinds, values = zip(*agent.stream("hi", {"chunks": 3, "size": 4}), strict=True)
    assert kinds == ("task", "status-update", *["artifact-update"] * 3, "status-update")
    assert values == ("submitted", "working", "0 ··", "1 ··", "2 ··", "completed")


def test_a_stream_of_one_message(agent: Agent) -> None:
    assert agent.stream("hello", {"end": "message"}) == [("message", "hello")]


def test_get_gives_as_much_history_as_is_asked_for(agent: Agent) -> None:
    sent = agent.send("first", {"end": "input-required"})
    agent.send("second", task_id=sent.id)
    assert len(agent.get(sent.id).history) > 1
    assert len(agent.get(sent.id, historyLength=1).history) == 1


def test_subscribe_gives_the_task_and_what_comes_after(agent: Agent) -> None:
    sent = agent.send(script={"end": "hang"}, at_once=True)
    first, *others = agent.subscribe(sent.id)
    assert first in (("task", "submitted"), ("task", "working"))
    assert others[-1] == ("status-update", "canceled")


def test_list_has_the_tasks_of_a_context_page_by_page(agent: Agent) -> None:
    if agent.lacks("list"):
        return
    context = str(uuid4())
    sent = [agent.send(context_id=context).id for _ in range(3)]
    first = agent.call("list", {"contextId": context, "pageSize": 2})
    rest = agent.call("list", {"contextId": context, "pageSize": 2, "pageToken": first["nextPageToken"]})
    assert [each["id"] for each in first["tasks"] + rest["tasks"]] == sent[::-1]
    assert not rest.get("nextPageToken")


def test_webhooks_are_set_read_and_deleted(agent: Agent) -> None:
    sent = agent.send()
    wanted = (sent.id, "mine", WEBHOOK, "secret")
    assert agent.shape.push_config(agent.call("push_set", agent.shape.push_set(*wanted))) == wanted
    assert agent.shape.push_config(agent.call("push_get", agent.shape.push_get(sent.id, "mine"))) == wanted
    if not agent.lacks("push_list"):
        assert agent.shape.push_configs(agent.call("push_list", agent.shape.push_list(sent.id))) == [wanted]
    if not agent.lacks("push_delete"):
        agent.call("push_delete", agent.shape.push_get(sent.id, "mine"))
        with refused(TASK_NOT_FOUND):
            agent.call("push_get", agent.shape.push_get(sent.id, "mine"))


def test_a_webhook_comes_with_a_message(agent: Agent) -> None:
    sent = agent.send(script={"end": "input-required"}, webhook=WEBHOOK)
    found = agent.shape.push_config(agent.call("push_get", agent.shape.push_get(sent.id, "inline")))
    assert found[:3] == (sent.id, "inline", WEBHOOK)
    agent.cancel(sent.id)


@pytest.mark.parametrize("operation", ["get", "cancel", "subscribe"])
def test_an_unknown_task_is_not_found(agent: Agent, operation: str) -> None:
    # Over HTTP+JSON a2a-sdk 0.3 reads a refused subscription as an event stream, whatever its status is.
    blind = operation == "subscribe" and (agent.kind.release, agent.kind.binding) == ("0.3.26", "HTTP+JSON")
    with refused("Invalid SSE response" if blind else TASK_NOT_FOUND):
        agent.call(operation, {"id": str(uuid4())})


@pytest.mark.parametrize("operation", ["push_set", "push_get"])
def test_webhooks_of_an_unknown_task_are_not_found(agent: Agent, operation: str) -> None:
    unknown = str(uuid4())
    with refused(TASK_NOT_FOUND):
        if operation == "push_set":
            agent.call(operation, agent.shape.push_set(unknown, "mine", WEBHOOK, ""))
        else:
            agent.call(operation, agent.shape.push_get(unknown, "mine"))


@pytest.mark.parametrize("operation", ["send", "stream"])
def test_a_follow_up_of_an_unknown_task_is_refused(agent: Agent, operation: str) -> None:
    with refused(TASK_NOT_FOUND):
        agent.call(operation, agent.shape.send("more", task_id=str(uuid4())))


@pytest.mark.parametrize("operation", ["send", "stream"])
def test_a_task_that_has_ended_takes_no_message(agent: Agent, operation: str) -> None:
    ended = agent.send()
    with refused(UNSUPPORTED):
        agent.call(operation, agent.shape.send("more", task_id=ended.id))


def test_a_task_that_has_ended_cannot_be_cancelled(agent: Agent) -> None:
    ended = agent.send()
    with refused(NOT_CANCELABLE):
        agent.cancel(ended.id)


def test_a_task_that_has_ended_cannot_be_subscribed_to(agent: Agent) -> None:
    ended = agent.send()
    with refused(UNSUPPORTED):
        agent.subscribe(ended.id)


@pytest.mark.parametrize("operation", ["send", "stream"])
def test_a_message_without_parts_is_refused(agent: Agent, operation: str) -> None:
    with refused(INVALID):
        agent.call(operation, agent.shape.send("", parts=[]))


def test_a_negative_history_length_is_refused(agent: Agent) -> None:
    ended = agent.send()
    with refused(INVALID):
        agent.get(ended.id, historyLength=-1)


def test_a_page_that_is_too_large_is_refused(agent: Agent) -> None:
    if not agent.lacks("list"):
        with refused(INVALID):
            agent.call("list", {"pageSize": 1000})


@pytest.mark.parametrize("operation", ["push_set", "send"])
def test_a_webhook_in_the_servers_own_network_is_refused(agent: Agent, operation: str) -> None:
    ended, url = agent.send(), "https://169.254.169.254/latest"
    with refused(INVALID):
        if operation == "push_set":
            agent.call("push_set", agent.shape.push_set(ended.id, "mine", url, ""))
        else:
            agent.call("send", agent.shape.send("hello", webhook=url))


@pytest.mark.parametrize("operation", ["get", "send", "stream"])
def test_a_version_that_is_not_spoken_is_refused(agent: Agent, operation: str) -> None:
    agent.call("headers", BEARER | {"A2A-Version": "7.5"})
    with refused(VERSION):
        agent.call(operation, {"id": "x"} if operation == "get" else agent.shape.send("hello"))


@pytest.mark.parametrize("operation", ["get", "send", "stream", "extended_card"])
def test_a_caller_without_a_token_is_refused(agent: Agent, operation: str) -> None:
    agent.call("headers", {})
    requests = {"get": {"id": "x"}, "extended_card": {}}
    with refused(UNAUTHENTICATED):
        agent.call(operation, requests.get(operation, agent.shape.send("hello")))

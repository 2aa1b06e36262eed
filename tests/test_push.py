"""Webhooks are told what happened to their tasks: in order, again when it failed, and nobody else is reached."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events.event_queue import EventQueue
from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    DeleteTaskPushNotificationConfigRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import InvalidParamsError

from a2a_claude.a2a import push
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.push import PushSender
from a2a_claude.a2a.ssrf import Guard, Resolve, system_resolve
from a2a_claude.a2a.webhook_client import WebhookClient
from a2a_claude.store import PushConfig, Store, changes, codec
from tests import certificates
from tests.lifecycle import Caller, Driven, asynchronous, chunk, limits, status, until
from tests.support import make_agent
from tests.webhook_receiver import Receiver, receiving

SECRET, TOKEN = "webhook-credentials-of-a-caller", "notification-token-of-a-caller"


class Agent:
    """A lifecycle with its sender, as the server puts them together."""

    def __init__(self, lifecycle: Lifecycle, sender: PushSender, store: Store) -> None:
        self.lifecycle, self.sender, self.store = lifecycle, sender, store
        self.caller = Caller(lifecycle)
        self.legacy = Caller(lifecycle, version="0.3")

    async def register(self, task_id: str, url: str, caller: Caller | None = None, **fields: Any) -> str:
        """Registers a webhook; its id."""
        config = TaskPushNotificationConfig(task_id=task_id, url=url, **fields)
        context = (caller or self.caller).context
        return (await self.lifecycle.on_create_task_push_notification_config(config, context)).id

    async def waiting_task(self) -> str:
        """A task that waits for input."""
        return str((await self.caller.task("wait"))["id"])

    async def quiet(self) -> None:
        """Waits until nothing is left to be sent."""
        await until(lambda: self.sender.stats().waiting == 0)


async def turn(context: RequestContext, queue: EventQueue) -> None:
    """Does what the message says: `wait`, or a number of chunks and the end."""
    text = context.get_user_input()
    if text == "wait":
        await queue.enqueue_event(status("input-required", "more?"))
        return
    await queue.enqueue_event(status("working"))
    for number in range(int(text)):
        await queue.enqueue_event(chunk(f"{number} ", append=number > 0))
    await queue.enqueue_event(status("completed"))


@asynccontextmanager
async def notifying(
    path: Path | str = ":memory:",
    *,
    executor: AgentExecutor | None = None,
    resolve: Resolve = system_resolve,
    tls: ssl.SSLContext | None = None,
    close: float = 10.0,
    **settings: Any,
) -> AsyncIterator[Agent]:
    """An agent whose webhooks may be on loopback, with short pauses; `settings` are those of `push`."""
    chosen: dict[str, Any] = {"allow_http": True, "allowed_hosts": ("127.0.0.1",), "timeout": 5000} | settings
    configured = dataclasses.replace(make_agent().config.push, **chosen)
    store = await Store.open(path)
    guard = Guard(configured, resolve)
    client = WebhookClient(guard, configured.timeout / 1000, tls) if tls else None
    sender = PushSender(store, configured, guard, client=client, pause=0.001)
    lifecycle = Lifecycle(executor or Driven(turn), store, limits(), check_url=guard.check)
    lifecycle.observe(sender.notify)
    await sender.start()
    await lifecycle.start()
    try:
        yield Agent(lifecycle, sender, store)
    finally:
        await lifecycle.drain(5.0)
        await sender.close(close)
        await store.close()


def inline(url: str, **fields: Any) -> dict[str, Any]:
    """The configuration of a message that registers a webhook for its task."""
    return {"task_push_notification_config": TaskPushNotificationConfig(url=url, **fields)}


def said(event: dict[str, Any]) -> str:
    """A word for an event of either version."""
    event = event.get("task") or event.get("statusUpdate") or event.get("artifactUpdate") or event
    if "artifact" in event:
        return str(event["artifact"]["parts"][0]["text"]).strip()
    return str(event["status"]["state"]).removeprefix("TASK_STATE_").lower()


# What is sent


@asynchronous
async def test_each_event_is_sent_once_in_order_as_the_stream_has_it() -> None:
    async with receiving() as hook, notifying() as agent:
        authentication = AuthenticationInfo(scheme="Bearer", credentials=SECRET)
        configuration = inline(f"{hook.url}/a?b=c", token=TOKEN, authentication=authentication)
        streamed = [each async for each in agent.caller.stream("20", **configuration)]
        await agent.quiet()
        assert [said(each) for each in hook.events()] == ["submitted", "working", *map(str, range(20)), "completed"]
        assert hook.events() == streamed
        for request in hook.received:
            assert (request.method, request.path) == ("POST", "/a?b=c")
            assert request.headers["host"] == f"127.0.0.1:{hook.port}"
            assert request.headers["content-type"] == "application/a2a+json"
            assert request.headers["authorization"] == f"Bearer {SECRET}"
            assert request.headers["x-a2a-notification-token"] == TOKEN
            assert request.headers["a2a-version"] == "1.0"
        assert hook.connections == 1
        assert agent.sender.stats().delivered == 23


@asynchronous
async def test_webhooks_of_v03_get_the_objects_of_v03() -> None:
    async with receiving() as hook, notifying() as agent:
        await agent.legacy.task("2", **inline(hook.url, token=TOKEN))
        await agent.quiet()
        task, working, first, second, completed = hook.events()
        assert (task["kind"], task["status"]["state"]) == ("task", "submitted")
        assert (working["kind"], working["status"]["state"], working["final"]) == ("status-update", "working", False)
        assert (first["kind"], first["append"]) == ("artifact-update", False)
        assert second["artifact"]["parts"] == [{"kind": "text", "text": "1 "}]
        assert (completed["status"]["state"], completed["final"]) == ("completed", True)
        for request in hook.received:
            assert request.headers["content-type"] == "application/json"
            assert request.headers["x-a2a-notification-token"] == TOKEN
            assert "authorization" not in request.headers


@asynchronous
async def test_many_tasks_at_once_each_keep_their_order() -> None:
    async with receiving() as hook, notifying() as agent:

        async def failing(_request: Any, _writer: Any) -> int:
            return 503 if len(hook.received) % 3 == 0 else 200

        hook.answer = failing
        tasks = await asyncio.gather(*(agent.caller.task("10", **inline(f"{hook.url}/{n}")) for n in range(20)))
        await agent.quiet()
        assert len({each["id"] for each in tasks}) == 20
        for number in range(20):
            words = [said(each) for each in hook.events(f"/{number}")]
            # A notification that failed was sent again before the next one.
            assert list(dict.fromkeys(words)) == ["submitted", "working", *map(str, range(10)), "completed"]
            assert words == sorted(words, key=list(dict.fromkeys(words)).index)


@asynchronous
async def test_a_slow_webhook_holds_up_no_other() -> None:
    async with receiving() as slow, receiving() as fast, notifying() as agent:
        release = asyncio.Event()

        async def wait(_request: Any, _writer: Any) -> int:
            await release.wait()
            return 200

        slow.answer = wait
        task_id = await agent.waiting_task()
        await agent.register(task_id, slow.url)
        await agent.register(task_id, fast.url)
        await agent.caller.task("5", task_id=task_id)
        await fast.until(7)
        assert len(slow.received) == 1
        release.set()
        await agent.quiet()
        assert slow.events() == fast.events()


@asynchronous
async def test_a_webhook_that_was_deleted_is_left_alone() -> None:
    async with receiving() as hook, notifying() as agent:
        task_id = await agent.waiting_task()
        config_id = await agent.register(task_id, hook.url)

        async def delete(_request: Any, _writer: Any) -> int:
            wanted = DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
            await agent.lifecycle.on_delete_task_push_notification_config(wanted, agent.caller.context)
            return 503

        hook.answer = delete
        await agent.caller.task("5", task_id=task_id)
        await agent.quiet()
        assert len(hook.received) == 1


@asynchronous
async def test_a_webhook_that_is_far_behind_gets_the_task_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "BACKLOG", 4)
    async with receiving() as hook, notifying() as agent:
        release = asyncio.Event()

        async def wait(_request: Any, _writer: Any) -> int:
            await release.wait()
            return 200

        hook.answer = wait
        await agent.caller.task("50", **inline(hook.url))
        release.set()
        await agent.quiet()
        first, snapshot = hook.events()
        assert said(first) == "submitted"
        assert said(snapshot) == "completed"
        parts = snapshot["task"]["artifacts"][0]["parts"]
        assert "".join(each["text"] for each in parts).split() == list(map(str, range(50)))


# What fails


@asynchronous
async def test_a_notification_is_tried_again_until_it_is_accepted() -> None:
    async with receiving() as hook, notifying(max_attempts=5) as agent:
        answers = iter([503, 429, 408, 500, 200])

        async def recover(_request: Any, _writer: Any) -> int:
            return next(answers, 200)

        hook.answer = recover
        await agent.caller.task("1", **inline(hook.url))
        await agent.quiet()
        assert [said(each) for each in hook.events()] == ["submitted"] * 5 + ["working", "0", "completed"]
        stats = agent.sender.stats()
        assert (stats.delivered, stats.failed_attempts, stats.skipped) == (4, 4, 0)


@asynchronous
async def test_a_connection_that_breaks_is_a_failed_attempt() -> None:
    async with receiving() as hook, notifying() as agent:
        broken = iter([True, True])

        async def hang_up(_request: Any, writer: asyncio.StreamWriter) -> int | None:
            if next(broken, False):
                writer.transport.abort()
                return None
            return 200

        hook.answer = hang_up
        await agent.caller.task("0", **inline(hook.url))
        await agent.quiet()
        assert [said(each) for each in hook.events()] == ["submitted"] * 3 + ["working", "completed"]


@asynchronous
async def test_after_the_last_attempt_it_is_skipped_and_then_the_webhook_is_left_alone() -> None:
    async with receiving() as hook, notifying(max_attempts=2) as agent:

        async def refuse(_request: Any, _writer: Any) -> int:
            return 500

        hook.answer = refuse
        task_id = await agent.waiting_task()
        config_id = await agent.register(task_id, hook.url)
        await agent.caller.task("wait", task_id=task_id)
        for _ in range(5):
            await agent.quiet()
            await agent.caller.task("wait", task_id=task_id)
        await agent.quiet()
        assert len(hook.received) == 2 * push.SUSPEND_AFTER
        hook.answer = Receiver().answer
        await agent.register(task_id, f"{hook.url}/new", id=config_id)
        await agent.caller.task("wait", task_id=task_id)
        await agent.quiet()
        assert len(hook.events("/new")) == 1


@pytest.mark.parametrize(("code", "attempts"), [(400, 3), (401, 3), (404, 3), (410, 1), (301, 3), (307, 3)])
@asynchronous
async def test_a_refusal_is_no_failure_to_repeat(code: int, attempts: int) -> None:
    async with receiving() as hook, receiving() as elsewhere, notifying() as agent:
        hook.headers = f"Location: {elsewhere.url}/\r\n"

        async def refuse(_request: Any, _writer: Any) -> int:
            return code

        hook.answer = refuse
        await agent.caller.task("8", **inline(hook.url))
        await agent.quiet()
        assert len(hook.received) == attempts
        assert len({each.body for each in hook.received}) == attempts
        assert not elsewhere.received


@asynchronous
async def test_a_webhook_may_ask_for_a_pause() -> None:
    async with receiving() as hook, notifying() as agent:
        moments: list[float] = []

        async def later(_request: Any, _writer: Any) -> int:
            moments.append(asyncio.get_running_loop().time())
            hook.headers = "Retry-After: 1\r\n" if len(moments) == 1 else ""
            return 429 if len(moments) == 1 else 200

        hook.answer = later
        await agent.caller.task("0", **inline(hook.url))
        await agent.quiet()
        assert moments[1] - moments[0] >= 0.99


@asynchronous
async def test_a_webhook_that_does_not_answer_is_given_up_in_time() -> None:
    async with receiving() as hook, notifying(timeout=50, max_attempts=2) as agent:

        async def never(_request: Any, _writer: Any) -> int:
            await asyncio.sleep(3600)
            return 200

        hook.answer = never
        await agent.caller.task("0", **inline(hook.url))
        await agent.quiet()
        stats = agent.sender.stats()
        assert (stats.delivered, stats.failed_attempts, stats.skipped) == (0, 6, 3)


@asynchronous
async def test_of_an_answer_only_so_much_is_read() -> None:
    async with receiving() as hook, notifying(timeout=60_000) as agent:
        ended = asyncio.Event()

        async def endless(_request: Any, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                while True:
                    writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                    await writer.drain()
            except ConnectionError:
                ended.set()

        hook.answer = endless
        await agent.caller.task("0", **inline(hook.url))
        await agent.quiet()
        await ended.wait()
        assert agent.sender.stats().delivered == 3


# Where it goes


@asynchronous
async def test_a_webhook_on_a_private_address_cannot_be_registered() -> None:
    async with receiving() as hook, notifying(allowed_hosts=()) as agent:
        task_id = await agent.waiting_task()
        for url in (hook.url, hook.url.replace("127.0.0.1", "localhost"), "http://[::ffff:127.0.0.1]/"):
            with pytest.raises(InvalidParamsError):
                await agent.register(task_id, url)
            with pytest.raises(InvalidParamsError):
                await agent.caller.task("0", **inline(url))
        assert hook.connections == 0


@asynchronous
async def test_a_name_that_points_elsewhere_after_registration_is_not_followed() -> None:
    answers = iter([["8.8.8.8"]])

    async def rebind(_host: str, _port: int) -> list[str]:
        return next(answers, ["127.0.0.1"])

    async with receiving() as hook, notifying(allowed_hosts=(), resolve=rebind, max_attempts=2) as agent:
        await agent.caller.task("0", **inline(f"http://hooks.example:{hook.port}/"))
        await agent.quiet()
        assert hook.connections == 0
        assert agent.sender.stats().skipped == 3


@asynchronous
async def test_the_address_that_was_checked_is_the_one_that_is_used() -> None:
    asked: list[tuple[str, int]] = []

    async def once_each(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    async with receiving() as hook, notifying(allowed_hosts=("hooks.example",), resolve=once_each) as agent:
        await agent.caller.task("5", **inline(f"http://hooks.example:{hook.port}/"))
        await agent.quiet()
        assert len(hook.received) == 8
        assert {each.headers["host"] for each in hook.received} == {f"hooks.example:{hook.port}"}
        # Once at registration, once for the connection that carried everything.
        assert asked == [("hooks.example", hook.port)] * 2


@asynchronous
async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async def two(_host: str, _port: int) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with receiving() as hook, notifying(allowed_hosts=("hooks.example",), resolve=two) as agent:
        await agent.caller.task("0", **inline(f"http://hooks.example:{hook.port}/"))
        await agent.quiet()
        assert len(hook.received) == 3
        assert agent.sender.stats().failed_attempts == 0


@pytest.mark.parametrize(("issued_for", "delivered"), [("hooks.example", 3), ("other.example", 0)])
@asynchronous
async def test_certificates_are_verified_for_the_name_not_the_address(
    issued_for: str,
    delivered: int,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authority = certificates.Authority(tmp_path_factory.mktemp("authority"))
    names: list[str] = []
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*authority.issue(issued_for))
    server.sni_callback = lambda _socket, name, _context: names.append(name)
    client = ssl.create_default_context(cafile=str(authority.file))

    async def loopback(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    hosts = ("hooks.example",)
    async with (
        receiving(server) as hook,
        notifying(allowed_hosts=hosts, resolve=loopback, tls=client, allow_http=False, max_attempts=1) as agent,
    ):
        await agent.caller.task("0", **inline(f"https://hooks.example:{hook.port}/"))
        await agent.quiet()
        assert len(hook.received) == delivered
        assert set(names) == {"hooks.example"}
        assert ("CERTIFICATE_VERIFY_FAILED" in caplog.text) == (not delivered)


@asynchronous
async def test_what_cannot_be_a_header_is_not_sent_even_from_the_store() -> None:
    async with receiving() as hook, notifying() as agent:
        unsendable: list[dict[str, Any]] = [
            {"token": "a\r\nX-Injected: 1"},
            {"token": "ü"},
            {"authentication": {"scheme": "Bearer", "credentials": "a\nb"}},
            {"authentication": {"scheme": "Bearer x", "credentials": "a"}},
        ]
        for number, fields in enumerate(unsendable):
            task_id = await agent.waiting_task()
            row = agent.store.task(task_id)
            assert row is not None
            document = codec.dumps({"id": "c", "taskId": task_id, "url": hook.url, **fields})
            stored = PushConfig(task_id, "c", "1.0", document)
            await agent.store.write([changes.put_push_config(row.key, "", 0, stored)])
            await agent.register(task_id, f"{hook.url}/{number}")
            await agent.caller.task("wait", task_id=task_id)
            await agent.quiet()
            assert {each.path for each in hook.received} == {f"/{known}" for known in range(number + 1)}


@asynchronous
async def test_credentials_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with receiving() as hook, notifying(max_attempts=2) as agent:
        for answer in (None, 500, 302, 410):

            async def fail(_request: Any, _writer: Any, code: int | None = answer) -> int | None:
                return code

            hook.answer = fail
            authentication = AuthenticationInfo(scheme="Bearer", credentials=SECRET)
            url = f"{hook.url}/path-secret?key=query-secret"
            await agent.caller.task("1", **inline(url, token=TOKEN, authentication=authentication))
            await agent.quiet()
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("a2a_claude")]
    assert len([each for each in ours if f"127.0.0.1:{hook.port}" in each]) > 5
    for secret in (SECRET, TOKEN, "path-secret", "query-secret"):
        assert not [each for each in caplog.records if secret in each.getMessage()], secret


# Stops and crashes


@asynchronous
async def test_what_waits_is_sent_before_the_server_stops() -> None:
    async with receiving() as hook:
        async with notifying() as agent:
            await agent.caller.task("50", **inline(hook.url))
        assert said(hook.events()[-1]) == "completed"
        assert len(hook.received) == 53


@asynchronous
async def test_stopping_takes_no_longer_than_it_may(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with receiving() as hook:

        async def never(_request: Any, _writer: Any) -> int:
            await asyncio.Event().wait()
            return 200

        hook.answer = never
        async with notifying(timeout=3_600_000, close=0.05) as agent:
            await agent.caller.task("5", **inline(hook.url))
            await hook.until(1)


@asynchronous
async def test_what_was_not_told_is_told_after_a_restart_and_only_once(tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("state") / "store.db"
    async with receiving() as hook:

        async def refuse(_request: Any, _writer: Any) -> int:
            return 503 if len(hook.received) > 3 else 200

        hook.answer = refuse
        async with notifying(path, close=0.0, max_attempts=100) as agent:
            task = await agent.caller.task("10", **inline(hook.url))
            waiting = await agent.waiting_task()
            await agent.register(waiting, f"{hook.url}/waiting")
            await hook.until(4)
        told = len(hook.received)
        hook.answer = Receiver().answer
        async with notifying(path) as agent:
            await agent.quiet()
            after = {each.path: each.json["task"] for each in hook.received[told:]}
            assert after["/"]["id"] == task["id"]
            assert said(after["/"]) == "completed"
            assert len(after["/"]["artifacts"][0]["parts"]) == 10
            assert said(after["/waiting"]) == "input_required"
        told = len(hook.received)
        async with notifying(path) as agent:
            await agent.quiet()
            assert len(hook.received) == told


@asynchronous
async def test_a_task_that_a_crash_interrupted_is_told_to_have_failed(tmp_path_factory: Any) -> None:
    path = tmp_path_factory.mktemp("state") / "store.db"
    started = asyncio.Event()

    async def hang(_context: RequestContext, queue: EventQueue) -> None:
        await queue.enqueue_event(status("working"))
        started.set()
        await asyncio.Event().wait()

    async with receiving() as hook:
        async with crashed(path, Driven(hang)) as caller:
            await caller.task("x", return_immediately=True, **inline(hook.url))
            await started.wait()
        async with notifying(path) as agent:
            await agent.quiet()
            assert said(hook.events()[-1]) == "failed"
            assert hook.events()[-1]["statusUpdate"]["metadata"]


@asynccontextmanager
async def crashed(path: Path, executor: AgentExecutor) -> AsyncIterator[Caller]:
    """A server without a sender that ends without a word to its tasks."""
    configured = dataclasses.replace(make_agent().config.push, allow_http=True, allowed_hosts=("127.0.0.1",))
    store = await Store.open(path)
    lifecycle = Lifecycle(executor, store, limits(), check_url=Guard(configured).check)
    yield Caller(lifecycle)
    await store.close()

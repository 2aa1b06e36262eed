"""Events on their way to a transport: order, attempts, bounds, and a receiver that is down, slow or refuses."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from a2a_claude.observe.delivery import Delivery
from a2a_claude.observe.event_posts import HttpTransport
from a2a_claude.observe.events import Event, Origin, TryAgain
from tests.lifecycle import asynchronous, until
from tests.webhook_receiver import Received, Receiver, receiving

ORIGIN = Origin("reviewer", "Reviewer", "c", "t", "c")


def event(number: int, task: str = "t") -> Event:
    return Event("thinking", replace(ORIGIN, task_id=task), {"number": number})


def numbers(receiver: Receiver, task: str = "t") -> list[int]:
    return [each["data"]["number"] for each in receiver.events() if each["taskId"] == task]


class Own:
    """A transport of a test: `does` is what happens to an event, `sent` those that came through."""

    def __init__(self, does: Callable[[Event], Awaitable[None]]) -> None:
        self.does, self.tried = does, 0
        self.sent: list[int] = []

    async def send(self, event: Event) -> None:
        self.tried += 1
        await self.does(event)
        self.sent.append(event.data["number"])


async def nothing(_: Event) -> None:
    await asyncio.sleep(0)


@asynccontextmanager
async def posting(
    url: str, headers: dict[str, str] | None = None, *, seconds: float = 30.0, **options: Any
) -> AsyncIterator[Delivery]:
    posts = HttpTransport(url, headers or {})
    delivery = Delivery(posts, seconds, pause=0.001, **options)
    try:
        yield delivery
    finally:
        await delivery.close(5)
        await posts.close()


def answers(*statuses: int) -> Callable[[Received, asyncio.StreamWriter], Awaitable[int]]:
    """These, then 200."""
    left = list(statuses)

    async def answer(_: Received, __: asyncio.StreamWriter) -> int:
        return left.pop(0) if left else 200

    return answer


@asynchronous
async def test_an_event_is_posted_in_its_envelope_with_the_headers_of_the_config() -> None:
    async with (
        receiving() as receiver,
        posting(f"{receiver.url}/in?x=1", {"Authorization": "Bearer t", "X-A": "ü"}) as delivery,
    ):
        await delivery.send(event(1))
        await receiver.until(1)
        [posted] = receiver.received
        assert (posted.method, posted.path) == ("POST", "/in?x=1")
        assert posted.headers["content-type"] == "application/json"
        assert (posted.headers["authorization"], posted.headers["x-a"]) == ("Bearer t", "ü")
        envelope = posted.json
        assert len(envelope.pop("eventId")) == 36
        assert envelope.pop("timestamp").endswith("Z")
        assert envelope == {
            "eventType": "thinking",
            "agentId": "reviewer",
            "agentName": "Reviewer",
            "traceId": "c",
            "parentAgentId": None,
            "taskId": "t",
            "contextId": "c",
            "data": {"number": 1},
        }


@asynchronous
async def test_the_events_of_a_task_keep_their_order_over_refusals_and_tasks_do_not_wait_for_each_other() -> None:
    async with receiving() as receiver, posting(receiver.url) as delivery:
        blocked = asyncio.Event()

        async def answer(received: Received, _: asyncio.StreamWriter) -> int:
            if received.json["taskId"] == "slow":
                await blocked.wait()
            return 200 if len(receiver.received) > 4 else 503

        receiver.answer = answer
        await delivery.send(event(0, "slow"))
        for number in range(20):
            await delivery.send(event(number))
        await until(lambda: delivery.stats.delivered == 20)
        order = numbers(receiver)
        assert [each for index, each in enumerate(order) if each not in order[:index]] == list(range(20))
        assert order == sorted(order)
        blocked.set()
        await until(lambda: delivery.stats.delivered == 21)
        assert (delivery.stats.lost, delivery.stats.waiting) == (0, 0)


@pytest.mark.parametrize(
    ("statuses", "posts", "delivered", "lost"),
    [
        ([500, 503, 429, 408], 5, 1, 0),
        ([500] * 5, 5, 0, 1),
        ([400], 1, 0, 1),
        ([404], 1, 0, 1),
        ([302], 1, 0, 1),
        ([204], 1, 1, 0),
    ],
)
def test_what_may_pass_is_tried_again_and_a_refusal_is_not(
    statuses: list[int], posts: int, delivered: int, lost: int
) -> None:
    @asynchronous
    async def run() -> None:
        async with receiving() as receiver, posting(receiver.url) as delivery:
            receiver.answer = answers(*statuses)
            await delivery.send(event(1))
            await until(lambda: not delivery.stats.waiting)
            assert (len(receiver.received), delivery.stats.delivered, delivery.stats.lost) == (posts, delivered, lost)

    run()


@asynchronous
async def test_the_log_tells_when_events_are_lost_and_when_they_come_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with receiving() as receiver, posting(receiver.url, {"Authorization": "Bearer hunter2"}) as delivery:
            receiver.answer = answers(400, 400, 400)
            for number in range(4):
                await delivery.send(event(number))
            await until(lambda: not delivery.stats.waiting)
    first, second = (record.message for record in caplog.records)
    assert "127.0.0.1 answered 400" in first
    assert second == "Events are delivered again; 3 were lost"
    assert "hunter2" not in first


@asynchronous
async def test_a_receiver_that_is_down_or_silent_holds_up_nobody_and_costs_a_bounded_queue() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{silent.getsockname()[1]}"  # bound, not listening: refused
        async with posting(down, limit=50) as delivery:
            for number in range(200):
                await delivery.send(event(number, f"t{number}"))
            assert (delivery.stats.waiting, delivery.stats.lost) == (50, 150)
            await until(lambda: not delivery.stats.waiting)
            assert (delivery.stats.delivered, delivery.stats.lost) == (0, 200)
        silent.listen()
        async with posting(down, seconds=0.01) as delivery:
            await delivery.send(event(1))
            await until(lambda: delivery.stats.lost == 1)
            assert delivery.stats.failed_attempts == 5


@asynchronous
async def test_the_end_cuts_pauses_short_and_sends_what_waits() -> None:
    async with receiving() as receiver:
        posts = HttpTransport(receiver.url, {})
        delivery = Delivery(posts, 30.0, pause=10_000)
        receiver.answer = answers(500)
        for number in range(5):
            await delivery.send(event(number))
        await receiver.until(1)
        await until(lambda: delivery.stats.failed_attempts == 1)
        await delivery.close(30)
        assert numbers(receiver) == [0, 0, 1, 2, 3, 4]
        await delivery.send(event(6))
        assert (delivery.stats.delivered, delivery.stats.lost, delivery.stats.waiting) == (5, 1, 0)
        await posts.close()


@asynchronous
async def test_the_end_has_a_bound_and_counts_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async def never(_: Event) -> None:
        await asyncio.Event().wait()

    own = Own(never)
    delivery = Delivery(own, 1000.0)
    for number in range(3):
        await delivery.send(event(number))
    await until(lambda: own.tried == 1)
    with caplog.at_level(logging.WARNING):
        await delivery.close(0.01)
    assert "3 events were not delivered before the end" in caplog.text
    assert (own.sent, delivery.stats.lost, delivery.stats.waiting) == ([], 3, 0)


@asynchronous
async def test_a_transport_of_ones_own_may_be_slow_ask_again_and_fail() -> None:
    asked: list[Any] = []

    async def moody(event: Event) -> None:
        number = event.data["number"]
        asked.append(number)
        if number == 1 and asked.count(1) < 3:
            raise TryAgain("not now")
        if number == 2:
            raise RuntimeError("never")
        await asyncio.sleep(0)

    own = Own(moody)
    delivery = Delivery(own, 30.0, pause=0.001)
    for number in range(4):
        await delivery.send(event(number))
    await until(lambda: not delivery.stats.waiting)
    await delivery.close(30)
    assert asked == [0, 1, 1, 1, 2, 3]
    assert (own.sent, delivery.stats.lost) == ([0, 1, 3], 1)


@asynchronous
async def test_several_tasks_are_under_way_at_once_and_not_without_bound() -> None:
    now = most = 0

    async def counted(_: Event) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    delivery = Delivery(Own(counted), 30.0)
    for number in range(100):
        await delivery.send(event(number, f"t{number}"))
    await until(lambda: delivery.stats.delivered == 100)
    assert most == 8
    await delivery.close(1)


@pytest.mark.parametrize(
    ("url", "headers", "said"),
    [
        ("ftp://user:hunter2@host/", {}, "events.httpUrl"),
        ("hunter2", {}, "events.httpUrl"),
        ("http://", {}, "events.httpUrl"),
        ("http://host:hunter2/", {}, "events.httpUrl"),
        ("http://host/", {"A": "hunter2\r\nB: c"}, "events.httpHeaders.A"),
        ("http://host/", {"A b": "hunter2"}, "events.httpHeaders.A b"),
        ("http://host/", {"A": " hunter2"}, "events.httpHeaders.A"),
        ("http://host/", {"A": "hunter2€"}, "events.httpHeaders.A"),
    ],
)
def test_a_url_or_header_that_cannot_be_used_is_named_and_not_shown(
    url: str, headers: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        HttpTransport(url, headers)
    assert "hunter2" not in str(raised.value)

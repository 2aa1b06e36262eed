"""The pool: which context gets which process, how many there are, and what a session survives."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from claude_agent_sdk import CanUseTool, ClaudeAgentOptions, PermissionResultAllow

from a2a_claude.claude.capacity import byte_size
from a2a_claude.claude.client import Client, Stderr
from a2a_claude.claude.session import ClaudeStartFailed, LiveSession, Totals
from a2a_claude.claude.sessions import Pool
from a2a_claude.config.model import Config
from a2a_claude.store import Store
from tests.fake_transport import Frame, ScriptedTransport, init, result
from tests.lifecycle import asynchronous
from tests.support import make_agent

BLOCKS: list[dict[str, Any]] = [{"type": "text", "text": "hello"}]


class Starter:
    """Starts clients over scripted transports. Their session ids are `s1`, `s2`, … or the resumed one."""

    def __init__(self, claude: dict[str, Any] | None = None, **session: Any) -> None:
        settings = {"spareClients": 0, **session}
        self.config: Config = make_agent({"session": settings, "claude": claude or {}}).config
        self.started: list[Client] = []
        self.resumed: list[str | None] = []
        self.transports: list[ScriptedTransport] = []
        self.lost: set[str] = set()  # sessions without a transcript
        self.delay = 0.0
        self.starting = self.most_starting = 0
        self.used = 0
        self.renames = False
        self.closed = False

    async def start(self, resume: str | None, ask: CanUseTool | None = None) -> Client:
        self.starting += 1
        self.most_starting = max(self.most_starting, self.starting)
        try:
            await asyncio.sleep(self.delay)
            if resume in self.lost:
                raise ClaudeStartFailed("no", detail=f"No conversation found with session ID: {resume}")
            name = resume if resume and not self.renames else f"s{len(self.started) + 1}"
            cost = {"total_cost_usd": 1.0 + len(self.started)}
            turns: list[list[Frame]] = [[init(name), result("ok", name, **cost)] for _ in range(20)]
            transport = ScriptedTransport(turns)
            client = Client(ClaudeAgentOptions(can_use_tool=ask), transport, Stderr())
            await client.start()
        finally:
            self.starting -= 1
        self.started.append(client)
        self.resumed.append(resume)
        self.transports.append(transport)
        return client

    def memory(self, client: Client) -> int:
        return self.used

    def close(self) -> None:
        self.closed = True

    @property
    def alive(self) -> int:
        return sum(not each.closed for each in self.transports)


async def with_a_spare() -> tuple[Starter, Pool]:
    starter = Starter(spareClients=1)
    pool = Pool(starter)
    pool.open()
    await until(lambda: pool.stats()["spare"] == 1)
    return starter, pool


async def turn(session: LiveSession) -> None:
    async for each in session.turn(BLOCKS, uuid=str(uuid.uuid4())):
        if each.answers:
            break


async def used(pool: Pool, context: str, owner: str = "me", healthy: bool = True) -> LiveSession:
    """A whole turn of a context."""
    session = await pool.acquire(context, owner, str(uuid.uuid4()))
    await turn(session)
    await pool.release(session, healthy=healthy)
    return session


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@asynchronous
async def test_a_follow_up_starts_no_process() -> None:
    starter = Starter()
    pool = Pool(starter)
    first, second = await used(pool, "c"), await used(pool, "c")
    assert len(starter.started) == 1
    assert (first.session_id, second.session_id) == ("s1", "s1")
    assert (first.before, second.before) == (Totals(), Totals(1.0, 1))
    assert first.fell_back is None


@asynchronous
async def test_contexts_and_owners_have_sessions_of_their_own() -> None:
    starter = Starter()
    pool = Pool(starter, await Store.open(":memory:"))
    sessions = [await used(pool, "c", "me"), await used(pool, "c", "you"), await used(pool, "d", "me")]
    assert [each.session_id for each in sessions] == ["s1", "s2", "s3"]


@asynchronous
async def test_without_reuse_each_task_has_a_session_that_ends_with_it() -> None:
    starter, store = Starter(reuseByContext=False), await Store.open(":memory:")
    pool = Pool(starter, store)
    assert (await used(pool, "c")).session_id == "s1"
    assert starter.alive == 0
    assert (await used(pool, "c")).session_id == "s2"
    assert starter.resumed == [None, None]
    assert store.session("c", "me") is None


@asynchronous
async def test_a_session_is_resumed_after_an_eviction_and_after_a_restart() -> None:
    starter, store = Starter(maxLiveClients=1), await Store.open(":memory:")
    pool = Pool(starter, store)
    await used(pool, "a")
    await used(pool, "b")
    again = await used(pool, "a")
    assert (again.session_id, again.fell_back, again.before) == ("s1", None, Totals(1.0, 1))
    assert starter.resumed == [None, None, "s1"]
    restarted = Pool(Starter(), store)
    later = await restarted.acquire("a", "me", "t")
    assert later.before is None
    await turn(later)
    assert later.session_id == "s1"


@asynchronous
async def test_the_session_is_durable_before_anything_is_told() -> None:
    store = await Store.open(":memory:")
    session = await Pool(Starter(), store).acquire("c", "me", "t")
    async for each in session.turn(BLOCKS, uuid="u"):
        stored = store.session("c", "me")
        assert stored is not None, each
        assert stored.session_id == "s1"
        if each.answers:
            break


@asynchronous
async def test_a_lost_transcript_falls_back_to_a_new_session_and_says_so() -> None:
    starter, store = Starter(), await Store.open(":memory:")
    starter.lost = {"gone"}
    await store.set_session("c", "me", "gone")
    session = await used(Pool(starter, store), "c")
    assert session.fell_back is not None
    assert (session.fell_back.lost, session.fell_back.reason) == ("gone", "transcript_lost")
    assert (session.session_id, session.before) == ("s1", Totals())
    stored = store.session("c", "me")
    assert stored is not None
    assert stored.session_id == "s1"


@asynchronous
async def test_a_session_that_continues_under_another_id_is_told_and_kept() -> None:
    starter, store = Starter(), await Store.open(":memory:")
    starter.renames = True
    await store.set_session("c", "me", "old")
    session = await used(Pool(starter, store), "c")
    assert session.fell_back is not None
    assert (session.fell_back.lost, session.fell_back.reason) == ("old", "session_changed")
    stored = store.session("c", "me")
    assert stored is not None
    assert stored.session_id == "s1"


@asynchronous
async def test_the_least_recently_used_process_makes_room() -> None:
    starter = Starter(maxLiveClients=2)
    pool = Pool(starter)
    for context in ("a", "b", "a", "c"):
        await used(pool, context)
    await until(lambda: starter.alive == 2)
    assert [each.closed for each in starter.transports] == [False, True, False]


@asynchronous
async def test_no_more_processes_than_the_cap_when_all_are_busy() -> None:
    starter = Starter(maxLiveClients=2)
    pool = Pool(starter)
    busy = [await pool.acquire(context, "me", "t") for context in ("a", "b")]
    waiting = asyncio.create_task(pool.acquire("c", "me", "t"))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await pool.release(busy[0], healthy=True)
    await waiting
    assert len(starter.started) == 3
    await until(lambda: starter.alive == 2)


@asynchronous
async def test_starts_in_parallel_are_bounded() -> None:
    starter = Starter(parallelStarts=2, maxLiveClients=10)
    starter.delay = 0.02
    pool = Pool(starter)
    await asyncio.gather(*(pool.acquire(str(number), "me", "t") for number in range(6)))
    assert starter.most_starting == 2


@asynchronous
async def test_turns_of_one_context_go_one_after_the_other() -> None:
    pool = Pool(Starter())
    first = await pool.acquire("c", "me", "t1")
    second = asyncio.create_task(pool.acquire("c", "me", "t2"))
    await asyncio.sleep(0.02)
    assert not second.done()
    await pool.release(first, healthy=True)
    assert (await second).session_id == first.session_id


@asynchronous
async def test_a_new_context_finds_a_process_that_has_started_already() -> None:
    starter, pool = await with_a_spare()
    starter.delay = 60
    await asyncio.wait_for(used(pool, "c"), 5)
    await pool.shutdown(1)


@asynchronous
async def test_the_next_process_starts_when_no_turn_needs_the_processor() -> None:
    _, pool = await with_a_spare()
    one = await pool.acquire("one", "me", "t")
    pool._capacity.refill()
    await asyncio.sleep(0)
    assert pool.stats() == {"busy": 1, "idle": 0, "spare": 0, "starting": 0}
    await pool.release(one, healthy=True)
    await asyncio.sleep(0)
    assert pool.stats()["starting"] + pool.stats()["spare"] == 1
    await pool.shutdown(1)


@asynchronous
async def test_an_idle_process_is_closed_and_a_busy_one_is_not() -> None:
    starter = Starter(clientIdleTimeout=1)
    pool = Pool(starter)
    pool.open()
    busy = await pool.acquire("busy", "me", "t")
    await used(pool, "idle")
    await until(lambda: starter.alive == 1)
    assert [each.closed for each in starter.transports] == [False, True]
    await pool.release(busy, healthy=True)
    await pool.shutdown(1)


WORN: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("turns", {"clientMaxTurns": 1}, {}, 0),
    ("memory", {"clientMaxMemory": "1Mi"}, {}, 1 << 20),
    ("a budget, to a CLI that is not ours", {}, {"maxBudgetUsd": 1, "executablePathOverride": "/bin/sh"}, 0),
]


@pytest.mark.parametrize(("session", "claude", "memory"), [row[1:] for row in WORN], ids=[row[0] for row in WORN])
@asynchronous
async def test_a_worn_process_is_replaced_and_the_session_goes_on(
    session: dict[str, Any], claude: dict[str, Any], memory: int
) -> None:
    starter = Starter(claude, **session)
    starter.used = memory
    pool = Pool(starter, await Store.open(":memory:"))
    await used(pool, "c")
    assert (await used(pool, "c")).session_id == "s1"
    assert starter.resumed == [None, "s1"]


@asynchronous
async def test_an_unhealthy_process_is_gone_when_release_returns() -> None:
    starter = Starter()
    pool = Pool(starter, await Store.open(":memory:"))
    session = await used(pool, "c", healthy=False)
    assert starter.alive == 0
    await pool.release(session, healthy=True)  # once more does nothing
    assert (await used(pool, "c")).session_id == "s1"
    assert starter.resumed == [None, "s1"]


@asynchronous
async def test_a_process_that_died_is_replaced_by_one_that_resumes() -> None:
    starter = Starter()
    pool = Pool(starter, await Store.open(":memory:"))
    await used(pool, "c")
    starter.transports[0].feed()
    await starter.transports[0].end_input()
    await until(lambda: not starter.started[0].usable)
    assert (await used(pool, "c")).session_id == "s1"
    assert starter.resumed == [None, "s1"]


@asynchronous
async def test_an_expired_session_is_not_continued() -> None:
    starter, store = Starter(ttl=1), await Store.open(":memory:")
    pool = Pool(starter, store)
    await used(pool, "c")
    await asyncio.sleep(0.005)
    session = await used(pool, "c")
    assert (session.session_id, session.fell_back) == ("s2", None)
    assert starter.resumed == [None, None]


@asynchronous
async def test_what_has_expired_is_swept_also_when_nobody_asks_for_it() -> None:
    store = await Store.open(":memory:")
    await store.set_session("c", "me", "old")
    pool = Pool(Starter(ttl=1, cleanupInterval=1), store)
    pool.open()
    await until(lambda: store.session("c", "me") is None)
    await pool.shutdown(1)


@asynchronous
async def test_cancelling_acquire_leaves_the_process_in_the_pool() -> None:
    starter = Starter()
    starter.delay = 0.05
    pool = Pool(starter)
    acquiring = asyncio.create_task(pool.acquire("c", "me", "t"))
    await asyncio.sleep(0.01)
    acquiring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    await until(lambda: pool.stats() == {"busy": 0, "idle": 1, "spare": 0, "starting": 0})
    await used(pool, "c")
    assert len(starter.started) == 1


@asynchronous
async def test_a_start_that_fails_blocks_nobody() -> None:
    starter, store = Starter(), await Store.open(":memory:")
    pool = Pool(starter, store)
    starter.lost = {None}  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(ClaudeStartFailed):
            await pool.acquire("c", "me", "t")
    starter.lost = set()
    assert (await used(pool, "c")).session_id == "s1"


@asynchronous
async def test_permission_requests_go_to_the_turn_and_to_nobody_else() -> None:
    starter = Starter({"approvals": "inputRequired"})
    pool = Pool(starter)
    session = await pool.acquire("c", "me", "t")
    request = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "x"}
    starter.transports[0].turns = [[init(), {"_ask": request}, result()] for _ in range(2)]

    async def allow(*_: Any) -> PermissionResultAllow:
        return PermissionResultAllow()

    session.ask = allow
    await turn(session)
    await pool.release(session, healthy=True)
    await used(pool, "c")
    answers = [each["response"]["behavior"] for each in starter.transports[0].answers]
    assert answers == ["allow", "deny"]


@asynchronous
async def test_shutdown_closes_everything_within_its_bound() -> None:
    starter, pool = await with_a_spare()
    await used(pool, "idle")
    session = await pool.acquire("busy", "me", "t")
    starter.transports[-1].turns = [[init()]]  # never answers
    running = asyncio.create_task(turn(session))
    await asyncio.sleep(0.02)
    await asyncio.wait_for(pool.shutdown(0.2), 3)
    await asyncio.wait({running}, timeout=1)
    assert running.exception() is not None
    assert (starter.alive, starter.closed) == (0, True)
    with pytest.raises(ClaudeStartFailed):
        await pool.acquire("late", "me", "t")


@pytest.mark.parametrize(("text", "size"), [("600Mi", 629145600), ("1Gi", 1 << 30), ("4096", 4096), ("2Ki", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert byte_size(text) == size


@asynchronous
async def test_a_budget_costs_a_context_no_process() -> None:
    starter = Starter({"maxBudgetUsd": 1})
    pool = Pool(starter)
    for _ in range(2):
        await used(pool, "c")
    assert len(starter.started) == 1

"""The store answers who asks for a task again from memory, and never with anything but what it has committed."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.store import Store, TaskRow, changes, reads, retention
from a2a_claude.store.changes import Change
from a2a_claude.store.errors import StoreError
from a2a_claude.store.recent import Reading, Recent
from tests.lifecycle import asynchronous

NOW = 1_800_000_000_000
COMPLETED, WORKING = 3, 2


def row(key: int, owner: str = "", status: bytes = b'{"state":"x"}') -> TaskRow:
    return TaskRow(key, f"task {key}", "c", owner, WORKING, status, b"", 0, NOW, NOW, 1)


def new(key: int) -> list[Change]:
    return [changes.create_task(row(key)), changes.add_message(key, 1, b'{"messageId":"1"}')]


# What happens to a task between two reads, each with the number of the change.
CHANGES: dict[str, Callable[[int, int], list[Change]]] = {
    "status": lambda key, seq: [changes.set_status(key, WORKING, b'{"state":"%d"}' % seq, b"", 0, NOW, seq)],
    "message": lambda key, seq: [changes.add_message(key, seq, b'{"messageId":"%d"}' % seq)],
    "artifact": lambda key, seq: [
        changes.clear_parts(key, 0),
        changes.put_artifact(key, 0, b'{"artifactId":"%d"}' % seq),
        changes.append_parts(key, 0, seq, b'{"text":"%d"}' % seq),
    ],
    "end": lambda key, seq: [changes.set_status(key, COMPLETED, b'{"state":"end"}', b"", 0, NOW, seq)],
    "forgotten": lambda key, _: retention.forget([key]),
}


def committed(store: Store, key: int, history: int) -> tuple[bytes, int] | None:
    found = reads.task_row(store._reader, f"task {key}")
    return reads.task_json(store._reader, found, history) if found else None


def told(store: Store, key: int, history: int) -> tuple[bytes, int] | None:
    found = store.task_json(f"task {key}", "", history)
    return (found.json, found.seq) if found else None


@asynchronous
async def test_who_asks_again_is_answered_without_the_file() -> None:
    store = await Store.open(":memory:")
    await store.write(new(1))
    first = store.task_json("task 1", "", 5)
    asked: list[str] = []
    store._reader.set_trace_callback(asked.append)
    assert store.task_json("task 1", "", 5) == first
    assert asked == []
    assert store.task_json("task 1", "somebody else", 5) is None
    without = store.task_json("task 1", "", 0)
    assert without
    assert b"history" not in without.json
    assert asked
    await store.close()


@pytest.mark.parametrize("kind", CHANGES)
@asynchronous
async def test_a_change_is_seen_by_whoever_is_told_of_it(kind: str) -> None:
    store = await Store.open(":memory:")
    await store.write([*new(1), *new(2)])
    seen: list[tuple[bytes, int] | None] = [told(store, 1, 5), told(store, 2, 5)]
    await store.write(CHANGES[kind](1, 9), lambda: seen.append(told(store, 1, 5)))
    assert seen[2] == committed(store, 1, 5) != seen[0]
    assert told(store, 2, 5) == seen[1]
    await store.close()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(1, 3), st.integers(0, 2)),
            st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(1, 3), st.booleans()),
        )
    )
)
@settings(max_examples=100, deadline=None)
def test_a_read_is_always_what_is_committed(steps: list[tuple[str, int, int]]) -> None:
    async def run() -> None:
        store = await Store.open(":memory:")
        store._recent._limit = 2 * Reading(b"", row(1), 1, 0).size  # so that it forgets some
        await store.write([change for key in (1, 2, 3) for change in new(key)])
        for seq, (kind, key, detail) in enumerate(steps, 10):
            if kind == "read":
                assert told(store, key, detail) == committed(store, key, detail)
                continue
            write = store.write(CHANGES[kind](key, seq))
            assert told(store, key, 1) == committed(store, key, 1)
            if detail:
                await write
        await store.close()

    asyncio.run(run())


OWNERS = ("", "other")


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("read"), st.integers(1, 3), st.integers(0, 3)),
            st.tuples(st.sampled_from([*sorted(CHANGES), "much", "again", "fails"]), st.integers(1, 3), st.booleans()),
        ),
        max_size=12,
    )
)
@settings(max_examples=60, deadline=None)
def test_each_owner_reads_what_another_connection_to_the_file_reads(steps: list[tuple[str, int, int]]) -> None:
    async def run(path: Path) -> None:
        store = await Store.open(path)
        other = sqlite3.connect(path, isolation_level=None)

        wrong: list[tuple[str, object, object]] = []

        def compare(history: int) -> None:
            for key in (1, 2, 3):
                stored = reads.task_row(other, f"task {key}")
                for owner in OWNERS:
                    found = store.task_json(f"task {key}", owner, history)
                    mine = stored is not None and stored.owner == owner
                    expected = reads.task_json(other, stored, history) if stored and mine else None
                    seen = found and (found.json, found.seq)
                    if seen != expected:
                        wrong.append((owner, seen, expected))

        keys = {number: number for number in (1, 2, 3)}
        await store.write([change for key in (1, 2, 3) for change in new(key)])
        latest = 3
        for seq, (kind, number, detail) in enumerate(steps, 10):
            key = keys[number]
            if kind == "read":
                compare(detail)
                continue
            if kind == "again":  # the same id, of another owner, under a new key
                latest += 1
                keys[number] = latest
                again = row(latest, OWNERS[latest % 2])._replace(task_id=f"task {number}")
                change = [*retention.forget([key]), changes.create_task(again)]
            elif kind == "much":  # too much for the event loop
                change = [changes.add_message(key, seq, b'{"text":"%b"}' % (b"x" * (1 << 20)))]
            elif kind == "fails":
                change = [*CHANGES["message"](key, seq), changes.add_message(key, 2**70, b"{}")]
            else:
                change = CHANGES[kind](key, seq)
            write = store.write(change, lambda: compare(1))
            if detail:
                await asyncio.wait([write])
                compare(2)
        await store.close()
        other.close()
        assert wrong == []

    with TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder) / "tasks.sqlite3"))


@asynchronous
async def test_a_commit_in_a_thread_is_seen_when_it_is_done(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    await store.write(new(1))
    before = told(store, 1, 5)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    seen: list[tuple[bytes, int] | None] = []
    held = store.write(CHANGES["message"](1, 9), lambda: seen.append(told(store, 1, 5)))
    while not store._writer.in_thread:
        await asyncio.sleep(0)
    assert told(store, 1, 5) == before
    other.execute("ROLLBACK")
    await held
    assert seen == [committed(store, 1, 5)] != [before]
    other.close()
    await store.close()


UNSTORABLE: dict[str, Change] = {
    "number": changes.add_message(1, 2**70, b"{}"),
    "text": changes.create_task(row(9, owner="\ud800")),
}


@pytest.mark.parametrize("much", [False, True], ids=["on the loop", "in the thread"])
@pytest.mark.parametrize("what", UNSTORABLE)
@asynchronous
async def test_a_value_that_sqlite_cannot_take_fails_its_own_job_alone(tmp_path: Path, what: str, much: bool) -> None:
    store = await Store.open(tmp_path / "tasks.sqlite3")
    await store.write(new(1))
    before = told(store, 1, 5)
    bad = store.write([*CHANGES["message"](1, 8), UNSTORABLE[what]])
    good = store.write([changes.add_message(1, 9, b'{"messageId":"%b"}' % (b"9" * (2 << 20 if much else 1)))])
    with pytest.raises(StoreError):
        await asyncio.wait_for(bad, 60)
    await asyncio.wait_for(good, 60)
    after = told(store, 1, 5)
    assert after == committed(store, 1, 5) != before
    assert after is not None
    assert after[0].count(b"messageId") == 2
    await store.close()


def test_what_is_kept_is_bounded_by_its_bytes() -> None:
    size = partial(Reading, seq=1, history=0)
    one = size(b"x" * 1000, row(1)).size
    recent = Recent(limit=3 * one)
    for key in (1, 2, 3):
        recent.keep(size(b"x" * 1000, row(key)))
    assert recent.find("task 1", 0)  # now 2 is the one that nobody asked for the longest
    recent.keep(size(b"x" * 1000, row(4)))
    assert [key for key in (1, 2, 3, 4) if recent.find(f"task {key}", 0)] == [1, 3, 4]
    recent.keep(size(b"x" * 3 * one, row(3)))  # more than there is room for
    assert [key for key in (1, 2, 3, 4) if recent.find(f"task {key}", 0)] == [1, 4]

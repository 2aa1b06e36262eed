"""The store: its file, its refusals, retention, sessions."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from functools import partial
from pathlib import Path

import pytest

from a2a_claude.store import PushConfig, Session, Store, StoreError, TaskRow, changes, schema, writer
from a2a_claude.store.retention import BATCH, GRACE
from a2a_claude.store.rows import Filter
from a2a_claude.store.schema import MIGRATIONS
from tests.lifecycle import asynchronous

NOW = 1_800_000_000_000
COMPLETED, WORKING = 3, 2


def row(store: Store, number: int, state: int = COMPLETED, updated: int = NOW) -> TaskRow:
    return TaskRow(store.next_key(), f"task {number}", "c", "", state, b'{"state":"x"}', b"", 0, NOW, updated, 1)


async def fill(store: Store, *rows: TaskRow) -> None:
    for each in rows:
        await store.write(
            [
                changes.create_task(each),
                changes.add_message(each.key, 1, b"{}"),
                changes.put_artifact(each.key, 0, b'{"artifactId":"a"}'),
                changes.append_parts(each.key, 0, 2, b'{"text":"x"}'),
                changes.put_push_config(each.key, "", NOW, PushConfig(each.task_id, "p", "1.0", b"{}")),
            ]
        )


@asynchronous
async def test_its_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "deep" / "tasks.sqlite3"
    before = os.umask(0)
    try:
        store = await Store.open(path)
        await fill(store, row(store, 1))
    finally:
        os.umask(before)
    try:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
        assert set(modes.values()) == {0o600}
        assert {"tasks.sqlite3", "tasks.sqlite3-wal", "tasks.sqlite3-shm"} < modes.keys()
    finally:
        await store.close()
    assert [each.name for each in path.parent.iterdir() if each.name.endswith("-wal")] == []


@asynchronous
async def test_a_callback_that_fails_keeps_nobody_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ValueError("a bug")

    store = await Store.open(tmp_path / "tasks.sqlite3")
    first, second = store.write([changes.touch_health(1)], fail), store.write([changes.touch_health(2)])
    done, _ = await asyncio.wait({first, second}, timeout=5)
    assert (len(done), "a bug" in caplog.text) == (2, True)
    await store.close()


@asynchronous
async def test_one_server_uses_a_file_at_a_time(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "tasks.sqlite3")
    with pytest.raises(StoreError, match="another server uses it"):
        await Store.open(tmp_path / "tasks.sqlite3")
    await store.close()
    await (await Store.open(tmp_path / "tasks.sqlite3")).close()


@asynchronous
async def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE TABLE of_the_future (x); PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match=r"newer a2a-claude \(.* \d+\): run that version"):
        await Store.open(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("of_the_future",)]
    connection.close()


@asynchronous
async def test_a_file_of_an_older_version_is_brought_to_this_one_or_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    await store.set_session("c", "me", "s")
    await store.close()
    failing = (*MIGRATIONS, "ALTER TABLE sessions ADD COLUMN note TEXT;", "ALTER TABLE missing ADD COLUMN note TEXT;")
    monkeypatch.setattr(schema, "MIGRATIONS", failing)
    with pytest.raises(StoreError, match="missing"):
        await Store.open(path)
    for versions in (MIGRATIONS, failing[:-1]):
        monkeypatch.setattr(schema, "MIGRATIONS", versions)
        store = await Store.open(path)
        found = store.session("c", "me")
        await store.close()
        assert found is not None
        assert found.session_id == "s"


@asynchronous
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    path.write_text("task: 1\n" * 1000)
    with pytest.raises(StoreError, match="no SQLite database: move it away"):
        await Store.open(path)
    assert path.read_text() == "task: 1\n" * 1000


@asynchronous
async def test_a_damaged_file_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    await fill(store, *(row(store, number) for number in range(200)))
    await store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="the file is damaged: stop the server and restore a backup"):
        await Store.open(path)


@asynchronous
async def test_damage_that_a_read_meets_makes_the_server_unready(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    await fill(store, *(row(store, number) for number in range(500)))
    await store.close()
    (root,) = _one(path, "SELECT rootpage FROM sqlite_master WHERE name = 'parts'")
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    store = await Store.open(path)
    await store.check()
    with pytest.raises(StoreError, match="the file is damaged"):
        store.task_json("task 1", "", 1)
    with pytest.raises(StoreError, match="the file is damaged"):
        await store.check()
    await store.close()


def _one(path: Path, sql: str) -> tuple[int]:
    connection = sqlite3.connect(path)
    found: tuple[int] = connection.execute(sql).fetchone()
    connection.close()
    return found


@pytest.mark.parametrize("place", ["file/tasks.sqlite3", "/proc/tasks.sqlite3"])
@asynchronous
async def test_a_place_that_cannot_be_written_is_an_error_that_names_it(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"tasks\.sqlite3: .*set store\.path"):
        await Store.open(tmp_path / place)


@pytest.mark.parametrize("where", ["memory", "file"])
@asynchronous
async def test_a_change_that_fails_does_not_take_its_neighbours_with_it(where: str, tmp_path: Path) -> None:
    store = await Store.open(":memory:" if where == "memory" else tmp_path / "tasks.sqlite3")
    first, second = row(store, 1), row(store, 2)
    again = first._replace(key=store.next_key())
    order: list[int] = []
    writes = [
        store.write([changes.create_task(each)], partial(order.append, each.key)) for each in (first, again, second)
    ]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(each) for each in results] == [type(None), StoreError, type(None)]
    assert order == [first.key, second.key]
    assert store.task("task 1") == first
    assert store.task("task 2") == second
    await store.close()


@asynchronous
async def test_the_log_is_folded_into_the_file_in_a_thread_and_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_CHECKPOINT", 1 << 18)
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    order: list[int] = []
    for number in range(1000):
        last = store.write([changes.create_task(row(store, number))], partial(order.append, number))
        if number % 10 == 0:
            await last
    await last
    assert order == list(range(1000))
    assert path.stat().st_size > 1 << 16
    assert Path(f"{path}-wal").stat().st_size < 1 << 20, "all of it is some 5 MB"
    await store.close()


@pytest.mark.parametrize("size", [1, 2 << 20], ids=["little", "much at once"])
@asynchronous
async def test_a_file_that_another_program_holds_keeps_writes_waiting_and_nothing_else(
    size: int, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    first, second, third = (row(store, number) for number in range(3))
    await store.write([changes.create_task(first)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    order: list[str] = []
    held = store.write([changes.create_task(second), changes.add_message(second.key, 1, b" " * size)])
    held.add_done_callback(lambda _: order.append("held"))
    while store._writer._in_thread is None:
        await asyncio.sleep(0)
    after = store.write([changes.create_task(third)])
    after.add_done_callback(lambda _: order.append("after"))
    waiter = asyncio.ensure_future(_wait(after))
    await asyncio.sleep(0)
    waiter.cancel()
    assert store.task(first.task_id) == first
    assert store.task(second.task_id) is None
    assert not held.done()
    other.execute("ROLLBACK")
    await after
    assert order[:1] == ["held"]
    assert store.task(second.task_id) == second
    assert store.task(third.task_id) == third
    with pytest.raises(asyncio.CancelledError):
        await waiter
    other.close()
    await store.close()


async def _wait(write: asyncio.Future[None]) -> None:
    await write


@asynchronous
async def test_what_was_handed_in_is_committed_before_it_closes(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    writes = [store.write([changes.create_task(row(store, number))]) for number in range(500)]
    await store.close()
    assert all(each.done() and each.exception() is None for each in writes)
    with pytest.raises(StoreError, match="closed"):
        await store.write([changes.touch_health(NOW)])
    store = await Store.open(path)
    assert store.count_by_state() == {COMPLETED: 500}
    assert store.next_key() == 501
    await store.close()


@asynchronous
async def test_a_finished_task_keeps_its_state_whoever_writes(tmp_path: Path) -> None:
    store = await Store.open(":memory:")
    task = row(store, 1)
    await fill(store, task)
    await store.write([changes.set_status(task.key, WORKING, b'{"state":"y"}', b"", 0, NOW + 1, 9)])
    assert store.task("task 1") == task
    await store.close()


@pytest.mark.parametrize(
    ("age", "count", "kept"),
    [
        (0, 0, range(10)),
        (5000, 0, range(5, 10)),
        (0, 3, range(7, 10)),
        (5000, 7, range(5, 10)),
        (9000, 3, range(7, 10)),
        (1, 1, range(9, 10)),
    ],
)
@asynchronous
async def test_retention_deletes_finished_tasks_only_oldest_first(age: int, count: int, kept: range) -> None:
    store = await Store.open(":memory:")
    finished = [row(store, number, updated=NOW - GRACE + 1000 * number) for number in range(10)]
    unfinished = [row(store, number, WORKING, updated=0) for number in (100, 101)]
    await fill(store, *finished, *unfinished)
    # `now` is such that task n finished (10 - n) seconds before the moment from which a finished task may go.
    deleted = await store.prune(age and age + GRACE, count, now=NOW + 10_000 if age != 1 else NOW + 9_000)
    left = {number for number in [*range(10), 100, 101] if store.task(f"task {number}")}
    assert left - {100, 101} == set(kept)
    assert {100, 101} <= left
    assert deleted == 10 - len(kept)
    for table in ("messages", "parts", "artifacts", "push_configs"):
        (rows,) = store._reader.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        assert rows == len(left)
    await store.close()


@asynchronous
async def test_retention_takes_many_tasks_in_small_bites(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "tasks.sqlite3")
    for number in range(2 * BATCH + 5):
        last = store.write([changes.create_task(row(store, number, updated=NOW))])
    await last
    assert await store.prune(0, 3, now=NOW + GRACE + 1) == 2 * BATCH + 2
    assert store.count_by_state() == {COMPLETED: 3}
    await store.close()


@asynchronous
async def test_sessions_belong_to_a_principal_and_a_context(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    store = await Store.open(path)
    assert store.session("c", "alice") is None
    await store.set_session("c", "alice", "one")
    await store.set_session("c", "bob", "two")
    first = store.session("c", "alice")
    assert isinstance(first, Session)
    assert (first.context_id, first.owner, first.session_id) == ("c", "alice", "one")
    await asyncio.sleep(0.002)
    await store.set_session("c", "alice", "one")
    touched = store.session("c", "alice")
    assert touched is not None
    assert touched.created == first.created
    assert touched.accessed > first.accessed
    await store.set_session("c", "alice", "three")
    await store.close()
    store = await Store.open(path)
    replaced = store.session("c", "alice")
    assert replaced is not None
    assert (replaced.session_id, replaced.created >= touched.accessed) == ("three", True)
    await store.delete_session("c", "alice")
    await store.delete_session("c", "alice")
    assert store.session("c", "alice") is None
    kept = store.session("c", "bob")
    assert kept is not None
    await store.delete_sessions_before(kept.accessed)
    assert store.session("c", "bob") == kept
    await store.delete_sessions_before(kept.accessed + 1)
    assert store.session("c", "bob") is None
    await store.close()


@asynchronous
async def test_nothing_that_is_read_scans_a_table() -> None:
    store = await Store.open(":memory:")
    await fill(store, row(store, 1))
    asked: list[str] = []
    store._reader.set_trace_callback(asked.append)
    store.task_json("task 1", "", 10)
    for wanted in (
        Filter(""),
        Filter("", state=WORKING, before=(NOW, 1)),
        Filter("", context_id="c", state=WORKING),
        Filter("", after=NOW),
    ):
        await store.page(wanted)
    await store.prune(GRACE, 0)
    store.push_configs(1)
    store.session("c", "")
    store.interrupted()
    store.count_by_state()
    store._reader.set_trace_callback(None)
    asked = [each for each in asked if each.startswith("SELECT")]
    assert len(asked) > 12
    for sql in asked:
        plan = [each[3] for each in store._reader.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert not [each for each in plan if each.startswith("SCAN") and "INDEX" not in each], (sql, plan)
        if "ORDER BY updated" in sql and "context_id = 'c'" not in sql:
            assert not [each for each in plan if "TEMP B-TREE" in each], (sql, plan)
    await store.close()

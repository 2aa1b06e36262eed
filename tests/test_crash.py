"""A server that is killed at any moment has lost nothing that it told anybody.

A child process serves and calls itself: blocking sends, streams, follow-ups, webhooks, sessions. Everything that a
caller is told it writes to a pipe, after it was told. The test kills it with SIGKILL while it works, opens its store as
the next server would, and looks for every line it had read.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson
import pytest
from a2a.types.a2a_pb2 import GetTaskPushNotificationConfigRequest, GetTaskRequest, TaskPushNotificationConfig

from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.scripted import Scripted
from a2a_claude.store import Store
from tests.lifecycle import Caller, asynchronous, limits, request, serving, state

KILLS = 25
ENDS = ("completed", "failed", "input-required")


async def _serve_and_call(path: Path, pipe: int, seed: int) -> None:
    store = await Store.open(path)
    lifecycle = Lifecycle(Scripted(), store, limits(max_concurrent_tasks=8, max_queued_tasks=1000))
    await lifecycle.start()
    chance = random.Random(seed)  # noqa: S311

    def tell(*fact: Any) -> None:
        # One write per line: a line is in the pipe whole or not at all (pipe(7), PIPE_BUF), or cut at the very end.
        os.write(pipe, orjson.dumps(fact) + b"\n")

    async def call(number: int) -> None:
        caller = Caller(lifecycle, f"caller {number % 3}")
        for turn in range(1000):
            context = f"{seed}.{number}.{turn}"
            script = {
                "chunks": chance.choice((0, 1, 5, 40)),
                "size": chance.choice((8, 5000)),
                "end": chance.choice(ENDS),
            }
            if chance.random() < 0.5:
                push = TaskPushNotificationConfig(url="https://hooks.example.com/", id="hook")
                asked = request("do", context_id=context, script=script, task_push_notification_config=push)
                record = await lifecycle.send(asked, caller.context)
                task = orjson.loads(record.json)
                tell("task", caller.context.user.user_name, task["id"], record.json.decode())
                tell("push", caller.context.user.user_name, task["id"], "hook")
            else:
                async for record in lifecycle.stream(request("do", context_id=context, script=script), caller.context):
                    told = orjson.loads(record.json)
                    task_id = told.get("id") or told["taskId"]
                    tell("event", caller.context.user.user_name, task_id, record.wrapped.decode())
            await store.set_session(context, "", f"session of {context}")
            tell("session", "", context, f"session of {context}")

    await asyncio.gather(*(call(number) for number in range(12)))


def _child(path: Path, pipe: Connection, seed: int) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve_and_call(path, pipe.fileno(), seed))


def _facts(pipe: int, process: multiprocessing.process.BaseProcess, after: int) -> Iterator[list[Any]]:
    """What the child said, killed when it has said `after` lines; a line that the kill has cut was told to nobody."""
    content = b""
    killed = False
    while chunk := os.read(pipe, 1 << 20):
        content += chunk
        if process.pid and not killed and content.count(b"\n") >= after:
            os.kill(process.pid, signal.SIGKILL)
            killed = True
    for line in content.split(b"\n")[:-1]:
        yield orjson.loads(line)


async def _check(path: Path, facts: list[list[Any]]) -> dict[str, int]:
    """Looks for every fact in the store, as the next server sees it; returns how many of each kind were there."""
    seen: dict[str, int] = {}
    async with serving(path=path) as lifecycle:
        events: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for kind, owner, subject, content in facts:
            seen[kind] = seen.get(kind, 0) + 1
            caller = Caller(lifecycle, owner)
            match kind:
                case "task":
                    record = await lifecycle.get(GetTaskRequest(id=subject), caller.context)
                    assert record.json.decode() == content, "byte for byte"
                case "push":
                    wanted = GetTaskPushNotificationConfigRequest(task_id=subject, id=content)
                    await lifecycle.on_get_task_push_notification_config(wanted, caller.context)
                case "session":
                    session = lifecycle.store.session(subject, owner)
                    assert session is not None
                    assert session.session_id == content
                case _:
                    events.setdefault((owner, subject), []).append(orjson.loads(content))
        for (owner, task_id), told in events.items():
            _check_events(await Caller(lifecycle, owner).get(task_id), told)
        assert not {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"} & lifecycle.stats().tasks.keys()
    return seen


def _check_events(task: dict[str, Any], told: list[dict[str, Any]]) -> None:
    """Every event of a stream is in its task; what was told to have ended ended so, what had not has failed."""
    assert task["history"][0] == told[0]["task"]["history"][0]
    parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    shown = [part for each in told if "artifactUpdate" in each for part in each["artifactUpdate"]["artifact"]["parts"]]
    assert parts[: len(shown)] == shown
    last = [each["statusUpdate"]["status"] for each in told if "statusUpdate" in each][-1:]
    if last and state({"status": last[0]}) in ENDS:
        assert task["status"] == last[0]
    elif state(task) == "failed" and "reason" in task.get("metadata", {}):
        assert task["metadata"] == {"reason": "server_restarted"}


@pytest.mark.slow
def test_nothing_that_was_told_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    chance = random.Random(3)  # noqa: S311
    # Each server is forked from a process that has imported everything and runs no thread.
    servers = multiprocessing.get_context("forkserver")
    servers.set_forkserver_preload([__name__])
    everything: list[list[Any]] = []
    for seed in range(KILLS):
        reading, writing = servers.Pipe(duplex=False)
        process = servers.Process(target=_child, args=(path, writing, seed), daemon=True)
        process.start()
        writing.close()
        with reading:
            facts = list(_facts(reading.fileno(), process, chance.randrange(1, 400)))
        process.join()
        assert process.exitcode == -signal.SIGKILL
        everything += facts
        seen = asyncio.run(_check(path, facts))
        assert sum(seen.values()) == len(facts) > 0
    # The tasks of all the lives before are still what they were told to be.
    seen = asyncio.run(_check(path, everything))
    assert seen.keys() == {"task", "push", "event", "session"}


@asynchronous
async def test_the_check_itself_notices_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "tasks.sqlite3"
    async with serving(path=path) as lifecycle:
        task = await Caller(lifecycle, "alice").task()
    other = orjson.dumps(task).decode().replace("hello", "hallo")
    for fact in (["task", "alice", task["id"], other], ["session", "", "c", "s"], ["push", "alice", task["id"], "p"]):
        with pytest.raises(Exception, match=r"byte for byte|None|no push"):
            await _check(path, [fact])

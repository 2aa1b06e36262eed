"""ListTasks: filters, order, pages, and refusals that name the field."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError
from google.protobuf.timestamp_pb2 import Timestamp

from tests.lifecycle import Caller, asynchronous, serving, state, texts


@asynchronous
async def test_the_newest_status_comes_first_and_pages_cover_everything_once() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        made = [(await caller.task(f"{number}"))["id"] for number in range(7)]
        pages, token = [], ""
        while True:
            page = await caller.list(page_size=3, page_token=token)
            assert (page["pageSize"], page["totalSize"]) == (3, 7)
            pages.append([each["id"] for each in page["tasks"]])
            token = page["nextPageToken"]
            if not token:
                break
        assert [len(each) for each in pages] == [3, 3, 1]
        assert [each for page in pages for each in page] == made[::-1]


@asynchronous
async def test_a_task_that_changes_moves_to_the_top() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        first = await caller.task(script={"end": "input-required"})
        second = await caller.task()
        await asyncio.sleep(0.002)
        await caller.task(task_id=first["id"], script={"end": "input-required"})
        assert [each["id"] for each in (await caller.list())["tasks"]] == [first["id"], second["id"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["three", "two", "one"]),
        ({"context_id": "c"}, ["two", "one"]),
        ({"context_id": "none"}, []),
        ({"status": "TASK_STATE_INPUT_REQUIRED"}, ["two"]),
        ({"status": "TASK_STATE_COMPLETED", "context_id": "c"}, ["one"]),
        ({"status": "TASK_STATE_WORKING"}, []),
    ],
)
@asynchronous
async def test_filters(options: dict[str, Any], expected: list[str]) -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        await caller.task("one", context_id="c")
        await caller.task("two", context_id="c", script={"end": "input-required"})
        await caller.task("three")
        page = await caller.list(**options)
        assert [each["history"][0]["parts"][0]["text"] for each in page["tasks"]] == expected
        assert page["totalSize"] == len(expected)


@asynchronous
async def test_the_timestamp_filter_includes_its_moment() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        older = await caller.task()
        await asyncio.sleep(0.002)
        newer = await caller.task()
        moment = Timestamp()
        moment.FromJsonString(newer["status"]["timestamp"])
        assert [each["id"] for each in (await caller.list(status_timestamp_after=moment))["tasks"]] == [newer["id"]]
        moment.nanos += 1
        assert (await caller.list(status_timestamp_after=moment))["tasks"] == []
        moment.FromJsonString(older["status"]["timestamp"])
        assert (await caller.list(status_timestamp_after=moment))["totalSize"] == 2


@asynchronous
async def test_artifacts_and_history_are_shown_as_asked() -> None:
    async with serving() as lifecycle:
        caller = Caller(lifecycle)
        task = await caller.task(script={"chunks": 2})
        assert "artifacts" not in (await caller.list())["tasks"][0]
        (shown,) = (await caller.list(include_artifacts=True))["tasks"]
        assert shown == task
        assert len(texts(shown)) == 2
        (bare,) = (await caller.list(history_length=0))["tasks"]
        assert bare.keys() == {"id", "contextId", "status"}
        assert state(bare) == "completed"


def _token(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"page_size": 0}, "pageSize"),
        ({"page_size": 101}, "pageSize"),
        ({"page_size": -1}, "pageSize"),
        ({"history_length": -1}, "historyLength"),
        ({"status": 99}, "status"),
        ({"page_token": "nonsense"}, "pageToken"),
        ({"page_token": "é"}, "pageToken"),
        ({"page_token": _token("1.2.3")}, "pageToken"),
        ({"page_token": _token("1.-2")}, "pageToken"),
        ({"page_token": _token("1")}, "pageToken"),
        ({"page_token": _token(" 1.2")}, "pageToken"),
        ({"page_token": _token(f"{2**70}.1")}, "pageToken"),
    ],
    ids=str,
)
@asynchronous
async def test_what_cannot_be_is_refused_by_name(options: dict[str, Any], field: str) -> None:
    async with serving() as lifecycle:
        with pytest.raises(InvalidParamsError, match=field) as refusal:
            await Caller(lifecycle).list(**options)
        assert refusal.value.data is not None
        assert refusal.value.data["errors"][0]["field"] == field

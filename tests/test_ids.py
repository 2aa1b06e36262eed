"""Ids are of one's own: to a thread, and to a process that was forked."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from a2a_claude.a2a.ids import new_id, new_request_id


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def some_ids(_: int = 0) -> list[str]:
    return [each for _ in range(5000) for each in (new_id(), new_request_id())]


def test_threads_get_ids_of_their_own(hurried: None) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = [each for ids in pool.map(some_ids, range(4)) for each in ids]
    assert len(set(made)) == len(made) == 40_000


def test_a_forked_process_does_not_repeat_what_its_parent_makes() -> None:
    new_request_id()  # the pool is there before the fork
    with multiprocessing.get_context("fork").Pool(1) as pool:
        made = pool.apply(some_ids)
    assert not set(made) & set(some_ids())


def test_an_id_is_a_uuid_of_version_7() -> None:
    assert {UUID(new_id()).version for _ in range(100)} == {7}

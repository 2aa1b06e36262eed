"""Lines of the log: three forms, ids, and nothing secret in any of them."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.observe import logs
from a2a_claude.observe.redaction import REDACTED, Redactor

logger = logging.getLogger("a2a_claude.a2a.engine")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root, own = logging.root, logging.getLogger("a2a_claude")
    before = (root.handlers[:], root.level, own.level)
    yield
    root.handlers[:], root.level, own.level = before
    logging.captureWarnings(False)
    own.manager._clear_cache()  # type: ignore[attr-defined]


def lines(form: logs.Form, level: str = "debug", secrets: tuple[str, ...] = ()) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, form, Redactor(secrets), stream)
    return stream


def test_a_json_line_has_the_ids_the_extra_fields_and_the_trace() -> None:
    stream = lines("json")
    with logs.bound(request_id="r1", task_id="t1", context_id=""):
        try:
            raise ValueError("no\nluck")
        except ValueError:
            logger.exception("Task %s: it failed", "t1", extra={"attempt": 2})
    (line,) = stream.getvalue().splitlines()
    content = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", content.pop("time"))
    assert "ValueError: no\nluck" in content.pop("error")
    assert content == {
        "level": "error",
        "logger": "a2a-claude:a2a.engine",
        "message": "Task t1: it failed",
        "request_id": "r1",
        "task_id": "t1",
        "attempt": 2,
    }


def test_a_text_line_has_the_form_of_the_typescript_server() -> None:
    stream = lines("text")
    with logs.bound(task_id="t1"):
        logger.warning("careful")
    logging.getLogger("a2a_claude").info("plain")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r'\[\S+Z\] \[WARN\] \[a2a-claude:a2a\.engine\] careful \{"task_id": "t1"\}', first)
    assert re.fullmatch(r"\[\S+Z\] \[INFO\] \[a2a-claude\] plain", second)


def test_every_line_for_journald_has_the_priority() -> None:
    stream = lines("journald")
    logger.debug("d")
    logger.info("i")
    logger.warning("w")
    try:
        raise KeyError("k")
    except KeyError:
        logger.exception("two\nlines")
    found = stream.getvalue().splitlines()
    assert [line[:3] for line in found[:3]] == ["<7>", "<6>", "<4>"]
    assert len(found) > 6
    assert {line[:3] for line in found[3:]} == {"<3>"}


@pytest.mark.parametrize(("level", "told"), [("debug", 4), ("info", 3), ("warn", 2), ("warning", 2), ("error", 1)])
def test_the_level_of_the_config_decides(level: str, told: int) -> None:
    stream = lines("json", level)
    for method in (logger.debug, logger.info, logger.warning, logger.error):
        method("x")
    assert len(stream.getvalue().splitlines()) == told


def test_other_packages_are_heard_from_warnings_on() -> None:
    stream = lines("json")
    logging.getLogger("httpx").info("GET https://example.com")
    logging.getLogger("a2a.server").debug("noise")
    logging.getLogger("httpcore").warning("something")
    assert [json.loads(line)["logger"] for line in stream.getvalue().splitlines()] == ["httpcore"]


def test_ids_belong_to_the_asyncio_task_that_bound_them() -> None:
    stream = lines("json")

    async def one(name: str) -> None:
        logs.bind(request_id=name)
        await asyncio.sleep(0)
        logger.info(name)

    async def both() -> None:
        await asyncio.gather(one("a"), one("b"))
        logger.info("none")

    asyncio.run(both())
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(each["message"], each.get("request_id")) for each in found] == [("a", "a"), ("b", "b"), ("none", None)]


def test_a_wrong_call_of_the_logger_loses_no_line() -> None:
    stream = lines("json")
    logger.info("%d of %d", "x")
    assert "%d of %d" in json.loads(stream.getvalue())["message"]


def test_auto_is_journald_only_when_this_stream_is_the_journals(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        found = os.fstat(stream.fileno())
        ours = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert logs.chosen_form("auto", ours, stream) == "journald"
        assert logs.chosen_form("auto", {"JOURNAL_STREAM": "1:2"}, stream) == "json"
        assert logs.chosen_form("auto", {}, stream) == "json"
        assert logs.chosen_form("text", ours, stream) == "text"
        assert logs.chosen_form("json", ours, stream) == "json"
    parent, child = os.openpty()
    with os.fdopen(child, "w") as terminal:
        assert logs.chosen_form("auto", {}, terminal) == "text"
    os.close(parent)


@pytest.mark.parametrize("form", ["json", "text", "journald"])
def test_no_form_lets_a_secret_through(form: logs.Form) -> None:
    stream = lines(form, secrets=("correct horse battery",))
    try:
        raise RuntimeError("password=hunter2000 in the cause")
    except RuntimeError:
        logger.exception(
            "sent %s with the correct horse battery",
            "Authorization: Bearer abcdefgh12345678",
            extra={"headers": {"x-api-key": "zyxwvuts"}, "list": ["--token qwertyuiop"]},
        )
    text = stream.getvalue()
    for secret in ("correct horse", "abcdefgh12345678", "hunter2000", "zyxwvuts", "qwertyuiop"):
        assert secret not in text
    assert text.count(REDACTED) >= 5


# --- Redaction --------------------------------------------------------------------------------------------------------

SECRET = "S3cr3tS3cr3tS3cr3t"


@pytest.mark.parametrize(
    "text",
    [
        f"DB_PASSWORD={SECRET}",
        f"password: {SECRET}",
        f'{{"api_key": "{SECRET}"}}',
        f'{{\\"api_key\\": \\"{SECRET}\\"}}',
        f"access_token = '{SECRET} and more'",
        f'client_secret="{SECRET} and more"',
        f"Authorization: Bearer {SECRET}",
        f"authorization: basic {SECRET}",
        f"Bearer {SECRET}",
        f"https://user:{SECRET}@example.com/x",
        f"https://example.com/?token={SECRET}&a=b",
        f"curl --token {SECRET} https://example.com",
        f"curl --api-key={SECRET}",
        f"sk-ant-api03-{SECRET}{SECRET}{SECRET}",
        f"ghp_{SECRET}{SECRET}"[:40],
        f"GITHUB_TOKEN={SECRET}",
    ],
)
def test_a_credential_is_known_by_its_form_or_its_name(text: str) -> None:
    redacted = Redactor().text(text)
    assert SECRET not in redacted
    assert "and more" not in redacted
    assert REDACTED in redacted


@pytest.mark.parametrize(
    "text",
    [
        "Task 5f0c: the executor failed",
        "key: id",
        "tokens: 1200",
        "Listening on http://127.0.0.1:3030",
        "max_tokens=4096",
        "password: none",
        "the token is not valid",
        "",
    ],
)
def test_prose_is_left_as_it_is(text: str) -> None:
    assert Redactor().text(text) == text


def test_a_value_is_redacted_by_the_names_of_its_members() -> None:
    value = {"a": [{"password": {"deep": "x"}, "ok": 1}], "token": "x", "none": None, "b": True, "object": Path("/x")}
    assert Redactor().value(value) == {
        "a": [{"password": REDACTED, "ok": 1}],
        "token": REDACTED,
        "none": None,
        "b": True,
        "object": "/x",
    }


def test_a_known_secret_goes_whatever_stands_around_it_and_a_short_one_does_not() -> None:
    redactor = Redactor(["longsecret1", "longsecret1-and-longer", "abc"])
    assert redactor.text("xlongsecret1-and-longerx longsecret1y abc") == f"x{REDACTED}x {REDACTED}y abc"


@given(st.text(max_size=200))
def test_redacting_any_text_ends_and_is_stable(text: str) -> None:
    redactor = Redactor(["known-secret"])
    once = redactor.text(text)
    assert redactor.text(once) == once

"""The parts of a message as a prompt."""

from __future__ import annotations

import asyncio
import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Part
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from hypothesis import given
from hypothesis import strategies as st

from a2a_claude.claude.content import Fetched, FileUnavailable, Prompts, outputs
from a2a_claude.claude.task_folders import TaskFolders, safe_name
from tests.lifecycle import limits

PNG = b"\x89PNG\r\n"


def blocks(workspace: Path, *parts: Part, **how: Any) -> list[dict[str, Any]]:
    prompts = Prompts(TaskFolders(workspace), limits(**how.pop("limits", {})), how.pop("files", None))
    message = Message(message_id="m", parts=parts)
    prompts.check(message)
    return asyncio.run(prompts.blocks(message, "task-1"))


def data(value: Any) -> Part:
    return Part(data=ParseDict(value, Value()))


def test_texts_are_joined_and_data_is_json(tmp_path: Path) -> None:
    found = blocks(tmp_path, Part(text="one"), Part(text="two"), data({"ü": [1, None, True]}))
    assert found == [{"type": "text", "text": 'one\ntwo\n{"ü": [1, null, true]}'}]


def test_an_image_is_an_image_block_in_its_place(tmp_path: Path) -> None:
    found = blocks(tmp_path, Part(text="see"), Part(raw=PNG, media_type="image/png"), Part(text="there"))
    assert [each["type"] for each in found] == ["text", "image", "text"]
    assert found[1]["source"]["media_type"] == "image/png"
    assert b64decode(found[1]["source"]["data"]) == PNG


@pytest.mark.parametrize(
    ("name", "media_type", "text"),
    [
        ("a.txt", "", "plain"),
        ("a.json", "application/json", "{}"),
        ("x", "text/csv; charset=utf-8", "1,2"),
        ("m.md", "", "é"),
    ],
)
def test_a_text_file_is_in_the_prompt(tmp_path: Path, name: str, media_type: str, text: str) -> None:
    [found] = blocks(tmp_path, Part(raw=text.encode(), filename=name, media_type=media_type))
    assert found["text"] == f'<file name="{name}">\n{text}\n</file>'


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.pdf", b"%PDF", "application/pdf"),
        ("a.txt", b"\xff\xfe", "text/plain"),
        ("big.txt", b"x" * 200_000, "text/plain"),
    ],
)
def test_any_other_file_is_put_into_the_folder_of_the_task(
    tmp_path: Path, name: str, content: bytes, media_type: str
) -> None:
    [found] = blocks(tmp_path, Part(raw=content, filename=f"../../{name}", media_type=media_type))
    path = tmp_path / ".a2a" / "task-1" / name
    assert str(path) in found["text"]
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / ".a2a" / ".gitignore").read_text() == "*\n"


def test_files_of_one_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    part = Part(raw=b"\0", filename="a.bin")
    blocks(tmp_path, part, part, part)
    names = sorted(each.name for each in (tmp_path / ".a2a" / "task-1").iterdir())
    assert names == ["1-a.bin", "2-a.bin", "a.bin"]


def test_a_link_in_the_workspace_is_not_followed(tmp_path: Path) -> None:
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    os.symlink(elsewhere, workspace / ".a2a")
    with pytest.raises(FileUnavailable, match="could not be put into the workspace"):
        blocks(workspace, Part(raw=b"\0"))
    assert list(elsewhere.iterdir()) == []


class Remote:
    def check(self, url: str) -> None:
        if "never" in url:
            raise FileUnavailable("its URL leads nowhere")

    async def get(self, url: str, most: int) -> Fetched:
        return Fetched(b"a,b" if "small" in url else b"x" * (most + 1), "text/csv")


def test_a_file_by_url_is_fetched_where_the_config_allows_it(tmp_path: Path) -> None:
    allowed = {"fetch_file_urls": True}
    part = Part(url="https://example.org/small.csv?x#y")
    [found] = blocks(tmp_path, part, files=Remote(), limits=allowed)
    assert found["text"] == '<file name="small.csv">\na,b\n</file>'
    with pytest.raises(FileUnavailable, match="File 1 has more than"):
        blocks(tmp_path, Part(url="https://example.org/large"), files=Remote(), limits=allowed)
    with pytest.raises(InvalidParamsError, match=r"parts\[0\]: the file is not available: its URL leads nowhere"):
        blocks(tmp_path, Part(url="https://example.org/never"), files=Remote(), limits=allowed)


def test_files_by_url_bring_no_more_than_a_message_could_bring_itself(tmp_path: Path) -> None:
    asked: list[int] = []

    class Sixty(Remote):
        async def get(self, url: str, most: int) -> Fetched:
            asked.append(most)
            if most < 60:
                raise FileUnavailable(f"it has more than {most} bytes")
            return Fetched(b"x" * 60, "text/plain")

    bounds = {"fetch_file_urls": True, "max_file_bytes": 80, "max_body_bytes": 100}
    part = Part(url="https://example.org/a")
    with pytest.raises(FileUnavailable, match="File 2 is not available: it has more than 40 bytes"):
        blocks(tmp_path, part, part, files=Sixty(), limits=bounds)
    assert asked == [80, 40]


@pytest.mark.parametrize("how", [{}, {"files": Remote()}, {"limits": {"fetch_file_urls": True}}])
def test_a_file_by_url_is_refused_elsewhere(tmp_path: Path, how: dict[str, Any]) -> None:
    with pytest.raises(ContentTypeNotSupportedError):
        blocks(tmp_path, Part(text="see"), Part(url="https://example.org/"), **how)


@pytest.mark.parametrize("parts", [[], [Part(text=" \n")], [Part()], [Part(text="x"), Part()]])
def test_a_message_that_says_nothing_is_refused(tmp_path: Path, parts: list[Part]) -> None:
    with pytest.raises(InvalidParamsError, match=r"message\.parts"):
        blocks(tmp_path, *parts)


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParamsError, match="11 bytes, 10 are taken"):
        blocks(tmp_path, Part(raw=b"x" * 11), limits={"max_file_bytes": 10})


@pytest.mark.parametrize(
    ("accepted", "structured", "expected"),
    [
        ([], False, (True, True)),
        (["text"], True, (True, False)),
        (["text/plain; charset=utf-8"], False, (True, False)),
        (["application/json"], True, (False, True)),
        (["*/*"], True, (True, True)),
        (["image/png", "TEXT/*"], False, (True, False)),
        (["application/json"], False, None),
        (["image/png"], True, None),
    ],
)
def test_accepted_modes_are_what_the_agent_can_give(
    accepted: list[str], structured: bool, expected: tuple[bool, bool] | None
) -> None:
    if expected is None:
        with pytest.raises(ContentTypeNotSupportedError):
            outputs(accepted, structured=structured)
    else:
        found = outputs(accepted, structured=structured)
        assert (found.text, found.data) == expected


@pytest.mark.parametrize(
    ("accepted", "card", "given"),
    [
        (["image/png"], ["image/png"], True),
        (["image/*"], ["image/png"], True),
        (["image/png"], ["image/*"], True),
        (["image/png"], ["application/pdf"], False),
        (["image/png"], [], False),
    ],
)
def test_files_that_the_card_names_are_something_to_accept(accepted: list[str], card: list[str], given: bool) -> None:
    if given:
        found = outputs(accepted, structured=False, files=card)
        assert (found.text, found.takes("image/png"), found.takes("text/plain")) == (False, True, False)
    else:
        with pytest.raises(ContentTypeNotSupportedError, match="this agent gives text/plain"):
            outputs(accepted, structured=False, files=card)


@given(st.text(max_size=300))
def test_a_file_name_is_one_plain_name(name: str) -> None:
    found = safe_name(name, 3)
    assert found
    assert len(found.encode()) <= 200
    assert not set(found) & set('/\\\0\n"<> ')
    assert not found.startswith((".", "-"))

"""Files for the caller: what is put into the folder of a task and nothing else, and how long its folder lives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Part

from a2a_claude.claude.content import Outputs
from a2a_claude.claude.output_files import Found, OutputFiles, promised, wanted
from a2a_claude.claude.task_folders import TaskFolders
from a2a_claude.observe.redaction import Redactor
from tests.claude_turns import room
from tests.fake_transport import init, result
from tests.lifecycle import Caller, asynchronous, limits, request, state
from tests.support import make_agent

TASK = "11111111-2222-4333-8444-555555555555"


def make(workspace: Path, outputs: Outputs = Outputs(), notes: Path | None = None, **bounds: int) -> OutputFiles:  # noqa: B008
    redactor = Redactor(["a secret of the server"])
    return OutputFiles(TaskFolders(workspace, notes), TASK, limits(**bounds), outputs, redactor.known_spans)


def out(workspace: Path) -> Path:
    return workspace / ".a2a" / TASK / "out"


def test_the_files_in_the_folder_become_parts_and_claude_is_told_where(tmp_path: Path) -> None:
    files = make(tmp_path)
    assert str(out(tmp_path)) in files.open()
    (out(tmp_path) / "b.md").write_text("# é")
    (out(tmp_path) / "a.png").write_bytes(b"\x89PNG")
    (out(tmp_path) / "c").write_bytes(b"\0\1")
    (out(tmp_path) / "d.unheard-of").write_text("words")
    (out(tmp_path) / "e.tar.gz").write_bytes(b"")
    found = files.collect()
    assert found.left_out == []
    assert [(each.filename, each.media_type) for each in found.parts] == [
        ("a.png", "image/png"),
        ("b.md", "text/markdown"),
        ("c", "application/octet-stream"),
        ("d.unheard-of", "text/plain"),
        ("e.tar.gz", "application/gzip"),
    ]
    assert found.parts[0].raw == b"\x89PNG"
    event = found.event()
    assert (event.artifact.name, event.append, event.last_chunk) == ("files", False, True)


def test_a_character_on_the_border_of_the_sample_makes_no_text_binary(tmp_path: Path) -> None:
    files = make(tmp_path)
    files.open()
    (out(tmp_path) / "text").write_bytes(b"x" * (64 * 1024 - 1) + "é".encode() + b"x")
    assert [each.media_type for each in files.collect().parts] == ["text/plain"]


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def inner_link(path: Path) -> None:
    (path.parent.parent / "target").write_text("x")
    path.symlink_to("../target")


def hard_link(path: Path) -> None:
    secret = path.parent.parent / "tasks.db"
    secret.write_text("x")
    os.link(secret, path)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("x")


def secret(path: Path) -> None:
    path.write_bytes(b"\0\xff a secret of the server")


def large(path: Path) -> None:
    path.write_bytes(b"x" * 101)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


HOSTILE: list[tuple[Callable[[Path], None], str]] = [
    (link, "not_a_file"),
    (inner_link, "not_a_file"),
    (hard_link, "not_a_file"),
    (folder, "not_a_file"),
    (os.mkfifo, "not_a_file"),
    (lambda path: os.mknod(path, 0o140600), "not_a_file"),
    (secret, "secret"),
    (large, "too_large"),
    (sparse, "too_large"),
]


@pytest.mark.parametrize(("plant", "reason"), HOSTILE)
def test_what_is_no_plain_file_of_the_agent_stays_where_it_is(
    tmp_path: Path, plant: Callable[[Path], None], reason: str
) -> None:
    files = make(tmp_path, max_file_bytes=100, max_body_bytes=100)
    files.open()
    plant(out(tmp_path) / "x")
    found = files.collect()
    assert (found.parts, found.left_out) == ([], [{"name": "x", "reason": reason}])


@pytest.mark.parametrize("level", [".a2a", TASK, "out"])
def test_a_folder_that_was_replaced_by_a_link_is_not_entered(tmp_path: Path, level: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    out(elsewhere).mkdir(parents=True)
    (out(elsewhere) / "precious").write_text("x")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    notes = tmp_path / "notes"
    files = make(workspace, notes=notes)
    files.open()
    path = next(each for each in (out(workspace), *out(workspace).parents) if each.name == level)
    path.rename(tmp_path / "moved")
    target = {".a2a": elsewhere / ".a2a", TASK: elsewhere / ".a2a" / TASK, "out": out(elsewhere)}[level]
    path.symlink_to(target)
    assert files.collect().parts == []
    TaskFolders(workspace, notes).tidy(TASK)
    TaskFolders(workspace, notes).remove(TASK)
    assert (out(elsewhere) / "precious").exists()


def test_folders_however_deep_are_removed(tmp_path: Path) -> None:
    folders = TaskFolders(tmp_path, tmp_path / "notes")
    folders.make_out(TASK)
    at = os.open(out(tmp_path), os.O_RDONLY)
    for number in range(1500):
        os.mkdir("d", dir_fd=at)
        os.symlink("/", "link", dir_fd=at)
        os.mkdir(f"beside{number}", dir_fd=at)
        at, before = os.open("d", os.O_RDONLY, dir_fd=at), at
        os.close(before)
    os.close(at)
    folders.remove(TASK)
    assert list((tmp_path / ".a2a").iterdir()) == [tmp_path / ".a2a" / ".gitignore"]
    assert folders.noted() == []


def test_a_secret_in_a_name_is_not_told(tmp_path: Path) -> None:
    files = make(tmp_path)
    files.open()
    (out(tmp_path) / "a secret of the server.txt").write_text("x")
    assert files.collect() == Found(left_out=[{"name": "", "reason": "secret"}])


def test_no_more_is_handed_out_than_a_message_may_hold(tmp_path: Path) -> None:
    files = make(tmp_path, max_file_bytes=60, max_body_bytes=100, max_parts=2)
    files.open()
    for name, size in (("a", 60), ("b", 60), ("c", 40), ("d", 0)):
        (out(tmp_path) / name).write_bytes(b"x" * size)
    found = files.collect()
    assert [each.filename for each in found.parts] == ["a", "c"]
    assert [tuple(each.values()) for each in found.left_out] == [("b", "too_large"), ("d", "too_many")]


def test_a_caller_gets_the_types_that_it_takes_and_claude_knows_them(tmp_path: Path) -> None:
    files = make(tmp_path, Outputs(modes=("text/plain", "image/*")))
    assert "takes text/plain, image/* only" in files.open()
    (out(tmp_path) / "a.png").write_bytes(b"\x89PNG")
    (out(tmp_path) / "b.pdf").write_bytes(b"%PDF")
    found = files.collect()
    assert [each.filename for each in found.parts] == ["a.png"]
    assert found.left_out == [{"name": "b.pdf", "reason": "not_accepted"}]


def test_what_an_earlier_turn_handed_out_is_not_sent_again_unless_it_changed(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.open()
    for name in ("same", "changed"):
        (out(tmp_path) / name).write_text("one")
    assert len(first.collect().parts) == 2
    second = make(tmp_path)
    second.open()
    (out(tmp_path) / "changed").write_text("two")
    (out(tmp_path) / "new").write_text("three")
    assert [each.filename for each in second.collect().parts] == ["changed", "new"]


def test_names_that_are_no_unicode_are_shown_as_well_as_can_be(tmp_path: Path) -> None:
    files = make(tmp_path)
    files.open()
    Path(os.fsdecode(os.fsencode(out(tmp_path)) + b"/\xff.txt")).write_text("x")
    assert files.collect().event().artifact.parts[0].filename == "\ufffd.txt"


def test_a_workspace_that_cannot_be_written_has_no_folder() -> None:
    files = make(Path("/sys"))  # where root makes no folder either
    assert files.open() == ""
    assert files.collect().parts == []


@pytest.mark.parametrize(
    ("claude", "features", "expected"),
    [
        ({}, {}, True),
        ({}, {"outputFiles": False}, False),
        ({"permissionMode": "plan"}, {}, False),
        ({"disallowedTools": ["Write", "Bash"]}, {}, False),
        ({"disallowedTools": ["Write"]}, {}, True),
    ],
)
def test_claude_is_told_of_the_folder_where_it_can_write(
    claude: dict[str, Any], features: dict[str, Any], expected: bool
) -> None:
    document = {
        "agentCard": {"defaultOutputModes": ["text", "image/png"]},
        "claude": {"workingDirectory": "/w", **claude},
        "features": features,
    }
    config = make_agent(document).config
    assert wanted(config) is expected
    assert promised(config) == (("image/png",) if expected else ())


def test_an_empty_folder_goes_with_its_turn_and_a_full_one_stays(tmp_path: Path) -> None:
    folders = TaskFolders(tmp_path, tmp_path / "notes")
    folders.make_out("empty")
    folders.make_out("full")
    folders.place("full", "a.pdf", b"%PDF")
    for task in ("empty", "full", "unknown"):
        folders.tidy(task)
    assert sorted(each.name for each in (tmp_path / ".a2a").iterdir()) == [".gitignore", "full"]
    assert folders.noted() == ["full"]
    folders.remove("full")
    assert [each.name for each in (tmp_path / ".a2a").iterdir()] == [".gitignore"]
    assert folders.noted() == []


@asynchronous
async def test_the_folder_of_a_task_that_is_not_kept_any_more_goes_and_no_other(tmp_path: Path) -> None:
    notes, workspace = tmp_path / "notes", tmp_path / "workspace"
    workspace.mkdir()
    folders = TaskFolders(workspace, notes)
    for task in ("gone", "kept"):
        folders.place(task, "a", b"x")
    TaskFolders(workspace).place("of-another-agent", "a", b"x")
    turns = [[init(), result("ok")], [init(), result("ok")]]
    async with room(*turns, workspace=workspace, notes=notes, known=lambda task: task == "kept") as served:
        await Caller(served.lifecycle).task()
    assert sorted(each.name for each in (workspace / ".a2a").iterdir()) == [".gitignore", "kept", "of-another-agent"]


@asynchronous
async def test_files_of_the_message_outlive_its_turn(tmp_path: Path) -> None:
    asked = request("look at it")
    asked.message.parts.append(Part(raw=b"%PDF", filename="paper.pdf"))
    async with room([init(), result("seen")], workspace=tmp_path) as served:
        caller = Caller(served.lifecycle)
        record = await served.lifecycle.send(asked, caller.context)
        [task] = (await caller.list())["tasks"]
        assert state(task) == "completed", record
        assert [each.name for each in (tmp_path / ".a2a" / task["id"]).iterdir()] == ["paper.pdf"]

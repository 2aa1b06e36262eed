"""`memory`: Claude has it by default and where it reads the workspace, and no file of a user is lost."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.memory import Memory, lay_out
from a2a_claude.claude.session import OptionsError
from a2a_claude.claude.sessions import Pool
from tests.claude_support import make_processes, require_cli, turn
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.support import make_agent

SKILL = "---\nname: release-notes\ndescription: Writes release notes from a git log.\n---\nUse the imperative.\n"
PROJECT = {"settingSources": ["project"]}


class Place:
    """An agent's folders, and the files that its compiled config ships."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.own, shipped = root / "workspace", root / "state" / "claude", root / "shipped"
        for each in (self.workspace, shipped / "release-notes" / "references"):
            each.mkdir(parents=True)
        self.text = shipped / "INSTRUCTIONS.md"
        self.text.write_text("Always greet in Esperanto.\n")
        (shipped / "release-notes" / "SKILL.md").write_text(SKILL)
        (shipped / "release-notes" / "references" / "style.md").write_text("Short.")
        self.files = {
            "memory/INSTRUCTIONS.md": self.text,
            "memory/skills/release-notes/SKILL.md": shipped / "release-notes" / "SKILL.md",
            "memory/skills/release-notes/references/style.md": shipped / "release-notes" / "references" / "style.md",
        }
        self.skill = shipped / "release-notes"

    def lay_out(self, claude: dict[str, Any] | None = None, **memory: Any) -> Memory:
        document = {"claude": {"workingDirectory": str(self.workspace), **(claude or {})}, "memory": memory}
        return lay_out(make_agent(document).config, self.files, self.own)

    def whole(self, claude: dict[str, Any] | None = None, **more: Any) -> Memory:
        both = {"instructions": "memory/INSTRUCTIONS.md", "skills": ["memory/skills/release-notes"]}
        return self.lay_out(claude, **both, **more)

    @property
    def in_workspace(self) -> set[str]:
        return {each.relative_to(self.workspace).as_posix() for each in self.workspace.rglob("*") if each.is_file()}


ALL = {"CLAUDE.md", ".claude/skills/release-notes/SKILL.md", ".claude/skills/release-notes/references/style.md"}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("claude", [{"customSystemPrompt": "You translate."}, PROJECT], ids=str)
def test_claude_has_it(tmp_path: Path, place: Place, claude: dict[str, Any]) -> None:
    require_cli()

    @asynchronous
    async def run() -> None:
        api = FakeAPI().start()
        memory = {"instructions": "memory/INSTRUCTIONS.md", "skills": ["memory/skills/release-notes"]}
        pool = Pool(make_processes(tmp_path, api, {"memory": memory}, claude=claude, files=place.files))
        try:
            await turn(pool, directive({"text": "ok"}))
        finally:
            await pool.shutdown(5)
            api.shutdown()
        asked = json.dumps(api.messages[-1]["body"])
        assert "Always greet in Esperanto." in asked
        assert "Writes release notes from a git log." in asked
        assert ("memory:release-notes" in asked) is (claude is not PROJECT)

    run()


def test_by_default_the_workspace_is_left_alone(place: Place) -> None:
    memory = place.whole()
    assert place.in_workspace == set()
    assert memory.instructions == "Always greet in Esperanto."
    assert memory.plugin is not None
    assert (memory.plugin / "skills/release-notes/references/style.md").read_text() == "Short."


def test_a_skill_that_the_config_names_no_longer_is_gone(place: Place) -> None:
    assert place.whole().plugin is not None
    assert place.lay_out() == Memory()
    assert not (place.own / "memory").exists()


def test_paths_of_the_host_are_read_as_they_are(place: Place) -> None:
    memory = place.lay_out(instructions=str(place.text), skills=[f"{place.skill}/"])
    assert memory.instructions == "Always greet in Esperanto."
    assert memory.plugin is not None
    assert (memory.plugin / "skills/release-notes/SKILL.md").read_text() == SKILL


def test_where_claude_reads_the_workspace_memory_is_there_and_goes_with_the_config(place: Place) -> None:
    (place.workspace / ".claude").mkdir()
    (place.workspace / ".claude" / "settings.json").write_text("{}")
    assert place.whole(PROJECT) == Memory()
    assert place.in_workspace == ALL | {".claude/settings.json"}
    place.text.write_text("Greet in Latin.")
    assert place.whole(PROJECT) == Memory()
    assert (place.workspace / "CLAUDE.md").read_text() == "Greet in Latin.\n"
    place.lay_out(PROJECT)
    assert place.in_workspace == {".claude/settings.json"}
    assert not (place.own / "memory.json").exists() or json.loads((place.own / "memory.json").read_text()) == {}


def test_without_project_what_was_in_the_workspace_goes_too(place: Place) -> None:
    place.whole(PROJECT)
    assert place.whole().instructions
    assert place.in_workspace == set()


def test_a_file_of_the_user_stays_and_claude_gets_memory_anyway(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    mine = place.workspace / ".claude/skills/release-notes/SKILL.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    (place.workspace / "CLAUDE.md").write_text("mine")
    with caplog.at_level(logging.WARNING):
        memory = place.whole(PROJECT)
    assert memory.instructions == "Always greet in Esperanto."
    assert memory.plugin is not None
    assert place.in_workspace == {"CLAUDE.md", ".claude/skills/release-notes/SKILL.md"}
    assert (place.workspace / "CLAUDE.md").read_text() == mine.read_text() == "mine"
    assert caplog.text.count("is left alone") == 2
    place.lay_out(PROJECT)
    assert mine.read_text() == "mine"


def test_a_file_that_the_user_changed_is_the_users(place: Place) -> None:
    place.whole(PROJECT)
    (place.workspace / "CLAUDE.md").write_text("Better so.")
    assert place.whole(PROJECT).instructions == "Always greet in Esperanto."
    place.lay_out(PROJECT)
    assert place.in_workspace == {"CLAUDE.md"}


def test_overwrite_replaces_the_users_file(place: Place) -> None:
    (place.workspace / "CLAUDE.md").write_text("mine")
    assert place.whole(PROJECT, overwrite=True) == Memory()
    assert (place.workspace / "CLAUDE.md").read_text() == "Always greet in Esperanto.\n"


@pytest.mark.parametrize("overwrite", [False, True])
def test_no_link_of_the_workspace_is_followed(place: Place, tmp_path: Path, overwrite: bool) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("theirs")
    os.symlink(outside / "victim", place.workspace / "CLAUDE.md")
    os.symlink(outside, place.workspace / ".claude")
    memory = place.whole(PROJECT, overwrite=overwrite)
    assert [each.name for each in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "theirs"
    assert memory.plugin is not None
    assert bool(memory.instructions) is not overwrite


def test_a_crash_between_the_note_and_the_file_loses_no_ownership(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.whole(PROJECT)
    place.text.write_text("Greet in Latin.")

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("a2a_claude.claude.workspace_files.WorkspaceFiles.write", crash)
        with pytest.raises(KeyboardInterrupt):
            place.whole(PROJECT)
    place.lay_out(PROJECT)
    assert place.in_workspace == set()


@pytest.mark.parametrize("memory", [{"instructions": "/does/not/exist"}, {"skills": ["/does/not/exist"]}], ids=str)
def test_memory_that_is_not_there_stops_the_start(place: Place, memory: dict[str, Any]) -> None:
    with pytest.raises(OptionsError, match="memory cannot be read"):
        place.lay_out(**memory)

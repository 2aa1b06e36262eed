"""An agent's `memory`: instructions and skills that Claude has in every session, whatever the workspace holds.

By default Claude reads nothing of the workspace's `.claude` and CLAUDE.md. Then instructions go into the system prompt,
and skills into a plugin in the agent's own folder. Where `claude.settingSources` has `project`, Claude reads those
files, and memory becomes such files: CLAUDE.md and `.claude/skills/<name>/`. A file of the user stays (and memory goes
the first way) unless `memory.overwrite` says otherwise; what was written is noted, and goes when the config names it
no longer.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from a2a_claude.claude.session import OptionsError
from a2a_claude.claude.workspace_files import WorkspaceFiles
from a2a_claude.config.model import Config
from a2a_claude.config.shipped import skill_files

logger = logging.getLogger(__name__)

PLUGIN: Final = "memory"
"""The plugin's name: its skills are `memory:<name>` to Claude."""
_INSTRUCTIONS: Final = "CLAUDE.md"
_SKILLS: Final = ".claude/skills"
_MOST_BYTES: Final = 10 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process is started with: text for its system prompt, and the folder of the plugin, if there are any."""

    instructions: str = ""
    plugin: Path | None = None


def lay_out(config: Config, files: Mapping[str, Path], folder: Path) -> Memory:
    """Puts memory where Claude finds it, and takes away what is no longer in the config.

    `files` are those that the compiled agent ships (`Agent.files`); `folder` is the agent's own, where the plugin and
    the note of what was written into the workspace are kept.

    Raises:
        OptionsError: a file that the config names cannot be read.
    """
    try:
        instructions = _instructions(config, files)
        skills = {Path(each).name: _skill(each, files) for each in config.memory.skills}
    except (OSError, UnicodeDecodeError) as error:
        passes = isinstance(error, OSError) and not isinstance(error, PermissionError)
        raise OptionsError(f"memory cannot be read: {error}", passes=passes) from error
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    workspace = _Workspace(config, folder / "memory.json")
    if "project" in config.claude.setting_sources:
        if instructions and workspace.take({_INSTRUCTIONS: f"{instructions}\n".encode()}):
            instructions = ""
        placed = {name: {f"{_SKILLS}/{name}/{each}": body for each, body in skills[name].items()} for name in skills}
        skills = {name: each for name, each in skills.items() if not workspace.take(placed[name])}
    workspace.clean_up()
    return Memory(instructions, _plugin(skills, folder / PLUGIN))


def _instructions(config: Config, files: Mapping[str, Path]) -> str:
    place = config.memory.instructions
    return "" if not place else files.get(place, Path(place)).read_text(encoding="utf-8").strip()


def _skill(place: str, files: Mapping[str, Path]) -> dict[str, bytes]:
    """The files of a skill by their path in it."""
    below = f"{place.rstrip('/')}/"
    found = {each.removeprefix(below): path for each, path in files.items() if each.startswith(below)}
    if not found:  # a path of the host
        root = Path(place)
        found = {each.relative_to(root).as_posix(): each for each in skill_files(root)}
    return {each: path.read_bytes() for each, path in sorted(found.items())}


def _plugin(skills: Mapping[str, Mapping[str, bytes]], folder: Path) -> Path | None:
    """A plugin with these skills, made anew; https://code.claude.com/docs/en/plugins-reference."""
    shutil.rmtree(folder, ignore_errors=True)
    if not skills:
        return None
    manifest = {"name": PLUGIN, "version": "1.0.0", "description": "What this agent knows."}
    content = {".claude-plugin/plugin.json": json.dumps(manifest).encode()}
    content |= {f"skills/{name}/{each}": body for name, skill in skills.items() for each, body in skill.items()}
    for each, body in content.items():
        path = folder / each
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return folder


class _Workspace:
    """What of memory is in the workspace. `note` remembers it: for each workspace its files, and the SHA-256 of what
    each of them is; of two things while one takes the place of the other."""

    def __init__(self, config: Config, note: Path) -> None:
        self._files = WorkspaceFiles(Path(config.claude.working_directory))
        self._overwrite = config.memory.overwrite
        self._note = note
        self._key = os.path.realpath(config.claude.working_directory)
        try:
            self._all: dict[str, dict[str, list[str]]] = json.loads(note.read_bytes())
            self._before = dict(self._all.get(self._key, {}))
        except (OSError, ValueError, AttributeError, TypeError):
            self._all, self._before = {}, {}
        self._now: dict[str, list[str]] = {}

    def take(self, wanted: Mapping[str, bytes]) -> bool:
        """Writes files that belong together; False, and nothing written, when one of them is the user's."""
        try:
            theirs = [place for place in wanted if not self._is_free(place)]
            if theirs and not self._overwrite:
                logger.warning(
                    "%s in the workspace is the user's and is left alone: Claude gets this part of memory another way"
                    " (memory.overwrite would replace the file)",
                    theirs[0],
                )
                return False
            for place, content in wanted.items():
                self._now[place] = [_digest(content)]
                # Before it is there: a crash must not make it the user's.
                self._save({**self._before, **self._now, place: [*self._now[place], *self._before.get(place, [])]})
                self._files.write(place, content)
        except OSError as error:
            logger.warning("Memory cannot be put into the workspace, Claude gets it another way: %s", error)
            return False
        return True

    def clean_up(self) -> None:
        """Removes what was written before and is not wanted now, unless somebody has changed it since."""
        for place in sorted(self._before.keys() - self._now.keys()):
            try:
                if self._is_free(place):
                    self._files.remove(place)
                else:
                    logger.warning("%s was written for memory and changed since then: it is left alone", place)
            except OSError as error:
                logger.warning("%s was written for memory and cannot be removed: %s", place, error)
        self._save(self._now)

    def _is_free(self, place: str) -> bool:
        """Whether nothing is there, or what was written before."""
        if not self._files.exists(place):
            return True
        content = self._files.read(place, _MOST_BYTES)
        return content is not None and _digest(content) in self._before.get(place, [])

    def _save(self, written: Mapping[str, list[str]]) -> None:
        known = {key: each for key, each in {**self._all, self._key: dict(written)}.items() if each}
        if known == self._all and (known or not self._note.exists()):
            return
        self._all = known
        new = self._note.with_suffix(".new")
        new.write_text(json.dumps(known))
        new.replace(self._note)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()

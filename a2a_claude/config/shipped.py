"""Files of an agent that travel with its compiled config: memory instructions and skill folders."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from a2a_claude.config.diagnostics import Diagnostic, Span, error, warning
from a2a_claude.config.node import Entry, Node

_SKILL_FOLDERS = ("scripts", "references", "assets")
MAX_FILES = 1000
MAX_BYTES = 10 << 20


def ship(root: Node, document: dict[str, Any], limit: Path) -> tuple[dict[str, Path], list[Diagnostic]]:
    """The files that `memory` names, by their path in the compiled agent, and what is wrong with them.

    Relative paths are read from the folder of the file that holds them, must stay below `limit`, and are rewritten in
    `document` to where they are shipped. Absolute paths are the host's own and are left alone.
    """
    files: dict[str, Path] = {}
    diagnostics: list[Diagnostic] = []
    memory = document.get("memory")
    if not isinstance(memory, dict):
        return files, diagnostics
    memory = document["memory"] = dict(memory)
    if (node := _text_at(root, ("memory", "instructions"))) and (path := _local(node)):
        memory["instructions"] = _file(path, node, limit, files, diagnostics)
    skills = memory.get("skills")
    if isinstance(skills, list):
        places = [_skill(root, index, each, limit, files, diagnostics) for index, each in enumerate(skills)]
        memory["skills"] = [each for each in places if not _is_left_out(each, files)]
    if _is_left_out(memory.get("instructions"), files):
        del memory["instructions"]
    return files, diagnostics


def _is_left_out(place: Any, files: dict[str, Path]) -> bool:
    """Whether a place in the compiled agent holds nothing."""
    if not isinstance(place, str) or not place.startswith("memory/"):
        return False
    return not any(each == place or each.startswith(f"{place}/") for each in files)


def _text_at(root: Node, path: tuple[str | int, ...]) -> Node | None:
    found = root.find(path)
    node = found.node if isinstance(found, Entry) else found
    return node if node is not None and isinstance(node.value, str) and node.source.path is not None else None


def _local(node: Node) -> Path | None:
    """Where a relative path points to; None for an absolute one, and for one that a variable completes."""
    text = str(node.value)
    if text.startswith("/") or "$" in text or node.source.path is None:
        return None
    return Path(os.path.normpath(node.source.path.parent / text))


def _file(path: Path, node: Node, limit: Path, files: dict[str, Path], diagnostics: list[Diagnostic]) -> str:
    place = f"memory/{path.name}"
    if problem := _problem(path, limit, node.span):
        diagnostics.append(problem)
    elif not os.path.isfile(path):
        diagnostics.append(_missing(node, "a file"))
    elif path.stat().st_size > MAX_BYTES:
        diagnostics.append(_too_large(node))
    else:
        files[place] = path
    return place


def _skill(
    root: Node, index: int, text: Any, limit: Path, files: dict[str, Path], diagnostics: list[Diagnostic]
) -> Any:
    node = _text_at(root, ("memory", "skills", index))
    path = _local(node) if node is not None else None
    if node is None or path is None:
        return text
    place = f"memory/skills/{path.name}"
    if problem := _problem(path, limit, node.span):
        diagnostics.append(problem)
    elif not os.path.isfile(path / "SKILL.md"):
        diagnostics.append(_missing(node, "a folder with a SKILL.md"))
    elif any(each.startswith(f"{place}/") or each == "memory/skills" for each in files):
        message = f"two files would be shipped as {place}"
        diagnostics.append(error("memory-file", message, node.span, "rename the folder of one"))
    else:
        _skill_folder(path, place, node, limit, files, diagnostics)
    return place


def _skill_folder(
    folder: Path, place: str, node: Node, limit: Path, files: dict[str, Path], diagnostics: list[Diagnostic]
) -> None:
    size = 0
    for number, each in enumerate(skill_files(folder)):
        if problem := _problem(each, limit, node.span) or _unshippable(each, node.span):
            diagnostics.append(problem)
            return
        size += each.stat().st_size
        if number >= MAX_FILES or size > MAX_BYTES:
            diagnostics.append(_too_large(node))
            return
        files[f"{place}/{each.relative_to(folder).as_posix()}"] = each


def skill_files(folder: Path) -> Iterator[Path]:
    """Also links to folders, which are not followed."""
    yield folder / "SKILL.md"
    for name in _SKILL_FOLDERS:
        if os.path.islink(folder / name):
            yield folder / name
        for parent, folders, names in os.walk(folder / name):
            folders.sort()
            yield from (Path(parent) / each for each in folders if os.path.islink(Path(parent) / each))
            yield from (Path(parent) / each for each in sorted(names))


def _problem(path: Path, limit: Path, span: Span) -> Diagnostic | None:
    try:
        inside = Path(os.path.realpath(path)).is_relative_to(limit)
    except (OSError, ValueError):  # too long, or holds a NUL
        inside = False
    if inside:
        return None
    hint = "ship files of this project, by relative path and without links out of it"
    return error("memory-file", f"{path.name} is outside the project ({limit.name}/)", span, hint)


def _unshippable(path: Path, span: Span) -> Diagnostic | None:
    if not path.name.isprintable():
        hint = "name files in UTF-8, without control characters"
        return error("memory-file", f"{path.name!r} is no file name for every format", span, hint)
    if not os.path.isfile(path):
        return error("memory-file", f"{path.name} is no plain file", span, "ship plain files, no links to folders")
    return None


def _missing(node: Node, what: str) -> Diagnostic:
    message = f"{node.value} is not {what}, so it is left out"
    return warning("memory-file", message, node.span, "paths are relative to the file that names them")


def _too_large(node: Node) -> Diagnostic:
    message = f"{node.value} is larger than {MAX_FILES} files or {MAX_BYTES >> 20} MiB"
    return error("memory-file", message, node.span, "ship less, or mount it")

"""Who may import whom, and that the compiler runs where only the compiler is installed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_claude.config.rules import RULES

PACKAGE = Path(__file__).parent.parent / "a2a_claude"
RUNTIME = ("a2a", "claude_agent_sdk", "falcon", "granian")
SLOW_TO_IMPORT = ("jinja2", "jsonschema", "yaml")

# Room -> the rooms it may import from. Each may import itself, and `package_data` and the version belong to all.
MAY_IMPORT: dict[str, set[str]] = {
    "config": set(),
    "targets": {"config"},
    "compiler": {"config", "targets", "output_folder"},
    "output_folder": {"config"},
    "store": {"config"},
    "observe": {"config"},
    "a2a": {"config", "store", "observe", "listening", "outgoing"},
    "claude": {"config", "observe"},
    "subagents": {"config", "observe", "claude", "outgoing"},
    "graph": {"config", "targets"},
    "runtime": {"config", "store", "observe", "a2a", "claude", "subagents"},
    "server": {"config", "a2a", "observe", "runtime", "listening", "sd_notify"},
    "listening": set(),
    "outgoing": set(),
    "instances": set(),
    "sd_notify": set(),
    "commands": {
        "config",
        "targets",
        "compiler",
        "graph",
        "output_folder",
        "store",
        "observe",
        "a2a",
        "claude",
        "runtime",
        "server",
        "listening",
        "instances",
    },
    "cli": {"commands"},
    "__main__": {"cli"},
    "package_data": set(),
    "library": {"config", "a2a", "observe", "runtime", "server"},
    "__init__": {"config", "library", "observe", "runtime"},
}
FOR_ALL = {"package_data", "__init__"}


def imports_of_ours(module: Path) -> Iterator[tuple[int, str]]:
    """Line and room of each import of this package, wherever in the module it stands."""
    parts = ("a2a_claude", *module.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names: list[tuple[str, ...]] = []
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = tuple(node.module.split(".")) if node.module else ()
            base = parts[: len(parts) - node.level] + origin if node.level else origin
            # `from a2a_claude import x` names a room or something of `__init__`.
            names = [(*base, alias.name) for alias in node.names]
        for name in names:
            if name[0] == "a2a_claude":
                assert isinstance(node, ast.Import | ast.ImportFrom)
                yield node.lineno, name[1] if len(name) > 1 and is_room(name[1]) else "__init__"


def is_room(name: str) -> bool:
    return (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def test_each_room_imports_only_what_its_place_in_the_house_allows() -> None:
    trespasses = [
        f"{module.relative_to(PACKAGE.parent)}:{line} imports {target}"
        for module in sorted(PACKAGE.rglob("*.py"))
        for line, target in imports_of_ours(module)
        if target not in MAY_IMPORT[room_of(module)] | FOR_ALL | {room_of(module)}
    ]
    assert trespasses == []


@pytest.mark.parametrize("room", ["a2a", "claude", "subagents", "config", "targets", "compiler", "commands", "cli"])
def test_only_the_runtime_rooms_name_runtime_packages(room: str) -> None:
    """`a2a` may name Falcon, Granian and a2a-sdk, `claude` a2a-sdk and the Claude SDK, `subagents` a2a-sdk alone."""
    allowed = {
        "a2a": {"a2a", "falcon", "granian"},
        "claude": {"claude_agent_sdk", "a2a"},
        "subagents": {"a2a"},
    }.get(room, set())
    modules = [PACKAGE / f"{room}.py", *(PACKAGE / room).rglob("*.py")]
    named = {
        (str(module.relative_to(PACKAGE.parent)), top)
        for module in modules
        if module.is_file()
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        for top in top_names(node)
        if top in RUNTIME
    }
    assert {each for each in named if each[1] not in allowed} == set()


def top_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.split(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.split(".")[0]]
    return []


# --- What really is imported ------------------------------------------------------------------------------------------

# Every Python of the run loads this at its start, worker processes included, and notes the packages asked for.
WATCHER = """
import os, sys

class Watcher:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if "." not in name:
            with open(os.environ["IMPORTS_SEEN"], "a") as seen:
                seen.write(name + "\\n")

sys.meta_path.insert(0, Watcher)
"""


def imports_seen(folder: Path, *arguments: str, code: int = 0) -> set[str]:
    """Runs Python with `arguments` in `folder`, to exit with `code`: the top names of all that it looked for."""
    (folder / "watch").mkdir(exist_ok=True)
    (folder / "watch" / "sitecustomize.py").write_text(WATCHER)
    seen = folder / "seen"
    seen.write_text("")
    paths = [str(folder / "watch"), str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "IMPORTS_SEEN": str(seen)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code, run.stdout + run.stderr
    return set(seen.read_text().split())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two agents: one that is right and one, aside, that is not."""
    folder = tmp_path_factory.mktemp("imports")
    imports_seen(folder, "-m", "a2a_claude", "init", "reviewer")
    (folder / "wrong" / "typo").mkdir(parents=True)
    (folder / "wrong" / "typo" / "agent.yaml").write_text("server:\n  prot: 3030\n")
    return folder


def test_the_watcher_sees_an_import_even_of_a_package_that_is_not_there(tmp_path: Path) -> None:
    assert "falcon" in imports_seen(tmp_path, "-c", "try:\n import falcon\nexcept ImportError: pass")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--help", 0),
        ("--version", 0),
        ("init another", 0),
        ("validate agents", 0),
        ("validate wrong", 1),
        ("compile agents/", 0),
        ("show reviewer --origins", 0),
        ("graph agents", 0),
        (f"explain {next(iter(RULES))}", 0),
        ("schema", 0),
        ("schema --draft 7", 0),
    ],
)
def test_no_command_of_the_compiler_looks_for_the_runtime(checkout: Path, command: str, code: int) -> None:
    seen = imports_seen(checkout, "-m", "a2a_claude", *command.split(), code=code)
    assert "a2a_claude" in seen
    assert seen.isdisjoint(RUNTIME)


def test_help_waits_for_no_parser_and_no_validator(checkout: Path) -> None:
    seen = imports_seen(checkout, "-m", "a2a_claude", "--help")
    assert "click" in seen
    assert seen.isdisjoint(SLOW_TO_IMPORT)

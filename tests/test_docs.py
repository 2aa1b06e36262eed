"""The documentation is true: its commands print what it shows, its configs are valid, its links lead somewhere.

In README.md and docs/ a block marked `console` is run: lines that begin with `$ ` are commands (with the lines of their
here-documents), the lines between them are what is printed, a line `...` stands for any lines, and `...` in a line for
any text. The commands of a page run in one shell, in a copy of this checkout's agents. `yaml agent` is an agent's
config; other `yaml` and `json` only has to be readable.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from a2a_claude.config.loader import load_fleet
from a2a_claude.config.overrides import ENVIRONMENT
from a2a_claude.config.schema import every_shape
from tests.tools import require

ROOT = Path(__file__).parent.parent
# rules.md is made of schema/rules.yaml, whose examples test_rules.py holds against the rules.
PAGES = sorted(path for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] if path.name != "rules.md")
LINKED = sorted([*PAGES, ROOT / "docs" / "rules.md", ROOT / "CONTRIBUTING.md"])
FENCE = re.compile(r"^```(\S*)[ ]?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
MARK = "----- end of command"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: the words after the fence, the text, and the line it begins on."""

    kind: str
    mark: str
    text: str
    line: int


def blocks(text: str, kind: str) -> list[Block]:
    return [
        Block(match[1], match[2], match[3], text[: match.start()].count("\n") + 1)
        for match in FENCE.finditer(text)
        if match[1] == kind
    ]


def of_all_pages(*kinds: str) -> list[tuple[Path, Block]]:
    return [(page, block) for page in PAGES for kind in kinds for block in blocks(page.read_text("utf-8"), kind)]


def name(value: object) -> str | None:
    return (
        str(value.relative_to(ROOT)) if isinstance(value, Path) else f"{value.line}" if hasattr(value, "line") else None
    )


# --- Commands ---------------------------------------------------------------------------------------------------------


@dataclass
class Command:
    """A command of a console block, and the lines that it is to print."""

    text: str
    printed: list[str]


def commands(block: str) -> list[Command]:
    found: list[Command] = []
    end: str | None = None  # of a here-document
    for line in block.splitlines():
        if end is not None:
            found[-1].text += f"\n{line}"
            end = None if line == end else end
        elif line.startswith("$ "):
            found.append(Command(line[2:], []))
            here = HERE.search(line)
            end = here[2] if here else None
        else:
            found[-1].printed.append(line)
    return found


def pattern(lines: list[str]) -> str:
    return "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n" for line in lines
    )


def without_end(lines: list[str]) -> list[str]:
    """Without the empty lines at the end, which a page need not show."""
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a newcomer has: the agents, and `a2a-claude` and `python` on PATH, or by `./dev` as in a checkout."""
    shutil.copytree(ROOT / "agents", tmp_path / "agents")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "a2a-claude").write_text(f'#!/bin/sh\nexec {sys.executable} -m a2a_claude "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "dev").write_text('#!/bin/sh\nexec "$@"\n')
    for program in (*programs.iterdir(), tmp_path / "dev"):
        program.chmod(0o755)
    return tmp_path


def run(folder: Path, wanted: list[Command]) -> list[str]:
    """What each command prints."""
    script = "".join(f"{each.text}\n{{ code=$?; printf '%s\\n' '{MARK}'; (exit $code); }}\n" for each in wanted)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("A2A_CLAUDE", "NO_COLOR", "PYTEST"))}
    done = subprocess.run(
        [require("bash", "apt-get install bash"), "--norc", "-c", script],
        cwd=folder,
        env={**kept, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = done.stdout.split(f"{MARK}\n")
    assert len(outputs) == len(wanted) + 1, done.stdout
    return outputs[:-1]


def differences(wanted: list[Command], outputs: list[str]) -> list[str]:
    return [
        f"$ {each.text}\n{output}"
        for each, output in zip(wanted, outputs, strict=True)
        if not re.fullmatch(
            pattern(without_end(each.printed)), "".join(f"{line}\n" for line in without_end(output.splitlines()))
        )
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page.read_text("utf-8"), "console")], ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, checkout: Path) -> None:
    wanted = [each for block in blocks(page.read_text("utf-8"), "console") for each in commands(block.text)]
    assert differences(wanted, run(checkout, wanted)) == []


def test_the_runner_sees_a_wrong_line_and_a_missing_one(checkout: Path) -> None:
    page = (
        "$ printf 'a\\nb\\n'\na\nb\n$ printf 'a\\nb\\nc\\n'\na\n...\n$ cat <<E\nx\nE\nx\n$ false\n$ echo $?\n1\n"
        "$ export A=1; echo a >&2\na\n\n$ echo $A\n2\n$ echo a; echo b\na\n$ true\na\n$ echo a\n...\nb\n"
    )
    wanted = commands(page)
    assert differences(wanted, run(checkout, wanted)) == [
        "$ echo $A\n1\n",
        "$ echo a; echo b\na\nb\n",
        "$ true\n",
        "$ echo a\na\n",
    ]


# --- Configs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "block"), [pair for pair in of_all_pages("yaml") if pair[1].mark == "agent"], ids=name
)
def test_an_agent_config_of_a_page_has_no_error_and_no_warning(page: Path, block: Block, tmp_path: Path) -> None:
    path = tmp_path / "agents" / "reviewer" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(block.text, "utf-8")
    found = [each for each in load_fleet([path]).diagnostics if each.severity != "note"]
    assert [(str(each.span), each.message) for each in found] == []


@pytest.mark.parametrize(("page", "block"), of_all_pages("yaml", "json"), ids=name)
def test_yaml_and_json_of_a_page_can_be_read(page: Path, block: Block) -> None:
    read = json.loads if block.kind == "json" else yaml.safe_load
    assert read(block.text) is not None


def test_the_pages_have_what_is_tested_here() -> None:
    assert {block.mark for _, block in of_all_pages("yaml", "json")} <= {"", "agent"}
    assert any(block.mark == "agent" for _, block in of_all_pages("yaml"))


# --- Links ------------------------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text("utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8"))):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert broken == []


# --- Tables that repeat the code --------------------------------------------------------------------------------------

AGENTS_PAGE = (ROOT / "docs" / "agents.md").read_text("utf-8")


def test_the_table_of_references_is_the_schemas() -> None:
    table = AGENTS_PAGE.split("<!-- references:")[1].split("\n\n")[0]
    documented = set(re.findall(r"`([^`]+)`", table))
    source = "claude.marketplaces.<name>.source"
    of_schema = set()
    for path, shape in every_shape():
        for each, suffix in ((shape, ""), (shape.items, "[]"), (shape.extra, ".<name>")):
            if each is not None and each.string == "reference":
                of_schema.add(path + suffix)
        of_schema |= {f"{path}.<name>" for _, each in shape.patterns if each.string == "reference"}
    assert {path for path in of_schema if not path.startswith(source)} | {source} == documented


def test_the_table_of_environment_variables_is_the_programs() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([\w.]+)` \|$", AGENTS_PAGE, re.MULTILINE)
    assert {variable: tuple(key.split(".")) for variable, key in rows} == {
        variable: path for variable, (path, _) in ENVIRONMENT.items()
    }


def test_the_hooks_that_a_page_names_exist() -> None:
    hooks = {each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    assert set(re.findall(r"- id: (a2a-claude\S+)", AGENTS_PAGE)) == hooks

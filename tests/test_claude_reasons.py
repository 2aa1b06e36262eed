"""docs/reasons.md has every reason that the code gives, and no other."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from a2a_claude.claude import session
from a2a_claude.claude.results import REASONS
from a2a_claude.claude.session import ClaudeError

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")


def section(title: str) -> dict[str, str]:
    """The rows of the table below a heading."""
    text = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", text, re.MULTILINE))


def first_arguments(name: str, *folders: str) -> set[str]:
    """The literal first arguments of calls of a function in these rooms."""
    found = set()
    for folder in folders:
        for module in (ROOT / "a2a_claude" / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] == name:
                    first = node.args[0]
                    if isinstance(first, ast.Constant) and isinstance(first.value, str):
                        found.add(first.value)
    return found


def test_the_page_shows_the_reasons_of_claude() -> None:
    assert section("Claude's turns") == dict(REASONS)


def test_every_failure_that_the_code_makes_has_a_documented_reason() -> None:
    made = first_arguments("Failure", "claude")
    errors = {each.reason for _, each in inspect.getmembers(session, inspect.isclass) if issubclass(each, ClaudeError)}
    assert {"refusal", "timeout", "empty_result"} <= made
    assert made | errors <= REASONS.keys()


def test_every_documented_reason_occurs_in_the_code() -> None:
    sources = "".join(
        module.read_text(encoding="utf-8").replace('"""', "")
        for module in (ROOT / "a2a_claude" / "claude").glob("*.py")
    )
    # One mention is the table's own.
    assert [each for each in REASONS if len(re.findall(rf'"{each}"', sources)) < 2] == []


def test_the_page_shows_the_reasons_of_the_server() -> None:
    assert set(section("The server")) == first_arguments("failed", "a2a")


def test_the_page_shows_why_files_are_left_out() -> None:
    assert set(section("Files that are left out")) == first_arguments("LeftOut", "claude")

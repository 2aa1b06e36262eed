"""Every command that the documentation shows is run by a test, or stands below with the reason why not."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from a2a_claude.cli import main
from tests.console import FENCE, PAGES, ROOT, name, pages_for

SHOWN = sorted([*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "rules.md"])
# No `sh` or `bash`: what a shell runs is `console`, which the tests run (`test_docs.py` knows who runs which mark).
SYNTAXES = {"console", "json", "nix", "text", "yaml"}
# Pages whose commands a test takes by name; the others are found by `pages_for`.
BY_NAME = {"podman": ["docs/containers.md"]}

NOT_RUN = {
    "./dev test": "these are the tests",
    "git clone <your fork> && cd a2a-claude": "needs a fork on GitHub",
}
INLINE = re.compile(r"(?<!`)`(?:\./dev )?(a2a-claude(?:\s[^`]*)?)`")
INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+(?=\n|\Z)")
PROGRAMS = re.compile(r"(\./|a2a-claude|bash|curl|docker|git|kubectl|nix|pip|podman|python|sudo|systemctl|uv)\b")


def indented(text: str) -> list[str]:
    """Lines of indented blocks (CommonMark 4.4) that are commands."""
    lines = [line.strip() for block in INDENTED.findall(FENCE.sub("", text)) for line in block.splitlines()]
    return [line for line in lines if PROGRAMS.match(line)]


@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_a_block_of_commands_is_one_that_the_tests_run(page: Path) -> None:
    kinds = {match[1] for match in FENCE.finditer(page.read_text("utf-8"))}
    assert kinds <= (SYNTAXES if page in PAGES else SYNTAXES - {"console"})


@pytest.mark.parametrize("engine", BY_NAME)
def test_a_page_that_is_taken_by_name_is_the_only_one_of_its_engine(engine: str) -> None:
    assert [name(page) for page in pages_for(engine)] == BY_NAME[engine]


def test_indented_commands_are_none_but_those_that_nothing_can_run() -> None:
    found = {line for page in SHOWN for line in indented(page.read_text("utf-8"))}
    assert found == NOT_RUN.keys()


def inline(text: str) -> set[str]:
    """Commands of ours that stand in a sentence or a table, not in a block."""
    return {" ".join(each.split()) for each in INLINE.findall(FENCE.sub("", text))}


@pytest.mark.parametrize("page", SHOWN, ids=name)
def test_a_command_in_a_sentence_has_options_that_the_cli_knows(page: Path) -> None:
    for command in inline(page.read_text("utf-8")):
        parsed(command)


@pytest.mark.parametrize("stale", ["a2a-claude serve --stale", "a2a-claude stale", "a2a-claude --stale FILE"])
def test_a_stale_command_in_a_sentence_is_noticed(stale: str) -> None:
    (command,) = inline(f"Run `{stale}`.")
    with pytest.raises((click.UsageError, AssertionError)):
        parsed(command)


def parsed(command: str) -> None:
    """Parses a command by the CLI's own options; click.UsageError names the one that it does not know.

    A sentence may leave out what a command requires, so that is not asked for.
    """
    _, *words = shlex.split(command)
    if words and words[0].startswith("-"):
        words = ["serve", *words]  # as `Commands.parse_args` has it
    if words:
        group = click.Context(main, info_name="a2a-claude")
        found = main.get_command(group, words[0])
        assert found, f"no command: {command}"
        found.make_parser(click.Context(found, parent=group)).parse_args(words[1:])

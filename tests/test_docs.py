"""The documentation is true: its commands print what it shows, its configs are valid, its links lead somewhere.

In README.md and docs/ a block marked `console` is run, as tests/console.py says. The commands of a page run in one
shell, in a copy of this checkout's agents; those of `console systemd` and the like where such an engine is.
`yaml agent` is an agent's config; other `yaml` and `json` only has to be readable.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from a2a_claude.config.loader import load_fleet
from a2a_claude.config.overrides import ENVIRONMENT
from a2a_claude.config.schema import every_shape
from tests.console import (
    FENCE,
    PAGES,
    ROOT,
    Block,
    blocks,
    check,
    commands,
    commands_of,
    differences,
    name,
    of_all_pages,
    pages_for,
    run,
)
from tests.tools import require

LINKED = sorted([*PAGES, ROOT / "docs" / "rules.md", ROOT / "CONTRIBUTING.md"])
# Who runs the commands that not every machine can run.
ENGINES = {
    "claude": "tests/test_docs_claude.py",
    "docker": "tests/e2e/docker/test_docs.py",
    "kits": "tests/test_docs_conformance.py",
    "kubernetes": "tests/test_docs_kubernetes.py",
    "nix": "tests/nix/test_docs.py",
    "podman": "tests/e2e/docker/test_quadlet.py",
    "systemd": "tests/e2e/test_docs_systemd.py",
}


# --- Commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a newcomer has: the agents, and `a2a-claude` and `python` on PATH, or by `./dev` as in a checkout."""
    shutil.copytree(ROOT / "agents", tmp_path / "agents")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "a2a-claude").write_text(f'#!/bin/sh\nexec {sys.executable} -m a2a_claude "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "uvicorn").write_text(f'#!/bin/sh\nexec {sys.executable} -m uvicorn "$@"\n')
    (tmp_path / "dev").write_text('#!/bin/sh\nexec "$@"\n')
    for program in (*programs.iterdir(), tmp_path / "dev"):
        program.chmod(0o755)
    return tmp_path


def shell_in(folder: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs scripts in a folder with the programs of its `bin`; ends them after five minutes."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("A2A_CLAUDE", "NO_COLOR", "PYTEST"))}
    environ = {**kept, "PATH": f"{folder / 'bin'}:{kept['PATH']}", "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    bash, timeout = require("bash", "apt-get install bash"), require("timeout", "apt-get install coreutils")

    def shell(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [timeout, "--kill-after=5", "300", bash, "--norc", "-c", script],
            cwd=folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return shell


@pytest.mark.parametrize("page", pages_for(""), ids=name)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, checkout: Path) -> None:
    check(commands_of(page, ""), shell_in(checkout))


def in_order() -> list[Path]:
    """The pages as README.md names them, itself first."""
    named = [ROOT / each for each in re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text("utf-8"))]
    return [ROOT / "README.md", *(page for page in dict.fromkeys(named) if page in PAGES)]


CHANGES_AGENTS = re.compile(r"(?:mkdir|rm|cat) [^\n]*agents/|a2a-claude init ")


def test_readme_names_every_page() -> None:
    assert set(in_order()) == set(PAGES)


def test_who_follows_all_pages_in_one_folder_overwrites_nothing_and_has_valid_agents(checkout: Path) -> None:
    shell = shell_in(checkout)
    made: dict[Path, str] = {}
    profiles = set()
    for page in in_order():
        shown = blocks(page.read_text("utf-8"), "console")
        # The conformance kits have a folder of their own.
        every = [each.text for block in shown if block.mark != "kits" for each in commands(block.text)]
        assert shell("set -e\n" + "\n".join(each for each in every if CHANGES_AGENTS.match(each))).returncode == 0
        there = {each: each.read_text("utf-8") for each in (checkout / "agents").rglob("*") if each.is_file()}
        assert [each for each, text in made.items() if there.get(each) != text] == [], page
        made = there
        profiles |= {match[1] for each in every if (match := re.search(r" compile .*--profile (\w+)", each))}
    assert profiles >= {"prod", "kubernetes"}
    for profile in profiles:
        done = shell(f"a2a-claude validate --profile {profile}")
        assert (done.returncode, "error[" in done.stdout) == (0, False), done.stdout


def test_no_command_is_shown_that_nothing_runs() -> None:
    assert {block.mark for _, block in of_all_pages("console")} == {"", *ENGINES}
    assert [each for each in ENGINES.values() if not (ROOT / each).exists()] == []


def test_the_runner_sees_a_wrong_line_and_a_missing_one(checkout: Path) -> None:
    page = (
        "$ printf 'a\\nb\\n'\na\nb\n$ printf 'a\\nb\\nc\\n'\na\n...\n$ cat <<E\nx\nE\nx\n$ false\n$ echo $?\n1\n"
        "$ export A=1; echo a >&2\na\n\n$ echo $A\n2\n$ echo a; echo b\na\n$ true\na\n$ echo a\n...\nb\n"
        "$ echo \\\n  a\na\n"
    )
    wanted = commands(page)
    assert differences(wanted, run(wanted, shell_in(checkout))) == [
        "$ echo $A\n1\n",
        "$ echo a; echo b\na\nb\n",
        "$ true\n",
        "$ echo a\na\n",
    ]


def test_the_runner_sees_a_command_that_fails_where_its_page_shows_no_failure(checkout: Path) -> None:
    page = (
        "$ false\n$ false\n...\n$ (echo no; exit 3)\n...\n$ true\n...\n"  # these four do what is not shown
        "$ echo a\n...\n$ echo no; false\nno\n$ (echo no; exit 3)\n...\n$ echo $?\n3\n$ sleep 60 &\n"
        "$ kill $!; wait $!\n$ echo $?\n143\n$ cat missing\ncat: ...\n$ printf 'no line'\nno line\n$ true\n"
    )
    wanted = commands(page)
    ended = run(wanted, shell_in(checkout))
    assert differences(wanted, ended) == [
        "$ false\nexit status 1\n",
        "$ false\nexit status 1\n",
        "$ (echo no; exit 3)\nno\nexit status 3\n",
        "$ true\n",
    ]
    assert differences(wanted, ended, lenient=True) == []


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


CI_PAGE = (ROOT / "docs" / "ci.md").read_text("utf-8")


def test_the_hooks_that_a_page_names_exist() -> None:
    hooks = {each["id"] for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))}
    assert set(re.findall(r"- id: (a2a-claude\S+)", CI_PAGE)) == hooks


def test_the_inputs_of_the_workflow_for_users_are_those_of_the_page() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "validate.yml").read_text("utf-8"))
    inputs = workflow[True]["workflow_call"]["inputs"]  # YAML 1.1 reads `on` as a boolean
    assert re.findall(r"^\| `(\S+)` \|", CI_PAGE, re.MULTILINE) == list(inputs)
    [job] = [
        job for block in blocks(CI_PAGE, "yaml") for job in (yaml.safe_load(block.text).get("jobs") or {}).values()
    ]
    assert job["with"].keys() <= inputs.keys()

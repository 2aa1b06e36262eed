"""`claude.approvalPolicy`: what its rules decide, as tables."""

from __future__ import annotations

import fnmatch
import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2a_claude.claude.approval_policy import decide
from a2a_claude.config.model import ApprovalRule

DANGER = "dangerouslyDisableSandbox"


def rule(decision: Any, tool: str, **argument: str) -> ApprovalRule:
    return ApprovalRule(tool, argument, decision)


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "Bash", {"command": command, "description": "d"}


def decision(rules: list[ApprovalRule], tool: str, arguments: dict[str, Any]) -> str | None:
    found = decide(rules, tool, arguments)
    return None if found is None else found[1].decision


@pytest.mark.parametrize(
    ("pattern", "tool", "matches"),
    [
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("Bash", "bash", False),
        ("*", "mcp__x__y", True),
        ("mcp__linear__*", "mcp__linear__create_issue", True),
        ("mcp__linear__*", "mcp__linearx__create_issue", False),
        ("mcp__*__get_*", "mcp__a__get_b", True),
        ("mcp__*__get_*", "mcp__a__set_b", False),
        ("*Edit", "NotebookEdit", True),
        ("*Edit", "Edits", False),
        ("a.b", "axb", False),
    ],
)
@pytest.mark.parametrize("kind", ["allow", "deny", "ask"])
def test_tools(pattern: str, tool: str, matches: bool, kind: str) -> None:
    assert decision([rule(kind, pattern)], tool, {}) == (kind if matches else None)


@pytest.mark.parametrize(
    ("pattern", "command", "allowed", "denied"),
    [
        ("git status*", "git status", True, True),
        ("git status*", "git status --short src", True, True),
        ("git status*", "git stat", False, False),
        ("git status", "git status ", False, False),
        ("git *", "sudo git push", False, False),
        ("* --dry-run", "npm publish --dry-run", True, True),
        ("ls ?", "ls a", True, True),
        ("ls ?", "ls", False, False),
        # What would begin another command, or write elsewhere, is not allowed by a wildcard; it is still denied by one.
        *(
            (f"git status{tail}", f"git status{chained}", False, True)
            for tail in ("*", "?*")
            for chained in (
                "; rm -rf /",
                " && x",
                "|sh",
                "\nrm x",
                " `x`",
                " $(x)",
                " > /etc/x",
                " <(x)",
                " $HOME",
                "\\\n",
            )
        ),
        ("make && make test*", "make && make test unit", True, True),
        ("make && make test*", "make && make test; x", False, True),
        ("cat *", "cat ../../etc/passwd", False, True),
        ("cat ../*", "cat ../x", True, True),
        ("cat *", "cat a..b ..c", True, True),
    ],
)
def test_commands(pattern: str, command: str, allowed: bool, denied: bool) -> None:
    assert (decision([rule("allow", "Bash", command=pattern)], *bash(command)) == "allow") is allowed
    assert (decision([rule("deny", "Bash", command=pattern)], *bash(command)) == "deny") is denied
    assert (decision([rule("ask", "Bash", command=pattern)], *bash(command)) == "ask") is denied


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("/srv/src/*", "/srv/src/a/b.py", True),
        ("/srv/src/*", "/srv/src/../../etc/passwd", False),
        ("/srv/src/*", "/srv/src/..", False),
        ("/srv/src/*", "/srv/src/a;b$(c)\n.py", True),
        ("*.md", "README.md", True),
        ("*.md", "README.md\n", False),
        ("5", 5, True),
        ("true", True, True),
        ("null", None, True),
        ('["a",*', ["a", "b"], True),
        ("*", {"any": "thing"}, True),
        ("", "", True),
        ("", "x", False),
    ],
)
def test_other_arguments(pattern: str, value: Any, matches: bool) -> None:
    assert decision([rule("allow", "*", file_path=pattern)], "Write", {"file_path": value}) == (
        "allow" if matches else None
    )


@pytest.mark.parametrize(
    ("rules", "call", "decided"),
    [
        ([], bash("ls"), None),
        ([rule("deny", "Bash"), rule("allow", "Bash")], bash("ls"), "deny"),
        ([rule("allow", "Bash", command="ls*"), rule("deny", "Bash")], bash("ls -l"), "allow"),
        ([rule("allow", "Bash", command="ls*"), rule("deny", "Bash")], bash("ls; x"), "deny"),
        ([rule("ask", "Bash", command="*push*"), rule("allow", "*")], bash("git push"), "ask"),
        ([rule("ask", "Bash", command="*push*"), rule("allow", "*")], bash("git pull"), "allow"),
        ([rule("allow", "Bash", command="ls*")], ("Bash", {"command": "ls", DANGER: True}), None),
        ([rule("allow", "*"), rule("deny", "Bash")], ("Bash", {"command": "ls", DANGER: True}), "deny"),
        ([rule("allow", "Bash", command="ls*")], ("Bash", {"command": "ls", DANGER: False}), "allow"),
        ([rule("allow", "Bash", **{DANGER: "true"})], ("Bash", {"command": "ls", DANGER: True}), "allow"),
        ([rule("deny", "Bash", command="ls*")], ("Bash", {"command": "ls", DANGER: True}), "deny"),
        ([rule("allow", "Write", file_path="/a/*", content="x*")], ("Write", {"file_path": "/a/b"}), None),
        (
            [rule("allow", "Write", file_path="/a/*", content="x*")],
            ("Write", {"file_path": "/a/b", "content": "y"}),
            None,
        ),
        (
            [rule("allow", "Write", file_path="/a/*", content="x*")],
            ("Write", {"file_path": "/a/b", "content": "x"}),
            "allow",
        ),
    ],
)
def test_the_first_rule_that_matches_decides(
    rules: list[ApprovalRule], call: tuple[str, dict[str, Any]], decided: str | None
) -> None:
    assert decision(rules, *call) == decided


GLOBS = st.text("ab*?;.[\n", max_size=8)


@settings(max_examples=200)
@given(GLOBS, st.text("ab;.[\n", max_size=12))
@example("*;*", "a;b;c")
@example("a**?", "a;")
@example("*", "..")
def test_a_pattern_is_what_a_glob_is(pattern: str, value: str) -> None:
    # fnmatch knows sets of characters too.
    wanted = re.match(fnmatch.translate(pattern.replace("[", "[[]")), value) is not None
    assert (decision([rule("deny", "*", x=pattern)], "T", {"x": value}) == "deny") is wanted
    inert = decision([rule("allow", "*", command=pattern)], "T", {"command": value}) == "allow"
    assert inert <= wanted
    if not set(value) & set(";\n") and value != "..":
        assert inert == wanted


def test_hostile_patterns_and_values_take_no_time() -> None:
    value = json.dumps(["a" * 20_000] * 5)
    assert decision([rule("allow", "*", x="*a" * 200 + "b")], "T", {"x": value}) is None

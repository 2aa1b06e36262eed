"""The commands of the documentation that Claude answers: the real CLI, and an API on loopback as its model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.claude_support import KEY, require_cli
from tests.console import ROOT, check, commands_of, name, pages_for
from tests.fake_anthropic_api import FakeAPI, directive
from tests.test_docs import checkout, shell_in

__all__ = ["checkout"]

ASKED = "Have the clerk look up the minutes of March."
MINUTES = "The minutes of March, please."
PLAYED = directive(
    {"tools": [{"name": "mcp__a2a-subagents__clerk__look-up", "input": {"message": MINUTES}}]},
    {"text": "The clerk has them."},
)
# The model is told what to do by the prompt; the rest of the command is the page's.
PROGRAM = """#!{python}
import sys
from a2a_claude.cli import main
if sys.argv[1] == "call":
    sys.argv[3] += {played!r}
main()
"""


@pytest.fixture
def api(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAPI]:
    require_cli()
    api = FakeAPI().start()
    (checkout / "bin" / "a2a-claude").write_text(PROGRAM.format(python=sys.executable, played=PLAYED))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "0")
    yield api
    shell_in(checkout)(
        "XDG_STATE_HOME=$PWD/background; export XDG_STATE_HOME; for a in lead clerk; do a2a-claude stop $a; done"
    )
    api.shutdown()


def test_the_lead_asks_the_clerk_and_gets_his_answer(checkout: Path, api: FakeAPI) -> None:
    [page] = pages_for("claude")
    assert name(page) == "docs/subagents.md"
    assert ASKED in (ROOT / "docs" / "subagents.md").read_text("utf-8")
    check(commands_of(page, "claude"), shell_in(checkout))
    # The scripted clerk repeats what it hears.
    last = api.messages[-1]["body"]["messages"][-1]["content"]
    assert [each["content"] for each in last if each["type"] == "tool_result"] == [[{"type": "text", "text": MINUTES}]]

"""The Nix target: what Nix itself reads from the rendered files, and what is refused instead."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable, config, nix
from tests.nix.installation import Nix, nix_of
from tests.support import make_agent

# Each example is a batch, because starting Nix costs more than reading a hundred strings.
ANY = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
SPECIAL = st.text(st.sampled_from("""${}"'\\\n\r\t aé%"""), max_size=20)
BATCH = st.lists(ANY | SPECIAL, min_size=40, max_size=60)
KEYWORDS = ["", "let", "rec", "if", "or", "1a", "a.b", "é", "${a}", "''", '"', "\\", "$", "a b", "-", "__functor"]
HARD = [
    *KEYWORDS,
    "''${x}",
    "$${x}",
    "\\${x}",
    "{{ x }}",
    "%H %% %",
    "a\nb\r\tc",
    "\x1b[0m\x7f",
    "\u2028\ufeff😀",
    "\\n",
]


@pytest.fixture(scope="module", params=["machine", "trixie"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Nix:
    return nix_of(request.param, tmp_path_factory.mktemp("nix"))


@pytest.fixture(scope="module")
def read_back(installed: Nix, tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[str]], Any]:
    folder = tmp_path_factory.mktemp("strings")

    def read_back(texts: list[str]) -> Any:
        file = folder / "strings.nix"
        file.write_text(f"[ {' '.join(nix.string(each, 'x') for each in texts)} ]", "utf-8", newline="")
        return installed.evaluate(f"import {file}")

    return read_back


def rendered(agent: Agent, folder: Path) -> Path:
    """The folder with the agent's files, as `compile` makes it."""
    for each in [*config.render(agent), *nix.render(agent)]:
        (folder / each.path).write_text(each.text, "utf-8")
    return folder


def test_hard_strings_read_back(read_back: Callable[[list[str]], Any]) -> None:
    assert read_back(HARD) == HARD


@settings(max_examples=10, deadline=None)
@given(texts=BATCH)
def test_any_string_reads_back(read_back: Callable[[list[str]], Any], texts: list[str]) -> None:
    assert read_back(texts) == texts


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfff"])
def test_what_no_nix_string_holds_is_refused_by_its_path(text: str) -> None:
    with pytest.raises(Unrenderable, match=r"^agentCard\.name: has U\+"):
        nix.string(text, "agentCard.name")


def test_names_are_quoted_so_that_none_is_a_keyword(installed: Nix) -> None:
    names = "".join(f"{nix.string(each, 'x')} = 1; " for each in KEYWORDS)
    assert installed.evaluate(f"builtins.attrNames {{ {names} }}") == sorted(KEYWORDS)


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"x-size": 2**63}, "x-size", "larger number"),
        ({"x-sizes": [0, -(2**63) - 1]}, "x-sizes[1]", "larger number"),
        ({"x-a": {"outPath": "/etc/passwd"}}, "x-a.outPath", "meaning of its own"),
        ({"x-a": [{"__toString": 1}]}, "x-a[0].__toString", "meaning of its own"),
        ({"x-a": {"_type": "if"}}, "x-a._type", "meaning of its own"),
        ({"x-a": "a\0b"}, "x-a", "U+0000"),
        ({"x-a": {"\ud800": 1}}, "x-a.\ud800", "U+D800"),
    ],
)
def test_data_that_nix_would_change_is_refused_by_its_path(value: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        nix.render(make_agent(value))
    assert refusal.value.path == path
    assert words in refusal.value.reason
    assert refusal.value.hint


def test_the_module_is_laid_out_like_nixfmt_does() -> None:
    agent = make_agent({"secrets": {"LINEAR": {"file": "/run/secrets/linear"}}})
    shipped = {"memory/skills/a b/SKILL.md": Path("/x"), "memory/CLAUDE.md": Path("/y")}
    agent = Agent(agent.name, agent.config, agent.document, agent.variables, shipped, agent.layers)
    [module] = nix.render(agent)
    assert module.path == "module.nix"
    assert module.text == Path(__file__).with_name("nix").joinpath("module.golden.nix").read_text("utf-8")


def test_an_agent_without_secrets_and_files_has_neither() -> None:
    [module] = nix.render(make_agent({"claude": {"credentials": []}}))
    assert "secrets" not in module.text
    assert "files" not in module.text


def test_the_module_reads_the_data_beside_it(installed: Nix, tmp_path: Path) -> None:
    agent = make_agent({"agentCard": {"name": "50% of ''${HOME}\" é"}, "x-note": "a\nb", "x-big": 2**63 - 1})
    folder = rendered(agent, tmp_path)
    declared = installed.evaluate(f"(import {folder}/module.nix).services.a2a-claude.agents")
    assert list(declared) == ["reviewer"]
    assert declared["reviewer"]["settings"] == json.loads(json.dumps(agent.document))
    assert declared["reviewer"]["secrets"] == {"ANTHROPIC_API_KEY": {}}


def test_only_names_are_rendered() -> None:
    [module] = nix.render(make_agent({"agentCard": {"name": "marker"}, "claude": {"env": {"A": "marker"}}}))
    assert "marker" not in module.text

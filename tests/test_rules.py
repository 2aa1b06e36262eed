"""Every rule is explained by an example that it finds, and by one that it does not."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from a2a_claude.cli import main
from a2a_claude.compiler import render
from a2a_claude.config.diagnostics import Diagnostic, tidy
from a2a_claude.config.exposure import open_image
from a2a_claude.config.loader import Fleet, Options, load_fleet
from a2a_claude.config.rules import RULES
from a2a_claude.config.schema import raw_schema
from a2a_claude.config.variables import resolve_document
from a2a_claude.targets import Unrenderable

ROOT = Path(__file__).parent.parent
EXPLAINED: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "schema" / "rules.yaml").read_text("utf-8"))
HEADER = re.compile(r"^# (agents/\S+|a2a-claude .+)\n", re.MULTILINE)

# A released id keeps its meaning for ever: it stands in people's pipelines and suppressions.
CODES = {
    "unreadable-file": "A2C101",
    "file-too-large": "A2C102",
    "not-utf-8": "A2C103",
    "control-character": "A2C104",
    "too-many-problems": "A2C105",
    "yaml-syntax": "A2C110",
    "yaml-tab": "A2C111",
    "yaml-colon": "A2C112",
    "yaml-tag": "A2C113",
    "yaml-alias": "A2C114",
    "second-document": "A2C115",
    "duplicate-key": "A2C116",
    "key-not-string": "A2C117",
    "ambiguous-scalar": "A2C118",
    "number-range": "A2C119",
    "too-deep": "A2C120",
    "too-many-values": "A2C121",
    "not-a-mapping": "A2C122",
    "json-syntax": "A2C130",
    "agent-name": "A2C201",
    "two-configs": "A2C202",
    "no-config": "A2C203",
    "no-agents": "A2C204",
    "extends-missing": "A2C205",
    "extends-cycle": "A2C206",
    "extends-outside": "A2C207",
    "unused-profile": "A2C208",
    "no-effect": "A2C209",
    "bad-setting": "A2C210",
    "unknown-key": "A2C301",
    "wrong-type": "A2C302",
    "not-allowed": "A2C303",
    "out-of-range": "A2C304",
    "bad-format": "A2C305",
    "missing-key": "A2C306",
    "not-an-agent": "A2C307",
    "null-in-list": "A2C308",
    "deprecated-key": "A2C309",
    "bad-reference": "A2C401",
    "bare-variable": "A2C402",
    "literal-credential": "A2C403",
    "unset-variable": "A2C404",
    "bypass-consent": "A2C501",
    "nobody-to-ask": "A2C502",
    "two-prompts": "A2C503",
    "reserved-name": "A2C504",
    "undeclared-marketplace": "A2C505",
    "unpinned-marketplace": "A2C506",
    "tool-conflict": "A2C508",
    "plan-writes": "A2C509",
    "mcp-unreachable": "A2C510",
    "unknown-model": "A2C511",
    "no-public-url": "A2C512",
    "no-auth": "A2C513",
    "events-url": "A2C514",
    "duplicate-name": "A2C515",
    "bad-url": "A2C516",
    "bad-output-schema": "A2C517",
    "relative-path": "A2C518",
    "no-skills": "A2C519",
    "store-url": "A2C520",
    "auth-incomplete": "A2C521",
    "signing-key": "A2C522",
    "replicas-share": "A2C523",
    "memory-file": "A2C524",
    "unknown-mcp-server": "A2C525",
    "no-workspace": "A2C526",
    "never-asked": "A2C527",
    "published-elsewhere": "A2C528",
    "store-unserved": "A2C529",
    "port-clash": "A2C601",
    "cannot-render": "A2C701",
    "open-image": "A2C702",
}
WITHOUT_EXAMPLE = {
    "unreadable-file",
    "file-too-large",
    "not-utf-8",
    "too-many-problems",
    "too-deep",
    "too-many-values",
}
WITH_EXAMPLE = sorted(RULES.keys() - WITHOUT_EXAMPLE)


def test_codes_are_stable_and_unique() -> None:
    assert {name: rule.code for name, rule in RULES.items()} == CODES
    assert len(set(CODES.values())) == len(CODES)


def test_every_rule_is_explained_in_the_order_of_the_codes_and_nothing_else_is() -> None:
    assert list(EXPLAINED) == list(RULES) == sorted(CODES, key=CODES.__getitem__)
    for name, explained in EXPLAINED.items():
        assert explained.keys() <= {"why", "severity", "wrong", "right"}, name
        assert explained["why"].count(". ") >= 1 or len(explained["why"]) > 80, name
        assert explained["why"].endswith("."), name
        assert ("wrong" in explained, "right" in explained) == (name not in WITHOUT_EXAMPLE,) * 2, name


# --- The examples -----------------------------------------------------------------------------------------------------


def files_of(example: str) -> tuple[dict[str, str], list[str]]:
    """The files of an example by path, and the words of its command line."""
    first, *rest = HEADER.split(example)
    if first:
        return {"agents/reviewer/agent.yaml": example}, []
    parts = dict(zip(rest[::2], rest[1::2], strict=True))
    commands = [each for each in parts if each.startswith("a2a-claude ")]
    files = {path: text for path, text in parts.items() if path not in commands}
    return files, shlex.split(commands[0])[2:] if commands else []


def load_example(folder: Path, example: str) -> Fleet:
    files, words = files_of(example)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    options = dict(zip(words[::2], words[1::2], strict=True))
    settings = (options["--set"],) if "--set" in options else ()
    return load_fleet([folder / "agents"], Options(options.get("--profile"), settings))


def problems(rule: str, folder: Path, example: str) -> set[tuple[str, str]]:
    """Rule and severity of all that is found, where the rule is looked for: in checking, rendering or serving."""
    fleet = load_example(folder, example)
    found: set[tuple[str, str]] = {(each.rule, each.severity) for each in fleet.diagnostics}
    if rule == "cannot-render":
        for agent in fleet.agents:
            try:
                render(agent, ["docker"])
            except Unrenderable:
                found.add(("cannot-render", "error"))
    if rule == "open-image":
        found |= {(each.rule, each.severity) for one in fleet.loaded if (each := open_image(one, wanted=True))}
    if rule == "unset-variable":
        for loaded in fleet.loaded:
            _, unset = resolve_document(loaded.document, loaded.mentions, lambda name: None)
            found |= {(each.rule, each.severity) for each in unset}
    return found


@pytest.mark.parametrize("rule", WITH_EXAMPLE)
def test_the_wrong_example_breaks_this_rule_and_no_other(rule: str, tmp_path: Path) -> None:
    explained = EXPLAINED[rule]
    found = problems(rule, tmp_path, explained["wrong"])
    severity = explained.get("severity", "error")
    assert (rule, severity) in found
    # An example is as small as can be, so it also gets the notes of an unfinished config.
    assert {each for each in found if each[1] != "note"} == ({(rule, severity)} - {(rule, "note")})


@pytest.mark.parametrize("rule", WITH_EXAMPLE)
def test_the_right_example_breaks_no_rule(rule: str, tmp_path: Path) -> None:
    found = problems(rule, tmp_path, EXPLAINED[rule]["right"])
    assert {each for each in found if each[1] != "note" or each[0] == rule} == set()


@pytest.mark.parametrize(
    ("one", "two", "clashes"),
    [("80", "127.0.0.1:80", 1), ("127.0.0.1:80", "127.0.0.2:80", 0), ("80", "81", 0), ("3031", None, 1)],
)
@pytest.mark.parametrize("target", ["compose", "quadlet"])
def test_two_agents_are_not_published_on_one_port(
    tmp_path: Path, target: str, one: str, two: str | None, clashes: int
) -> None:
    for name, port, publish in (("a", 3030, one), ("b", 3031, two)):
        (tmp_path / name).mkdir()
        deploy = f"deploy: {{{target}: {{publish: '{publish}'}}}}\n" if publish else ""
        (tmp_path / name / "agent.yaml").write_text(f"server: {{port: {port}}}\n{deploy}")
    found = [each for each in load_fleet([tmp_path]).diagnostics if each.rule == "port-clash"]
    assert [each.span.line for each in found] == [1] * clashes


# --- Rules that no snippet can show -----------------------------------------------------------------------------------


def whole_file(data: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(data)

    return make


def nested_aliases() -> bytes:
    """Six lines that stand for 10⁶ values."""
    lines = ["x-0: &a0 [a, a, a, a, a, a, a, a, a, a]"]
    lines += [f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 6)]
    return "\n".join(lines).encode()


BYTES: list[tuple[str, str, str, Callable[[Path], None], str]] = [
    ("a folder", "agent.yaml", "unreadable-file", Path.mkdir, "1:1"),
    ("a pipe", "agent.yaml", "unreadable-file", os.mkfifo, "1:1"),
    ("too large", "agent.yaml", "file-too-large", whole_file(b"#" * ((1 << 20) + 1)), "1:1"),
    ("Latin-1", "agent.yaml", "not-utf-8", whole_file(b"agentCard:\n  name: Pr\xfcfer\n"), "2:11"),
    ("UTF-16", "agent.yaml", "not-utf-8", whole_file("server: {}\n".encode("utf-16")), "1:1"),
    ("NUL", "agent.yaml", "control-character", whole_file(b"agentCard:\n  name: a\x00b\n"), "2:10"),
    ("hidden direction", "agent.yaml", "control-character", whole_file("x-a: a\u202eb\n".encode()), "1:7"),
    ("half a character", "agent.json", "control-character", whole_file(b'{"x-a": "\\ud83d"}'), "1:9"),
    ("deep YAML", "agent.yaml", "too-deep", whole_file(b"x-a: " + b"[" * 65 + b"]" * 65), "1:69"),
    ("deep JSON", "agent.json", "too-deep", whole_file(b'{"x-a": ' + b"[" * 65 + b"]" * 65 + b"}"), "1:72"),
    ("aliases", "agent.yaml", "too-many-values", whole_file(nested_aliases()), "5:11"),
    ("many values", "agent.json", "too-many-values", whole_file(b'{"x-a": [' + b"1," * 20000 + b"1]}"), "1:40006"),
]


@pytest.mark.parametrize(("name", "rule", "make", "where"), [case[1:] for case in BYTES], ids=[c[0] for c in BYTES])
def test_a_file_that_no_snippet_can_show_is_refused_at_its_place(
    name: str, rule: str, make: Callable[[Path], None], where: str, tmp_path: Path
) -> None:
    folder = tmp_path / "agents" / "reviewer"
    folder.mkdir(parents=True)
    make(folder / name)
    (problem,) = (each for each in load_fleet([tmp_path / "agents"]).diagnostics if each.severity != "note")
    assert (problem.rule, problem.severity) == (rule, "error")
    assert str(problem.span) == f"{folder / name}:{where}"


# --- Every keyword of the schema is told ------------------------------------------------------------------------------

ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description", "default", "examples", "deprecated"}
STRUCTURE = {"$ref", "properties", "items", "patternProperties"}

KEYWORDS: list[tuple[str, str, str, str, tuple[str, ...]]] = [
    ("type", "server:\n  port: many\n", "wrong-type", "2:9", ("server.port", "integer")),
    ("enum", "logging:\n  level: verbos\n", "not-allowed", "2:10", ("debug", "error")),
    (
        "const",
        "claude:\n  outputFormat: {type: json, schema: {}}\n",
        "not-allowed",
        "2:24",
        ("claude.outputFormat.type", "json_schema"),
    ),
    ("pattern", "deploy:\n  docker:\n    baseImage: Python\n", "bad-format", "3:16", ("deploy.docker.baseImage",)),
    (
        "maxLength",
        f"deploy:\n  kubernetes: {{storageClass: {'a' * 254}}}\n",
        "bad-format",
        "2:30",
        ("deploy.kubernetes.storageClass", "253 characters"),
    ),
    ("minLength", 'agentCard:\n  name: ""\n', "bad-format", "2:9", ("agentCard.name", "empty")),
    (
        "minItems",
        "server:\n  auth: {jwt: {issuer: https://a.b, audience: c, algorithms: []}}\n",
        "bad-format",
        "2:62",
        ("server.auth.jwt.algorithms", "empty"),
    ),
    (
        "uniqueItems",
        "claude:\n  settingSources: [user, user]\n",
        "bad-format",
        "2:19",
        ("claude.settingSources", "twice"),
    ),
    ("minimum", "server:\n  port: 0\n", "out-of-range", "2:9", ("server.port", "at least 1", "65535")),
    ("maximum", "server:\n  port: 65536\n", "out-of-range", "2:9", ("server.port", "at most 65535")),
    ("exclusiveMinimum", "claude:\n  maxBudgetUsd: 0\n", "out-of-range", "2:17", ("more than 0",)),
    (
        "required",
        "agentCard:\n  provider:\n    url: https://a.b\n",
        "missing-key",
        "3:5",
        ("agentCard.provider", "organization"),
    ),
    ("additionalProperties", "server:\n  prot: 1\n", "unknown-key", "2:3", ("'prot'", "'port'")),
    (
        "additionalProperties",
        "events:\n  httpHeaders:\n    X-Team: [a]\n",
        "wrong-type",
        "3:13",
        ("events.httpHeaders.X-Team", "string"),
    ),
    ("additionalProperties", "mcp:\n  a b: {type: http}\n", "bad-format", "2:3", ("'a b'", "mcp")),
    (
        "oneOf",
        "claude:\n  thinking: {type: enabled, budget: 1}\n",
        "unknown-key",
        "2:29",
        ("claude.thinking", "budgetTokens"),
    ),
    ("oneOf", "claude:\n  thinking: {type: deep}\n", "not-allowed", "2:20", ("adaptive", "enabled", "disabled")),
    ("oneOf", "claude:\n  thinking: {display: omitted}\n", "missing-key", "2:13", ("type", "adaptive")),
    ("oneOf", "claude:\n  thinking: adaptive\n", "wrong-type", "2:13", ("a mapping",)),
    ("oneOf", "claude:\n  skills: some\n", "wrong-type", "2:11", ("all", "a list")),
    ("oneOf", "claude:\n  skills: [1]\n", "wrong-type", "2:12", ("claude.skills[0]", "string")),
    (
        "anyOf",
        'claude:\n  marketplaces: {a: {source: {source: git, ref: v1, x1: "a\\nb"}}}\n',
        "control-character",
        "2:57",
        ("line break",),
    ),
]


def keywords(node: object, names: bool = False) -> Iterator[str]:
    """The keywords of a schema; below `properties` and the like the keys are names."""
    if isinstance(node, list):
        for each in node:
            yield from keywords(each)
    elif isinstance(node, dict):
        for key, value in node.items():
            if not names:
                yield key
            if names or key not in ("default", "examples", "enum", "const"):
                yield from keywords(value, not names and key in ("properties", "patternProperties", "$defs"))


def test_the_table_has_every_keyword_of_the_schema() -> None:
    assert {case[0] for case in KEYWORDS} == set(keywords(raw_schema())) - ANNOTATIONS - STRUCTURE


def only_error(folder: Path, text: str) -> Diagnostic:
    path = folder / "agents" / "reviewer" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    (problem,) = (each for each in tidy(load_fleet([path]).diagnostics) if each.severity == "error")
    return problem


@pytest.mark.parametrize(("keyword", "text", "rule", "where", "words"), KEYWORDS)
def test_a_violation_is_told_once_at_its_place_with_a_hint(
    keyword: str, text: str, rule: str, where: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    problem = only_error(tmp_path, text)
    assert (problem.rule, str(problem.span).split(":", 1)[1]) == (rule, where)
    assert problem.hint
    for word in words:
        assert word in f"{problem.message} {problem.hint}"


# --- explain, docs/rules.md -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_explain_prints_why_and_the_examples(rule: str) -> None:
    done = CliRunner().invoke(main, ["explain", rule])
    assert done.exit_code == 0
    printed = " ".join(done.output.split())
    for part in (CODES[rule], rule, RULES[rule].title, *map(EXPLAINED[rule].get, ("why", "wrong", "right"))):
        assert part is None or " ".join(part.split()) in printed


def test_explain_lists_all_rules_takes_a_code_or_a_name_and_refuses_others() -> None:
    listed = CliRunner().invoke(main, ["explain"])
    assert [line.split()[:2] for line in listed.output.splitlines()] == [[code, name] for name, code in CODES.items()]
    by_code, by_name = (CliRunner().invoke(main, ["explain", each]) for each in ("a2c301", "unknown-key"))
    assert by_code.output == by_name.output
    refused = CliRunner().invoke(main, ["explain", "A2C999"])
    assert refused.exit_code == 2
    assert "A2C999" in refused.output


def test_the_derived_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "schema" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(re.findall(r"^## (\S+) (\S+)$", (ROOT / "docs" / "rules.md").read_text("utf-8"), re.MULTILINE)) == {
        (code, name) for name, code in CODES.items()
    }

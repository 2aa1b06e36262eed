"""The command line: an exit code for everything, messages for people on standard error, never a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from a2a_claude import __version__
from a2a_claude.cli import COMMANDS, main
from a2a_claude.targets import TARGETS

ROOT = Path(__file__).parent.parent
GOOD = "agentCard: {name: a, description: b, version: '1'}\n"


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(main, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exc_info)
    return done


def real(*arguments: str | bytes, cwd: Path, **environ: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "a2a_claude", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(ROOT), "PATH": "", **environ},
        capture_output=True,
        check=False,
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a right agent and a wrong one, and the process in it."""
    for name, text in (("right", GOOD), ("wrong", "claude: {permissionMod: plan}\n")):
        (tmp_path / "project" / "agents" / name).mkdir(parents=True)
        (tmp_path / "project" / "agents" / name / "agent.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


# --- Exit codes -------------------------------------------------------------------------------------------------------

CODES: list[tuple[str, int]] = [
    ("--help", 0),
    ("--version", 0),
    ("-h", 0),
    ("", 2),
    ("nothing", 2),
    ("validate agents/right", 0),
    ("validate agents/right/agent.yaml", 0),
    ("validate agents/right/", 0),
    ("validate agents/right --strict", 0),
    ("validate agents/right --set server.hostname=0.0.0.0", 0),
    ("validate agents/right --set server.hostname=0.0.0.0 --strict", 1),
    ("validate agents/wrong", 1),
    ("validate", 1),
    ("validate agents/none", 2),
    ("validate agents/right agents/none", 2),
    ("validate --format xml", 2),
    ("validate --profile ../x", 2),
    ("validate --profile .", 2),
    ("validate agents/right --set x", 1),
    ("compile agents/right", 0),
    ("compile agents/right -o agents/right/agent.yaml", 2),
    ("compile agents/right -o agents/right/agent.yaml/x", 2),
    ("compile agents/right -o deploy/a/b/c", 0),
    ("compile agents/right --check", 3),
    ("compile agents/wrong", 1),
    ("compile", 1),
    ("compile --agent right", 0),
    ("compile --agent none", 2),
    ("compile --target none", 2),
    ("compile agents/none", 2),
    ("show right", 0),
    ("show agents/right", 0),
    ("show agents/right/agent.yaml", 0),
    ("show right --agents agents", 0),
    ("show right --origins", 0),
    ("show wrong", 1),
    ("show none", 2),
    ("show ..", 1),
    ("show agents", 1),
    ("show", 2),
    ("explain", 0),
    ("explain A2C301", 0),
    ("explain a2c301", 0),
    ("explain unknown-key", 0),
    ("explain nothing", 2),
    ("schema", 0),
    ("schema --draft 7", 0),
    ("schema --draft 6", 2),
    ("init new-agent", 0),
    ("init right", 2),
    ("init Right", 2),
    ("init ../x", 2),
    ("init", 2),
    ("init new --agents agents/right/agent.yaml", 2),
]


@pytest.mark.parametrize(("line", "code"), CODES)
def test_the_exit_code(line: str, code: int, here: Path) -> None:
    done = run(*line.split())
    assert done.exit_code == code, done.output
    if code and line != "":
        assert done.stderr.strip()
    if code == 2:
        assert "hint:" in done.stderr or "Usage:" in done.stderr
        assert done.stdout == "" or "--check" in line


@pytest.mark.parametrize(
    "arguments", [("validate", ""), ("compile", ""), ("show", ""), ("compile", "agents/right", "-o", "")]
)
def test_an_empty_path_is_none(arguments: tuple[str, ...], here: Path) -> None:
    assert run(*arguments).exit_code == 2
    assert sorted(each.name for each in here.iterdir()) == ["agents"]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: main {command}")


def test_python_m_is_the_command(tmp_path: Path) -> None:
    done = real("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout.decode().strip()) == (0, f"a2a-claude, version {__version__}")


# --- What goes where --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_form_for_programs_is_alone_on_standard_output(form: str, here: Path) -> None:
    for path in ("agents/right", "agents/wrong", "agents"):
        json.loads(run("validate", path, "--format", form).stdout)
        json.loads(run("compile", path, "--format", form).stdout)


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_show_prints_the_config_alone(form: str, here: Path) -> None:
    shown = json.loads(run("show", "right", "--format", form).stdout)
    assert shown["agentCard"]["name"] == "a"


def test_show_tells_where_each_value_comes_from(here: Path) -> None:
    (here / "agents" / "defaults.yaml").write_text("server: {port: 4000}\n", "utf-8")
    (here / "agents" / "right" / "agent.yaml").write_text(GOOD + "server: {port: 4001}\n", "utf-8")
    lines = run("show", "right", "--origins", "--set", "x-a=1").stdout.splitlines()
    assert "server.port = 4001  # agents/right/agent.yaml:2:16, over agents/defaults.yaml:1:16" in lines
    assert 'server.hostname = "127.0.0.1"  # default' in lines
    assert "x-a = 1  # --set:1:5" in lines
    assert all("  # " in line for line in lines)


def test_a_closed_pipe_is_no_error_to_tell(here: Path) -> None:
    for command in ("explain", "schema", "show right"):
        shell = f"{sys.executable} -m a2a_claude {command} | head -c 1"
        done = subprocess.run(
            ["/bin/sh", "-c", shell],
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr
        assert b"BrokenPipe" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_the_terminal_will_do(encoding: str, here: Path) -> None:
    place = here / "agents" / os.fsdecode(b"caf\xe9")
    place.mkdir()
    (place / "agent.yaml").write_text("x-a: 1\n", "utf-8")
    (here / "agents" / "wrong" / "agent.yaml").write_text("claude: {größe: 😀, model: '${'}\n", "utf-8")
    for form in ("text", "json", "github", "sarif"):
        done = real("validate", "--format", form, cwd=here, PYTHONIOENCODING=encoding, PYTHONCOERCECLOCALE="0")
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr


# --- init and schema --------------------------------------------------------------------------------------------------


def test_what_init_writes_validates_and_compiles_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = ["a", "a-b", "a1", "a--b-", "yes", "n", "null", "true", "x" * 63]
    for name in names:
        assert run("init", name).exit_code == 0
        assert run("validate", f"agents/{name}", "--strict").exit_code == 0
    assert run("validate", "--strict").exit_code == 0
    assert run("compile").exit_code == 0
    ports = {json.loads(path.read_text("utf-8"))["server"]["port"] for path in Path("deploy").glob("*/agent.json")}
    assert len(ports) == len(names)


def test_init_goes_by_the_ports_of_the_agents_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agents" / "one").mkdir(parents=True)
    (tmp_path / "agents" / "one" / "agent.yaml").write_text("x-a: 1\n", "utf-8")
    (tmp_path / "agents" / "broken").mkdir()
    (tmp_path / "agents" / "broken" / "agent.yaml").write_text("a: [\n", "utf-8")
    assert run("init", "two").exit_code == 0
    assert run("validate", "agents/one", "agents/two").exit_code == 0


def test_the_schemas_are_schemas() -> None:
    Draft202012Validator.check_schema(json.loads(run("schema").stdout))
    Draft7Validator.check_schema(json.loads(run("schema", "--draft", "7").stdout))


# --- Anything ---------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *("agents", "agents/right", "agents/wrong/agent.yaml", "right", "deploy", "/", ".", "..", "", "-", "--", "-o"),
        *(
            "--set",
            "--profile",
            "prod",
            "--format",
            "json",
            "sarif",
            "github",
            "--strict",
            "--check",
            "--force",
            "--prune",
        ),
        *(
            "--agent",
            "--target",
            *TARGETS,
            "--agents",
            "--origins",
            "--draft",
            "7",
            "--help",
            "x-a=1",
            "server.port=no",
        ),
        *("a" * 5000, "a/" * 3000, "é😀", "a\nb", "\x1b[31m", "\udcff", "%s{}", "/dev/null", "/dev/zero", "/proc/self"),
    ]
)
ARGUMENTS = st.lists(WORDS | st.text(st.characters(exclude_characters="\0"), max_size=8), max_size=6)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Path]:
    """A project to be misused, and the process in it."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "agents" / "right").mkdir(parents=True)
        (Path(name) / "agents" / "right" / "agent.yaml").write_text(GOOD, "utf-8")
        os.chdir(name)
        yield Path(name)
        os.chdir(before)


@given(st.sampled_from(list(COMMANDS)), ARGUMENTS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_arguments_end_in_a_traceback(sandbox: Path, command: str, arguments: list[str]) -> None:
    if command in ("compile", "init"):  # they write where they are told to
        arguments = [re.sub(r"^/+|\.\.", "", each) for each in arguments]
    if "/" in arguments or "/proc/self" in arguments or ".." in arguments:
        arguments = [each for each in arguments if each not in ("/", "..")]
    done = CliRunner().invoke(main, [command, *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code in (0, 1, 2, 3)


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", b"\xff"),
        *((each, b"a" * 5000) for each in ("validate", "show", "serve", "healthcheck", "doctor")),
        ("validate", "/dev/zero"),
        ("validate", "/dev/stdin"),
        ("validate", "/proc/self/mem"),
        ("validate", "agents/right", "--set", b"x-a=\xff"),
        ("compile", "agents/right", "-o", b"out-\xff"),
        ("compile", "agents/right", "-o", "/dev/null"),
        ("compile", "agents/right", "-o", "/proc/x"),
        ("show", b"\xff"),
        ("init", b"\xff"),
    ],
)
def test_a_real_process_says_what_is_wrong(arguments: tuple[str | bytes, ...], here: Path) -> None:
    done = real(*arguments, cwd=here)
    assert b"Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1, 2)
    assert done.stderr

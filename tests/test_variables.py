"""Variables: known when an agent is compiled, needed only when it is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from a2a_claude.config import variables
from a2a_claude.config.diagnostics import Diagnostic
from a2a_claude.config.loader import Loaded, load_fleet
from a2a_claude.config.model import McpServerHttp
from a2a_claude.config.variables import lookup, resolve_document

COMMAND = "mcp:\n  a: {type: stdio, command: "
OAUTH = "{mode: oauth2_client_credentials, tokenUrl: 'https://a.b', clientId: a, clientSecret: '${NONE}'}"
SUB_AGENT = "subAgents:\n  agents:\n    - name: a\n      agentCardUrl: https://a.b/card.json\n      auth: "


def load(folder: Path, text: str) -> Loaded:
    path = folder / "agents" / "reviewer" / "agent.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    (loaded,) = load_fleet([path]).loaded
    assert loaded.agent is not None, [each for each in loaded.diagnostics if each.severity == "error"]
    return loaded


def serve(folder: Path, text: str, **environ: str) -> tuple[dict[str, Any], list[Diagnostic]]:
    loaded = load(folder, text)
    # Mentions may be read once only: what is given need not be a list.
    return resolve_document(loaded.document, iter(loaded.mentions), environ.get)


def test_compiling_needs_no_variable_and_knows_each(tmp_path: Path) -> None:
    text = (
        "claude: {workingDirectory: '${DIR:-/srv}/${SUB}', model: '${MODEL}', credentials: [ANTHROPIC_API_KEY]}\n"
        "mcp:\n  a: {type: stdio, command: x, args: ['$BARE'], env: {DB_PASSWORD: '${DB}', M: '${SUB}'}}\n"
        "secrets: {DIR: {}}\n"
    )
    agent = load(tmp_path, text).agent
    assert agent is not None
    found = {
        each.name: (each.secret, each.required, each.default, [use.path for use in each.uses])
        for each in agent.variables
    }
    assert found == {
        "BARE": (False, False, None, ["mcp.a.args[0]"]),
        "DB": (True, True, None, ["mcp.a.env.DB_PASSWORD"]),
        "DIR": (True, False, "/srv", ["claude.workingDirectory"]),
        "MODEL": (False, False, None, ["claude.model"]),
        "SUB": (False, True, None, ["claude.workingDirectory", "mcp.a.env.M"]),
    }
    places = {use.path: use.where for each in agent.variables for use in each.uses}
    assert places["mcp.a.env.DB_PASSWORD"].endswith("agents/reviewer/agent.yaml:3:68")
    assert agent.document["claude"]["workingDirectory"] == "${DIR:-/srv}/${SUB}"


def test_references_are_replaced_where_they_are_allowed_and_nowhere_else(tmp_path: Path) -> None:
    text = (
        "agentCard: {name: 'costs $5 ${A}'}\nclaude: {systemPromptAppend: '${A}', model: '${A}'}\n"
        "mcp:\n  a: {type: stdio, command: '${A}', args: ['--x=${A}$$', '${A}'], env: {E: '${B:-$A}'}}\n"
    )
    document, problems = serve(tmp_path, text, A="${B}", B="")
    assert document["agentCard"]["name"] == "costs $5 ${A}"
    assert document["claude"]["systemPromptAppend"] == "${A}"
    assert document["claude"]["model"] == "${B}"
    assert document["mcp"]["a"]["command"] == "${B}"
    assert document["mcp"]["a"]["args"] == ["--x=${B}$", "${B}"]
    assert document["mcp"]["a"]["env"] == {"E": "$A"}
    assert problems == []


def test_a_value_that_only_escapes_dollars_has_them_when_it_is_served(tmp_path: Path) -> None:
    text = "claude: {workingDirectory: '/srv/$$HOME', env: {A: '$$5', B: '5$'}}\n"
    document, problems = serve(tmp_path, text, HOME="/root")
    assert document["claude"]["workingDirectory"] == "/srv/$HOME"
    assert document["claude"]["env"] == {"A": "$5", "B": "5$"}
    assert problems == []


def test_the_document_itself_is_left_alone(tmp_path: Path) -> None:
    loaded = load(tmp_path, COMMAND + "'${A}', args: ['${A}']}\n")
    resolve_document(loaded.document, loaded.mentions, {"A": "x"}.get)
    assert loaded.document["mcp"]["a"]["args"] == ["${A}"]


UNSET: list[tuple[str, str, str, list[str]]] = [
    ("a reference", COMMAND + "'${NONE}'}\n", "2:29", ["NONE", "mcp.a.command"]),
    ("an item", "mcp:\n  a: {type: stdio, command: x, args: [a, '${NONE}']}\n", "2:42", ["NONE", "mcp.a.args[1]"]),
    ("a message", COMMAND + "'${NONE:?ask Ada}'}\n", "2:29", ["NONE", "mcp.a.command", "ask Ada"]),
    ("empty with a message", COMMAND + "'${EMPTY:?ask}'}\n", "2:29", ["EMPTY", "ask"]),
    ("beside a set one", COMMAND + "'${A}${NONE}'}\n", "2:29", ["NONE", "mcp.a.command"]),
    ("a client secret", SUB_AGENT + OAUTH, "5:99", ["NONE", "auth.clientSecret"]),
]


@pytest.mark.parametrize(("text", "where", "words"), [case[1:] for case in UNSET], ids=[case[0] for case in UNSET])
def test_an_unset_variable_is_an_error_with_name_key_and_place(
    text: str, where: str, words: list[str], tmp_path: Path
) -> None:
    _, (problem,) = serve(tmp_path, text, A="x", EMPTY="")
    assert (problem.rule, problem.severity) == ("unset-variable", "error")
    assert str(problem.span).endswith(f"agents/reviewer/agent.yaml:{where}")
    assert [word for word in words if word not in problem.message] == []
    assert problem.hint


@pytest.mark.parametrize("environ", [{}, {"MODEL": ""}, {"MODEL": "  "}])
def test_an_unset_model_is_claudes_own_with_a_warning(environ: dict[str, str], tmp_path: Path) -> None:
    document, (problem,) = serve(tmp_path, "claude: {model: '${MODEL}'}\n", **environ)
    assert "model" not in document["claude"]
    assert (problem.severity, "MODEL" in problem.message) == ("warning", True)


@pytest.mark.parametrize("environ", [{}, {"TOKEN": ""}, {"TOKEN": " "}])
@pytest.mark.parametrize(
    "auth",
    [
        "{mode: bearer, token: '${TOKEN}'}",
        "{mode: api_key, token: '${TOKEN}', headerName: '${H:-X-A}'}",
        "{mode: api_key, headerName: '${H:-X-A}', token: '${TOKEN}'}",
    ],
)
def test_a_sub_agent_without_its_token_is_called_without_authentication(
    auth: str, environ: dict[str, str], tmp_path: Path
) -> None:
    document, problems = serve(tmp_path, f"{SUB_AGENT}{auth}\n", **environ)
    (agent,) = document["subAgents"]["agents"]
    assert "auth" not in agent
    assert [(each.severity, "TOKEN" in each.message) for each in problems] == [("warning", True)]


def test_a_bare_name_that_is_not_set_stays(tmp_path: Path) -> None:
    document, (problem,) = serve(tmp_path, COMMAND + "'$A/$NONE'}\n", A="x")
    assert document["mcp"]["a"]["command"] == "x/$NONE"
    assert problem.severity == "warning"


# --- Where values come from -------------------------------------------------------------------------------------------


@pytest.fixture
def run_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run-secrets"
    folder.mkdir()
    monkeypatch.setattr(variables, "RUN_SECRETS", folder)
    return folder


def test_files_of_secrets_come_before_the_environment(tmp_path: Path, run_secrets: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (tmp_path / "named").write_text("of NAME_FILE\n", "utf-8")
    environ = {"NAME": "of the environment"}
    assert lookup(environ)("NAME") == "of the environment"
    environ["NAME_FILE"] = str(tmp_path / "named")
    assert lookup(environ)("NAME") == "of NAME_FILE"
    (run_secrets / "NAME").write_text("of the container", "utf-8")
    assert lookup(environ)("NAME") == "of the container"
    environ["CREDENTIALS_DIRECTORY"] = str(credentials)
    assert lookup(environ)("NAME") == "of the container"
    (credentials / "NAME").write_text("of systemd", "utf-8")
    assert lookup(environ)("NAME") == "of systemd"
    assert lookup(environ)("OTHER") is None


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"a\n", "a"),
        (b"a\r\n", "a"),
        (b"a\n\n", "a\n"),
        (b" a ", " a "),
        (b"a\r\nb\n", "a\r\nb"),
        (b"", ""),
        (b"\xff", None),
    ],
)
def test_one_final_line_break_of_a_file_is_dropped_and_nothing_else(
    data: bytes, value: str | None, tmp_path: Path, run_secrets: Path
) -> None:
    (run_secrets / "NAME").write_bytes(data)
    assert lookup({})("NAME") == value


@pytest.mark.parametrize("file", ["/nothing/here", "/", "a\0b"])
def test_a_file_that_cannot_be_read_gives_way_to_the_environment(file: str, run_secrets: Path) -> None:
    assert lookup({"NAME_FILE": file, "NAME": "x"})("NAME") == "x"


def test_a_header_that_begins_with_x_is_a_header_and_no_annotation(tmp_path: Path) -> None:
    path = tmp_path / "agents" / "a" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "claude: {allowedTools: [mcp__issues__*]}\n"
        'mcp: {issues: {type: http, url: "https://a.example/", headers: {x-api-key: "${ISSUES_KEY}"}}}\n'
        'events: {transport: http, httpUrl: "https://b.example/", httpHeaders: {x-auth: "${EVENTS_KEY}"}}\n'
    )
    (agent,) = load_fleet([path]).agents
    assert [each.name for each in agent.variables] == ["EVENTS_KEY", "ISSUES_KEY"]
    assert agent.config.events.http_headers == {"x-auth": "${EVENTS_KEY}"}
    issues = agent.config.mcp["issues"]
    assert isinstance(issues, McpServerHttp)
    assert issues.headers == {"x-api-key": "${ISSUES_KEY}"}


def test_memory_that_is_left_out_is_not_in_the_compiled_agent(tmp_path: Path) -> None:
    path = tmp_path / "agents" / "a" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "claude: {settingSources: [project]}\nmemory: {instructions: gone.md, skills: [gone, /srv/skills/a]}\n"
    )
    (agent,) = load_fleet([path]).agents
    assert agent.config.memory.instructions is None
    assert agent.config.memory.skills == ("/srv/skills/a",)

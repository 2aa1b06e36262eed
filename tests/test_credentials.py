"""A credential in a config is found wherever it stands, and shown nowhere; ordinary values are left alone."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from a2a_claude.cli import main
from a2a_claude.config.credentials import is_secret_flag, is_secret_name, literal, mask, mask_line, suggestion
from a2a_claude.config.node import Path as ConfigPath

ENV = ("mcp", "files", "env", "SETTING")
ARGS = ("mcp", "files", "args", 0)
URL = ("mcp", "files", "url")
PLACES: list[ConfigPath] = [ENV, ARGS, URL, ("x-note",), ("agentCard", "name"), ("claude", "model")]

ORDINARY = [
    "4225332178759948e04aabbccddeeff001122334",
    "550e8400-e29b-41d4-a716-446655440000",
    "sha256:" + "0123456789abcdef" * 4,
    "registry.example.com:5000/team/image:1.2@sha256:" + "a" * 64,
    "claude-sonnet-4-5-20250929",
    "/var/lib/a2a-claude/workspace",
    "Bearer ${TOKEN}",
    "Bearer $TOKEN",
    "Basic ${TOKEN}",
    "token: ${TOKEN}",
    "Authorization: Bearer ${TOKEN}",
    "--token-file",
    "--token",
    "--token=${TOKEN}",
    "--max-tokens=4096",
    "API_KEY=${API_KEY}",
    "LOG_LEVEL=debug",
    "http://localhost:8080/path",
    "https://host:8080?next=a@b",
    "https://user@host/",
    "https://user:${PASSWORD}@host/db",
    "https://${USER:-me}:${PASSWORD}@host",
    "https://host/?api_key=${KEY}&page=2",
    "https://host/?token_type=bearer",
    "postgres://user:@host/db",
    "ssh://git@github.com:22/org/repo",
    "git@github.com:org/repo.git",
    "@modelcontextprotocol/server-filesystem@2025.8.21",
    "sk-learn",
    "sk-learn-pipeline-for-training-data",
    "risk-assessment-of-projects-2024-and-2025",
    "task-1234567890abcdef12345",
    "Basic authentication server",
    "Uses basic authentication and bearer tokens",
    "bearer of good news",
    "mcp__github__create_issue",
    "Bash(git log:*)",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "2001:db8::1",
    "${HOME}/.cache",
    "keys of the kingdom",
]


@pytest.mark.parametrize("value", ORDINARY)
def test_an_ordinary_value_is_no_credential(value: str) -> None:
    assert [literal(value, path, False) for path in PLACES] == [None] * len(PLACES)
    assert mask(value) == value or ":-" in value


CREDENTIALS: list[tuple[str, ConfigPath]] = [
    ("sk-ant-api03-abcdefghijklmnop", ("claude", "model")),
    ("a sk-proj-Ab1Ab1Ab1Ab1Ab1Ab1", ("claude", "systemPrompt")),
    ("ghp_" + "a1" * 18, ENV),
    ("github_pat_" + "a1" * 20, ENV),
    ("xoxb-1234567890-abcdef", ENV),
    ("AKIAIOSFODNN7EXAMPLE", ENV),
    ("-----BEGIN OPENSSH PRIVATE KEY-----", ENV),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", ("x-note",)),
    ("Bearer abcdef1234", ("mcp", "files", "headers", "X-Anything")),
    ("hunter2", ("mcp", "files", "headers", "Authorization")),
    ("hunter2", ("mcp", "files", "headers", "X-Api-Key")),
    ("session=hunter2", ("events", "httpHeaders", "Cookie")),
    ("hunter2", ("mcp", "files", "env", "DB_PASSWORD")),
    ("hunter2", ("mcp", "files", "env", "PGPASSWORD")),
    ("hunter2", ("mcp", "files", "env", "openaiApiKey")),
    ("pa$$word", ("mcp", "files", "env", "DB_PASSWORD")),
    ("hunter$2", ("mcp", "files", "env", "DB_PASSWORD")),
    ("${TOKEN:-hunter2}", ("mcp", "files", "env", "TOKEN")),
    ("hunter2", ("subAgents", "agents", 0, "auth", "token")),
    ("hunter2", ("subAgents", "agents", 0, "auth", "clientSecret")),
    ("--token=hunter2", ARGS),
    ("--api-key=pa$$word", ARGS),
    ("API_KEY=hunter2", ARGS),
    ("X-Api-Key: hunter2", ARGS),
    ("Authorization: Bearer abcdefgh", ARGS),
    ("https://user:hunter2@host", URL),
    ("https://user:hunt$er2@host", URL),
    ("https://${USER}:hunter2@host", URL),
    ("https://user:${PASSWORD:-hunter2}@host", URL),
    ("postgres://user:hunter2@host/db", ("store", "url")),
    ("https://host/?api_key=hunter2", URL),
    ("https://0123456789abcdef01234567@host/1", URL),
]


@pytest.mark.parametrize(("value", "path"), CREDENTIALS)
def test_a_credential_is_found(value: str, path: ConfigPath) -> None:
    assert literal(value, path, False)
    assert suggestion(path, value).startswith(("${", "Bearer ${"))
    assert "hunter2" not in suggestion(path, value)


@pytest.mark.parametrize("name", ["GOOGLE_APPLICATION_CREDENTIALS", "AWS_CREDENTIALS"])
def test_the_file_of_credentials_is_none(name: str) -> None:
    path = ("mcp", "files", "env", name)
    assert literal("/run/secrets/google.json", path, False) is None
    assert literal("hunter2", path, False)


def test_names_of_secrets() -> None:
    names = ["TOKEN", "GITHUB_TOKEN", "x-api-key", "api.key", "accessKey", "CLIENT_SECRET", "DB_PASS", "Authorization"]
    others = ["MAX_TOKENS", "TOKEN_FILE", "PRIMARY_KEY", "KEYBOARD", "COMPASS", "tokenUrl", "SECRETARY", "PATH", ""]
    assert [is_secret_name(each) for each in names] == [True] * len(names)
    assert [is_secret_name(each) for each in others] == [False] * len(others)
    assert [is_secret_flag(each) for each in ("--token", "-password", "--my-api-key", "--token=x", "--token-file")] == [
        *(True, True, True, False, False)
    ]


LINES: list[tuple[str, str]] = [
    ("  token: hunter2", "  token: *******"),
    ('  "clientSecret": "hunter2",', '  "clientSecret": "*******",'),
    ("  X-Api-Key: hunter2 # mine", "  X-Api-Key: ******* # mine"),
    ("PASSWORD=hunter2", "PASSWORD=*******"),
    ("url: https://u:hunter2@host", "url: https://*********@host"),
    ("  " + "Ab1/" * 16, "  " + "*" * 64),
    ("  token: ${TOKEN}", "  token: ${TOKEN}"),
    ("  tokenUrl: https://host", "  tokenUrl: https://host"),
    ("  password: &anchor", "  password: &anchor"),
    ("  password: *alias", "  password: *alias"),
    ("  password: |-", "  password: |-"),
    ('  "Authorization": "Bearer ${TOKEN}",', '  "Authorization": "Bearer ${TOKEN}",'),
    ("  token: ${TOKEN:-hunter2}", "  token: ${TOKEN:-********"),
    ("  - password: correct horse  # mine", "  - password: *************  # mine"),
    ("  password: ab,cd, e", "  password: ********"),
    ('  "password": "a, b\\" c", "port": 1', '  "password": "********", "port": 1'),
    ("  password: 'it''s'", "  password: '*****'"),
    ('  password: "two words', '  password: "*********'),
    ("  password = ''hunter2'';", "  password = ''*******'';"),
    ("PASSWORD=*hunter2", "PASSWORD=********"),
    ('Environment="API_TOKEN=hunter2" "A=b"', 'Environment="API_TOKEN=*******" "A=b"'),
    ("--env=API_TOKEN=hunter2", "--env=API_TOKEN=*******"),
    ('args: ["--token", "hunter2", "-v"]', 'args: ["--token", "*******", "-v"]'),
    ("A" * 70 + "_TOKEN=hunter2", "A" * 70 + "_TOKEN=*******"),
    ("LoadCredential=A_TOKEN:/etc/a/A_TOKEN", "LoadCredential=A_TOKEN:/etc/a/A_TOKEN"),
    ("LoadCredentialEncrypted=A_TOKEN:/etc/a", "LoadCredentialEncrypted=A_TOKEN:/etc/a"),
    ("LoadCredential=A:/etc/a TOKEN=hunter2", "LoadCredential=A:/etc/a TOKEN=*******"),
    ("SetCredential=A:hunter 2", "SetCredential=A:********"),
    ("Secret=A_TOKEN,type=mount,target=A", "Secret=A_TOKEN,type=mount,target=A"),
    ("Secret=hunter2", "Secret=*******"),
    ("#   /etc/a/A_TOKEN: A_TOKEN, optional", "#   /etc/a/A_TOKEN: A_TOKEN, optional"),
]  # fmt: skip
WEB: list[tuple[str, str]] = [
    ("https://hunter2@host/", "https://*******@host/"),
    ("git+https://hunter2@host/", "git+https://*******@host/"),
    ("https://hunter2:x-oauth-basic@host", "https://*********************@host"),
    ("https://u:hun@ter2@host", "https://**********@host"),
    ("https://u:${PASSWORD}@host", "https://**${PASSWORD}@host"),
    ("https://${TOKEN}@host/", "https://${TOKEN}@host/"),
    ("ssh://git@host/a", "ssh://git@host/a"),
    ("postgres://user@host/db", "postgres://user@host/db"),
    ("https://host/a?key=hunter2&page=2", "https://host/a?key=*******&page=2"),
    ("https://host/a?page=2&sig=a%2Bb%3D", "https://host/a?page=2&sig=********"),
    ("https://host/a?X-Amz-Signature=ab", "https://host/a?X-Amz-Signature=**"),
    ("https://host/a?at=0123456789abcdef0123&b=2", "https://host/a?at=********************&b=2"),
    ("https://host/a?next=https://other/?key=hunter2", "https://host/a?next=https://other/?key=*******"),
    ("https://host/a?key=${KEY}&page=2", "https://host/a?key=${KEY}&page=2"),
    ("https://host/a?tool=issues#top", "https://host/a?tool=issues#top"),
    ("https://host/a#access_key=hunter2", "https://host/a#access_key=*******"),
]


@pytest.mark.parametrize(("line", "shown"), [*LINES, *WEB, *((f'  "url": "{a}",', f'  "url": "{b}",') for a, b in WEB)])
def test_a_line_is_shown_without_what_its_names_give_away(line: str, shown: str) -> None:
    assert mask_line(line) == shown


# --- Nowhere in what is printed ---------------------------------------------------------------------------------------

SECRET = "Hunter2Hunter2"
HTTP = "mcp:\n  a:\n    type: http\n    url: https://h\n"
CONFIGS: list[tuple[str, str]] = [
    ("a header", f"mcp:\n  a: {{type: http, url: https://h, headers: {{Authorization: {SECRET}}}}}\n"),
    ("a header and an unknown key", f"mcp:\n  a: {{type: http, urk: x, headers: {{X-Api-Key: {SECRET}}}}}\n"),
    ("a block", f"{HTTP}    headers:\n      Authorization: |\n        {SECRET}\n"),
    ("quotes over two lines", f'{HTTP}    headers: {{Authorization: "a\n      {SECRET}"}}\n'),
    ("a duplicate", f"{HTTP}    url: https://u:{SECRET}@h\n"),
    ("a colon", f"mcp:\n  a:\n    env:\n      API_TOKEN: {SECRET}: x\n"),
    ("an open quote", f'mcp:\n  a:\n    env:\n      API_TOKEN: "{SECRET}\n'),
    ("an open bracket", f"mcp: {{a: {{env: {{API_TOKEN: {SECRET}\n"),
    ("a tag", f"mcp:\n  a:\n    env:\n      API_TOKEN: !x {SECRET}\n"),
    ("a wrong type", f"mcp:\n  a:\n    type: stdio\n    command: x\n    args: https://u:{SECRET}@h\n"),
    ("a list", f"subAgents:\n  agents:\n    - auth: {{mode: bearer, token: [{SECRET}]}}\n"),
    ("another mode", f"subAgents:\n  agents:\n    - auth: {{mode: bearar, token: {SECRET}}}\n"),
    ("a default", f"{HTTP}    headers: {{Authorization: '${{T:-{SECRET}}}'}}\n"),
    ("a broken reference", f"{HTTP}    headers: {{X-Token: '${{sk-ant-{SECRET}'}}\n"),
    ("two options", f"mcp:\n  a:\n    type: stdio\n    command: x\n    args: [--token, {SECRET}, --token=x{SECRET}]\n"),
    ("a key", f"mcp:\n  sk-ant-api03-{SECRET}:\n    type: stdio\n"),
    ("an annotation", f"x-token:\n  url: https://u:{SECRET}@h\n"),
    ("a prompt", f"claude:\n  systemPrompt: use sk-ant-api03-{SECRET}\n  systemPromptAppend: x\n"),
    ("an alias", f"x-a: &a https://u:{SECRET}@h\nstore: {{type: postgresql, url: *a}}\n"),
    ("a model", f"claude:\n  model: sk-ant-api03-{SECRET}\n  permissionMode: sk-ant-api03-{SECRET}\n"),
]  # fmt: skip


def in_json() -> list[tuple[str, str]]:
    """The same in JSON, but for what only YAML can have wrong."""
    found = []
    for name, text in CONFIGS:
        with contextlib.suppress(yaml.YAMLError):
            found.append((name, json.dumps(yaml.safe_load(text), indent=1)))
    return found


FILES = [(f"{name}, YAML", "agent.yaml", text) for name, text in CONFIGS]
FILES += [(f"{name}, JSON", "agent.json", text) for name, text in in_json()]


@pytest.mark.parametrize(("file", "text"), [case[1:] for case in FILES], ids=[case[0] for case in FILES])
def test_no_form_of_the_report_shows_it(file: str, text: str, tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "reviewer"
    folder.mkdir(parents=True)
    (folder / file).write_text(text, "utf-8")
    for form in ("text", "json", "github", "sarif"):
        for command in ("validate", "show", "compile"):
            done = CliRunner().invoke(main, [command, str(folder), "--format", form, "--set", "server.port=0"])
            assert done.exit_code == 1, done.output
            assert SECRET not in done.output, done.output
            assert "HUNTER2" not in done.output, done.output


HAND_MADE: list[tuple[str, str]] = [
    ("Dockerfile", f"ENV API_TOKEN={SECRET}\n"),
    ("Dockerfile", f'ENV A=1 API_TOKEN="x {SECRET}"\n'),
    ("Dockerfile", f"RUN pip install --index-url https://{SECRET}@host/simple a\n"),
    ("a2a-claude-reviewer.service", f"Environment=API_TOKEN={SECRET}\n"),
    ("a2a-claude-reviewer.service", f"SetCredential=ANYTHING:{SECRET}\n"),
    ("a2a-claude-reviewer.service", f"ExecStartPre=notify --token {SECRET}\n"),
    ("compose.yaml", f"x-a: https://host/a?b=1&sig={SECRET}\n"),
    ("compose.yaml", f"x-password: correct {SECRET}\n"),
    ("env.example", f"A_TOKEN={SECRET}"),  # no line's end
    ("quadlet/a2a-claude-reviewer.container", f"Environment=A_PASSWORD='{SECRET} {SECRET}'\n"),
    ("env.example", "Hunter2Hunter2/" * 5 + "\n"),  # a line of a key
]


@pytest.mark.parametrize(("file", "text"), HAND_MADE)
def test_a_diff_does_not_show_it(file: str, text: str, tmp_path: Path) -> None:
    out = tmp_path / "deploy"
    (tmp_path / "agents" / "reviewer").mkdir(parents=True)
    (tmp_path / "agents" / "reviewer" / "agent.yaml").write_text("agentCard: {name: a}\n", "utf-8")
    arguments = ["compile", str(tmp_path / "agents"), "-o", str(out)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    with (out / "reviewer" / file).open("a", encoding="utf-8") as written:
        written.write(text)
    for option in ("--check", "--diff"):
        done = CliRunner().invoke(main, [*arguments, option])
        assert done.exit_code == 3
        assert f"-{mask_line(text.rstrip())}" in done.output
        assert SECRET not in done.output


RICH = """
server: {auth: {bearer: {tokensVariable: CALLER_TOKENS}}}
secrets:
  GITHUB_TOKEN: {description: reads issues}
  SEALED_TOKEN: {encrypted: true}
  OTHER_TOKEN: {optional: true, file: /srv/tokens/other}
mcp:
  github:
    type: http
    url: https://mcp.example/?tools=issues
    headers: {Authorization: "Bearer ${GITHUB_TOKEN}"}
"""


def test_what_is_compiled_holds_no_secret_and_a_diff_shows_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "agents" / "reviewer").mkdir(parents=True)
    (tmp_path / "agents" / "reviewer" / "agent.yaml").write_text(RICH, "utf-8")
    done = CliRunner().invoke(main, ["compile", str(tmp_path / "agents"), "-o", str(tmp_path / "deploy"), "--diff"])
    assert done.exit_code == 3
    assert "+LoadCredential=GITHUB_TOKEN:/etc/a2a-claude/reviewer/secrets/GITHUB_TOKEN\n" in done.output
    assert "+LoadCredential=OTHER_TOKEN:/srv/tokens/other\n" in done.output
    assert {line for line in done.output.splitlines() if "**" in line} == {"+SetCredential=OTHER_TOKEN:**"}


# --- Cost -------------------------------------------------------------------------------------------------------------

UNITS = [
    *(
        "a",
        "eyJ",
        "-eyJ",
        "eyJaaaaaaaaa-",
        "eyJaaaaaaaaa.",
        "sk-",
        "bearer ",
        "authorization: ",
        "authorization=token ",
    ),
    *(
        "a://",
        "a:",
        "a://b:",
        "a+",
        "?a=",
        "?a=0",
        "?a=}",
        "&token=",
        "token=}",
        'token: "',
        "a: token: b ",
        "token: '",
        'a: "\\',
        "https://",
        "https://a@",
        "SetCredential=",
        "token=",
        "token: ",
        "\"'",
        "--token",
        "--token ",
        "-",
        " ",
        "$",
        "${",
        "${A:-",
    ),
    *("${A}", "$A", "-----BEGIN ", "AKIA", "xox", "A.", "SG.aaaaaaaaaaaaaaaaaaaa.", "hooks.slack.com/services/", "1/"),
]


def test_no_text_is_read_over_and_over() -> None:
    """Each takes some milliseconds; what is quadratic in the length takes minutes, and is killed."""
    program = (
        "import sys\nfrom a2a_claude.config.credentials import is_secret_flag, literal, mask_line\n"
        "for unit in sys.argv[1:]:\n"
        "    text = (unit * (1 << 17))[: 1 << 17] + '\\0'\n"
        "    print(unit, flush=True)\n"
        "    literal(text, ('mcp', 'a', 'args', 0), False), mask_line(text), is_secret_flag(text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *UNITS],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )
    assert done.returncode == 0, f"{done.stdout.splitlines()[-1:]} {done.stderr}"

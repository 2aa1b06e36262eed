"""The systemd target: what systemd itself reads from the rendered files, and what is refused instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from a2a_claude.targets import Unrenderable, systemd_syntax
from a2a_claude.targets.systemd import render
from tests.support import make_agent
from tests.systemd_oracle import Systemd, systemd_of, words

SECRETS = {"OPTIONAL": {"optional": True}, "SEALED": {"encrypted": True, "file": "/etc/credstore.encrypted/sealed"}}
EVERYTHING: dict[str, Any] = {
    "agentCard": {"name": "100% é", "documentationUrl": "https://example.org/a%20b?c=d"},
    "claude": {"additionalDirectories": ["/srv/docs", "${MORE}"], "credentials": []},
    "server": {
        "hostname": "::1",
        "tls": {"certificateFile": "/home/tls/cert", "keyFile": "/etc/key", "clientCaFile": "/root/ca"},
    },
    "secrets": SECRETS,
}
PLAN: dict[str, Any] = {"claude": {"permissionMode": "plan"}}
OF_THE_STATE = ("STATE_DIRECTORY", "HOME", "CLAUDE_CONFIG_DIR")


def deploy(workspaceAccess: str = "auto", **systemd: Any) -> dict[str, Any]:  # noqa: N803 - a key of the config
    return {"deploy": {"workspaceAccess": workspaceAccess, "systemd": {"executable": "/usr/bin/true", **systemd}}}


def works_in(directory: str, **claude: Any) -> dict[str, Any]:
    return {"claude": {"workingDirectory": directory, **claude}}


def unit(document: dict[str, Any] | None = None, name: str = "reviewer") -> str:
    return files(document, name)[f"a2a-claude-{name}.service"]


def files(
    document: dict[str, Any] | None = None, name: str = "reviewer", variables: tuple[str, ...] = ()
) -> dict[str, str]:
    return {each.path: each.text for each in render(make_agent(document, name, variables))}


@pytest.fixture(scope="module", params=["machine", "trixie"])
def systemd(request: pytest.FixtureRequest) -> Systemd:
    return systemd_of(request.param)


def combinations() -> Iterator[dict[str, Any]]:
    """Every option of `deploy.systemd` at each of its kinds of value, alone and together."""
    options: dict[str, list[Any]] = {
        "profile": ["strict", "cli-sandbox"],
        "user": [None, "a2a"],
        "workspace": [None, "/srv/some where", "/home/dev/repo:1"],
        "workspaceAccess": ["read-only", "read-write"],
        "configFile": [None, "/home/a b/agent.json"],
        "memoryMax": ["1073741824", "512Mi"],
        "cpuQuota": [None, 150],
        "environmentFiles": [[], ["/etc/a b.env", "/etc/c.env"]],
        "readOnlyPaths": [[], ["/srv/r%"]],
        "readWritePaths": [[], ["/var/cache/é"]],
        "after": [[], ["postgresql.service", "srv.mount"]],
        "socketActivation": [False, True],
    }
    plain = {name: values[0] for name, values in options.items()}
    for profile in options["profile"]:
        yield {**plain, "profile": profile}
        yield {**{name: values[-1] for name, values in options.items()}, "profile": profile}
    for name, values in options.items():
        for value in values[1:]:
            yield {**plain, name: value}


def test_no_combination_of_options_makes_systemd_complain(systemd: Systemd) -> None:
    rendered: dict[str, str] = {}
    for index, options in enumerate(combinations()):
        for document in ({}, EVERYTHING):
            name = f"{'all' if document else 'none'}-{index}"
            rendered |= {k: v for k, v in files({**document, **deploy(**options)}, name).items() if k != "env.example"}
    assert len(rendered) > 36
    assert systemd.complaints(rendered) == ""


@pytest.mark.parametrize("place", ["trixie"])
def test_newer_systemd_knows_the_directives_rendered_for_it(place: str) -> None:
    assert systemd_of(place).complaints({"a2a-claude-reviewer.service": unit(deploy(minVersion=257))}) == ""


def test_the_linter_does_complain_about_a_bad_line(systemd: Systemd) -> None:
    broken = unit(deploy()).replace("[Service]", '[Service]\nNoSuchDirective=1\nEnvironment="A=1')
    complaints = systemd.complaints({"a2a-claude-reviewer.service": broken})
    assert ".service:12: Unknown key" in complaints
    assert ".service:13: " in complaints


# --- round trips ------------------------------------------------------------------------------------------------------

SPECIAL = "%$\"'\\:;#{}[]*?~!|&<>()=,-+@^` é😀\u00a0\ufeff\u2028\u200b"
TEXT = st.text(st.sampled_from(SPECIAL + "abH1") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=24)
FIELDS = ("name", "url", "config", "workspace", "read", "env", "secret", "executable")


def document_with(field: str, text: str) -> dict[str, Any]:
    segment = text.replace("/", "_")
    match field:
        case "name":
            return {"agentCard": {"name": text}}
        case "url":
            return {"agentCard": {"documentationUrl": f"https://example.org/{text}"}}
        case "config":
            return deploy(configFile=f"/c/{segment}")
        case "workspace":
            return deploy(workspace=f"/w/{segment}")
        case "read":
            return deploy(readOnlyPaths=[f"/r/{segment}"])
        case "env":
            return deploy(environmentFiles=[f"/e/{segment}"])
        case "secret":
            return {"secrets": {"S": {"file": f"/s/{segment}"}}, "claude": {"credentials": []}}
        case _:
            return deploy(executable=f"/x/{segment}")


def read_back(field: str, text: str, dump: dict[str, list[str]]) -> None:
    """Fails unless what systemd read is what was written."""
    segment = text.replace("/", "_")
    assert dump["Command Line"], (field, text)
    command = words(dump["Command Line"][0])
    match field:
        case "name":
            assert f"“{text}”" in dump["Description"][0]
        case "url":
            assert [unquote(each) for each in dump["Documentation"]] == [unquote(f"https://example.org/{text}")]
        case "config":
            assert "$" not in command[2].replace("$$", "")
            assert command[2].replace("$$", "$") == f"/c/{segment}"
        case "workspace":
            assert f"WORKSPACE_DIR=/w/{segment}" in dump["Environment"]
            assert f"/w/{segment} (origin-file)" in dump["RequiresMountsFor"]
            assert f"/w/{segment}:/w/{segment}:rbind" in dump["BindPaths"]
        case "read":
            assert f"/r/{segment}:/r/{segment}:rbind" in dump["BindReadOnlyPaths"]
        case "env":
            assert dump["EnvironmentFile"] == [f"/e/{segment}", "-/etc/a2a-claude/reviewer/env"]
        case "secret":
            assert f"-/s/{segment}" in dump["InaccessiblePaths"]
        case _:
            assert command[0] == f"/x/{segment}"


def expressible(field: str, text: str) -> bool:
    """What each place of a unit can hold: anything printable, but for what the docstrings of systemd_syntax name."""
    if any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 or is_noncharacter(each) for each in text):
        return False
    segment = text.replace("/", "_")
    match field:
        case "name":
            return True
        case "url":
            return True
        case "executable":
            return not set(segment) & set("\"'\\$") and segment not in (".", "..")
        case "secret":
            return segment not in (".", "..") and not segment.endswith(("\\", " "))
        case "env":
            return segment not in (".", "..") and not segment.endswith(" ") and not set(segment) & set("*?[\\")
    return segment not in (".", "..")


def is_noncharacter(each: str) -> bool:
    return ord(each) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(each) <= 0xFDEF


# No shrinking: each try is a process, and the failure names the text.
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(TEXT, min_size=25, max_size=25))
def test_printable_text_is_read_back_unchanged_or_refused_by_name(texts: list[str]) -> None:
    check_round_trip(systemd_of("machine"), texts)


TRAPS = [
    "%H", "%", "%%", "$", "$$", "$HOME", "${HOME}", "a b", "'", '"', "\\", "a\\", "\\x41", "\\n", ":", "a:b:c", "a;b",
    "#", "{{ x }}", "''${x}", "é😀", "-", "--help", ".", "..", "\ufdd0", "\uffff", "\u0085", "a\nUser=root", "*",
    "a\x00b", "[a]", "~", "a\u00a0", "x" * 200,
]  # fmt: skip


def test_traps_are_read_back_unchanged_or_refused_by_name(systemd: Systemd) -> None:
    check_round_trip(systemd, TRAPS)


def check_round_trip(systemd: Systemd, texts: list[str]) -> None:
    units: dict[str, str] = {}
    cases: dict[str, tuple[str, str]] = {}
    for index, text in enumerate(dict.fromkeys(texts)):
        for field in FIELDS:
            agent = make_agent(document_with(field, text))
            if not expressible(field, text):
                with pytest.raises(Unrenderable) as refusal:
                    render(agent)
                assert refusal.value.path.partition(".")[0] in agent.document
                assert refusal.value.hint
                continue
            name = f"{field}-{index}.service"
            units[name] = render(agent)[0].text
            cases[name] = (field, text)
    dumps = systemd.read(units)
    assert dumps.keys() == units.keys()
    for name, (field, text) in cases.items():
        read_back(field, text, dumps[name])


@pytest.mark.parametrize("control", ["\n", "\r", "\0", "\t", "\x1b", "\x7f", "\u0085", "\ud800"])
@pytest.mark.parametrize("quote", [systemd_syntax.line, systemd_syntax.word, systemd_syntax.path, systemd_syntax.url])
def test_no_quoting_function_lets_a_control_character_through(quote: Any, control: str) -> None:
    with pytest.raises(Unrenderable, match=r"^some\.where: "):
        quote(f"/a{control}b", "some.where")


def test_a_comment_stays_on_its_line() -> None:
    shown = systemd_syntax.comment("a\nExecStart=/bin/sh\\")
    assert "\n" not in shown
    assert not shown.endswith("\\")


# --- what the unit holds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "present", "absent"),
    [
        ({}, ["DynamicUser=yes", "WantedBy=multi-user.target"], ["\nUser=", "CPUQuota", "\nRequires="]),
        (deploy(user="a2a"), ["User=a2a", "Group=a2a"], ["DynamicUser"]),
        # %h of a system unit is root's home.
        ({}, [f"\nEnvironment={each}=%S/a2a-claude/reviewer" for each in OF_THE_STATE], ["%h"]),
        ({}, ["\nStateDirectory=a2a-claude/reviewer/home\n", "\nStateDirectoryMode=0700\n"], ["ImportCredential"]),
        (deploy(memoryMax="2Gi", tasksMax=300, cpuQuota=150), ["MemoryMax=2G", "TasksMax=300", "CPUQuota=150%"], []),
        ({"timeouts": {"shutdown": 120500}}, ["TimeoutStopSec=136s"], []),
        ({}, ["WORKSPACE_DIR=%S/a2a-claude/reviewer/workspace", "=a2a-claude/reviewer/workspace"], ["ReadOnlyPaths="]),
        (PLAN, ["ReadOnlyPaths=%S/private/a2a-claude/reviewer/workspace"], []),
        (PLAN | deploy(user="a2a"), ["ReadOnlyPaths=%S/a2a-claude/reviewer/workspace"], []),
        (works_in("/srv/a$$b"), ['Environment="WORKSPACE_DIR=/srv/a$b"', 'BindPaths="/srv/a$b"'], []),
        (works_in("${WORKSPACE_DIR:-/srv/w}"), ["WORKSPACE_DIR=/srv/w", "BindPaths=/srv/w"], []),
        (works_in("${WORKSPACE_DIR}"), ["WORKSPACE_DIR=%S/"], ["BindPaths"]),
        (works_in("${REPO}"), ["comes from a variable"], ["WORKSPACE_DIR=", "BindPaths"]),
        (works_in("${REPO}") | deploy(workspace="/srv/w"), ["WORKSPACE_DIR=/srv/w"], ["comes from a variable"]),
        (
            works_in("/a", additionalDirectories=["/srv/docs"]),
            ["BindPaths=/a\n", "BindPaths=/srv/docs\n"],
            ["ReadOnlyPaths"],
        ),
        (PLAN | deploy(workspace="/srv/repo"), ["BindReadOnlyPaths=/srv/repo\n"], ["BindPaths="]),
        (deploy(executable="/home/a/bin/x", readOnlyPaths=["/home/a"]), ["BindReadOnlyPaths=/home/a"], []),
        (deploy(configFile="/home/a/agent.json"), ["BindReadOnlyPaths=/home/a"], []),
        (
            {"server": {"tls": {"certificateFile": "/root/c", "keyFile": "/srv/k"}}},
            ["BindReadOnlyPaths=/root/c"],
            ["/srv/k"],
        ),
        (
            deploy(socketActivation=True),
            ["Requires=a2a-claude-reviewer.socket", "Also=a2a-claude-reviewer"],
            ["WantedBy"],
        ),
        ({"claude": {"credentials": []}}, ["IPAddressAllow=169.254.169.254/32"], ["LoadCredential"]),
        ({}, ["IPAddressDeny=169.254.0.0/16", "LoadCredential=ANTHROPIC_API_KEY:/etc/a2a-claude/"], ["IPAddressAllow"]),
        ({"secrets": SECRETS}, ["SetCredential=OPTIONAL:\\n", "LoadCredentialEncrypted=SEALED:/etc/credstore"], []),
        (deploy(minVersion=252), [], ["RestartSteps", "ProtectControlGroups=strict"]),
        (deploy(minVersion=257), ["RestartSteps=6", "ProtectControlGroups=strict"], ["ProtectControlGroups=yes"]),
    ],
)
def test_a_unit_holds(document: dict[str, Any], present: list[str], absent: list[str]) -> None:
    text = unit(document)
    assert [each for each in present if each not in text] == []
    assert [each for each in absent if each in text] == []


def test_one_exec_line_since_older_systemd_gives_credentials_to_the_first_only() -> None:
    lines = [each for each in unit(EVERYTHING).splitlines() if each.startswith("Exec")]
    assert lines == ["ExecStart=/opt/a2a-claude/bin/a2a-claude serve /etc/a2a-claude/reviewer/agent.json"]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (deploy(executable="/home/dev/.venv/bin/a2a-claude"), "deploy.systemd.executable"),
        (deploy(executable="/opt/$x/bin/a2a-claude"), "deploy.systemd.executable"),
        (deploy(user="root\n"), "deploy.systemd.user"),
        (deploy(after=["a.service\nUser=root"]), "deploy.systemd.after"),
        (deploy(workspace="srv/a"), "deploy.systemd.workspace"),
        (deploy(workspace="/srv/../etc"), "deploy.systemd.workspace"),
        (deploy(workspace="/" + "a" * 256), "deploy.systemd.workspace"),
        (deploy(readWritePaths=["/srv", "/a/../b"]), "deploy.systemd.readWritePaths[1]"),
        (deploy(environmentFiles=["/etc/*.env"]), "deploy.systemd.environmentFiles[0]"),
        ({"secrets": {"A": {"file": "/a\\"}}}, "secrets.A.file"),
        ({"claude": {"credentials": ["A:/etc/shadow"]}}, "secrets.A:/etc/shadow"),
        ({"server": {"hostname": "agents.internal"}} | deploy(socketActivation=True), "server.hostname"),
        ({"server": {"hostname": "fe80::1%eth0"}} | deploy(socketActivation=True), "server.hostname"),
    ],
)
def test_what_cannot_work_is_refused_at_its_path(document: dict[str, Any], path: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(make_agent(document))
    assert refusal.value.path == path


def test_an_agent_name_that_is_no_unit_name_is_refused() -> None:
    with pytest.raises(Unrenderable, match=r"^name: "):
        render(make_agent(name="a\n[Service]\nExecStart=/bin/sh"))


@pytest.mark.parametrize(
    ("hostname", "listen"),
    [
        ("127.0.0.1", "127.0.0.1:3030"),
        ("localhost", "127.0.0.1:3030"),
        ("::", "[::]:3030"),
        ("0.0.0.0", "0.0.0.0:3030"),
    ],
)
def test_the_socket_listens_where_the_agent_would(systemd: Systemd, hostname: str, listen: str) -> None:
    rendered = files({"server": {"hostname": hostname}} | deploy(socketActivation=True))
    assert systemd.read(rendered)["a2a-claude-reviewer.socket"]["ListenStream"] == [listen]


def test_env_example_names_the_variables_and_no_secret_is_set_there() -> None:
    text = files({"secrets": SECRETS}, variables=("DOCS_DIR", "GH_TOKEN", "WORKSPACE_DIR"))["env.example"]
    settings = [each for each in text.splitlines() if each.startswith("#") and each.endswith("=")]
    assert settings == ["#DOCS_DIR="]
    assert "claude.env (agent.yaml:1:1)" in text
    assert "/etc/a2a-claude/reviewer/secrets/GH_TOKEN: GH_TOKEN\n" in text
    assert "/etc/credstore.encrypted/sealed: SEALED, encrypted by systemd-creds\n" in text
    assert all(not each or each.startswith("#") for each in text.splitlines())


def test_rendering_twice_gives_the_same_bytes() -> None:
    document = json.loads(json.dumps(EVERYTHING))
    assert files(EVERYTHING) == files(document)

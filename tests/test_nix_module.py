"""The NixOS module: the units it makes are those of the systemd target, and what it refuses it refuses by name."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.config.agent import Agent
from a2a_claude.targets import config, nix, systemd
from tests.console import blocks
from tests.nix.hosts import Host
from tests.nix.installation import HERE, PROJECT, library_of, nix_of
from tests.support import make_agent
from tests.systemd_oracle import Dump, systemd_of


@pytest.fixture(scope="module", params=["machine-stub", "machine-nixpkgs", "trixie-stub", "trixie-nixpkgs"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    place, library = request.param.split("-")
    return Host(nix_of(place, tmp_path_factory.mktemp("nix")), library_of(library))


def compiled(agent: Agent, folder: Path) -> str:
    """The path of the module that `compile` makes of an agent."""
    here = folder / agent.name
    here.mkdir()
    for each in [*config.render(agent), *nix.render(agent)]:
        (here / each.path).write_text(each.text, "utf-8")
    return str(here / "module.nix")


# --- the unit ---------------------------------------------------------------------------------------------------------

AGENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "planner": {"claude": {"permissionMode": "plan", "credentials": []}},
    "given": {
        "agentCard": {"name": "100% é", "documentationUrl": "https://example.org/a%20b?c=d"},
        "claude": {
            "workingDirectory": "${WORKSPACE_DIR:-/srv/re pos}",
            "additionalDirectories": ["/srv/docs", "/srv/$$5", "${MORE}", "/srv/$MORE"],
            "executablePathOverride": "/home/dev/claude",
            "disallowedTools": ["Write", "Edit", "NotebookEdit", "Bash"],
        },
        "timeouts": {"shutdown": 10_001},
    },
    "elsewhere": {"claude": {"workingDirectory": "${REPOS}/one"}},
    "literal": {"claude": {"workingDirectory": "/tmp/a:b"}},
    "everything": {
        "server": {
            "port": 4000,
            "hostname": "::1",
            "tls": {"certificateFile": "/home/tls/cert", "keyFile": "/etc/key", "clientCaFile": "/root/ca"},
        },
        "secrets": {
            "OPTIONAL": {"optional": True},
            "SEALED": {"encrypted": True, "file": "/etc/credstore.encrypted/100%"},
            "x-note": "none",
        },
        "deploy": {
            "workspaceAccess": "read-write",
            "systemd": {
                "user": "a2a",
                "profile": "cli-sandbox",
                "workspace": '/srv/it\'s "50%": a\\b',
                "memoryMax": "512Mi",
                "tasksMax": 300,
                "cpuQuota": 150,
                "environmentFiles": ["/etc/50% b.env"],
                "readOnlyPaths": ["/srv/r%h"],
                "readWritePaths": ["/srv/w:1"],
                "after": ["postgresql.service"],
                "socketActivation": True,
            },
        },
    },
}


@pytest.mark.parametrize("name", AGENTS)
def test_systemd_reads_the_same_unit_as_from_the_systemd_target(host: Host, tmp_path: Path, name: str) -> None:
    document = json.loads(json.dumps(AGENTS[name]))
    document.setdefault("deploy", {}).setdefault("systemd", {})["executable"] = "/usr/bin/true"
    agent = make_agent(document, name, ("GITHUB_TOKEN",))
    target = {each.path: each.text for each in systemd.render(agent) if each.path.startswith("a2a-claude-")}
    made = host.of(compiled(agent, tmp_path))["units"]
    assert sorted(made) == sorted(target)
    machine = systemd_of("machine")
    read, expected = machine.read(made), machine.read(target)
    for unit in target:
        assert comparable(read[unit]) == comparable(expected[unit])
        assert installed_as(made[unit]) == installed_as(target[unit])


def comparable(dump: Dump) -> dict[str, list[str]]:
    """A dump without the order of lines, which NixOS sorts by name, and without where the unit's file is."""
    unordered = {"SystemCallFilter"}
    # The jobs that systemd would start, which it prints in any order behind its last unit.
    jobs = {"Action", "State", "Irreversible", "May GC"}
    return {
        key: sorted(" ".join(sorted(each.split())) if key in unordered else each for each in values)
        for key, values in dump.items()
        if key not in jobs and not key.endswith(" Path")
    }


def installed_as(text: str) -> list[str]:
    """`[Install]`, which systemctl reads and systemd does not; `Also=` is of no use to NixOS."""
    return [line for line in text.splitlines() if line.startswith("WantedBy=")]


def test_variables_of_the_host_are_taken_literally(host: Host) -> None:
    made = host.of_agents('a.environment.LOAD = "50% on %H, $HOME \\"quoted\\"";')
    [read] = systemd_of("machine").read(made["units"]).values()
    assert any('LOAD=50% on %H, $HOME "quoted"' in each for values in read.values() for each in values), read


# --- options ----------------------------------------------------------------------------------------------------------


def test_each_agent_of_a_host_is_a_service_of_its_own(host: Host) -> None:
    made = host.of_agents("""
        one = { };
        two = { settings.server.port = 3031; files."memory/CLAUDE.md" = /etc/hostname; };
        off = { enable = false; };
    """)
    assert sorted(made["units"]) == ["a2a-claude-one.service", "a2a-claude-two.service"]
    assert made["files"] == [
        "a2a-claude/one/agent.json",
        "a2a-claude/two/agent.json",
        "a2a-claude/two/memory/CLAUDE.md",
    ]
    assert (made["refused"], made["warnings"], made["ports"]) == ([], [], [])


def test_a_host_without_agents_is_left_alone(host: Host) -> None:
    made = host.of("{ }")
    assert made["units"] == {}
    assert made["files"] == []


def test_defaults_hold_where_the_agent_says_nothing(host: Host) -> None:
    made = host.of("""{
        services.a2a-claude = {
          defaults = { user = "a2a"; tasksMax = 300; environment = { A = "0"; B = "0"; }; serviceConfig.Nice = 5; };
          agents.one = { };
          agents.two = {
            user = null;
            environment.A = "1";
            settings = { server.port = 2; deploy.systemd.tasksMax = 400; };
          };
        };
    }""")
    one, two = (made["units"][f"a2a-claude-{name}.service"].splitlines() for name in ("one", "two"))
    assert {"User=a2a", "TasksMax=300", 'Environment="A=0"', 'Environment="B=0"', "Nice=5"} <= set(one)
    assert {"DynamicUser=yes", "TasksMax=400", 'Environment="A=1"', 'Environment="B=0"', "Nice=5"} <= set(two)


def test_the_host_has_the_last_word_on_directives(host: Host) -> None:
    made = host.of("""{
        services.a2a-claude.agents.one.serviceConfig.ProtectHome = "read-only";
        systemd.services.a2a-claude-one.serviceConfig.Restart = "always";
    }""")
    lines = made["units"]["a2a-claude-one.service"].splitlines()
    assert [each for each in lines if each.startswith(("ProtectHome=", "Restart="))] == [
        "ProtectHome=read-only",
        "Restart=always",
    ]


def test_the_host_overrides_a_compiled_agent(host: Host, tmp_path: Path) -> None:
    module = compiled(make_agent({"secrets": {"LINEAR": {"file": "/run/linear"}}}), tmp_path)
    made = host.of(
        module,
        """({ lib, ... }: { services.a2a-claude.agents.reviewer = {
            settings.server.port = lib.mkForce 4000;
            secrets.ANTHROPIC_API_KEY.file = "/run/agenix/anthropic";
            openFirewall = true;
        }; })""",
    )
    assert made["settings"]["reviewer"]["server"]["port"] == 4000
    assert made["secrets"]["reviewer"] == {"ANTHROPIC_API_KEY": "/run/agenix/anthropic", "LINEAR": "/run/linear"}
    assert made["ports"] == [4000]
    assert "which no other host reaches" in made["warnings"][0]


def test_settings_reach_the_agent_as_they_were_compiled(host: Host, tmp_path: Path) -> None:
    free = {"a.b": [1, None, {"c": [True, "''${x} %H"]}], "": {}, "list": [], "big": 2**63 - 1}
    agent = make_agent({"x-free": free, "claude": {"sandbox": free, "env": {"A": "$$", "B": "\\"}}})
    made = host.of(compiled(agent, tmp_path))
    assert made["settings"]["reviewer"] == json.loads(json.dumps(agent.document))


@pytest.mark.parametrize(
    ("agent", "option", "why"),
    [
        ("settings.server.port = 70000;", "settings.server.port", "16 bit unsigned integer"),
        ('settings.server.port = "3030";', "settings.server.port", "16 bit unsigned integer"),
        ("workspce = null;", "workspce", "does not exist"),
        ('profile = "lax";', "profile", "strict"),
        ('user = "Me";', "user", "matching the pattern"),
        ("tasksMax = 1;", "tasksMax", "between 256 and 1000000"),
        ('memoryMax = "lots";', "memoryMax", "matching the pattern"),
        ('workspace = "relative";', "workspace", "matching the pattern"),
        ('environmentFiles = "/a";', "environmentFiles", "list of"),
        ("secrets.TOKEN.file = /etc/hostname;", "secrets.TOKEN.file", "string"),
        ('secrets.TOKEN.value = "x";', "secrets.TOKEN.value", "does not exist"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(host: Host, agent: str, option: str, why: str) -> None:
    said = host.nix.refusal(f"{host.expression(f'{{ services.a2a-claude.agents.one = {{ {agent} }}; }}')}.shown")
    assert f"services.a2a-claude.agents.one.{option}" in said
    assert why in said


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ("one = { }; two = { };", ["one and two", "port 3030"]),
        ('"Bad" = { };', ["agents.Bad", "lower-case"]),
        ('"a\\n[Service]" = { };', ["lower-case"]),
        ('one.secrets.TOKEN.file = "${builtins.storeDir}/abc-token";', ["one.secrets.TOKEN.file", "Nix store"]),
        ('one.secrets.TOKEN.file = "${./flake.nix}";', ["one.secrets.TOKEN.file", "Nix store"]),
        ('one.secrets.TOKEN.file = "token";', ["one.secrets.TOKEN.file", "absolute"]),
        ('one.secrets."a b" = { };', ["one.secrets.a b", "named like the variable"]),
        ('one.workspace = "${builtins.storeDir}/abc";', ["one.workspace", "Nix store"]),
        ('one.settings.claude.permissionMode = "bypassPermissions";', ["dangerouslyAllowBypassPermissions"]),
        ('one.settings.claude.permissionMode = "default";', ["inputRequired"]),
        ('one.settings.server.hostname = "0.0.0.0";', ["0.0.0.0", "allowUnauthenticated"]),
        (
            'one = { socketActivation = true; settings.server = { hostname = "h"; auth.mtls = true; }; };',
            ["an address"],
        ),
    ],
)
def test_a_host_that_cannot_work_is_refused(host: Host, agents: str, words: list[str]) -> None:
    expression = host.expression(f"{{ services.a2a-claude.agents = {{ {agents} }}; }}")
    stub = HERE / "stub"
    refused = host.nix.evaluate(f"{expression.replace('./flake.nix', str(stub / 'flake.nix'))}.shown.refused")
    assert len(refused) == 1, refused
    for word in words:
        assert word in refused[0]


@pytest.mark.parametrize(
    "settings_",
    [
        '{ claude = { permissionMode = "bypassPermissions"; dangerouslyAllowBypassPermissions = true; }; }',
        '{ claude = { permissionMode = "default"; approvals = "inputRequired"; }; }',
        '{ server = { hostname = "0.0.0.0"; auth.allowUnauthenticated = true; }; }',
        '{ server = { hostname = "0.0.0.0"; auth.bearer.tokensFile = "/run/tokens"; }; }',
        '{ server.hostname = "::1"; claude.credentials = [ ]; }',
    ],
)
def test_a_host_that_consents_is_let_through(host: Host, settings_: str) -> None:
    assert host.of_agents(f"one.settings = {settings_};")["refused"] == []


# --- the config file --------------------------------------------------------------------------------------------------

PROGRAM = f"""({{ pkgs, ... }}: {{
    services.a2a-claude.package = pkgs.writeShellApplication {{
      name = "a2a-claude";
      text = ''PYTHONPATH={PROJECT} exec {sys.executable} -m a2a_claude "$@"'';
    }};
}})"""


def build(host: Host, *modules: str) -> subprocess.CompletedProcess[str]:
    """Builds the agent.json that a host's agent `reviewer` is served from."""
    source = f'{host.expression(PROGRAM, *modules)}.config.environment.etc."a2a-claude/reviewer/agent.json".source'
    return host.nix.run("nix-build", "--no-out-link", "--expr", source)


def test_the_config_file_is_checked_with_its_files_and_holds_the_settings(host: Host, tmp_path: Path) -> None:
    document = {"memory": {"instructions": "memory/a b's.md"}, "claude": {"settingSources": ["project"]}}
    agent = dataclasses.replace(make_agent(document), files={"memory/a b's.md": tmp_path})
    module = compiled(agent, tmp_path)
    (tmp_path / "reviewer/memory").mkdir()
    (tmp_path / "reviewer/memory/a b's.md").write_text("Be brief.")
    done = build(host, module)
    assert done.returncode == 0, done.stderr
    assert json.loads(Path(done.stdout.strip()).read_text()) == json.loads(json.dumps(agent.document))


def test_a_config_that_the_compiler_refuses_is_not_built(host: Host) -> None:
    agent = "services.a2a-claude.agents.reviewer.settings.agentCard.nmae = 1;"
    done = build(host, f"{{ {agent} }}")
    assert done.returncode != 0
    assert "reviewer/agent.json" in done.stderr
    assert "nmae" in done.stderr
    unchecked = build(host, f"{{ {agent} services.a2a-claude.checkConfig = false; }}")
    assert unchecked.returncode == 0, unchecked.stderr


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_no_secret_comes_near_the_nix_store(host: Host, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("swordfish")
    made = host.of_agents(f'one.secrets.TOKEN.file = "{tmp_path}/token";')
    assert f"LoadCredential=TOKEN:{tmp_path}/token" in made["units"]["a2a-claude-one.service"].splitlines()
    assert "swordfish" not in json.dumps(made)
    store = host.nix.folder / "store"
    assert not [each for each in store.rglob("*") if each.is_file() and b"swordfish" in each.read_bytes()]


def test_the_module_of_the_page_takes_the_path_of_agenix_for_a_credential(host: Host) -> None:
    [module] = blocks((PROJECT / "docs" / "secrets.md").read_text("utf-8"), "nix")
    made = host.of(f'(({module.text}) {{ config.age.secrets.anthropic.path = "/run/agenix/anthropic"; }})')
    unit = made["units"]["a2a-claude-reviewer.service"].splitlines()
    assert "LoadCredential=ANTHROPIC_API_KEY:/run/agenix/anthropic" in unit


def test_credentials_and_declared_secrets_need_no_repeating(host: Host) -> None:
    made = host.of_agents("""
        one.settings = {
          claude.credentials = [ "CLAUDE_CODE_OAUTH_TOKEN" ];
          secrets = { LINEAR = null; x-note = 1; };
        };
    """)
    assert made["secrets"]["one"] == {
        "CLAUDE_CODE_OAUTH_TOKEN": "/etc/a2a-claude/one/secrets/CLAUDE_CODE_OAUTH_TOKEN",
        "LINEAR": "/etc/a2a-claude/one/secrets/LINEAR",
    }

"""The Compose target: what Compose itself reads from the rendered files, and what is refused instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable, container
from a2a_claude.targets.compose import literal, render, render_fleet
from a2a_claude.targets.container import image
from tests.containers import CARD, TEXT, TRAPS, full, plain
from tests.docker_engine import running_engine
from tests.support import make_agent
from tests.trixie import folder_in, root_with, run_in


def project(agents: Iterable[Agent]) -> str:
    (artifact,) = render_fleet(agents)
    assert artifact.path == "compose.yaml"
    return artifact.text


def service(agent: Agent) -> dict[str, Any]:
    (artifact,) = render(agent)
    found: dict[str, Any] = yaml.safe_load(artifact.text)["services"][agent.name]
    return found


def as_composed(text: str, files: Mapping[str, str] | None = None, **environ: str) -> dict[str, Any]:
    """What Compose makes of a file: interpolated, checked, with its defaults. `files` are those below /etc/a2a-claude,
    `environ` is the environment of who calls it, and .env beside the file, too."""
    root = root_with("/usr/bin/docker-compose", "docker-compose")
    env = "".join(f"{name}={value}\n" for name, value in environ.items())
    with folder_in(root, {"compose.yaml": "", ".env": env, **(files or {})}) as folder:
        placed = text.replace('path: "/etc/a2a-claude/', f'path: "{folder}/')
        (root / folder[1:] / "compose.yaml").write_text(placed, "utf-8")
        done = run_in(root, "docker-compose", "-f", f"{folder}/compose.yaml", "config", "--format", "json", **environ)
    # It prints a model that reads back, so every dollar is doubled.
    found: dict[str, Any] = json.loads(done.stdout.replace("$$", "$"))
    return found


# --- What it reads ----------------------------------------------------------------------------------------------------


def test_the_specifications_schema_accepts_every_file(tmp_path: Path) -> None:
    texts = [project([full(), plain()]), render(full())[0].text, render(plain())[0].text]
    files = [tmp_path / f"{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, "utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, files)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout


def test_compose_reads_the_fleet_as_it_was_meant() -> None:
    read = as_composed(project([full(), plain()]))
    one, two = read["services"]["full"], read["services"]["reviewer"]
    assert (one["stop_grace_period"], two["stop_grace_period"]) == ("1m16s", "45s")
    assert (one["mem_limit"], two["mem_limit"]) == (str(2**30), str(4 * 2**30))
    assert (one["pids_limit"], one["cpus"], two["pids_limit"]) == (300, 1.5, 2048)
    assert [(p.get("host_ip"), p["published"], p["target"]) for p in one["ports"]] == [("0.0.0.0", "80", 3031)]
    assert [(p.get("host_ip"), p["published"], p["target"]) for p in two["ports"]] == [("127.0.0.1", "3031", 3031)]
    assert (one["image"], two["image"]) == ("registry.example/agents/reviewer:7", "a2a-claude/reviewer:1.0.0")
    assert (one.get("pull_policy"), two["pull_policy"]) == (None, "never")
    assert two["build"]["context"].endswith("/reviewer")
    assert two["healthcheck"]["test"] == [
        *("CMD", "a2a-claude", "healthcheck", "/etc/a2a-claude/reviewer/agent.json", "--hostname", "0.0.0.0")
    ]
    for each in (one, two):
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
        assert each["tmpfs"] == ["/tmp:size=1g"]
    assert (one["user"], two["user"]) == ("20000:20000", "10001:10001")


def test_variables_are_those_of_the_agents_file_and_never_of_who_calls_compose() -> None:
    names = ("CLAUDE_MODEL", "DATABASE_URL", "HOME", "LD_PRELOAD", "PATH")
    agents = [make_agent({"agentCard": CARD}, name=name, variables=names) for name in ("one", "two")]
    file = "# a comment\nCLAUDE_MODEL='opus'\nBASE=x\n"
    operator = {"CLAUDE_MODEL": "haiku", "DATABASE_URL": "postgresql://mine", "LD_PRELOAD": ""}
    read = as_composed(project(agents), {"one/env": file}, **operator)["services"]
    assert read["one"]["environment"] == {"CLAUDE_MODEL": "opus", "BASE": "x"}
    assert not read["two"].get("environment")


@pytest.mark.parametrize(("access", "read_only"), [("read-only", True), ("read-write", False)])
def test_the_access_to_the_workspace_is_the_one_of_all_targets(access: str, read_only: bool) -> None:
    mode = "plan" if access == "read-write" else "acceptEdits"
    document = {"agentCard": CARD, "claude": {"permissionMode": mode}, "deploy": {"workspaceAccess": access}}
    (mount,) = [each for each in service(make_agent(document))["volumes"] if each["target"] == "/workspace"]
    assert mount["read_only"] is read_only


def test_secrets_are_files_of_the_host_and_nothing_of_them_is_in_the_environment() -> None:
    read = as_composed(project([full(), plain()]))
    assert {name: each["file"] for name, each in read["secrets"].items()} == {
        "full-ANTHROPIC_API_KEY": "/etc/a2a-claude/full/secrets/ANTHROPIC_API_KEY",
        "full-OPTIONAL": "/etc/a2a-claude/full/secrets/OPTIONAL",
        "full-PLAIN": "/srv/plain",
        "full-SEALED": "/run/a2a-claude/full/secrets/SEALED",
        "reviewer-ANTHROPIC_API_KEY": "/etc/a2a-claude/reviewer/secrets/ANTHROPIC_API_KEY",
        "reviewer-GITHUB_TOKEN": "/etc/a2a-claude/reviewer/secrets/GITHUB_TOKEN",
    }
    for agent in ("full", "reviewer"):
        read_by_it = read["services"][agent]["secrets"]
        assert [(each["source"], each["target"]) for each in read_by_it] == [
            (name, name.partition("-")[2]) for name in read["secrets"] if name.startswith(f"{agent}-")
        ]


def test_the_state_is_the_same_by_the_file_of_the_fleet_and_of_the_agent() -> None:
    whole, single = yaml.safe_load(project([full(), plain()])), yaml.safe_load(render(plain())[0].text)
    assert single["volumes"].items() <= whole["volumes"].items()
    assert single["volumes"]["reviewer-state"] == {"name": "a2a-claude-reviewer-state"}
    assert single["name"] != whole["name"]


@pytest.mark.parametrize(
    ("agent", "mounts"),
    [
        (
            plain(),
            [
                ("volume", "reviewer-state", "/var/lib/a2a-claude", False),
                ("volume", "reviewer-workspace", "/workspace", False),
            ],
        ),
        (
            full(),
            [
                ("volume", "full-state", "/var/lib/a2a-claude", False),
                ("bind", "/srv/repo", "/work", True),
                ("bind", "/etc/a2a/tls.crt", "/etc/a2a/tls.crt", True),
                ("bind", "/etc/a2a/tls.key", "/etc/a2a/tls.key", True),
                ("bind", "/etc/a2a/ca.crt", "/etc/a2a/ca.crt", True),
                ("bind", "/etc/a2a/tokens", "/etc/a2a/tokens", True),
            ],
        ),
    ],
    ids=["plain", "full"],
)
def test_what_is_mounted(agent: Agent, mounts: list[tuple[str, str, str, bool]]) -> None:
    found = service(agent)["volumes"]
    assert [(e["type"], e["source"], e["target"], e.get("read_only", False)) for e in found] == mounts
    assert all(each["bind"] == {"create_host_path": False} for each in found if each["type"] == "bind")


# --- What it reads back -----------------------------------------------------------------------------------------------


def with_path(number: int, text: str) -> Agent:
    segment = text.replace("/", "_")
    document = {
        "agentCard": CARD,
        "secrets": {"S": {"file": f"/s/{segment}"}},
        "deploy": {"compose": {"workspace": f"/w/{segment}"}, "docker": {"workspace": f"/t/{segment}"}},
    }
    return make_agent(document, name=f"a{number}")


def check_round_trip(texts: Iterable[str]) -> None:
    agents: dict[str, tuple[Agent, str]] = {}
    for number, text in enumerate(dict.fromkeys(texts)):
        agent, segment = with_path(number, text), text.replace("/", "_")
        if segment in (".", "..") or any(ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0 for each in segment):
            with pytest.raises(Unrenderable) as refusal:
                render(agent)
            assert refusal.value.path.startswith(("deploy.", "secrets."))
            assert refusal.value.hint
            continue
        agents[agent.name] = (agent, segment)
    read = as_composed(project(agent for agent, _ in agents.values()))
    for name, (_, segment) in agents.items():
        workspace = read["services"][name]["volumes"][1]
        assert (workspace["source"], workspace["target"]) == (f"/w/{segment}", f"/t/{segment}")
        assert read["secrets"][f"{name}-S"]["file"] == f"/s/{segment}"


def test_traps_are_read_back_unchanged_or_refused_by_name() -> None:
    check_round_trip(TRAPS)


# No shrinking: each try is a process, and the failure names the text.
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(TEXT, min_size=30, max_size=30))
def test_printable_text_is_read_back_unchanged_or_refused_by_name(texts: list[str]) -> None:
    check_round_trip(texts)


def test_only_values_are_interpolated() -> None:
    assert literal({"$a": ["$b", 1, None, {"c": "$$"}]}) == {"$a": ["$$b", 1, None, {"c": "$$$$"}]}


@pytest.mark.parametrize(
    ("compose", "docker", "path"),
    [
        ({"publish": "127.0.0.1:70000"}, {}, "deploy.compose.publish"),
        ({"publish": "127.0.0.300:80"}, {}, "deploy.compose.publish"),
        ({"publish": "0"}, {}, "deploy.compose.publish"),
        ({"workspace": "srv"}, {}, "deploy.compose.workspace"),
        ({"workspace": "/srv/../etc"}, {}, "deploy.compose.workspace"),
        ({"workspace": "/" + "x" * 256}, {}, "deploy.compose.workspace"),
        ({"workspace": "/x" * 2100}, {}, "deploy.compose.workspace"),
        ({}, {"workspace": "/a\nb"}, "deploy.docker.workspace"),
        ({}, {"workspace": "/var/lib/a2a-claude"}, "deploy.docker.workspace"),
        ({}, {"workspace": "/run/secrets"}, "deploy.docker.workspace"),
        ({}, {"image": "a b"}, "deploy.docker.image"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_the_config_path(
    compose: dict[str, Any], docker: dict[str, Any], path: str
) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(make_agent({"agentCard": CARD, "deploy": {"compose": compose, "docker": docker}}))
    assert (refusal.value.path, bool(refusal.value.hint)) == (path, True)


@pytest.mark.parametrize(
    ("version", "tag"),
    [("1.0.0", "1.0.0"), ("2.0+build 7", "2.0-build-7"), ("…", "latest"), (".1", "1"), ("v" * 200, "v" * 128)],
)
def test_the_image_is_named_after_the_agent_and_its_version(version: str, tag: str) -> None:
    agent = make_agent({"agentCard": {**CARD, "version": version}})
    assert service(agent)["image"] == f"a2a-claude/reviewer:{tag}"


def test_every_name_of_an_agent_has_an_image_of_its_own() -> None:
    names = ["a", "a-", "a--", "a--b-", "x" * 62, "x" * 63, "null"]
    assert len({image(make_agent({"agentCard": CARD}, name=name)) for name in names}) == len(names)


# --- What the engine makes of it --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, Any]]]:
    """The containers of the fleet by their service, made but not started: their image is empty."""
    tmp_path = tmp_path_factory.mktemp("compose")
    compose = str(root_with("/usr/bin/docker-compose", "docker-compose") / "usr" / "bin" / "docker-compose")
    (tmp_path / "root").mkdir()
    subprocess.run(["tar", "-C", tmp_path / "root", "-cf", tmp_path / "empty.tar", "."], check=True)
    for name in ("repo", "secret"):
        (tmp_path / name).write_text("x")
    agents = [moved(full(), tmp_path), moved(plain(), tmp_path)]
    (tmp_path / "compose.yaml").write_text(project(agents), "utf-8")
    with running_engine() as engine:
        for agent in agents:
            engine.docker("import", "--change", 'CMD ["x"]', tmp_path / "empty.tar", image(agent))
        command = [compose, "--file", str(tmp_path / "compose.yaml"), "--project-name", "a2a-claude-tests"]
        env = {"DOCKER_HOST": engine.host, "PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLAUDE_MODEL": "opus"}
        try:
            done = subprocess.run(
                [*command, "create", "--no-build"], env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
            names = engine.docker(
                "ps", "--all", "--quiet", "--filter", "label=com.docker.compose.project=a2a-claude-tests"
            )
            found = json.loads(engine.docker("inspect", *names.split()))
            yield {each["Config"]["Labels"]["com.docker.compose.service"]: each for each in found}
        finally:
            subprocess.run([*command, "down", "--volumes"], env=env, capture_output=True, check=False)
            for agent in agents:
                engine.run("image", "rm", "--force", image(agent))


def moved(agent: Agent, folder: Path) -> Agent:
    """The agent with everything that it has on the host in `folder`, where Docker wants it to be."""
    document = json.loads(
        json.dumps(agent.document).replace('"/etc/a2a/', f'"{folder}/').replace('"/srv/', f'"{folder}/')
    )
    for secret in agent.secrets:
        document["secrets"].setdefault(secret, {})
        document["secrets"][secret] |= {"file": f"{folder}/secret", "encrypted": False}
    made = make_agent(document, agent.name)
    for each in container.host_files(made):
        Path(each.path).write_text("x")
    return replace(made, variables=agent.variables)


def test_docker_confines_the_containers_as_it_was_meant(created: dict[str, dict[str, Any]]) -> None:
    for name, uid, memory, pids, stop in (("reviewer", 10001, 4 * 2**30, 2048, 45), ("full", 20000, 2**30, 300, 76)):
        config, host = created[name]["Config"], created[name]["HostConfig"]
        assert (config["User"], config["StopTimeout"]) == (f"{uid}:{uid}", stop)
        assert (host["Memory"], host["PidsLimit"], host["ReadonlyRootfs"]) == (memory, pids, True)
        assert (host["CapDrop"], host["CapAdd"], host["Privileged"]) == (["ALL"], None, False)
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["Tmpfs"] == {"/tmp": "size=1g"}
        assert config["Healthcheck"]["Test"] == ["CMD", *container.healthcheck(make_agent({}, name))]
        # Not even what the caller of Compose has under a name that the config refers to.
        assert not any(name in each for name in ("CLAUDE_MODEL", "KEY", "TOKEN") for each in config["Env"] or [])
    ports = {name: each["HostConfig"]["PortBindings"]["3031/tcp"] for name, each in created.items()}
    assert ports == {
        "reviewer": [{"HostIp": "127.0.0.1", "HostPort": "3031"}],
        "full": [{"HostIp": "0.0.0.0", "HostPort": "80"}],
    }


def test_docker_mounts_what_is_read_only_read_only(created: dict[str, dict[str, Any]]) -> None:
    mounts = {name: {each["Destination"]: each["RW"] for each in one["Mounts"]} for name, one in created.items()}
    writable = {name: {path for path, is_writable in each.items() if is_writable} for name, each in mounts.items()}
    assert writable == {"reviewer": {"/var/lib/a2a-claude", "/workspace"}, "full": {"/var/lib/a2a-claude"}}
    assert {"/work", "/run/secrets/SEALED", "/run/secrets/ANTHROPIC_API_KEY"} <= mounts["full"].keys()

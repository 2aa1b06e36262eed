"""The Quadlet target: what podman's generator and then systemd make of the files, and what is refused instead."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable, container
from a2a_claude.targets.quadlet import render
from tests.containers import CARD, TEXT, TRAPS, full, plain
from tests.support import make_agent
from tests.systemd_oracle import Dump, systemd_of, words
from tests.trixie import folder_in, root_with, run_in

GENERATOR = "/usr/libexec/podman/quadlet"


def files(agent: Agent) -> dict[str, str]:
    return {each.path.removeprefix("quadlet/"): each.text for each in render(agent)}


def generated(given: dict[str, str]) -> dict[str, str]:
    """The units that podman's generator makes of files. It must have nothing to say but that it reads them."""
    root = root_with(GENERATOR, "podman")
    with folder_in(root, given) as folder:
        done = run_in(root, GENERATOR, "-dryrun", QUADLET_UNIT_DIRS=folder)
    said = [line for line in done.stderr.splitlines() if "Loading source unit file" not in line]
    assert said == []
    parts = re.split(r"^---(\S+)---\n", done.stdout, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def read(given: dict[str, str]) -> dict[str, Dump]:
    """What systemd reads from the generated units."""
    # Only what podman adds to a unit is not for the manager of a user.
    units = {name: text.replace("Delegate=yes\n", "") for name, text in generated(given).items()}
    return systemd_of("trixie").read(units)


def command(dumps: dict[str, Dump], agent: str) -> list[str]:
    """The words of ExecStart=."""
    starts = [each for each in dumps[f"a2a-claude-{agent}.service"]["Command Line"] if "/usr/bin/podman run " in each]
    return words(starts[0])


def options(line: list[str]) -> list[tuple[str, ...]]:
    """The words, each option with its argument and sorted: the generator has no order for some of them."""
    found: list[tuple[str, ...]] = []
    for word in line:
        takes = found and len(found[-1]) == 1 and found[-1][0].startswith("-") and "=" not in found[-1][0]
        if takes and not word.startswith("-"):
            found[-1] = (*found[-1], word)
        else:
            found.append((word,))
    return sorted(found)


def secret(agent: str, name: str, uid: int) -> str:
    return f"a2a-claude-{agent}-{name},type=mount,target={name},uid={uid},gid={uid},mode=0400"


def health(agent: str) -> list[str]:
    command = f'["a2a-claude","healthcheck","/etc/a2a-claude/{agent}/agent.json","--hostname","0.0.0.0"]'
    return [
        *("--health-cmd", command, "--health-interval", "10s", "--health-on-failure", "kill"),
        *("--health-retries", "3", "--health-start-period", "30s", "--health-timeout", "5s"),
    ]


def start(agent: str, stop: int, uid: int) -> list[str]:
    return [
        *("/usr/bin/podman", "run", "--name", f"a2a-claude-{agent}", f"--cidfile=/tmp/a2a-claude-{agent}.cid"),
        *("--replace", "--rm", "--cgroups=split", "--pids-limit", "2048", "--stop-timeout", str(stop)),
        *("--tmpfs", "/tmp:size=1g", "--network-alias", agent, "--network", "a2a-claude", "--sdnotify=healthy", "-d"),
        *("--security-opt=no-new-privileges", "--cap-drop", "all", "--read-only", "--user", f"{uid}:{uid}"),
        *("-v", f"a2a-claude-{agent}-state:/var/lib/a2a-claude"),
    ]


def test_podman_is_started_with_these_words_and_no_others() -> None:
    wanted = [
        *start("reviewer", 45, 10001),
        *("-v", "a2a-claude-reviewer-workspace:/workspace"),
        *("--publish", "127.0.0.1:3031:3031"),
        *("--secret", secret("reviewer", "ANTHROPIC_API_KEY", 10001)),
        *("--secret", secret("reviewer", "GITHUB_TOKEN", 10001)),
        *health("reviewer"),
        "--env=CLAUDE_MODEL",
        "localhost/a2a-claude/reviewer:1.0.0",
    ]
    line = command(read(files(plain())), "reviewer")
    assert (options(line), line[:2], line[-1]) == (options(wanted), wanted[:2], wanted[-1])


def test_podman_is_started_with_what_a_config_says_and_nothing_else() -> None:
    shared = ["/etc/a2a/tls.crt", "/etc/a2a/tls.key", "/etc/a2a/ca.crt", "/etc/a2a/tokens"]
    wanted = [
        *start("full", 76, 20000),
        *("--label", "io.containers.autoupdate=registry"),
        *("--publish", "80:3031"),
        *(
            word
            for each in ("ANTHROPIC_API_KEY", "OPTIONAL", "PLAIN", "SEALED")
            for word in ("--secret", secret("full", each, 20000))
        ),
        *("--mount", "type=bind,source=/srv/repo,destination=/work,ro=true"),
        *(word for each in shared for word in ("--mount", f"type=bind,source={each},destination={each},ro=true")),
        *health("full"),
        "--env=CLAUDE_MODEL",
        "registry.example/agents/reviewer:7",
    ]
    line = command(read(files(full())), "full")
    assert (options(line), line[:2], line[-1]) == (options(wanted), wanted[:2], wanted[-1])


def test_what_a_service_has_of_its_host_is_not_the_containers() -> None:
    kept = ("DATABASE_URL", "LISTEN_PORT", "OUTPUT_DIRECTORY", "PATHS")
    left = ("DBUS_SESSION_BUS_ADDRESS", "HOME", "LD_PRELOAD", "PATH", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
    made = files(make_agent({"agentCard": CARD}, variables=(*kept, *left)))
    line = command(read(made), "reviewer")
    assert sorted(each for each in line if each.startswith("--env")) == [f"--env={each}" for each in kept]
    assert f"so the container does not: {', '.join(left)}\n" in made["a2a-claude-reviewer.container"]


def test_the_unit_waits_for_health_limits_memory_and_leaves_time_to_stop() -> None:
    dump = read(files(full()))["a2a-claude-full.service"]
    assert dump["Type"] == ["notify"]
    assert dump["EnvironmentFile"] == ["-/etc/a2a-claude/full/env"]
    assert dump["TimeoutStopSec"] == ["1min 26s"]
    assert dump["MemoryMax"][0].startswith(str(512 * 2**20))
    assert dump["Restart"] == ["on-failure"]
    assert "\n[Install]\nWantedBy=default.target\n" in generated(files(full()))["a2a-claude-full.service"]


def test_volumes_and_the_network_have_the_names_that_containers_use() -> None:
    units = generated(files(plain()))
    made = [re.findall("^ExecStart=(.*)$", each, re.MULTILINE)[0] for each in units.values()][:3]
    assert sorted(made) == [
        "/usr/bin/podman network create --ignore a2a-claude",
        "/usr/bin/podman volume create --ignore a2a-claude-reviewer-state",
        "/usr/bin/podman volume create --ignore a2a-claude-reviewer-workspace",
    ]
    assert files(plain())["a2a-claude.network"] == files(full())["a2a-claude.network"]


@pytest.mark.parametrize(("mode", "end"), [("plan", ":ro"), ("acceptEdits", "")])
def test_a_volume_is_read_only_for_who_does_not_write(mode: str, end: str) -> None:
    text = files(make_agent({"agentCard": CARD, "claude": {"permissionMode": mode}}))["a2a-claude-reviewer.container"]
    assert f"\nVolume=a2a-claude-reviewer-workspace.volume:/workspace{end}\n" in text


# --- What it reads back -----------------------------------------------------------------------------------------------

NO_MOUNT = re.compile(r"[\s\"'\\\\$,]")


def with_text(number: int, text: str) -> tuple[Agent, Agent]:
    """`text` as the card's name, and as part of paths."""
    path = {"quadlet": {"workspace": f"/w/{text}"}, "docker": {"workspace": f"/t/{text}"}}
    return (
        make_agent({"agentCard": {**CARD, "name": text}}, name=f"n{number}"),
        make_agent({"agentCard": CARD, "deploy": path}, name=f"p{number}"),
    )


def is_character(each: str) -> bool:
    control = ord(each) < 0x20 or 0x7F <= ord(each) < 0xA0
    return not (control or ord(each) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(each) <= 0xFDEF)


def check_round_trip(texts: Iterable[str]) -> None:
    given: dict[str, str] = {}
    named: dict[str, str] = {}
    mounted: dict[str, str] = {}
    for number, text in enumerate(dict.fromkeys(each.replace("/", "_") for each in texts)):
        good = all(map(is_character, text))
        for agent, expected, expressible in zip(
            with_text(number, text),
            (named, mounted),
            (good, good and not NO_MOUNT.search(text) and text not in (".", "..")),
            strict=True,
        ):
            if expressible:
                given |= files(agent)
                expected[agent.name] = text
                continue
            with pytest.raises(Unrenderable) as refusal:
                render(agent)
            assert refusal.value.path in ("agentCard.name", "deploy.quadlet.workspace", "deploy.docker.workspace")
            assert refusal.value.hint
    dumps = read(given)
    for name, text in named.items():
        assert dumps[f"a2a-claude-{name}.service"]["Description"] == [f"A2A agent “{text}” ({name})"]
    for name, text in mounted.items():
        line = command(dumps, name)
        assert line[line.index("--mount") + 1] == f"type=bind,source=/w/{text},destination=/t/{text},ro=false"
        needed = [each.partition(" (")[0] for each in dumps[f"a2a-claude-{name}.service"]["RequiresMountsFor"]]
        assert f"/w/{text}" in needed


def test_traps_are_read_back_unchanged_or_refused_by_name() -> None:
    check_round_trip(TRAPS)


# No shrinking: each try is two processes, and the failure names the text.
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(TEXT, min_size=25, max_size=25))
def test_printable_text_is_read_back_unchanged_or_refused_by_name(texts: list[str]) -> None:
    check_round_trip(texts)


# `podman auto-update` wants a tag to look up, and a digest never becomes another image.
UNTAGGED = ("r.example/a", "r.example:5000/a/b", f"r.example/a@sha256:{'a' * 64}", f"r.example/a:7@sha256:{'a' * 64}")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"deploy": {"quadlet": {"publish": "127.0.0.1:70000"}}}, "deploy.quadlet.publish"),
        ({"deploy": {"quadlet": {"workspace": "/a,b"}}}, "deploy.quadlet.workspace"),
        ({"deploy": {"docker": {"workspace": "/a:b"}}}, "deploy.docker.workspace"),
        ({"deploy": {"docker": {"image": "a\nPodmanArgs=--privileged"}}}, "deploy.docker.image"),
        *(
            ({"deploy": {"docker": {"image": each}, "quadlet": {"autoUpdate": True}}}, "deploy.quadlet.autoUpdate")
            for each in UNTAGGED
        ),
        ({"server": {"tls": {"certificateFile": "/a b", "keyFile": "/k"}}}, "server.tls.certificateFile"),
        ({"agentCard": {**CARD, "name": "a\nPodmanArgs=--privileged"}}, "agentCard.name"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_the_config_path(document: dict[str, Any], path: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(make_agent({"agentCard": CARD, **document}))
    assert (refusal.value.path, bool(refusal.value.hint)) == (path, True)


# --- What podman makes of it ------------------------------------------------------------------------------------------

# Podman wants / to be a mount, and the files of the host that an agent names to be there.
_ENTER = """
mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
mount -t tmpfs tmpfs "$0/srv" && mkdir "$0/srv/repo" && mkdir -p "$0/etc/a2a" && mount -t tmpfs tmpfs "$0/etc/a2a" &&
touch "$0/etc/a2a/tls.crt" "$0/etc/a2a/tls.key" "$0/etc/a2a/ca.crt" "$0/etc/a2a/tokens" &&
exec chroot "$0" env -i PATH=/usr/bin:/usr/sbin HOME=/root PODMAN_IGNORE_CGROUPSV1_WARNING=1 "$@"
"""
# What concerns the service around the container, not the container.
_OF_THE_SERVICE = re.compile("-d|--replace|--rm|--(cidfile|sdnotify|cgroups)=.*")


@pytest.fixture(scope="module", params=["plain", "full"])
def made(request: pytest.FixtureRequest) -> Iterator[tuple[Agent, dict[str, Any]]]:
    """An agent and its container, as podman made it of the words in ExecStart=, but did not start it."""
    agent = plain() if request.param == "plain" else full()
    root = root_with("/usr/bin/podman", "podman")
    line = [word for word in command(read(files(agent)), agent.name)[2:] if not _OF_THE_SERVICE.fullmatch(word)]
    image = line[-1]
    with folder_in(root, {"secret": "x"}) as folder:
        (root / folder[1:] / "files").mkdir()
        subprocess.run(["tar", "-C", root / folder[1:] / "files", "-cf", root / folder[1:] / "tar", "."], check=True)

        def podman(*words: str) -> str:
            own = ("--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs")
            program = ("podman", *own, "--network-config-dir", f"{folder}/networks", *words)
            enter = ["unshare", "--mount", "sh", "-c", _ENTER, str(root), *program]
            done = subprocess.run(enter, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        podman("import", "--change", 'CMD ["x"]', f"{folder}/tar", image)
        podman("network", "create", "a2a-claude")
        for name in agent.secrets:
            podman("secret", "create", f"a2a-claude-{agent.name}-{name}", f"{folder}/secret")
        podman("create", *line)
        (found,) = json.loads(podman("inspect", f"a2a-claude-{agent.name}"))
        yield agent, found


def test_podman_confines_the_container_as_it_was_meant(made: tuple[Agent, dict[str, Any]]) -> None:
    agent, found = made
    config, host, uid = found["Config"], found["HostConfig"], agent.config.deploy.docker.uid
    assert config["User"] == f"{uid}:{uid}"
    assert (host["ReadonlyRootfs"], host["Privileged"], host["PidsLimit"]) == (True, False, 2048)
    assert not found["EffectiveCaps"]
    assert not found["BoundingCaps"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert config["StopTimeout"] == container.stop_seconds(agent)
    assert config["Healthcheck"]["Test"] == ["CMD", *container.healthcheck(agent)]
    assert {each["Name"]: (each["UID"], each["Mode"]) for each in config["Secrets"]} == {
        f"a2a-claude-{agent.name}-{name}": (uid, 0o400) for name in agent.secrets
    }
    assert not any("KEY" in each or "TOKEN" in each for each in config["Env"])


def test_podman_publishes_and_mounts_what_it_should(made: tuple[Agent, dict[str, Any]]) -> None:
    agent, found = made
    mounts = {each["Destination"]: (each["Source"].rsplit("/storage")[0], each["RW"]) for each in found["Mounts"]}
    (port,) = found["HostConfig"]["PortBindings"]["3031/tcp"]
    assert mounts["/var/lib/a2a-claude"][1] is True
    if agent.name == "full":
        assert (mounts["/work"], mounts["/etc/a2a/tokens"]) == (("/srv/repo", False), ("/etc/a2a/tokens", False))
        assert (port["HostIp"], port["HostPort"]) == ("0.0.0.0", "80")
    else:
        assert mounts["/workspace"][1] is True
        assert (port["HostIp"], port["HostPort"]) == ("127.0.0.1", "3031")

"""The Quadlet target: what podman's generator and then systemd make of the files, and what is refused instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Unrenderable
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
    command = f'["CMD","a2a-claude","healthcheck","/etc/a2a-claude/{agent}/agent.json","--hostname","0.0.0.0"]'
    return [
        *("--health-cmd", command, "--health-interval", "10s", "--health-on-failure", "kill"),
        *("--health-retries", "3", "--health-start-period", "30s", "--health-timeout", "5s"),
    ]


def start(agent: str, stop: int, uid: int) -> list[str]:
    return [
        *("/usr/bin/podman", "run", "--name", f"a2a-claude-{agent}", f"--cidfile=/tmp/a2a-claude-{agent}.cid"),
        *("--replace", "--rm", "--cgroups=split", "--pids-limit", "2048", "--stop-timeout", str(stop)),
        *("--tmpfs", "/tmp", "--network-alias", agent, "--network", "a2a-claude", "--sdnotify=healthy", "-d"),
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


def test_the_unit_waits_for_health_limits_memory_and_leaves_time_to_stop() -> None:
    dump = read(files(full()))["a2a-claude-full.service"]
    assert dump["Type"] == ["notify"]
    assert dump["EnvironmentFile"] == ["-/etc/a2a-claude/full/env"]
    assert dump["TimeoutStopSec"] == ["1min 26s"]
    assert dump["MemoryMax"][0].startswith(str(512 * 2**20))
    assert dump["Restart"] == ["on-failure"]


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


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"deploy": {"quadlet": {"publish": "127.0.0.1:70000"}}}, "deploy.quadlet.publish"),
        ({"deploy": {"quadlet": {"workspace": "/a,b"}}}, "deploy.quadlet.workspace"),
        ({"deploy": {"docker": {"workspace": "/a:b"}}}, "deploy.docker.workspace"),
        ({"deploy": {"docker": {"image": "a\nPodmanArgs=--privileged"}}}, "deploy.docker.image"),
        ({"server": {"tls": {"certificateFile": "/a b", "keyFile": "/k"}}}, "server.tls.certificateFile"),
        ({"agentCard": {**CARD, "name": "a\nPodmanArgs=--privileged"}}, "agentCard.name"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_the_config_path(document: dict[str, Any], path: str) -> None:
    with pytest.raises(Unrenderable) as refusal:
        render(make_agent({"agentCard": CARD, **document}))
    assert (refusal.value.path, bool(refusal.value.hint)) == (path, True)

"""The sandbox: one table that the unit, the NixOS module and the docs agree on, and a score that holds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.targets.hardening import PROFILES, Profile, directives
from a2a_claude.targets.systemd import render
from tests.support import make_agent
from tests.systemd_oracle import systemd_of

ROOT = Path(__file__).parent.parent
THRESHOLD: dict[Profile, float] = {"strict": 1.5, "cli-sandbox": 2.5}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"user": "a2a", "workspace": "/srv/w", "readOnlyPaths": ["/r"], "cpuQuota": 100, "environmentFiles": ["/e"]},
    {"socketActivation": True, "minVersion": 257, "after": ["a.service"]},
]
DOCUMENT: dict[str, Any] = {
    "agentCard": {"documentationUrl": "https://example.org"},
    "claude": {"credentials": [], "permissionMode": "plan"},
    "secrets": {"A": {"optional": True}, "B": {"encrypted": True}},
}


def units(profile: Profile) -> list[str]:
    texts = []
    for variant in VARIANTS:
        systemd = {"profile": profile, "executable": "/usr/bin/true", **variant}
        for document in ({}, DOCUMENT):
            rendered = render(make_agent({**document, "deploy": {"systemd": systemd}}))
            texts += [each.text for each in rendered if each.path != "env.example"]
    return texts


def lines(unit: str) -> list[tuple[str, str]]:
    return re.findall(r"^([A-Za-z]+)=(.*)$", unit, flags=re.MULTILINE)


@pytest.mark.parametrize("place", ["machine", "trixie"])
@pytest.mark.parametrize("profile", PROFILES)
def test_exposure_stays_below_the_threshold(place: str, profile: Profile) -> None:
    systemd = systemd_of(place)
    scores = [systemd.exposure(each) for each in units(profile) if "[Service]" in each]
    assert len(scores) == 6
    assert max(scores) <= THRESHOLD[profile]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", [252, 254, 257])
def test_the_unit_holds_each_directive_of_its_profile_once(profile: Profile, version: int) -> None:
    systemd = {"profile": profile, "minVersion": version}
    rendered = lines(render(make_agent({"deploy": {"systemd": systemd}}))[0].text)
    for name, value in directives(profile, version).items():
        wanted = [value] if isinstance(value, str) else list(value)
        assert [each for key, each in rendered if key == name] == wanted


def test_derived_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "docs/hardening.py", "--check"],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_json_for_nix_is_the_profiles_of_the_oldest_systemd() -> None:
    read = json.loads((ROOT / "nix" / "hardening.json").read_text("utf-8"))
    assert read == {each: json.loads(json.dumps(directives(each))) for each in PROFILES}


def test_every_directive_of_a_unit_is_documented() -> None:
    page = (ROOT / "docs" / "hardening.md").read_text("utf-8")
    used = {name for profile in PROFILES for unit in units(profile) for name, _ in lines(unit)}
    assert len(used) > 60
    assert sorted(each for each in used if f"`{each}=" not in page) == []


@pytest.mark.parametrize("directive", ["MemoryDenyWriteExecute", "ProcSubset", "ExecStartPre", "PrivateNetwork"])
def test_what_would_break_the_agent_stays_absent_and_says_why(directive: str) -> None:
    assert all(name != directive for profile in PROFILES for unit in units(profile) for name, _ in lines(unit))
    page = (ROOT / "docs" / "hardening.md").read_text("utf-8")
    assert f"`{directive}=" in page.partition("## Absent on purpose")[2]


def test_nothing_hides_a_part_of_proc_from_the_cli_sandbox() -> None:
    assert not {"ProtectHostname", "ProtectKernelTunables", "ProtectKernelLogs"} & directives("cli-sandbox", 257).keys()

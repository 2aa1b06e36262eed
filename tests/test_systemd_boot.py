"""The rendered units in a booted systemd: agents start, see what they should and nothing else, and stop."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.targets.systemd import render
from tests.support import make_agent
from tests.tools import absent, require, require_root

pytestmark = pytest.mark.slow

TRICKY = 'a "q" %H:é\'\\b $HOME'
AGENTS: dict[str, dict[str, Any]] = {
    "plain": {"secrets": {"OPTIONAL": {"optional": True}, "TRICKY": {"file": f"/srv/{TRICKY}"}}},
    "static": {"deploy": {"systemd": {"user": "dev", "workspace": f"/home/dev/{TRICKY}"}}},
    "plan": {"claude": {"permissionMode": "plan"}},
    "plan-on-host": {"claude": {"permissionMode": "plan"}, "deploy": {"systemd": {"workspace": "/srv/shared"}}},
    "guarded": {
        "deploy": {"systemd": {"workspace": "/srv/guarded", "readOnlyPaths": ["/srv/guarded/CLAUDE.md"]}},
    },
    "argv": {"deploy": {"systemd": {"configFile": f"/etc/a2a-claude/argv/{TRICKY} $$ ${{HOME}}"}}},
    "sandbox": {"deploy": {"systemd": {"profile": "cli-sandbox"}}},
    "unsupplied": {},
    "waiting": {"server": {"port": 4040}, "deploy": {"systemd": {"socketActivation": True}}},
}

# Stands for `a2a-claude serve`: speaks to systemd like it, and writes down what it sees.
SERVER = r"""#!/usr/bin/python3 -I
import json, os, signal, socket, subprocess, sys, time

def outcome(attempt):
    try:
        return attempt()
    except OSError as error:
        return error.strerror

def write(folder):
    path = os.path.join(folder, ".probe")
    open(path, "w").close()
    os.unlink(path)
    return "written"

environ = os.environ
credentials = environ["CREDENTIALS_DIRECTORY"]
home, state, workspace = environ["HOME"], environ["STATE_DIRECTORY"], environ["WORKSPACE_DIR"]
bubblewrap = "bwrap --ro-bind / / --dev /dev --proc /proc --unshare-pid --unshare-net true".split()
seen = {
    "argv": sys.argv,
    "environ": dict(environ),
    "credentials": {each: open(f"{credentials}/{each}").read() for each in os.listdir(credentials)},
    "write": {each: outcome(lambda: write(each)) for each in (home, state, workspace, "/tmp", "/etc", "/opt", "/srv")},
    "CLAUDE.md": outcome(lambda: open(f"{workspace}/CLAUDE.md", "a").close() or "written"),
    "/home": os.listdir("/home"),
    "source": outcome(lambda: open(environ["PROBED_SECRET"]).read()),
    "bubblewrap": subprocess.run(bubblewrap, capture_output=True).returncode,
    "executable memory": outcome(lambda: __import__("mmap").mmap(-1, 4096, prot=7) and "mapped"),
}
with open(f"{state}/seen.json", "w") as file:
    json.dump(seen, file)
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.connect(environ["NOTIFY_SOCKET"].replace("@", "\0", 1))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
notify.send(b"READY=1")
while True:
    notify.send(b"WATCHDOG=1")
    time.sleep(1)
"""

# bubblewrap can only mount a /proc while an unobstructed one is seen, and those of a container never are: /mnt has one.
CHECKS = r"""#!/bin/bash
useradd dev; chown -R dev /home/dev
mount -t proc proc /mnt
for agent in plain static plan plan-on-host guarded argv sandbox unsupplied; do
    timeout 60 systemctl start a2a-claude-$agent
done
timeout 60 systemctl start a2a-claude-waiting.socket
systemctl is-active a2a-claude-waiting >/result/before-connecting
python3 -c 'import socket; socket.create_connection(("127.0.0.1", 4040), 10)'
timeout 60 systemctl start a2a-claude-waiting
for agent in plain static plan plan-on-host guarded argv sandbox unsupplied waiting; do
    systemctl show a2a-claude-$agent -p ActiveState,ExecMainStatus,MemoryMax,TasksMax >/result/$agent.show
    cp /var/lib/a2a-claude/$agent/seen.json /result/$agent.json
done
timeout 60 systemctl stop a2a-claude-plain
systemctl show a2a-claude-plain -p Result,ExecMainStatus >/result/stopped
journalctl --boot --no-pager >/result/journal
systemctl poweroff
"""

CHECKS_UNIT = "[Unit]\nAfter=multi-user.target\n[Service]\nType=idle\nExecStart=/checks\n"


def put(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    file.chmod(mode)


def furnish(root: Path) -> None:
    for name, document in AGENTS.items():
        for each in render(make_agent(document, name)):
            if each.path != "env.example":
                put(root, f"/etc/systemd/system/{each.path}", each.text)
        secret = f"/etc/a2a-claude/{name}/secrets/ANTHROPIC_API_KEY"
        put(root, f"/etc/a2a-claude/{name}/env", f"PLAIN='a b'\nPROBED_SECRET={secret}\n")
        if name != "unsupplied":
            put(root, secret, "key\n", 0o644)
    put(root, f"/srv/{TRICKY}", "tricky", 0o600)
    put(root, "/opt/a2a-claude/bin/a2a-claude", SERVER, 0o755)
    put(root, "/checks", CHECKS, 0o755)
    put(root, "/etc/systemd/system/checks.service", CHECKS_UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "checks.service").symlink_to("../checks.service")
    for folder in (f"home/dev/{TRICKY}", "srv/shared", "srv/guarded", "result"):
        (root / folder).mkdir(parents=True)
        (root / folder).chmod(0o777)
    put(root, "/srv/guarded/CLAUDE.md", "Be kind.", 0o666)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the checks wrote down inside a container that boots an overlay of a Debian root, and is gone afterwards."""
    require_root()
    require("systemd-nspawn", "apt-get install systemd-container")
    lower = os.environ.get("A2A_CLAUDE_BOOT_ROOT")
    if not lower or not Path(lower, "usr/bin/bwrap").exists():
        packages = "systemd-sysv dbus python3-venv bubblewrap"
        absent(
            "A Debian root that boots",
            f"run `.ci/debian-root bookworm DIR {packages}`, then set A2A_CLAUDE_BOOT_ROOT=DIR",
        )
    upper, work, root = (tmp_path_factory.mktemp(each) for each in ("upper", "work", "root"))
    upper.chmod(0o755)
    named = ["--machine", f"a2a-claude-{os.getpid()}"]
    layers = f"lowerdir={lower},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root)], check=True)
    try:
        furnish(root)
        subprocess.run(
            ["timeout", "180", "systemd-nspawn", "--boot", "--register=no", "--keep-unit", *named, "-D", str(root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
        yield root / "result"
    finally:
        subprocess.run(["umount", str(root)], check=True)


def seen(result: Path, agent: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((result / f"{agent}.json").read_text("utf-8"))
    return loaded


def shown(result: Path, agent: str) -> set[str]:
    return set((result / f"{agent}.show").read_text("utf-8").splitlines())


@pytest.mark.parametrize("agent", [each for each in AGENTS if each != "unsupplied"])
def test_an_agent_runs_with_its_limits(result: Path, agent: str) -> None:
    assert {"ActiveState=active", "MemoryMax=4294967296", "TasksMax=2048"} <= shown(result, agent)


def test_a_required_secret_that_is_missing_stops_the_start(result: Path) -> None:
    assert "ExecMainStatus=243" in shown(result, "unsupplied")


def test_secrets_arrive_as_files_and_an_optional_one_without_a_file_is_an_empty_line(result: Path) -> None:
    found = seen(result, "plain")
    assert found["credentials"] == {"ANTHROPIC_API_KEY": "key\n", "OPTIONAL": "\n", "TRICKY": "tricky"}
    assert "key" not in found["environ"].values()
    assert found["source"] == "Permission denied"


def test_arguments_and_variables_arrive_as_they_were_written(result: Path) -> None:
    argv = ["/opt/a2a-claude/bin/a2a-claude", "serve", f"/etc/a2a-claude/argv/{TRICKY} $$ ${{HOME}}"]
    assert seen(result, "argv")["argv"] == argv
    environ = seen(result, "static")["environ"]
    state = "/var/lib/a2a-claude/static"
    assert environ["WORKSPACE_DIR"] == f"/home/dev/{TRICKY}"
    assert (environ["STATE_DIRECTORY"], environ["HOME"]) == (state, f"{state}/home")
    assert environ["PLAIN"] == "a b"


@pytest.mark.parametrize(
    ("agent", "workspace", "may_write"),
    [
        ("plain", "/var/lib/a2a-claude/plain/workspace", True),
        ("static", f"/home/dev/{TRICKY}", True),
        ("plan", "/var/lib/a2a-claude/plan/workspace", False),
        ("plan-on-host", "/srv/shared", False),
        ("guarded", "/srv/guarded", True),
    ],
)
def test_an_agent_writes_its_own_folders_only(result: Path, agent: str, workspace: str, may_write: bool) -> None:
    written = seen(result, agent)["write"]
    state = f"/var/lib/a2a-claude/{agent}"
    allowed = {state, f"{state}/home", "/tmp"} | ({workspace} if may_write else set())
    assert {each for each, outcome in written.items() if outcome == "written"} == allowed
    assert {written[each] for each in ("/etc", "/opt", "/srv")} == {"Read-only file system"}


def test_what_claude_reads_of_a_workspace_can_be_kept_from_its_hands(result: Path) -> None:
    assert seen(result, "guarded")["CLAUDE.md"] == "Read-only file system"
    assert seen(result, "plain")["CLAUDE.md"] == "written"


def test_of_home_an_agent_sees_what_its_config_names(result: Path) -> None:
    assert seen(result, "plain")["/home"] == []
    assert seen(result, "static")["/home"] == ["dev"]


def test_bubblewrap_works_in_the_profile_for_it_alone(result: Path) -> None:
    assert seen(result, "sandbox")["bubblewrap"] == 0
    assert seen(result, "plain")["bubblewrap"] != 0


@pytest.mark.parametrize("agent", ["plain", "sandbox"])
def test_compilers_at_run_time_get_executable_memory(result: Path, agent: str) -> None:
    assert seen(result, agent)["executable memory"] == "mapped"


def test_the_socket_starts_the_agent_at_the_first_connection(result: Path) -> None:
    assert (result / "before-connecting").read_text("utf-8") == "inactive\n"
    assert seen(result, "waiting")["environ"]["LISTEN_FDS"] == "1"


def test_a_stop_is_clean(result: Path) -> None:
    assert (result / "stopped").read_text("utf-8").splitlines() == ["Result=success", "ExecMainStatus=0"]


def test_systemd_had_nothing_to_say_about_the_units(result: Path) -> None:
    lines = (result / "journal").read_text("utf-8").splitlines()
    assert [each for each in lines if "/a2a-claude-" in each and "ignoring" in each] == []

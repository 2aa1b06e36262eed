"""A machine with an empty disk: a Debian root under an overlay, booted by systemd-nspawn with this host's network."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.tools import absent, require, require_root

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What nspawn's own filter refuses and any real host allows: without Landlock nothing is hidden from an agent's shell,
# and without bpf(2) IPAddressDeny= does nothing.
_ALLOWED_CALLS = "bpf landlock_create_ruleset landlock_add_rule landlock_restrict_self"


class Machine:
    """A booted machine. `root` is its disk as this host sees it, `leader` the process id of its systemd."""

    def __init__(self, root: Path, leader: int) -> None:
        self.root = root
        self._enter = [require("nsenter", "apt-get install util-linux"), f"--target={leader}", "--all"]
        self._enter += ["env", "-i", f"PATH={_PATH}", "LANG=C.UTF-8", "SYSTEMD_PAGER="]

    def attempt(self, *command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs a command as root on the machine; its exit code is the caller's to judge."""
        return subprocess.run([*self._enter, *command], capture_output=True, text=True, timeout=timeout, check=False)

    def run(self, command: str) -> str:
        """The standard output of a command line that must succeed."""
        done = self.attempt(*shlex.split(command))
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def put(self, path: str, content: str, mode: int = 0o644) -> None:
        """Writes a file as root."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(content, "utf-8")
        file.chmod(mode)

    def shown(self, unit: str, *properties: str) -> dict[str, str]:
        """Properties of a unit as systemd has them."""
        lines = self.run(f"systemctl show {unit} --property={','.join(properties)}").splitlines()
        return dict(line.split("=", 1) for line in lines)

    def journal(self, unit: str) -> list[dict[str, str]]:
        """Entries of a unit: what it wrote, and what systemd said of it."""
        self.run("journalctl --sync")
        return [json.loads(line) for line in self.run(f"journalctl --output=json --unit={unit}").splitlines()]

    def as_unit(self, unit: str, script: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell script with the user and the files that a running service has."""
        pid = self.shown(unit, "MainPID")["MainPID"]
        uid = self.run(f"stat --format=%u /proc/{pid}")
        return self.attempt("nsenter", f"--target={pid}", "--mount", f"--setuid={uid}", "sh", "-c", script)


@dataclass(frozen=True)
class ForContainers:
    """What podman needs of a machine: a `network` of its own (ip-netns(8)), of which it is the master, and a folder for
    its `storage` that is on no overlay."""

    network: str
    storage: Path


@contextmanager
def own_network(name: str, address: str, host: str) -> Iterator[str]:
    """A network namespace that reaches this host at the address `host`, and is reached at `address`, both with /24."""
    ip = require("ip", "apt-get install iproute2")
    commands = [
        f"netns add {name}",
        f"link add {name} type veth peer name host0 netns {name}",
        f"address add {host}/24 dev {name}",
        f"link set {name} up",
        f"-n {name} address add {address}/24 dev host0",
        f"-n {name} link set host0 up",
        f"-n {name} link set lo up",
        f"-n {name} route add default via {host}",
    ]
    try:
        for each in commands:
            subprocess.run([ip, *each.split()], check=True)
        yield name
    finally:
        subprocess.run([ip, "netns", "delete", name], check=False)
        # The namespace lives on as long as a process that is about to end in it.
        subprocess.run([ip, "link", "delete", name], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def booted(
    disk: Path, folder: Path, bound: Mapping[str, Path], containers: ForContainers | None = None
) -> Iterator[Machine]:
    """Boots an overlay of `disk` with folders of this host bound read-only at the paths of `bound`.

    With `containers` it can have containers of its own. It has control groups of version 2 alone, without controllers
    where this host has those in version 1: systemd from 256 on takes nothing else, and with version 1 nobody in a
    container is told when a group is empty.
    """
    require_root()
    nspawn = require("systemd-nspawn", "apt-get install systemd-container")
    upper, work, root = (folder / each for each in ("upper", "work", "root"))
    for each in (upper, work, root):
        each.mkdir(mode=0o755)
    layers = f"lowerdir={disk},upperdir={upper},workdir={work}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, root], check=True)
    command: list[str | Path] = [nspawn, "--boot", "--register=no", "--keep-unit", "--notify-ready=yes", "-D", root]
    command += [f"--machine=a2a-claude-e2e-{os.getpid()}-{folder.name}", f"--system-call-filter={_ALLOWED_CALLS}"]
    command += [f"--bind-ro={source}:{path}" for path, source in bound.items()]
    environ = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    if containers:
        command += [f"--network-namespace-path=/run/netns/{containers.network}", "--capability=CAP_NET_ADMIN"]
        command += [f"--bind={containers.storage}:/var/lib/containers", "--system-call-filter=@keyring"]
        environ["SYSTEMD_NSPAWN_API_VFS_WRITABLE"] = "network"
    group = _control_group()
    enter: list[str | Path] = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
    try:
        with (folder / "console").open("w") as console, tempfile.TemporaryDirectory(prefix="a2a-e2e-") as short:
            environ["NOTIFY_SOCKET"] = f"{short}/notify"  # a socket's path is at most 107 bytes
            told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            told.bind(environ["NOTIFY_SOCKET"])
            with (
                told,
                subprocess.Popen(
                    [*enter, *command], env=environ, stdin=subprocess.DEVNULL, stdout=console, stderr=console
                ),
            ):
                try:
                    leader = _ready(told, folder / "console")
                    told.close()  # systemd goes on telling, and would wait for a reader
                    yield Machine(root, leader)
                finally:
                    _end(group)
    finally:
        subprocess.run(["umount", "--lazy", root], check=True)
        shutil.rmtree(upper, ignore_errors=True)


def _control_group() -> Path:
    """A new group in the hierarchy of version 2. What a test run that was killed has left behind ends now."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    top = next((each[1] for each in mounts if each[2] == "cgroup2"), None)
    here = Path(top or absent("cgroup2", "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"))
    for left in here.glob("a2a-e2e-*"):
        if not Path("/proc", left.name.split("-")[2]).exists():
            _end(left)
    return Path(tempfile.mkdtemp(prefix=f"a2a-e2e-{os.getpid()}-", dir=here))


def _end(group: Path) -> None:
    """Kills whatever is in a group, and removes it."""
    (group / "cgroup.kill").write_text("1")
    while "populated 1" in (group / "cgroup.events").read_text():
        time.sleep(0.05)
    for folder, _, _ in os.walk(group, topdown=False):
        os.rmdir(folder)


def _ready(told: socket.socket, console: Path) -> int:
    """The leader's process id, when the machine says that it has booted."""
    leader = 0
    while True:
        try:
            lines = told.recv(4096).decode().splitlines()
        except TimeoutError:
            raise AssertionError(f"the machine did not boot: {console.read_text()[-3000:]}") from None
        for line in lines:
            if line.startswith("X_NSPAWN_LEADER_PID="):
                leader = int(line.partition("=")[2])
        if "READY=1" in lines:
            return leader

"""The sandbox of an agent on a systemd host, as data: the unit, the NixOS module and docs/hardening.md are made from it.

Only directives of `[Service]` whose value is the same for every agent are here. Sources: systemd.exec(5),
systemd.kill(5), systemd.service(5) and systemd.resource-control(5) of systemd 252.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Profile = Literal["strict", "cli-sandbox"]
Value = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Directive:
    """A line of the unit, or several lines when `value` is a tuple. `cost` is what the agent loses by it.

    `newer` is the value for hosts that all run at least the systemd release it names.
    """

    name: str
    value: Value
    cost: str
    newer: tuple[int, Value] | None = None

    def at(self, version: int) -> Value | None:
        """The value for hosts that run systemd `version` or later, None when they do not know the directive yet."""
        if self.newer and version >= self.newer[0]:
            return self.newer[1]
        return self.value or ("" if self.newer is None else None)


_LIFECYCLE = (
    Directive("Type", "notify", "Nothing: the unit counts as started when the agent answers."),
    Directive("NotifyAccess", "main", "Programs the agent starts cannot speak to systemd in its name."),
    Directive("WatchdogSec", "60s", "An agent whose event loop hangs for a minute is killed and restarted."),
    Directive("TimeoutStartSec", "120s", "An agent that cannot open its store or port in two minutes has failed."),
    Directive("KillMode", "mixed", "Nothing: the server drains first, then whatever it started is killed."),
    Directive("OOMPolicy", "stop", "When one command runs out of `MemoryMax=`, the whole agent is restarted."),
    Directive("Restart", "on-failure", "Nothing: a crash restarts the agent, a clean stop does not."),
    Directive("LimitNOFILE", "65536", "Nothing: room for one stream per caller and the pipes of Claude."),
    Directive("LimitCORE", "0", "No core dumps: they would hold secrets and conversations."),
)

_COMMON = (
    Directive("UMask", "0077", "Files it makes are private to its user; a shared workspace needs `chmod`."),
    Directive("NoNewPrivileges", "yes", "`sudo`, `ping` and other setuid programs gain nothing."),
    Directive("CapabilityBoundingSet", "", "No capability at all: no ports below 1024, no raw sockets."),
    Directive("AmbientCapabilities", "", "As above."),
    Directive("ProtectSystem", "strict", "The host is read-only, but for the state directory, `/tmp` and given paths."),
    Directive("ProtectHome", "tmpfs", "`/home`, `/root` and `/run/user` are empty, but for paths the config names."),
    Directive("PrivateTmp", "yes", "Its `/tmp` and `/var/tmp` are its own and go when it stops."),
    Directive("PrivateDevices", "yes", "No disks, GPUs or serial ports; `/dev/null`, `/dev/urandom` and ptys stay."),
    Directive("DevicePolicy", "closed", "As above."),
    Directive("PrivateIPC", "yes", "No System V or POSIX IPC with the rest of the host."),
    Directive("RemoveIPC", "yes", "Its IPC objects go when it stops."),
    Directive("KeyringMode", "private", "No access to the kernel keyrings of others."),
    Directive("ProtectProc", "invisible", "`ps` shows its own processes only."),
    Directive("ProtectClock", "yes", "It cannot set the clock."),
    Directive(
        "ProtectControlGroups",
        "yes",
        "It cannot change control groups: no containers inside.",
        newer=(257, "strict"),
    ),
    Directive("ProtectKernelModules", "yes", "It cannot load kernel modules."),
    Directive("LockPersonality", "yes", "No execution domains other than Linux: `setarch` fails."),
    Directive("RestrictRealtime", "yes", "No real-time scheduling."),
    Directive("RestrictSUIDSGID", "yes", "It cannot make setuid or setgid files: `chmod g+s` fails."),
    Directive(
        "RestrictAddressFamilies",
        "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "Sockets of other families (Bluetooth, packet, vsock) fail. Netlink is how resolvers see the interfaces.",
    ),
    Directive("SystemCallArchitectures", "native", "32-bit programs do not run."),
    Directive("SystemCallErrorNumber", "EPERM", "A refused call fails instead of killing the program."),
)

_STRICT = (
    Directive("PrivateUsers", "yes", "Files of other users show as `nobody`'s: git wants `safe.directory` for them."),
    Directive("ProtectHostname", "yes", "It cannot set the host's name."),
    Directive("ProtectKernelTunables", "yes", "`sysctl` is read-only."),
    Directive("ProtectKernelLogs", "yes", "`dmesg` fails."),
    Directive("RestrictNamespaces", "yes", "No namespaces: bubblewrap, unshare and rootless containers fail."),
    Directive(
        "SystemCallFilter",
        ("@system-service", "~@privileged @resources"),
        "`mount`, `chown`, `chroot`, `nice` and `taskset` fail; so do debuggers.",
    ),
)

_CLI_SANDBOX = (
    Directive(
        "RestrictNamespaces",
        "user mnt pid net ipc uts cgroup",
        "Nothing: bubblewrap needs them all. Time namespaces stay refused.",
    ),
    Directive(
        "SystemCallFilter",
        ("@system-service @mount", "~@chown @clock @cpu-emulation @debug @module @obsolete @raw-io @reboot @swap"),
        "`chown` and debuggers fail; what else root alone may do is refused by the kernel.",
    ),
)

PROFILES: dict[Profile, tuple[Directive, ...]] = {
    "strict": _LIFECYCLE + _COMMON + _STRICT,
    "cli-sandbox": _LIFECYCLE + _COMMON + _CLI_SANDBOX,
}


def directives(profile: Profile, version: int = 252) -> dict[str, Value]:
    """Every directive of a profile that hosts with systemd `version` or later know, in the order of the unit."""
    found = ((each.name, each.at(version)) for each in PROFILES[profile])
    return {name: value for name, value in found if value is not None}

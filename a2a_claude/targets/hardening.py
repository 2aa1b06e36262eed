"""The sandbox of an agent on a systemd host, as data that the unit, the NixOS module and docs/hardening.md come from.

Only directives of `[Service]` whose value is the same for every agent are here. Sources: systemd.exec(5),
systemd.kill(5), systemd.service(5) and systemd.resource-control(5) of systemd 252.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Profile = Literal["strict", "cli-sandbox"]
Value = str | tuple[str, ...]

METADATA = (
    "169.254.0.0/16",
    "100.100.100.200/32",  # Alibaba Cloud
    "168.63.129.16/32",  # Azure's WireServer
    "fd00:ec2::254/128",  # AWS, also below
    "fd00:ec2::23/128",
    "fd20:ce::254/128",  # Google Cloud
    "fd00:c1::a9fe:a9fe/128",  # Oracle Cloud
    "fe80::a9fe:a9fe/128",  # OpenStack
)
"""The services of clouds, as CIDR, that hand out the credentials of the host or the node."""


@dataclass(frozen=True, slots=True)
class Directive:
    """A line of the unit, or several when `value` is a tuple. `cost` is what the agent loses by it.

    `since` is the systemd release that knows it; of two with one name, the later one is for the hosts that know it.
    """

    name: str
    value: Value
    cost: str
    since: int = 252


_LIFECYCLE = (
    Directive("Type", "notify", "Nothing: the unit counts as started when the agent answers."),
    Directive("NotifyAccess", "main", "Programs the agent starts cannot speak to systemd in its name."),
    Directive("WatchdogSec", "60s", "An agent whose event loop hangs for a minute is killed and restarted."),
    Directive("TimeoutStartSec", "120s", "An agent that cannot open its store or port in two minutes has failed."),
    Directive("KillMode", "mixed", "Nothing: the server drains first, then whatever it started is killed."),
    Directive("OOMPolicy", "stop", "When one command runs out of `MemoryMax=`, the whole agent is restarted."),
    Directive("Restart", "on-failure", "Nothing: a crash restarts the agent, a clean stop does not."),
    Directive(
        "RestartPreventExitStatus",
        "78",
        "Nothing: what the config or the host lacks, no restart brings; `systemctl start` it when that is mended.",
    ),
    Directive("RestartSec", "5s", "Nothing: a pause before a restart."),
    Directive("RestartSteps", "6", "Nothing: the pause grows with each restart in a row.", since=254),
    Directive("RestartMaxDelaySec", "60s", "Nothing: up to a minute.", since=254),
    Directive("LimitNOFILE", "65536", "Nothing: room for one stream per caller and the pipes of Claude."),
    Directive("LimitCORE", "0", "No core dumps: they would hold secrets and conversations."),
)

_COMMON = (
    Directive("UMask", "0077", "Files it makes are private to its user; a shared workspace needs `chmod`."),
    Directive("NoNewPrivileges", "yes", "`sudo`, `ping` and other setuid programs gain nothing."),
    Directive("CapabilityBoundingSet", "", "No capability at all: no ports below 1024, no raw sockets."),
    Directive("AmbientCapabilities", "", "As above."),
    Directive("ProtectSystem", "strict", "The host is read-only, but for the state directory, `/tmp` and given paths."),
    Directive(
        "ProtectHome",
        "tmpfs",
        "`/home`, `/root` and `/run/user` are empty but for paths the config names; what it writes there is lost.",
    ),
    Directive("PrivateTmp", "yes", "Its `/tmp` and `/var/tmp` are its own and go when it stops."),
    Directive("PrivateDevices", "yes", "No disks, GPUs or serial ports; `/dev/null`, `/dev/urandom` and ptys stay."),
    Directive("DevicePolicy", "closed", "As above."),
    Directive("PrivateMounts", "yes", "Mounts it makes are seen by nobody else."),
    Directive("PrivateUsers", "yes", "Files of other users show as `nobody`'s: git wants `safe.directory` for them."),
    Directive("PrivateIPC", "yes", "No System V or POSIX IPC with the rest of the host."),
    Directive("RemoveIPC", "yes", "Its IPC objects go when it stops."),
    Directive("KeyringMode", "private", "No access to the kernel keyrings of others."),
    Directive("ProtectProc", "invisible", "`ps` shows its own processes only."),
    Directive("ProtectClock", "yes", "It cannot set the clock."),
    Directive("ProtectControlGroups", "yes", "It cannot change control groups: no containers inside."),
    Directive("ProtectControlGroups", "strict", "It sees its own control group only.", since=257),
    Directive("ProtectKernelModules", "yes", "It cannot load kernel modules."),
    Directive("LockPersonality", "yes", "No execution domains other than Linux: `setarch` fails."),
    Directive("RestrictRealtime", "yes", "No real-time scheduling."),
    Directive("RestrictSUIDSGID", "yes", "It cannot make setuid or setgid files: `chmod g+s` fails."),
    Directive(
        "RestrictAddressFamilies",
        "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "Sockets of other families (Bluetooth, packet, vsock) fail. Netlink is how resolvers see the interfaces.",
    ),
    Directive(
        "IPAddressDeny",
        " ".join(METADATA),
        "The metadata services of clouds, which hand out the host's credentials, do not answer.",
    ),
    Directive("SystemCallArchitectures", "native", "32-bit programs do not run."),
    Directive("SystemCallErrorNumber", "EPERM", "A refused call fails instead of killing the program."),
)

# Landlock hides the server's secrets from the agent. systemd 252 does not count its calls to @system-service.
_SYSTEM_CALLS = "@system-service landlock_create_ruleset landlock_add_rule landlock_restrict_self"

_STRICT = (
    Directive("ProtectHostname", "yes", "It cannot set the host's name."),
    Directive("ProtectKernelTunables", "yes", "`sysctl` is read-only."),
    Directive("ProtectKernelLogs", "yes", "`dmesg` fails."),
    Directive("RestrictNamespaces", "yes", "No namespaces: bubblewrap, unshare and rootless containers fail."),
    Directive(
        "SystemCallFilter",
        (_SYSTEM_CALLS, "~@privileged @resources"),
        "`mount`, `chown`, `chroot`, `nice` and `taskset` fail; so do debuggers.",
    ),
)

# In a user namespace, /proc can only be mounted while another is seen that nothing is mounted over. ProtectHostname=,
# ProtectKernelTunables= and ProtectKernelLogs= mount over it; what they guard is refused without privileges anyway.
_CLI_SANDBOX = (
    Directive("RestrictNamespaces", "user mnt pid net", "Only the namespaces that Claude Code's sandbox makes."),
    Directive(
        "SystemCallFilter",
        (f"{_SYSTEM_CALLS} @mount", "~@privileged @resources", "capset pivot_root"),
        "`chown`, `chroot`, `nice` and `taskset` fail; so do debuggers.",
    ),
)

PROFILES: dict[Profile, tuple[Directive, ...]] = {
    "strict": _LIFECYCLE + _COMMON + _STRICT,
    "cli-sandbox": _LIFECYCLE + _COMMON + _CLI_SANDBOX,
}


def directives(profile: Profile, version: int = 252) -> dict[str, Value]:
    """Every directive of a profile that hosts with systemd `version` or later know, in the order of the unit."""
    return {each.name: each.value for each in PROFILES[profile] if each.since <= version}

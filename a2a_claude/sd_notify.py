"""Tells systemd how the service does: sd_notify(3) and the watchdog, in plain Python.

A `Type=notify` unit is started when READY=1 has arrived; with `WatchdogSec=` systemd restarts a service that stays
silent. Outside systemd nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import MutableMapping
from typing import Final

# Abstract and filesystem sockets; AF_VSOCK is for virtual machines and left out.
_KINDS: Final = ("/", "@")


class Notifier:
    """Sends states to `address`, the value of $NOTIFY_SOCKET; without one it does nothing.

    `watchdog` is the time in seconds after which systemd takes a silent service for hung; 0 is no watchdog.
    """

    def __init__(self, address: str | None = None, watchdog: float = 0.0) -> None:
        self._address = address
        self.watchdog = watchdog

    @classmethod
    def take(cls, environ: MutableMapping[str, str]) -> Notifier:
        """The notifier that the environment describes. Its variables are removed: children must not speak for us.

        WATCHDOG_PID that names another process means that the watchdog is not ours (sd_watchdog_enabled(3)).
        """
        address = environ.pop("NOTIFY_SOCKET", None)
        microseconds = environ.pop("WATCHDOG_USEC", "")
        process = environ.pop("WATCHDOG_PID", "")
        ours = process in ("", str(os.getpid())) and microseconds.isdigit()
        if not address or address[0] not in _KINDS:
            return cls()
        return cls(address, int(microseconds) / 1_000_000 if ours else 0.0)

    def send(self, *states: str) -> None:
        """Sends assignments such as `READY=1` in one datagram; nothing waits for systemd to take it."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        # Without systemd at the other end the service still works.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            channel.sendto("\n".join(states).encode(), address)

    def ready(self, status: str) -> None:
        """The service answers; `status` is one line for `systemctl status`."""
        self.send("READY=1", f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """The service has begun to stop."""
        self.send("STOPPING=1", f"STATUS={status}")

    async def keep_alive(self) -> None:
        """Feeds the watchdog at half its time until cancelled. It runs on the event loop, so a hung loop is noticed."""
        while self.watchdog:
            self.send("WATCHDOG=1")
            await asyncio.sleep(self.watchdog / 2)

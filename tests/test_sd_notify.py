"""What systemd is told, on real sockets of both kinds."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from a2a_claude.sd_notify import Notifier


def listener(address: str) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    found.bind(f"\0{address[1:]}" if address.startswith("@") else address)
    found.settimeout(20)
    return found


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "notify") if request.param == "path" else f"@a2a-claude-test-{os.getpid()}"


def test_states_arrive_in_one_datagram(address: str) -> None:
    with listener(address) as systemd:
        Notifier(address).ready("Listening on http://127.0.0.1:3030")
        Notifier(address).stopping("Stopping")
        assert systemd.recv(1024) == b"READY=1\nSTATUS=Listening on http://127.0.0.1:3030"
        assert systemd.recv(1024) == b"STOPPING=1\nSTATUS=Stopping"


def test_the_environment_is_taken_so_that_children_cannot_speak_for_the_service() -> None:
    environ = {
        "NOTIFY_SOCKET": "/run/x",
        "WATCHDOG_USEC": "3000000",
        "WATCHDOG_PID": str(os.getpid()),
        "HOME": "/",
    }
    assert Notifier.take(environ).watchdog == 3.0
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "", "WATCHDOG_USEC": "3000000"},
        {"NOTIFY_SOCKET": "vsock:2:9999", "WATCHDOG_USEC": "3000000"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"},
        {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/x"},
    ],
    ids=str,
)
def test_there_is_no_watchdog_when_it_is_not_ours(environ: dict[str, str]) -> None:
    notifier = Notifier.take(environ)
    assert notifier.watchdog == 0
    asyncio.run(asyncio.wait_for(notifier.keep_alive(), 20))


def test_nobody_at_the_other_end_is_no_error(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "nobody")).ready("x")
    Notifier().ready("x")


def test_the_watchdog_is_fed_from_the_event_loop_until_it_is_cancelled(address: str) -> None:
    async def feed(systemd: socket.socket) -> list[bytes]:
        feeding = asyncio.create_task(Notifier(address, watchdog=0.02).keep_alive())
        found = [await asyncio.to_thread(systemd.recv, 1024) for _ in range(3)]
        feeding.cancel()
        return found

    with listener(address) as systemd:
        assert asyncio.run(feed(systemd)) == [b"WATCHDOG=1"] * 3

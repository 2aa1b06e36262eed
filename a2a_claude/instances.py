"""Agents that run in the background of a person's own machine: started, found again, stopped. Servers have systemd.

Each agent's state folder holds `instance.json` (which process, where it listens, how it was started), `server.log`, and
a lock that is held while somebody starts or stops it. A process counts as ours only when its start is the recorded one
as well as its number, so a recycled number is never signalled. That a server is up is told by the server itself, by
sd_notify(3).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import psutil

LOG_BYTES: Final = 10 << 20
"""A log that is longer than this when its agent starts becomes `server.log.1`."""
TICK: Final = 0.2
_LATEST: Final = 253402300800
"""The year 10000, in seconds since 1970: datetime ends there."""


class InstanceError(Exception):
    """It could not be started or stopped; the message says why."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A server that was started in the background. `created` is the process's start time in seconds since 1970, for
    people; `birth` is what no other process of the same number has."""

    name: str
    pid: int
    created: float
    birth: str
    url: str
    arguments: list[str]

    @property
    def process(self) -> psutil.Process | None:
        """The process, None when it has ended."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            # A zombie no longer serves.
            if birth(process) == self.birth and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


def birth(process: psutil.Process) -> str:
    """When a process began, as a text that stays the same when the clock is set. psutil.NoSuchProcess when it is gone.

    On Linux it is counted from the start of the machine (starttime, proc_pid_stat(5)), which has an id of its own.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        ticks = Path(f"/proc/{process.pid}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return repr(process.create_time())
    return f"{boot} {ticks}"


class Place:
    """The state folder of an agent that runs in the background."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.log = folder / "server.log"
        self._record = folder / "instance.json"

    def running(self) -> Instance | None:
        """The instance whose process lives. Whatever else a damaged record says of it, the process counts."""
        record = self._read()
        pid, born, created, url = (record.get(each) for each in ("pid", "birth", "created", "url"))
        if type(pid) is not int or not 0 < pid < 1 << 31 or not isinstance(born, str):
            return None
        if not isinstance(created, int | float) or not 0 <= created < _LATEST:
            created = 0.0
        url = url if isinstance(url, str) else ""
        instance = Instance(self.name, pid, created, born, url, self.recorded())
        return instance if instance.process else None

    def recorded(self) -> list[str]:
        """The arguments of the last start; none when there was none."""
        arguments = self._read().get("arguments")
        if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
            return []
        return arguments

    def _read(self) -> dict[str, Any]:
        """What `instance.json` holds, of any type; empty when it cannot be read."""
        try:
            record = json.loads(self._record.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else starts or stops this agent meanwhile; waits for whoever does."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "instance.lock", os.O_RDWR | os.O_CREAT, 0o600)
        with open(descriptor, "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def start(
        self, arguments: Sequence[str], timeout: float, broken_off: Callable[[], bool] = lambda: False
    ) -> Instance:
        """Starts `a2a-claude serve` with `arguments`, detached, and waits until it says that it is ready.

        `broken_off` is whether nobody wants it any more.

        Raises:
            InstanceError: it ended, was broken off, or was not ready within `timeout` seconds; the message has the end
                of its log.
        """
        self._rotate()
        with tempfile.TemporaryDirectory(prefix="a2a-claude-") as folder, _listening(folder) as told:
            start = self.log.stat().st_size if self.log.exists() else 0
            descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(descriptor, "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "a2a_claude", "serve", *arguments, "--state-dir", str(self.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, "NOTIFY_SOCKET": told.getsockname()},
                )
            try:
                found = psutil.Process(process.pid)
                created, born = found.create_time(), birth(found)
                url = _ready(process, told, timeout, broken_off)
            except BaseException as error:  # Ctrl-C too: nothing would find the process again
                process.kill()
                process.wait()
                if not isinstance(error, InstanceError):
                    raise
                raise InstanceError(f"{error}\n{self._since(start)}".rstrip()) from None
            instance = Instance(self.name, process.pid, created, born, url, list(arguments))
        self._write(instance)
        return instance

    def stop(self, instance: Instance, timeout: float) -> bool:
        """Ends a server: running turns have the agent's `timeouts.shutdown`. False when it had to be killed."""
        process = instance.process
        if process is None:
            return True
        try:
            process.terminate()
            process.wait(timeout)
        except psutil.NoSuchProcess:
            return True
        except psutil.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True

    def tail(self, lines: int) -> list[str]:
        """The last lines of the log."""
        try:
            with open(self.log, "rb") as log:
                log.seek(max(0, self.log.stat().st_size - (lines + 1) * 4096))
                return [each.decode("utf-8", "replace").rstrip("\n") for each in log.readlines()[-lines:]]
        except FileNotFoundError:
            return []

    def follow(self) -> Iterator[str]:
        """Lines as they are written, from the end of the log on, for ever; a new log is noticed."""
        position = self.log.stat().st_size if self.log.exists() else 0
        rest = b""
        while True:
            with contextlib.suppress(FileNotFoundError), open(self.log, "rb") as log:
                if os.fstat(log.fileno()).st_size < position:
                    position, rest = 0, b""
                log.seek(position)
                *lines, rest = (rest + log.read()).split(b"\n")
                position = log.tell()
                yield from (each.decode("utf-8", "replace") for each in lines)
            time.sleep(TICK)

    def _rotate(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_name("server.log.1"))

    def _since(self, position: int) -> str:
        with open(self.log, "rb") as log:
            log.seek(position)
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-20:])

    def _write(self, instance: Instance) -> None:
        new = self._record.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w") as file:
            json.dump(asdict(instance), file)
        new.replace(self._record)


def places(base: Path) -> list[Place]:
    """The agents below `base` that were ever started in the background."""
    return [Place(record.parent.name, record.parent) for record in sorted(base.glob("*/instance.json"))]


@contextlib.contextmanager
def _listening(folder: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(os.path.join(folder, "notify"))
        told.settimeout(TICK)
        yield told


def _ready(
    process: subprocess.Popen[bytes], told: socket.socket, timeout: float, broken_off: Callable[[], bool]
) -> str:
    """The URL where the server listens."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            states = told.recv(4096).decode("utf-8", "replace").split("\n")
            if "READY=1" in states:
                status = next((each for each in states if each.startswith("STATUS=")), "")
                return status.removeprefix("STATUS=").removeprefix("Listening on ")
        if (code := process.poll()) is not None:
            raise InstanceError(f"it ended with exit code {code}")
        if broken_off():
            raise InstanceError("it was broken off")
    raise InstanceError(f"it was not ready after {timeout:g} s")

"""Runs the command in its arguments as a child and lives as long as it does. See `__init__.py`.

`$A2A_CLAUDE_SUPERVISOR` is JSON: `parent` (the server's pid), `keep` (names of the variables the child gets),
`descriptors` (variable -> variable: the value of the second is readable once from the descriptor in the first),
`hide` and `kept` (paths, see `landlock.hide`).

Signals: SIGTERM, SIGINT, SIGHUP and the death of the server (PR_SET_PDEATHSIG, prctl(2)) ask the child to end and kill
what is left after `GRACE` seconds; SIGQUIT kills at once. When the child has ended, whatever it left behind is killed:
this process is the subreaper (PR_SET_CHILD_SUBREAPER) that orphans come to, whatever sessions or groups they made.
"""

import ctypes
import fcntl
import json
import os
import signal
import sys
import time

import landlock  # type: ignore[import-not-found]  # beside this file

GRACE = 2.0
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_ASKED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}
_AWAITED = {*_ASKED, signal.SIGCHLD}

_NO_SERVER = 1 << 8  # as wait(2) tells exit code 1
_NOT_RUN = 127 << 8

_prctl = ctypes.CDLL(None).prctl


def main() -> int:
    """Runs the child; gives its status as waitpid(2) does."""
    spec = json.loads(os.environ["A2A_CLAUDE_SUPERVISOR"])
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != spec["parent"]:
        return _NO_SERVER  # the server died before it could be tied to
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # the server's environment is still in this process
    os.setsid()
    pipes = {}
    for name, source in spec["descriptors"].items():
        try:
            pipes[name] = _readable_once(os.environ[source])
        except OSError as error:
            told = f"{source} is too long for a pipe of this machine ({error.strerror}): see pipe(7)"
            print(told, file=sys.stderr, flush=True)
            return _NOT_RUN
    environ = {name: os.environ[name] for name in spec["keep"] if name in os.environ}
    environ.update({name: str(descriptor) for name, descriptor in pipes.items()})
    child = os.fork()
    if child == 0:
        _become(sys.argv[1:], environ, spec["hide"], spec["kept"])
    for descriptor in pipes.values():
        os.close(descriptor)
    # The server has to see the end of the child's output when the child ends, and the child that of its input.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.environ.clear()
    status = _wait(child)
    _kill_all(time.monotonic() + GRACE)
    return status


def _become(command: list[str], environ: dict[str, str], hidden: list[str], kept: list[str]) -> None:
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if hidden or kept:
            landlock.hide(hidden, kept)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        os.execve(command[0], command, environ)  # noqa: S606
    except OSError as error:
        print(f"{command[0]} cannot be run: {error}", file=sys.stderr, flush=True)
    os._exit(127)


def _readable_once(value: str) -> int:
    """A pipe that holds the value; OSError where it cannot hold it, for nobody reads until all is written."""
    data = value.encode("utf-8", "surrogateescape")
    reading, writing = os.pipe()
    if len(data) > fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, len(data))
    os.write(writing, data)
    os.close(writing)
    os.set_inheritable(reading, True)
    return reading


def _wait(child: int) -> int:
    """The exit status of the child; reaps everything else that comes here meanwhile."""
    deadline = None
    while True:
        while (reaped := _reap()) is not None:
            if reaped[0] == child:
                return reaped[1]
        if deadline is None:
            told = signal.sigwait(_AWAITED)
        else:
            found = signal.sigtimedwait(_AWAITED, max(0.0, deadline - time.monotonic()))
            told = found.si_signo if found else signal.SIGQUIT
        if told == signal.SIGQUIT:
            _signal_all(signal.SIGKILL)
            deadline = time.monotonic() + GRACE
        elif told in _ASKED and deadline is None:
            os.kill(child, signal.SIGTERM)
            deadline = time.monotonic() + GRACE


def _kill_all(until: float) -> None:
    while _signal_all(signal.SIGKILL) and time.monotonic() < until:
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)
        while _reap() is not None:
            pass


def _reap() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _signal_all(number: int) -> int:
    """Signals every descendant; how many there are. Those further down come here when their parents are gone."""
    found = _descendants(os.getpid())
    for pid in found:
        try:
            os.kill(pid, number)
        except OSError:
            continue
    return len(found)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


status = main()
if os.WIFSIGNALED(status):
    # The server is told by what its CLI died; a core dump of this process helps nobody.
    number = os.WTERMSIG(status)
    signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
sys.exit(os.waitstatus_to_exitcode(status))

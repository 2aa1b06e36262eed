"""Files that a process and its children cannot open, by Landlock (landlock(7)): no privileges, no namespaces.

Landlock knows only what is allowed, and a folder's rule holds for all below it. So to hide `/run/credentials/x`,
everything beside it is allowed: each other entry of `/`, of `/run` and of `/run/credentials`. What is created later
directly in one of these folders cannot be opened either; below their other entries everything can.

A process under Landlock can neither read the environment nor the memory of one that is not (ptrace(2)), which keeps
the server's from the agent's shell. It cannot mount: Claude Code's own sandbox (bubblewrap) does not start in it.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH, _PR_SET_NO_NEW_PRIVS = 1, 1, 38
_WRITE_FILE, _READ_FILE, _REMOVE_DIR, _REMOVE_FILE, _REFER = 1 << 1, 1 << 2, 1 << 4, 1 << 5, 1 << 13
_OF_FILES = _WRITE_FILE | _READ_FILE
_ALL = _OF_FILES | _REMOVE_DIR | _REMOVE_FILE | _REFER

_libc = ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """The version of Landlock in this kernel: 0 without it. Renaming between folders needs 2."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)))


def beside(hidden: set[str]) -> Iterator[str]:
    """What has to be allowed to hide these absolute, resolved paths: the other entries of the folders above them."""
    above = {parent for path in hidden for parent in _parents(path)}
    for folder in sorted(above):
        if folder in hidden or any(folder.startswith(path + "/") for path in hidden):
            continue
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = os.path.join(folder, name)
            # A link leads somewhere that has a rule of its own, or to what is hidden.
            if path not in above and path not in hidden and not os.path.islink(path):
                yield path


def hide(paths: Iterable[str], kept: Iterable[str] = ()) -> None:
    """Hides `paths` from this process and its children, for good; what is `kept` can be read and run, not changed.
    OSError when the kernel refuses."""
    hidden, kept = ({os.path.realpath(path) for path in each} for each in (paths, kept))
    _restrict(_ALL, beside(hidden | kept), kept)


def nest() -> None:
    """Takes this process and its children a level below the one that it comes from, for good. OSError when the kernel
    refuses.

    Every file can be opened as before. But the environment and the memory of processes above it, and of those that
    were taken below it one by one like this one, cannot be read (ptrace(2), "Scope" in landlock(7)).
    """
    # Moving files between folders is refused below any level that does not allow it, so that is what it does.
    _restrict(_REFER, ["/"])


def _restrict(handled: int, allowed: Iterable[str], readable: Iterable[str] = ()) -> None:
    attributes = struct.pack("=Q", handled)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    try:
        for path in allowed:
            _allow(ruleset, path, handled)
        for path in readable:
            _allow(ruleset, path, handled & _READ_FILE)
        _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, handled: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone, or a folder that nobody may enter
    try:
        rights = handled if os.path.isdir(path) else handled & _OF_FILES
        _libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _parents(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

"""The CLI under its supervisor: the SDK's own transport, with the supervisor before the command.

`SubprocessCLITransport` and `message_parser` are private to the SDK, which is pinned for that; this module and
`client.py` are the only ones that know them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final

from claude_agent_sdk import ClaudeAgentOptions
from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

from a2a_claude.claude.environment import Environment

SUPERVISOR: Final = Path(__file__).with_name("supervisor")
# What the SDK adds to the environment by itself.
_OF_SDK: Final = (
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_AGENT_SDK_CLIENT_APP",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
    "PWD",
    "TRACEPARENT",
    "TRACESTATE",
)
_SECONDS_TO_DIE: Final = 3.0


class SupervisedTransport(SubprocessCLITransport):
    """One CLI process and its supervisor. Start it from the thread that lives as long as the server does: the main one
    (PR_SET_PDEATHSIG, prctl(2), tells of the end of the thread that forked)."""

    def __init__(
        self, options: ClaudeAgentOptions, environment: Environment, hide: Iterable[str] = (), kept: Iterable[str] = ()
    ) -> None:
        """`hide` are paths that the CLI and what it starts cannot open, `kept` those that they cannot change; without
        any, there is no Landlock."""
        sources = set(environment.descriptors.values())
        spec = {
            "parent": os.getpid(),
            "keep": [*(name for name in environment.variables if name not in sources), *_OF_SDK],
            "descriptors": dict(environment.descriptors),
            "hide": sorted(hide),
            "kept": sorted(kept),
        }
        options.env = {**options.env, "A2A_CLAUDE_SUPERVISOR": json.dumps(spec)}
        super().__init__(prompt=_nothing(), options=options)

    def _build_command(self) -> list[str]:
        command = super()._build_command()
        return [sys.executable, "-I", "-S", str(SUPERVISOR), os.path.abspath(command[0]), *command[1:]]

    @property
    def pid(self) -> int | None:
        """The supervisor's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def kill(self) -> None:
        """Kills the CLI and all that it started, at once; returns when they are gone, or after three seconds."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        for number in (signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _SECONDS_TO_DIE)
                return


def anonymous_memory(supervisor: int) -> int:
    """Bytes that the CLI below this supervisor holds for itself (RssAnon, proc(5)); 0 when it cannot be told."""
    try:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii").split()
        return sum(_anonymous(child) for child in children)
    except OSError:
        return 0


def _anonymous(pid: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


async def _nothing() -> AsyncIterator[dict[str, Any]]:
    return
    yield {}

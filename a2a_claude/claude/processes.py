"""How the processes of an agent are started: its folders, its environment, and what is hidden from them."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import claude_agent_sdk
from claude_agent_sdk import CanUseTool
from claude_agent_sdk._cli_version import __cli_version__

from a2a_claude.claude.client import START_SECONDS, Client, Stderr
from a2a_claude.claude.context_file import pointer
from a2a_claude.claude.delegate_server import DelegateServer
from a2a_claude.claude.delegates import SERVER, Delegates
from a2a_claude.claude.environment import Environment, Find, environment, server_seconds, write_shell_prefix
from a2a_claude.claude.mcp_servers import Gate, Servers
from a2a_claude.claude.memory import lay_out
from a2a_claude.claude.options import Start, check, denials, is_sandboxed, options
from a2a_claude.claude.supervisor import landlock
from a2a_claude.claude.transport import SUPERVISOR, SupervisedTransport, anonymous_memory
from a2a_claude.config.model import Claude, Config

logger = logging.getLogger(__name__)

# cc-socks/<pid>.sock is made below the folder for temporary files; sun_path takes 108 bytes (unix(7)).
_LONGEST_SOCKET_FOLDER: Final = 80
_LANDLOCK_ABI: Final = 2
_ELF: Final = b"\x7fELF"
_FENCE: Final = (sys.executable, "-I", "-S", str(SUPERVISOR / "fence.py"))
OUTSIDE: Final = "What runs outside of claude.sandbox, such as a hook or an MCP server,"


class Processes:
    """Starts CLI processes. `folder` is the agent's own: `home`, `tmp`, `run` and the shell prefix are in it."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        find: Find,
        inherited: Mapping[str, str] = os.environ,
        hidden: Iterable[Path] = (),
        start_seconds: float = START_SECONDS,
        delegates: Delegates | None = None,
        files: Mapping[str, Path] | None = None,
    ) -> None:
        """What lies beside `folder` is the server's state, `hidden` are its credentials: the agent can open neither,
        where the kernel has Landlock and nothing speaks against it (then a warning says what). `delegates` are the
        agents that it may call, `files` what the compiled agent ships (`Agent.files`).

        Raises:
            OptionsError: the config cannot be served.
        """
        check(config.claude)
        self.config = config
        self._folder = folder
        self._numbers = itertools.count()
        self._start_seconds = start_seconds
        # What a server that was killed left behind; its processes have died with it.
        for name in ("run", "tmp", "shell"):
            shutil.rmtree(folder / name, ignore_errors=True)
        for name in ("", "home", "home/.claude", "run", "tmp", "shell"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name).chmod(0o700)
        own = environment(config, find, inherited, folder / "home", by_descriptor=_is_binary(config))
        if len(str(folder / "tmp")) < _LONGEST_SOCKET_FOLDER:
            own = replace(own, variables={"CLAUDE_CODE_TMPDIR": str(folder / "tmp"), **own.variables})
        self._fenced = folder / "shell" / "hidden.json"
        prefix = folder / "shell" / "prefix"
        self.environment: Environment = write_shell_prefix(own, prefix, _fence(own, config, self._fenced))
        self.servers = Servers(config.mcp, self.environment.secrets)
        self._server_seconds = server_seconds(inherited)
        self._delegates = delegates
        self._memory = lay_out(config, files or {}, folder)
        self._hidden = tuple(hidden)
        self._told: set[Path] = set()

    async def start(self, resume: str | None, ask: CanUseTool | None = None) -> Client:
        """A process that can take prompts: of the session `resume`, or of a new one.

        Raises:
            ClaudeStartFailed: it did not start.
            OptionsError: the workspace is gone.
        """
        own = DelegateServer(self._delegates) if self._delegates is not None else None
        servers = {SERVER: own.config} if own is not None else {}
        return await self._launch(self.config, Start(resume=resume, ask=ask, servers=servers), own)

    async def start_apart(self, config: Config, *, commands: bool = False) -> Client:
        """A process by another config, in a session that leaves no transcript: without MCP servers and other agents.

        `commands`: prompts may be commands of the CLI.

        Raises:
            ClaudeStartFailed: it did not start.
        """
        return await self._launch(replace(config, mcp={}), Start(kept=False, commands=commands))

    async def _launch(self, config: Config, start: Start, delegates: DelegateServer | None = None) -> Client:
        stderr = Stderr()
        folder = self._folder / "run" / str(next(self._numbers))
        folder.mkdir(mode=0o700)
        try:
            hidden, denied = self.hidden()
            kept = self._kept()
            if is_sandboxed(config.claude):
                # Landlock forbids mounts, so it is left to the programs that the CLI starts, in its sandbox or outside.
                _replace(self._fenced, json.dumps([hidden, kept]))
                hidden, denied, kept = (), (*denied, *hidden), ()
            additions = tuple(filter(None, (self._memory.instructions, pointer(config.claude))))
            plugin = self._memory.plugin
            start = replace(start, denied=denied, stderr=stderr, additions=additions, plugin=plugin)
            chosen = options(config, self.environment, folder, start)
            client = Client(chosen, SupervisedTransport(chosen, self.environment, hidden, kept), stderr)
            client.delegates = delegates
            await client.start(self._start_seconds)
            if config.mcp or delegates is not None:
                self._guard(client, denied)
        finally:
            # The CLI has read them, and the agent has not run yet: it never sees what is in them.
            await asyncio.to_thread(_remove_secrets, folder)
        return client

    def _guard(self, client: Client, denied: tuple[str, ...]) -> None:
        """A process with MCP servers waits for them before its turns."""
        gate = None
        if self.servers.used:
            gate = Gate(self.servers, client.control, denials(self.environment, denied), self._server_seconds)

        async def ready() -> None:
            if client.delegates is not None:
                await client.delegates.refresh(client.control)
            if gate is not None:
                await gate.ready()

        if gate is not None or client.delegates is not None:
            client.before_turn = ready

    def hidden(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the programs of a process started now cannot open, and what only its tools for files refuse to read."""
        hidden, denied = [], []
        state = [each for each in self._folder.parent.iterdir() if each != self._folder]
        for path in sorted({*self._hidden, *state}):
            why = _kept_open(path, self.config.claude)
            if why is None:
                hidden.append(str(path))
            elif why:
                denied.append(str(path))
                self._tell("read", path, why)
        return tuple(hidden), tuple(denied)

    def _kept(self) -> tuple[str, ...]:
        """What the programs of a process cannot change."""
        kept = []
        for path in map(Path, self.environment.kept):
            why = _kept_open(path, self.config.claude)
            if why is None:
                kept.append(str(path))
            else:
                self._tell("change", path, why or "the workspace is in it")
        return tuple(kept)

    def _tell(self, what: str, path: Path, why: str) -> None:
        if path not in self._told:
            self._told.add(path)
            who = OUTSIDE if is_sandboxed(self.config.claude) else "The agent's shell"
            logger.warning("%s may be able to %s %s: %s", who, what, path, why)

    def memory(self, client: Client) -> int:
        """Bytes that a process holds for itself."""
        return anonymous_memory(client.pid) if client.pid else 0

    def close(self) -> None:
        """Removes what no process needs any more."""
        for name in ("run", "tmp"):
            shutil.rmtree(self._folder / name, ignore_errors=True)


def versions(claude: Claude) -> dict[str, str]:
    """What the startup log names: the SDK, and the CLI in it unless the config has another one."""
    found = {"claude-agent-sdk": claude_agent_sdk.__version__}
    if claude.executable_path_override is None:
        found["claude-code"] = __cli_version__
    return found


def _fence(own: Environment, config: Config, file: Path) -> tuple[str, ...]:
    """What keeps programs of the agent from reading credentials in the environment and the memory of others, where
    there are any: the CLI reads an API key once, and has it from then on.

    Beside Claude Code's own sandbox, which mounts, the CLI itself is under no Landlock. There it also keeps programs
    from what `file` says is hidden: commands that leave the sandbox, hooks and MCP servers.
    """
    if is_sandboxed(config.claude) and landlock.abi() >= _LANDLOCK_ABI:
        return (*_FENCE, str(file))
    named = sorted({*own.exposed, *own.credentials})
    if not named and not any(getattr(server, "env", None) for server in config.mcp.values()):
        return ()
    if landlock.abi() < _LANDLOCK_ABI:
        logger.warning(
            "The agent's shell may be able to read %s in /proc: this kernel, or this container, has no Landlock",
            ", ".join(named) or "the variables of MCP servers",
        )
        return ()
    return (*_FENCE, "")


def _replace(path: Path, text: str) -> None:
    """Programs that start meanwhile read the old text or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text, "utf-8")
    new.replace(path)


def _remove_secrets(folder: Path) -> None:
    (folder / "mcp.json").unlink(missing_ok=True)


def _is_binary(config: Config) -> bool:
    """A script in Claude's place need not hand descriptors on."""
    path = config.claude.executable_path_override
    if not path:
        return True
    try:
        with open(path, "rb") as file:
            return file.read(4) == _ELF
    except OSError:
        return False


def _kept_open(path: Path, claude: Claude) -> str | None:
    """Why a path cannot be hidden, empty when nobody has to be told; None when it can.

    Beside a hidden file nothing new can be opened (`landlock.py`), which a folder for everybody's temporary files, or
    the workspace, does not bear.
    """
    if not path.exists():
        return ""
    path = path.resolve()
    folders = [Path(each).resolve() for each in (claude.working_directory, *claude.additional_directories)]
    if any(each.is_relative_to(path) for each in folders):
        return ""
    if landlock.abi() < _LANDLOCK_ABI:
        return "this kernel, or this container, has no Landlock (Linux 5.19)"
    if any(path.is_relative_to(each) for each in folders):
        return "it is in the workspace"
    if any(each.stat().st_mode & stat.S_ISVTX for each in path.parents):
        return "it is in a folder for temporary files"
    return None

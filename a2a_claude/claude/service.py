"""`open_service`: Claude as an executor, with its processes and its pool, from an agent's config."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from a2a_claude.claude.content import Files
from a2a_claude.claude.context import ContextBuilder
from a2a_claude.claude.delegates import Delegates
from a2a_claude.claude.environment import Find
from a2a_claude.claude.events import Events
from a2a_claude.claude.executor import ClaudeExecutor, Spent
from a2a_claude.claude.mcp_servers import Servers
from a2a_claude.claude.plugins import check_plugins
from a2a_claude.claude.processes import Processes, versions
from a2a_claude.claude.session import ClaudeError, SessionStore
from a2a_claude.claude.sessions import Pool
from a2a_claude.config.model import Config
from a2a_claude.observe.events import Transport
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """An executor, what its processes do (`stats`), its MCP servers, and what it knows of its workspace."""

    executor: ClaudeExecutor
    pool: Pool
    servers: Servers
    contexts: ContextBuilder
    looking: asyncio.Task[None] | None = None
    """Finds out about the MCP servers when no process is started ahead, which would."""

    @property
    def stats(self) -> Callable[[], dict[str, int]]:
        """Processes by what they do."""
        return self.pool.stats

    async def close(self, bound: float) -> None:
        """Ends every process within about `bound` seconds."""
        if self.looking is not None:
            self.looking.cancel()
        await asyncio.gather(self.contexts.close(), self.pool.shutdown(bound))


async def open_service(
    config: Config,
    folder: Path,
    find: Find,
    store: SessionStore,
    *,
    inherited: Mapping[str, str],
    secrets: Iterable[str] = (),
    hidden: Iterable[Path] = (),
    remote_files: Files | None = None,
    spent: Spent | None = None,
    known: Callable[[str], bool] = lambda _: True,
    delegates: Delegates | None = None,
    files: Mapping[str, Path] | None = None,
    events: Transport | None = None,
) -> Service:
    """`folder` is the agent's own, `find` gives the values of variables, `hidden` are paths that
    the agent may not read. Files of tasks that are not `known` any more are removed from the workspace. `delegates` are
    the agents that it may call, `files` what the compiled agent ships (`Agent.files`). `events` takes
    the sideband events; without it they go into the streams of the tasks.

    Raises:
        OptionsError: the config cannot be served; a plugin that it enables does not load, for example.
    """
    processes = Processes(config, folder, find, inherited, hidden, delegates=delegates, files=files)
    own = processes.environment
    _warn(config, own.credentials)
    named = versions(config.claude)
    logger.info("Claude: %s", ", ".join(f"{name} {version}" for name, version in named.items()), extra=named)
    redactor = Redactor([*secrets, *own.secrets])
    await check_plugins(processes, redactor)
    pool = Pool(processes, store)
    pool.open()
    notes = folder / "tasks"
    executor = ClaudeExecutor(
        config,
        pool,
        redactor,
        remote_files=remote_files,
        spent=spent,
        notes=notes,
        known=known,
        delegates=delegates,
        events=Events(config, redactor, events),
    )
    looks = bool(processes.servers.used) and config.session.spare_clients == 0
    looking = asyncio.create_task(_look(processes), name="mcp-look") if looks else None
    return Service(executor, pool, processes.servers, ContextBuilder(processes, redactor, spent), looking)


def _warn(config: Config, credentials: Iterable[str]) -> None:
    """What whoever starts the agent may not have meant."""
    claude = config.claude
    if not credentials:
        logger.warning("No credentials of Claude are set: ANTHROPIC_API_KEY, or others in claude.credentials")
    if claude.permission_mode == "bypassPermissions":
        logger.warning(
            "Claude does whatever it is talked into, and asks nobody: claude.permissionMode is bypassPermissions"
        )
    if claude.setting_sources:
        logger.warning(
            "Claude loads settings, hooks and instructions from outside of this config: claude.settingSources is %s",
            ", ".join(claude.setting_sources),
        )


async def _look(processes: Processes) -> None:
    """What a process would find of the MCP servers, told before somebody needs them."""
    try:
        client = await processes.start(None)
    except ClaudeError as error:
        logger.warning("The MCP servers could not be looked for: %s", error)
        return
    try:
        if client.before_turn is not None:
            await client.before_turn()
    finally:
        await client.close()

"""`open_service`: Claude as an executor, with its processes and its pool, from an agent's config."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from a2a_claude.claude.content import Fetch
from a2a_claude.claude.delegates import Delegates
from a2a_claude.claude.environment import Find
from a2a_claude.claude.executor import ClaudeExecutor, Spent
from a2a_claude.claude.mcp_servers import Servers
from a2a_claude.claude.processes import Processes, versions
from a2a_claude.claude.session import SessionStore
from a2a_claude.claude.sessions import Pool
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """An executor, what its processes do (`stats`), its MCP servers, and the pool to shut down at the end."""

    executor: ClaudeExecutor
    pool: Pool
    servers: Servers

    @property
    def stats(self) -> Callable[[], dict[str, int]]:
        """Processes by what they do."""
        return self.pool.stats


def open_service(
    config: Config,
    folder: Path,
    find: Find,
    store: SessionStore,
    *,
    inherited: Mapping[str, str],
    secrets: Iterable[str] = (),
    hidden: Iterable[Path] = (),
    fetch: Fetch | None = None,
    spent: Spent | None = None,
    known: Callable[[str], bool] = lambda _: True,
    delegates: Delegates | None = None,
) -> Service:
    """Needs a running loop. `folder` is the agent's own, `find` gives the values of variables, `hidden` are paths that
    the agent may not read. Files of tasks that are not `known` any more are removed from the workspace. `delegates` are
    the agents that it may call.

    Raises:
        OptionsError: the config cannot be served.
    """
    processes = Processes(config, folder, find, inherited, hidden, delegates=delegates)
    own = processes.environment
    if not own.credentials:
        logger.warning("No credentials of Claude are set: ANTHROPIC_API_KEY, or others in claude.credentials")
    named = versions(config.claude)
    logger.info("Claude: %s", ", ".join(f"{name} {version}" for name, version in named.items()), extra=named)
    pool = Pool(processes, store)
    pool.open()
    redactor = Redactor([*secrets, *own.secrets])
    notes = folder / "tasks"
    executor = ClaudeExecutor(
        config, pool, redactor, fetch=fetch, spent=spent, notes=notes, known=known, delegates=delegates
    )
    return Service(executor, pool, processes.servers)

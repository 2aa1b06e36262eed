"""a2a-claude from Python: load an agent, serve it with any executor, or hold its application in another ASGI server.

    import asyncio
    import a2a_claude

    agent = a2a_claude.load_agent("agents/reviewer")
    asyncio.run(a2a_claude.serve(agent, state="/var/lib/reviewer"))

docs/library.md has the whole surface. Everything else in the package is private and may change in any release.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from a2a_claude.config import report
from a2a_claude.config.agent import Agent
from a2a_claude.config.diagnostics import Diagnostic, has_errors, tidy
from a2a_claude.config.loader import Options, load_fleet
from a2a_claude.config.resolution import OF_CLAUDE, Variables, resolved
from a2a_claude.config.variables import lookup
from a2a_claude.observe.events import Transport as EventTransport

if TYPE_CHECKING:
    from a2a.server.agent_execution.agent_executor import AgentExecutor

    from a2a_claude.a2a.app import App

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ConfigError(ValueError):
    """An agent's config cannot be used. The text has every error with its place and a hint, as `validate` prints it;
    `diagnostics` has them as values, with warnings and notes."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__(report.text([each for each in diagnostics if each.severity == "error"]).rstrip())
        self.diagnostics = diagnostics


def load_agent(
    path: str | os.PathLike[str],
    *,
    profile: str | None = None,
    settings: Iterable[str] = (),
    environ: Mapping[str, str] = os.environ,
    claude: bool = True,
) -> Agent:
    """An agent, ready to be served: layers merged, checked, references replaced by values.

    Args:
        path: an agent's folder, its file, or a compiled agent.json.
        profile: the files of this profile are laid over the others.
        settings: `path=value` each, over every file, like `--set`.
        environ: overrides such as PORT, and the values of references; secrets are found as docs/serving.md says.
        claude: False for an agent that another executor answers: what only Claude needs keeps its references.

    Raises:
        FileNotFoundError: there is no such path.
        ConfigError: the config is invalid, names several agents, or needs a variable that is not set.
    """
    target = Path(path)
    if not target.exists():
        raise FileNotFoundError(f"{target} does not exist: give an agent's folder or its file")
    fleet = load_fleet([target], Options(profile, tuple(settings), environ))
    if len(fleet.loaded) > 1:
        names = ", ".join(each.file.name for each in fleet.loaded)
        raise ValueError(f"{target} holds several agents: {names}; name one")
    found, agent = list(fleet.diagnostics), None
    if fleet.loaded and not has_errors(found):
        agent, problems = resolved(fleet.loaded[0], lookup(environ), frozenset() if claude else OF_CLAUDE)
        found += problems
    if agent is None or has_errors(found):
        raise ConfigError(tidy(found))
    return agent


@contextlib.asynccontextmanager
async def open_app(
    agent: Agent,
    executor: AgentExecutor | None = None,
    *,
    state: str | os.PathLike[str],
    environ: Mapping[str, str] = os.environ,
    events: EventTransport | None = None,
) -> AsyncIterator[App]:
    """The Falcon application of an agent, with its store, executor and webhooks, while the block runs.

    Leaving the block drains: running turns have `timeouts.shutdown` to end. One process may hold several agents.

    Args:
        agent: from `load_agent`.
        executor: what answers; Claude when it is None.
        state: folder of the agent's files; made when missing, and of one process at a time.
        environ: where secrets are looked up, and what Claude's processes inherit an allow-list of.
        events: takes Claude's sideband events (docs/events.md) in place of the config's transport.

    Raises:
        StartError: the agent cannot be served; the message says why.
    """
    from a2a_claude.runtime import Runtime

    runtime = Runtime(agent, executor, Path(state), Variables(lookup(environ)), events)
    app = await runtime.open(agent.config.server.port, environ)
    try:
        yield app
    finally:
        try:
            await runtime.drain()
        finally:
            await runtime.close()


class Application:
    """`open_app` as an ASGI 3.0 application, opened and closed by the server's lifespan.

        application = a2a_claude.Application(agent, state="/var/lib/reviewer")

    One worker process: the state folder belongs to one.
    """

    def __init__(
        self,
        agent: Agent,
        executor: AgentExecutor | None = None,
        *,
        state: str | os.PathLike[str],
        environ: Mapping[str, str] = os.environ,
        events: EventTransport | None = None,
    ) -> None:
        """The arguments of `open_app`."""
        self._opened = open_app(agent, executor, state=state, environ=environ, events=events)
        self._app: App | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request, or the lifespan.

        Raises:
            RuntimeError: a request came without a lifespan: the server has it switched off.
        """
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif self._app is None:
            raise RuntimeError("the ASGI server runs no lifespan: switch it on")
        else:
            await self._app(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            self._app = await self._opened.__aenter__()
        except Exception as error:  # noqa: BLE001 (the server tells it and ends)
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self._opened.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})


async def serve(
    agent: Agent,
    executor: AgentExecutor | None = None,
    *,
    state: str | os.PathLike[str],
    port: int | None = None,
    environ: MutableMapping[str, str] = os.environ,
    events: EventTransport | None = None,
) -> int:
    """Serves an agent until SIGTERM or SIGINT, as `a2a-claude serve` does; gives the exit code.

    Needs the main thread, for its signals. `port` is over the config's; 0 takes a free one, which the log tells.

    Raises:
        StartError: it cannot be served: the port is taken, a key is missing, the config is open to the network.
    """
    from a2a_claude.server import Place, Server

    variables = Variables(lookup(environ))
    return await Server(agent, executor, Place(Path(state), port), variables, events).run(environ)

"""What serves one agent, without a socket: the store, an executor, the A2A lifecycle and the routes meet here alone.

`Runtime.open` opens everything in order and gives the application; `drain` lets running turns end; `close` closes
everything in reverse. `server.py` puts a socket and signals around it, `library.py` any other ASGI server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from a2a.server.agent_execution.agent_executor import AgentExecutor

from a2a_claude import __version__
from a2a_claude.a2a.app import App, make_app
from a2a_claude.a2a.context_resource import BUILD, CONTEXT, Context, ContextBuild
from a2a_claude.a2a.edge import make_edge
from a2a_claude.a2a.health import HEALTH, METRICS, READY, Health, MetricsResource, Observation, Ready
from a2a_claude.a2a.ids import new_request_id
from a2a_claude.a2a.lifecycle import Lifecycle, Stats
from a2a_claude.a2a.observed import Observed
from a2a_claude.a2a.sideband import Sideband
from a2a_claude.a2a.signing import SigningError
from a2a_claude.a2a.sse import Streams
from a2a_claude.a2a.ssrf import Guard
from a2a_claude.a2a.tokens import TokenError
from a2a_claude.config.agent import Agent
from a2a_claude.config.variables import secret_paths
from a2a_claude.observe.delivery import Delivery
from a2a_claude.observe.metrics import Metrics
from a2a_claude.store import EventRecord, Store, StoreError
from a2a_claude.store.codec import STATE_NAMES

if TYPE_CHECKING:
    from a2a_claude.claude.content import Files
    from a2a_claude.claude.context import ContextBuilder
    from a2a_claude.observe.events import Transport
    from a2a_claude.subagents.service import SubAgents

logger = logging.getLogger(__name__)

# What stopping may take beyond timeouts.shutdown, in seconds. docs/serving.md adds it up.
DRAIN_MARGIN: Final = 6.0
STREAM_SECONDS: Final = 1.5
FLUSH_SECONDS: Final = 4.0
CLAUDE_SECONDS: Final = 3.0
CLOSING_SECONDS: Final = 4.0  # all that is closed at once
DELEGATES_SECONDS: Final = 2.0

_TOKEN_TYPES: Final = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadInputTokens": "cache_read",
    "cacheCreationInputTokens": "cache_creation",
}


class StartError(Exception):
    """The agent cannot be served; the message says why and what to do. It `passes` when a later start may succeed
    though nobody has changed the config or the host: a port is taken, a disk is full."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


class Runtime:
    """The parts of one agent, answered by `executor`; by Claude when that is None."""

    def __init__(
        self,
        agent: Agent,
        executor: AgentExecutor | None,
        state: Path,
        variables: Mapping[str, str],
        events: Transport | None = None,
    ) -> None:
        """`agent` has its references resolved; `state` is the folder of its files; `variables` is where the keys,
        tokens and credentials that its config names are looked up, and what Claude's processes inherit from. `events`
        takes Claude's sideband events in place of the config's transport.
        """
        self._agent, self._executor, self._state, self._variables = agent, executor, state, variables
        self._events = events
        self._metrics = Metrics(agent.config.agent_card.name, __version__)
        self._stack = contextlib.AsyncExitStack()
        self._closing: list[tuple[Callable[[float], Awaitable[None]], float]] = []
        self._degraded: dict[str, Callable[[], str]] = {}
        self._contexts: ContextBuilder | None = None
        self._app: App | None = None
        self._handler: Lifecycle | None = None
        self.stopping = False
        """Set it when no new message is welcome: `/ready` says so."""

    async def open(self, port: int, environ: Mapping[str, str]) -> App:
        """Opens everything and recovers what a crash left; gives the application. Needs a running loop.

        `port` is what callers reach (of the card); of `environ` Claude's processes inherit what docs/isolation.md
        lists.

        Raises:
            StartError: something cannot be opened; nothing is open then.
        """
        try:
            return await self._open(port, environ)
        except BaseException as error:
            await self.close()
            if isinstance(error, StoreError | TokenError):
                raise StartError(str(error), passes=error.passes) from error
            if isinstance(error, SigningError):
                raise StartError(str(error)) from error
            raise

    async def _open(self, port: int, environ: Mapping[str, str]) -> App:
        config, stack = self._agent.config, self._stack
        store = await self._open_store()
        stack.push_async_callback(store.close)
        stack.push_async_callback(self._close_parts)
        guard = Guard(config.push)
        executor = self._executor = self._executor or await self._claude(store, stack, environ)
        handler = self._handler = Lifecycle(
            Observed(executor, self._metrics.turns.observe),
            store,
            config.server.limits,
            streaming=config.agent_card.streaming,
            push_notifications=config.agent_card.push_notifications,
            extended_card=config.agent_card.extended_card,
            check_url=guard.check,
            sideband=Sideband(always=config.events.delivery == "always", stored=config.events.stored),
        )
        self._count(handler)
        if config.agent_card.push_notifications:
            await self._push(handler, store, guard, stack)
        app = self._app = self._make_app(handler, store, port)
        await handler.start()
        return app

    @property
    def stats(self) -> Stats:
        """What runs now."""
        assert self._handler is not None  # noqa: S101 (asked of an open runtime)
        return self._handler.stats()

    async def drain(self) -> None:
        """Refuses new messages, gives running turns `timeouts.shutdown` to end, fails the rest, ends every stream."""
        self.stopping = True
        if self._handler is None or self._app is None:
            return
        seconds = self._agent.config.timeouts.shutdown / 1000
        try:
            await asyncio.wait_for(self._handler.drain(seconds), seconds + DRAIN_MARGIN)
        except TimeoutError:
            logger.error("Some turns did not end in time; what they did is recorded as failed at the next start")
        if self._contexts is not None:
            await self._contexts.close()  # whoever waits for a build is told
        await _emptied(self._app.streams)
        self._app.streams.close()

    async def close(self) -> None:
        """Closes Claude's processes, what is left to send, and the store. May be called again."""
        await self._stack.aclose()

    # The parts

    async def _close_parts(self) -> None:
        """All at once: none of them needs another one, and an orchestrator waits no longer than for the sum."""
        parts = [close(min(seconds, CLOSING_SECONDS)) for close, seconds in self._closing]
        for outcome in await asyncio.gather(*parts, return_exceptions=True):
            if isinstance(outcome, Exception):
                logger.error("A part could not be closed", exc_info=outcome)

    def _make_app(self, handler: Lifecycle, store: Store, port: int) -> App:
        # The card names the port that callers reach, whatever the config had in mind.
        config = self._agent.config
        agent = replace(self._agent, config=replace(config, server=replace(config.server, port=port)))
        name = config.agent_card.name
        ready = Ready(name, lambda: self._problems(store), self._shortcomings)
        routes: dict[str, object] = {HEALTH: Health(name), READY: ready}
        if config.observability.metrics:
            routes[METRICS] = MetricsResource(self._metrics)
        if self._contexts is not None:
            most = config.server.limits.max_body_bytes
            routes |= {CONTEXT: Context(self._contexts), BUILD: ContextBuild(self._contexts, most)}
        access = logger.debug if logger.isEnabledFor(logging.DEBUG) else None
        observation = Observation(self._metrics, new_request_id, access)
        chain = [observation, *make_edge(agent.config.server, self._variables)]
        legacy = agent.config.server.legacy_protocol
        return make_app(agent, handler, middleware=chain, routes=routes, legacy=legacy, environment=self._variables)

    async def _claude(
        self, store: Store, stack: contextlib.AsyncExitStack, environ: Mapping[str, str]
    ) -> AgentExecutor:
        from a2a_claude.claude.service import open_service  # takes a second, which a scripted server does without
        from a2a_claude.claude.session import OptionsError

        agent, metrics = self._agent, self._metrics

        def spent(tokens: Mapping[str, int], cost: float | None) -> None:
            for kind, count in tokens.items():
                metrics.tokens.add(_TOKEN_TYPES[kind], by=count)
            metrics.cost.add(by=cost or 0.0)

        try:
            delegates = await self._delegates(store, stack)
            service = await open_service(
                agent.config,
                self._state / "claude",
                self._variables.get,
                store,
                inherited=environ,
                secrets=[value for name in agent.secrets if (value := self._variables.get(name))],
                hidden=secret_paths(environ, agent.secrets),
                remote_files=self._remote_files(stack),
                spent=lambda usage: spent(usage.tokens, usage.cost),
                known=lambda task_id: store.task(task_id) is not None,
                delegates=delegates,
                files=agent.files,
                events=self._events_transport(stack),
            )
        except OptionsError as error:
            raise StartError(str(error), passes=error.passes) from error
        self._closing.append((service.close, CLAUDE_SECONDS))
        self._contexts = service.contexts
        metrics.read("a2a_claude_processes", "Processes of Claude, by what they do.", service.stats, ("state",))
        if service.servers.used:
            states = service.servers.states
            metrics.read("a2a_claude_mcp_servers", "MCP servers, as last seen.", states, ("name", "status"))
            self._degraded["mcp"] = service.servers.problem
        return service.executor

    async def _delegates(self, store: Store, stack: contextlib.AsyncExitStack) -> SubAgents | None:
        """The agents that Claude may call; those that are down now do not hold up the start."""
        if not self._agent.config.sub_agents.agents:
            return None
        from a2a_claude.subagents.service import SubAgents  # with an HTTP client, as below

        agents = SubAgents(self._agent.config, store)
        self._closing.append((agents.close, DELEGATES_SECONDS))
        await agents.open()
        self._metrics.read("a2a_claude_sub_agents", "Sub-agents, as last seen.", agents.states, ("name", "status"))
        self._degraded["subAgents"] = agents.problem
        return agents

    def _events_transport(self, stack: contextlib.AsyncExitStack) -> Transport | None:
        """Where sideband events go, when it is not the streams of the tasks."""
        config, transport = self._agent.config.events, self._events
        if not config.enabled:
            return None
        if transport is None and config.transport == "http":
            from a2a_claude.observe.event_posts import HttpTransport  # with an HTTP client, as below

            try:
                transport = posts = HttpTransport(config.http_url or "", config.http_headers)
            except ValueError as error:
                raise StartError(str(error)) from error
            stack.push_async_callback(posts.close)
        if transport is None:
            return None
        delivery = Delivery(transport, config.http_timeout / 1000)
        self._closing.append((delivery.close, FLUSH_SECONDS))

        def outcomes() -> dict[str, float]:
            stats = delivery.stats
            return {"delivered": stats.delivered, "failed": stats.failed_attempts, "lost": stats.lost}

        read = self._metrics.read
        read("a2a_claude_events_total", "Sideband events by outcome.", outcomes, ("outcome",), "counter")
        read("a2a_claude_events_waiting", "Sideband events to be sent.", lambda: delivery.stats.waiting)
        return delivery

    def _remote_files(self, stack: contextlib.AsyncExitStack) -> Files | None:
        """What gets files by URL, where the config allows them."""
        server = self._agent.config.server
        if not server.limits.fetch_file_urls:
            return None
        from a2a_claude.a2a.file_urls import FetchError, FileFetcher  # with an HTTP client, as below
        from a2a_claude.claude.content import Fetched, FileUnavailable

        fetcher = FileFetcher(Guard(server.file_urls))
        stack.push_async_callback(fetcher.close)

        class Fetching:
            def check(self, url: str) -> None:
                try:
                    fetcher.check(url)
                except FetchError as error:
                    raise FileUnavailable(str(error)) from None

            async def get(self, url: str, most: int) -> Fetched:
                try:
                    found = await fetcher.get(url, most)
                except FetchError as error:
                    raise FileUnavailable(str(error)) from None
                return Fetched(found.content, found.media_type)

        return Fetching()

    async def _push(self, handler: Lifecycle, store: Store, guard: Guard, stack: contextlib.AsyncExitStack) -> None:
        from a2a_claude.a2a.push import PushSender  # with an HTTP client, which most agents do without

        sender = PushSender(store, self._agent.config.push, guard)
        self._closing.append((sender.close, FLUSH_SECONDS))
        await sender.start()
        handler.observe(sender.notify)

        def deliveries() -> dict[str, float]:
            stats = sender.stats()
            return {"delivered": stats.delivered, "failed": stats.failed_attempts, "skipped": stats.skipped}

        read = self._metrics.read
        read("a2a_claude_push_deliveries_total", "Push notifications by outcome.", deliveries, ("outcome",), "counter")
        read("a2a_claude_pushes_waiting", "Push notifications to be sent.", lambda: sender.stats().waiting)

    async def _open_store(self) -> Store:
        store = self._agent.config.store
        if store.type == "postgresql":
            raise StartError("store.type postgresql is not served by this version: use sqlite")
        path = ":memory:" if store.type == "memory" else self._state / store.path
        return await Store.open(path, retention_age=store.retention_age, retention_count=store.retention_count)

    async def _problems(self, store: Store) -> dict[str, str]:
        """Why new messages are not welcome. An executor may have a method `problem() -> str`, awaited, empty if none.

        Anybody may ask, so the details are in the log alone.
        """
        problems = {}
        if self.stopping:
            problems["server"] = "it is stopping"
        try:
            await store.check()
        except StoreError as error:
            logger.warning("Not ready: %s", error)
            problems["store"] = "it cannot be written"
        if (check := getattr(self._executor, "problem", None)) is not None and (problem := await check()):
            problems["executor"] = problem
        return problems

    def _shortcomings(self) -> dict[str, str]:
        """What the agent does without, by part."""
        return {part: told for part, ask in self._degraded.items() if (told := ask())}

    def _count(self, handler: Lifecycle) -> None:
        def count(record: EventRecord) -> None:
            if record.previous == 0:
                self._metrics.tasks_started.add()
            if record.last:
                self._metrics.tasks_ended.add(_state(STATE_NAMES[record.state]))

        handler.observe(count)
        read = self._metrics.read
        read(
            "a2a_claude_tasks",
            "Tasks in the store, by state.",
            lambda: {_state(name): count for name, count in handler.stats().tasks.items()},
            ("state",),
        )
        read("a2a_claude_turns_queued", "Messages that wait for their turn.", lambda: handler.stats().queued)
        read("a2a_claude_turns_running", "Turns that run now.", lambda: handler.stats().running)
        read("a2a_claude_streams_open", "Event streams that are open.", lambda: handler.stats().subscribers)


async def _emptied(streams: Streams) -> None:
    """Every stream has been told of its end; who reads gets it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STREAM_SECONDS):
            while len(streams):
                await asyncio.sleep(0.01)
    # Their last frames go out before connections are told to close: some HTTP/2 clients read nothing after GOAWAY.
    await asyncio.sleep(0.1)


def _state(name: str) -> str:
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")

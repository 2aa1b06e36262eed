"""The server of one agent: its config, the store, an executor and the A2A routes meet here, and here alone.

`Server.run` opens everything in order, tells systemd, waits for a signal and closes everything in reverse. The first
SIGTERM or SIGINT drains: new messages are refused (503), running turns have `timeouts.shutdown` to end, the rest
fails, every event stream ends. The second one quits at once. docs/serving.md says what an operator sees of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final
from uuid import uuid4

from a2a.server.agent_execution.agent_executor import AgentExecutor

from a2a_claude import __version__, listening
from a2a_claude.a2a.app import App, make_app
from a2a_claude.a2a.edge import ExposureError, check_exposure, make_edge
from a2a_claude.a2a.health import HEALTH, METRICS, READY, Health, MetricsResource, Observation, Ready
from a2a_claude.a2a.http_server import HttpServer
from a2a_claude.a2a.lifecycle import Lifecycle
from a2a_claude.a2a.observed import Observed
from a2a_claude.a2a.signing import SigningError
from a2a_claude.a2a.sse import Streams
from a2a_claude.a2a.ssrf import Guard
from a2a_claude.a2a.tokens import TokenError
from a2a_claude.config.agent import Agent
from a2a_claude.config.variables import secret_paths
from a2a_claude.listening import ListenError
from a2a_claude.observe.metrics import Metrics
from a2a_claude.sd_notify import Notifier
from a2a_claude.store import EventRecord, Store, StoreError
from a2a_claude.store.codec import STATE_NAMES

logger = logging.getLogger(__name__)

# What stopping may take beyond timeouts.shutdown. A unit's TimeoutStopSec leaves 15 s for all of it.
DRAIN_MARGIN: Final = 6.0
STREAM_SECONDS: Final = 1.5
CLOSE_SECONDS: Final = 2.0
FLUSH_SECONDS: Final = 4.0
CLAUDE_SECONDS: Final = 3.0
HARD_MARGIN: Final = 14.0

STOPPED, FAILED = 0, 1

_TOKEN_TYPES: Final = {
    "inputTokens": "input",
    "outputTokens": "output",
    "cacheReadInputTokens": "cache_read",
    "cacheCreationInputTokens": "cache_creation",
}


class StartError(Exception):
    """The server cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server keeps its files and listens. `port` is over the config's unless it is None; 0 takes a free one."""

    state: Path
    port: int | None = None


class Server:
    """One agent, served by `executor` until a signal comes; by Claude when that is None."""

    def __init__(
        self, agent: Agent, executor: AgentExecutor | None, place: Place, variables: Mapping[str, str] = os.environ
    ) -> None:
        """`agent` has its references resolved; `variables` is where keys and tokens that it names are looked up."""
        self._agent, self._executor, self._place, self._variables = agent, executor, place, variables
        self._metrics = Metrics(agent.config.agent_card.name, __version__)
        self._stopping = asyncio.Event()
        self._signalled = 0

    async def run(self, environ: MutableMapping[str, str] = os.environ) -> int:
        """Serves; gives the exit code: 0 after a clean stop, 1 when the server broke down.

        Raises:
            StartError: it could not start.
        """
        notifier = Notifier.take(environ)
        loop = asyncio.get_running_loop()
        with self._signals(loop):
            try:
                return await self._serve(notifier, environ)
            except (ExposureError, ListenError, SigningError, StoreError, TokenError) as error:
                raise StartError(str(error)) from error

    async def _serve(self, notifier: Notifier, environ: MutableMapping[str, str]) -> int:
        config = self._agent.config
        inherited = listening.inherited(environ)
        hostname = inherited.getsockname()[0] if inherited else config.server.hostname
        check_exposure(replace(config.server, hostname=hostname))
        bound = inherited or listening.bind(hostname, self._port)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(bound.close)
            store = await self._open_store()
            stack.push_async_callback(store.close)
            guard = Guard(config.push)
            executor = self._executor = self._executor or self._claude(store, stack, environ)
            handler = Lifecycle(
                Observed(executor, self._metrics.turns.observe),
                store,
                config.server.limits,
                streaming=config.agent_card.streaming,
                push_notifications=config.agent_card.push_notifications,
                extended_card=config.agent_card.extended_card,
                check_url=guard.check,
            )
            self._count(handler)
            if config.agent_card.push_notifications:
                await self._push(handler, store, guard, stack)
            app = self._app(handler, store, bound.getsockname()[1])
            http = HttpServer(app, config.server)
            await handler.start()
            if inherited is None:
                bound.listen(listening.BACKLOG)
            gc.collect()
            gc.freeze()  # what lives from here to the end need not be looked at again
            url = f"{'https' if config.server.tls else 'http'}://{listening.shown(bound)}"
            await http.start(bound)
            self._tell_start(url, notifier)
            feeding = asyncio.create_task(notifier.keep_alive())
            stack.callback(feeding.cancel)
            code = await self._until_stopped(http)
            clean = await self._stop(handler, app, http, notifier)
        logger.info("Stopped")
        if not clean:
            # All is closed but a connection that does not end, and its thread would hold up the interpreter's end.
            os._exit(code)
        return code

    async def _until_stopped(self, http: HttpServer) -> int:
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait({stopping, http.ended}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._stopping.is_set():
            return STOPPED
        logger.error("The HTTP server ended unexpectedly")
        self._stopping.set()
        return FAILED

    async def _stop(self, handler: Lifecycle, app: App, http: HttpServer, notifier: Notifier) -> bool:
        seconds = self._agent.config.timeouts.shutdown / 1000
        stats = handler.stats()
        logger.info(
            "Stopping: %d running turns have %.0f s to end",
            stats.running,
            seconds,
            extra={"running": stats.running, "queued": stats.queued},
        )
        notifier.stopping(f"Stopping; {stats.running} turns are running")
        try:
            await asyncio.wait_for(handler.drain(seconds), seconds + DRAIN_MARGIN)
        except TimeoutError:
            logger.error("Some turns did not end in time; what they did is recorded as failed at the next start")
        await _emptied(app.streams)
        app.streams.close()
        return await http.stop(CLOSE_SECONDS)

    # The parts

    def _app(self, handler: Lifecycle, store: Store, port: int) -> App:
        # The card names the port that callers reach, whatever the config had in mind.
        config = self._agent.config
        agent = replace(self._agent, config=replace(config, server=replace(config.server, port=port)))
        name = config.agent_card.name
        routes: dict[str, object] = {HEALTH: Health(name), READY: Ready(name, lambda: self._problems(store))}
        if config.observability.metrics:
            routes[METRICS] = MetricsResource(self._metrics)
        access = logger.debug if logger.isEnabledFor(logging.DEBUG) else None
        observation = Observation(self._metrics, lambda: uuid4().hex, access)
        chain = [observation, *make_edge(agent.config.server, self._variables)]
        legacy = agent.config.server.legacy_protocol
        return make_app(agent, handler, middleware=chain, routes=routes, legacy=legacy, environment=self._variables)

    def _claude(self, store: Store, stack: contextlib.AsyncExitStack, environ: Mapping[str, str]) -> AgentExecutor:
        from a2a_claude.claude.service import open_service  # takes a second, which a scripted server does without
        from a2a_claude.claude.session import OptionsError

        agent, metrics = self._agent, self._metrics

        def spent(tokens: Mapping[str, int], cost: float | None) -> None:
            for kind, count in tokens.items():
                metrics.tokens.add(_TOKEN_TYPES[kind], by=count)
            metrics.cost.add(by=cost or 0.0)

        try:
            service = open_service(
                agent.config,
                self._place.state / "claude",
                self._variables.get,
                store,
                inherited=environ,
                secrets=[value for name in agent.secrets if (value := self._variables.get(name))],
                hidden=secret_paths(environ, agent.secrets),
                spent=lambda usage: spent(usage.tokens, usage.cost),
            )
        except OptionsError as error:
            raise StartError(str(error)) from error
        stack.push_async_callback(service.pool.shutdown, CLAUDE_SECONDS)
        metrics.read("a2a_claude_processes", "Processes of Claude, by what they do.", service.stats, ("state",))
        return service.executor

    async def _push(self, handler: Lifecycle, store: Store, guard: Guard, stack: contextlib.AsyncExitStack) -> None:
        from a2a_claude.a2a.push import PushSender  # with an HTTP client, which most agents do without

        sender = PushSender(store, self._agent.config.push, guard)
        stack.push_async_callback(sender.close, FLUSH_SECONDS)
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
        path = ":memory:" if store.type == "memory" else self._place.state / store.path
        return await Store.open(path, retention_age=store.retention_age, retention_count=store.retention_count)

    async def _problems(self, store: Store) -> dict[str, str]:
        """Why new messages are not welcome. An executor may have a method `problem() -> str`, awaited, empty if none.

        Anybody may ask, so the details are in the log alone.
        """
        problems = {}
        if self._stopping.is_set():
            problems["server"] = "it is stopping"
        try:
            await store.check()
        except StoreError as error:
            logger.warning("Not ready: %s", error)
            problems["store"] = "it cannot be written"
        if (check := getattr(self._executor, "problem", None)) is not None and (problem := await check()):
            problems["executor"] = problem
        return problems

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

    # Where it listens

    @property
    def _port(self) -> int:
        return self._agent.config.server.port if self._place.port is None else self._place.port

    def _tell_start(self, url: str, notifier: Notifier) -> None:
        logger.info(
            "%s listens on %s",
            self._agent.config.agent_card.name,
            url,
            extra={"agent": self._agent.name, "version": __version__, "state": str(self._place.state)},
        )
        notifier.ready(f"Listening on {url}")

    # Signals

    @contextlib.contextmanager
    def _signals(self, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
        def handle(number: int, _frame: FrameType | None) -> None:
            self._signalled += 1
            if self._signalled > 1:
                # Whatever hangs must not keep an operator: nothing is closed, and the store is made for that.
                logger.warning("A second signal: quitting at once")
                os._exit(128 + number)
            seconds = self._agent.config.timeouts.shutdown / 1000 + HARD_MARGIN
            last_resort = threading.Timer(seconds, _give_up)
            last_resort.daemon = True
            last_resort.start()
            loop.call_soon_threadsafe(self._stopping.set)

        # Not the loop's own handlers: those wait for the loop, and a second signal must not.
        previous = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


async def _emptied(streams: Streams) -> None:
    """Every stream has been told of its end; who reads gets it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STREAM_SECONDS):
            while len(streams):
                await asyncio.sleep(0.01)
    # Their last frames go out before connections are told to close: some HTTP/2 clients read nothing after GOAWAY.
    await asyncio.sleep(0.1)


def _give_up() -> None:
    logger.error("Stopping takes too long: quitting")
    os._exit(FAILED)


def _state(name: str) -> str:
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")

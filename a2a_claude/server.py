"""The server of one agent: its `Runtime` behind a socket, under a supervisor's signals.

`Server.run` binds, opens everything, tells systemd, waits for a signal and closes everything in reverse. The first
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

from a2a.server.agent_execution.agent_executor import AgentExecutor

from a2a_claude import __version__, listening
from a2a_claude.a2a.edge import ExposureError, check_exposure
from a2a_claude.a2a.http_server import HttpServer
from a2a_claude.config.agent import Agent
from a2a_claude.listening import ListenError
from a2a_claude.observe.events import Transport
from a2a_claude.runtime import Runtime, StartError
from a2a_claude.sd_notify import Notifier

logger = logging.getLogger(__name__)

# What stopping may take beyond timeouts.shutdown. A unit's TimeoutStopSec leaves 15 s for all of it.
CLOSE_SECONDS: Final = 2.0
HARD_MARGIN: Final = 14.0  # more than all that stopping may take; a second less than orchestrators wait

STOPPED, FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server keeps its files and listens. `port` is over the config's unless it is None; 0 takes a free one."""

    state: Path
    port: int | None = None


class Server:
    """One agent, served by `executor` until a signal comes; by Claude when that is None."""

    def __init__(
        self,
        agent: Agent,
        executor: AgentExecutor | None,
        place: Place,
        variables: Mapping[str, str] = os.environ,
        events: Transport | None = None,
    ) -> None:
        """`agent` has its references resolved; `variables` is where keys and tokens that it names are looked up."""
        self._agent, self._place = agent, place
        self._runtime = Runtime(agent, executor, place.state, variables, events)
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
            except ListenError as error:
                raise StartError(str(error), passes=error.passes) from error
            except ExposureError as error:
                raise StartError(str(error)) from error

    async def _serve(self, notifier: Notifier, environ: MutableMapping[str, str]) -> int:
        config = self._agent.config
        inherited = listening.inherited(environ)
        hostname = inherited.getsockname()[0] if inherited else config.server.hostname
        check_exposure(replace(config.server, hostname=hostname))
        bound = inherited or listening.bind(hostname, self._port)
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(bound.close)
            app = await self._runtime.open(bound.getsockname()[1], environ)
            stack.push_async_callback(self._runtime.close)
            http = HttpServer(app, config.server)
            if inherited is None:
                bound.listen(listening.BACKLOG)
            gc.collect()
            gc.freeze()  # what lives from here to the end need not be looked at again
            gc.set_threshold(10_000, 20, 20)
            url = f"{'https' if config.server.tls else 'http'}://{listening.shown(bound)}"
            await http.start(bound)
            self._tell_start(url, notifier)
            feeding = asyncio.create_task(notifier.keep_alive())
            stack.callback(feeding.cancel)
            code = await self._until_stopped(http)
            clean = await self._stop(http, notifier)
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

    async def _stop(self, http: HttpServer, notifier: Notifier) -> bool:
        stats = self._runtime.stats
        logger.info(
            "Stopping: %d running turns have %.0f s to end",
            stats.running,
            self._agent.config.timeouts.shutdown / 1000,
            extra={"running": stats.running, "queued": stats.queued},
        )
        notifier.stopping(f"Stopping; {stats.running} turns are running")
        await self._runtime.drain()
        return await http.stop(CLOSE_SECONDS)

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


def _give_up() -> None:
    logger.error("Stopping takes too long: quitting")
    os._exit(FAILED)

"""Server-sent events: one `data:` line an event, pings in silence, and nobody waits for a client that has gone.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html; A2A v1.0 sections 3.5 and 9.4.2.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final

import falcon
from a2a.utils.errors import InvalidAgentResponseError

MEDIA_TYPE: Final = "text/event-stream"
HEADERS: Final = {"Cache-Control": "no-cache, no-store", "X-Accel-Buffering": "no"}

_PING: Final = b": ping\n\n"
# Frames that wait for the client; when they are as many, the source is not asked for more.
_BACKLOG: Final = 64

Receive = Callable[[], Awaitable[Any]]
Frame = Callable[[bytes], bytes]
Failure = Callable[[BaseException], bytes]


def data_frame(json: bytes) -> bytes:
    """An event with one line of JSON."""
    return b"data: %b\n\n" % json


def error_frame(json: bytes) -> bytes:
    """An event that tells of an error in the middle of a stream."""
    return b"event: error\ndata: %b\n\n" % json


class Streams:
    """Every open event stream of a server: at most `limit`, of one caller at most `each`; a ping after each `ping`
    seconds of silence."""

    def __init__(self, limit: int, each: int, ping: float) -> None:
        self._limit = limit
        self._each = each
        self._ping = ping
        self._open: dict[EventStream, str] = {}
        self._callers: Counter[str] = Counter()
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    async def open(
        self, events: AsyncGenerator[bytes, None], receive: Receive, frame: Frame, failure: Failure, caller: str = ""
    ) -> EventStream:
        """Waits for the first event, so that an error before it can still be a plain answer, then streams.

        `frame` turns an event into its frame, `failure` an exception in the middle of the stream into its last frame.

        Raises:
            falcon.HTTPTooManyRequests: too many streams are open; only those of an unknown `caller` ("") are not
                counted by themselves.
            Exception: what the first step of `events` raises; InvalidAgentResponseError when there is no event.
        """
        if len(self._open) >= self._limit or self._closed:
            await events.aclose()
            raise falcon.HTTPTooManyRequests(description=f"{len(self._open)} event streams are open", retry_after=5)
        if caller and self._callers[caller] >= self._each:
            await events.aclose()
            raise falcon.HTTPTooManyRequests(description=f"you have {self._each} event streams open", retry_after=5)
        self._callers[caller] += 1
        try:
            first = await anext(events)
        except StopAsyncIteration:
            self._leave(caller)
            raise InvalidAgentResponseError("The stream ended before its first event") from None
        except BaseException:
            self._leave(caller)
            raise
        return self._start(frame(first), events, receive, frame, failure, caller)

    def failed(self, frame: bytes, receive: Receive) -> EventStream:
        """A stream of one frame: for callers that expect a stream even when the request fails."""
        self._callers[""] += 1
        return self._start(frame, _nothing(), receive, data_frame, lambda _: b"", "")

    def close(self) -> None:
        """Ends every stream, as the server stops; later ones are refused."""
        self._closed = True
        for stream in tuple(self._open):
            stream.end()

    def _start(
        self,
        first: bytes,
        events: AsyncGenerator[bytes, None],
        receive: Receive,
        frame: Frame,
        failure: Failure,
        caller: str,
    ) -> EventStream:
        stream = EventStream(first, events, receive, frame, failure, self._ping, self._forget)
        self._open[stream] = caller
        return stream

    def _forget(self, stream: EventStream) -> None:
        caller = self._open.pop(stream, None)
        if caller is not None:
            self._leave(caller)

    def _leave(self, caller: str) -> None:
        self._callers[caller] -= 1
        if not self._callers[caller]:
            del self._callers[caller]


class EventStream:
    """The body of one response, as an async iterator of bytes.

    The source is read by a task of its own, so that everything that is ready goes out in one write, and the client's
    disconnect is awaited beside it: a stream that is silent for minutes is freed at once when its client goes.
    """

    def __init__(
        self,
        first: bytes,
        events: AsyncGenerator[bytes, None],
        receive: Receive,
        frame: Frame,
        failure: Failure,
        ping: float,
        on_close: Callable[[EventStream], None],
    ) -> None:
        self._frames = [first]
        self._wake = asyncio.Event()
        self._wake.set()
        self._room = asyncio.Event()
        self._done = False
        self._gone = False
        self._on_close = on_close
        self._ping = ping
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(ping, self._tick)
        self._pump = asyncio.create_task(self._read(events, frame, failure))
        self._watch = asyncio.create_task(self._await_disconnect(receive))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await self._wake.wait()
        if self._gone or (self._done and not self._frames):
            await self.close()
            raise StopAsyncIteration
        frames, self._frames = self._frames, []
        if not self._done:
            self._wake.clear()
        self._room.set()
        self._last = self._loop.time()
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def end(self) -> None:
        """Sends what is ready and ends the stream."""
        self._pump.cancel()
        self._done = True
        self._wake.set()

    async def close(self) -> None:
        """Frees everything; the framework calls it, too, when writing fails."""
        self._timer.cancel()
        self._on_close(self)
        for task in (self._pump, self._watch):
            task.cancel()
        for task in (self._pump, self._watch):
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _read(self, events: AsyncGenerator[bytes, None], frame: Frame, failure: Failure) -> None:
        try:
            async for event in events:
                self._frames.append(frame(event))
                self._wake.set()
                if len(self._frames) >= _BACKLOG:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # noqa: BLE001 - whatever it is, the client is told in the binding's form
            self._frames.append(failure(error))
        finally:
            self._done = True
            self._wake.set()
            await events.aclose()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._wake.set()

    def _tick(self) -> None:
        silent = self._loop.time() - self._last
        if silent >= self._ping and not self._frames:
            self._frames.append(_PING)
            self._wake.set()
            silent = 0
        self._timer = self._loop.call_later(max(self._ping - silent, 0.01), self._tick)


async def _nothing() -> AsyncGenerator[bytes, None]:
    return
    yield b""

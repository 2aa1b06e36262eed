"""What every binding does with a request before the operation: version, extensions, the SDK's call context."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import falcon.asgi
import orjson
from a2a.auth.user import UnauthenticatedUser, User
from a2a.server.context import ServerCallContext
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError

from a2a_claude.a2a import sse
from a2a_claude.a2a.errors import WireError
from a2a_claude.a2a.operations import PUSH_GET, Operation, Operations
from a2a_claude.a2a.validation import Validator, read_body
from a2a_claude.a2a.versions import V03, Extensions, asked_extensions, asked_version, require_version

JSON: Final = "application/json"

_NOBODY: Final = UnauthenticatedUser()


class Request(falcon.asgi.Request):
    """A request that keeps the ASGI `receive` callable, which tells when the client has gone.

    `whole_body` is the body when it came with the first event, as small ones do, else None.
    """

    __slots__ = ("receive", "whole_body")

    def __init__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[Any]],
        first_event: dict[str, Any] | None = None,
        options: Any = None,
    ) -> None:
        super().__init__(scope, receive, first_event=first_event, options=options)
        self.receive = receive
        self.whole_body: bytes | None = None
        if first_event is not None:
            body = first_event.get("body", b"")
            # A server may tell of the end in a second event: with the length that was announced there is no more.
            if not first_event.get("more_body", False) or self._asgi_headers.get(b"content-length") == b"%d" % len(
                body
            ):
                self.whole_body = body


class Headers(Mapping[str, str]):
    """The headers of a request by lower-case name, decoded when somebody looks; of repeated ones a comma list."""

    __slots__ = ("_raw",)

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        raw = dict(pairs)
        if len(raw) != len(pairs):
            raw.clear()
            for name, value in pairs:
                raw[name] = raw[name] + b", " + value if name in raw else value
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        return self._raw[name.lower().encode("latin-1")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    def find(self, name: bytes) -> str | None:
        """The value of a header whose lower-case name is known beforehand; None without it."""
        value = self._raw.get(name)
        return value.decode("latin-1") if value is not None else None


class Calls:
    """What the four bindings share: the operations, the checks, the open streams."""

    def __init__(
        self, operations: Operations, validator: Validator, extensions: Extensions, streams: sse.Streams
    ) -> None:
        self.operations = operations
        self.validator = validator
        self.streams = streams
        self._extensions = extensions

    def context(
        self,
        req: Request,
        resp: falcon.asgi.Response,
        spoken: str,
        operation: Operation,
        tenant: str,
    ) -> ServerCallContext:
        """The context of a call, after version and extensions were agreed on; the response says what was agreed.

        Raises:
            VersionNotSupportedError: the request is meant for another version.
            ExtensionSupportRequiredError: a required extension was not asked for.
        """
        headers = Headers(list(req.scope["headers"]))
        version = headers.find(b"a2a-version")
        if version != spoken:
            asked = asked_version(version, req.query_string)
            require_version(asked, spoken, named=bool(version) or "a2a-version" in req.query_string.lower())
        extensions = asked_extensions(
            headers.find(b"a2a-extensions"), headers.find(b"x-a2a-extensions") if spoken == V03 else None
        )
        self._extensions.require(extensions)
        resp.set_header("A2A-Version", spoken)
        if activated := self._extensions.activated(extensions):
            resp.set_header("A2A-Extensions", activated)
            if spoken == V03:
                resp.set_header("X-A2A-Extensions", activated)
        user: User = getattr(req.context, "user", None) or _NOBODY
        state = {
            "headers": headers,
            "version": spoken,
            "method": operation.name,
            "request_id": getattr(req.context, "request_id", ""),
        }
        return ServerCallContext(state=state, user=user, tenant=tenant, requested_extensions=extensions)

    async def body(self, req: Request) -> bytes:
        """The whole body of a request; HTTPError when it is too large or comes too slowly."""
        limit = self.validator.max_body_bytes
        whole = req.whole_body
        return whole if whole is not None and len(whole) <= limit else await read_body(req, limit)

    async def with_config_id(self, config: dict[str, Any], context: ServerCallContext) -> dict[str, Any]:
        """A v0.3 push config with an id: a client that gives none gets `default`, unless that is another webhook's.

        Such clients think of one config per task and may ask for it by that name; two of them must not overwrite each
        other. Without an id in the end, the handler makes one up.
        """
        if config.get("id") or not isinstance(config.get("taskId"), str):
            return config
        named = pb.GetTaskPushNotificationConfigRequest(task_id=config["taskId"], id="default")
        try:
            known = orjson.loads(await self.operations.run(PUSH_GET, named, context))
        except TaskNotFoundError:
            known = {}
        return config if known and known.get("url") != config.get("url") else {**config, "id": "default"}

    async def respond_with_stream(
        self,
        req: Request,
        resp: falcon.asgi.Response,
        events: Any,
        frame: sse.Frame,
        failure: Callable[[BaseException], bytes],
    ) -> None:
        """Answers with an event stream, once its first event is there."""
        caller = getattr(req.context, "caller", "")
        body = await self.streams.open(
            events, req.receive, frame, lambda error: sse.error_frame(failure(error)), caller
        )
        stream_response(resp, body)


def stream_response(resp: falcon.asgi.Response, body: AsyncIterator[bytes]) -> None:
    """An event stream with the headers that keep proxies from buffering it."""
    resp.content_type = sse.MEDIA_TYPE
    resp.set_headers(sse.HEADERS)
    resp.stream = body


def respond(resp: falcon.asgi.Response, body: bytes, media_type: str = JSON) -> None:
    """An answer of ready JSON."""
    resp.content_type = media_type
    resp.data = body


def refuse(resp: falcon.asgi.Response, error: WireError, body: bytes, status: int | None = None) -> None:
    """An answer that tells of an error, in a binding's own form."""
    resp.status = falcon.code_to_http_status(error.status if status is None else status)
    resp.set_headers(dict(error.headers))
    resp.stream = None
    respond(resp, body)


def translated(change: Callable[[Any], Any], json: bytes) -> bytes:
    """v1.0 JSON as the JSON that a v0.3 caller reads."""
    return orjson.dumps(change(orjson.loads(json)))

"""`make_app`: the Falcon application of one agent over any a2a-sdk `RequestHandler`."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import falcon
import falcon.asgi
from a2a.server.request_handlers.request_handler import RequestHandler
from falcon.routing import CompiledRouter, set_default_responders

from a2a_claude.a2a import rest_paths
from a2a_claude.a2a.calls import Calls, Request, refuse
from a2a_claude.a2a.card import JSONRPC_PATH, declared_extensions
from a2a_claude.a2a.card_resource import PATHS, CardResource, Cards
from a2a_claude.a2a.errors import WireError, describe
from a2a_claude.a2a.jsonrpc import JsonRpc
from a2a_claude.a2a.operations import Operation, Operations
from a2a_claude.a2a.rest import Rest
from a2a_claude.a2a.signing import signer_for
from a2a_claude.a2a.sse import Streams
from a2a_claude.a2a.v03_rest import RestV03
from a2a_claude.a2a.validation import Validator
from a2a_claude.a2a.versions import V03, V1, Extensions
from a2a_claude.config.agent import Agent

PING_SECONDS: Final = 15.0

Serve = Callable[[Operation, Request, falcon.asgi.Response, str, Mapping[str, str]], Awaitable[None]]


class App(falcon.asgi.App[Request, falcon.asgi.Response]):
    """The application, with its open event streams: `streams.close()` ends them when the server stops."""

    streams: Streams

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # type: ignore[override]
        """One request. HTTP/1.0 is what nginx speaks to a server unless it is told otherwise."""
        # Granian calls it "1"; the ASGI specification and Falcon know "1.0" and nothing else.
        if scope.get("http_version") == "1":
            scope["http_version"] = "1.0"
        await super().__call__(scope, receive, send)


def make_app(
    agent: Agent,
    handler: RequestHandler,
    *,
    middleware: Sequence[Any] = (),
    routes: Mapping[str, object] | None = None,
    extensions: Iterable[tuple[str, bool]] | None = None,
    legacy: bool = True,
    ping: float = PING_SECONDS,
    environment: Mapping[str, str] = os.environ,
) -> App:
    """The routes of an agent.

    Args:
        agent: whose card, limits and media types they have.
        handler: what answers the operations; `Lifecycle`, or any of a2a-sdk's.
        middleware: Falcon middleware; `process_request` may set `req.context.user` (an a2a `User`) and
            `req.context.request_id`, and refuses by raising a `falcon.HTTPError`, which is answered in the binding's
            own form.
        routes: further Falcon resources by path, such as `/health`.
        extensions: URI and "required" of each declared extension; the agent's own by default.
        legacy: whether v0.3 is spoken.
        ping: seconds of silence after which a stream sends a comment.
        environment: where the card's signing key is looked up.

    Raises:
        SigningError: the card is to be signed and its key cannot be used.
    """
    config = agent.config
    declared = list(declared_extensions(agent) if extensions is None else extensions)
    cards = Cards(agent, declared, signer_for(config.agent_card.signing, environment), legacy=legacy)
    operations = Operations(
        handler,
        streaming=config.agent_card.streaming,
        push_notifications=config.agent_card.push_notifications,
        extended_card=cards.extended,
    )
    limits = config.server.limits
    streams = Streams(limits.max_streams, limits.max_streams_per_caller, ping)
    calls = Calls(operations, Validator(limits, config.agent_card), Extensions(declared), streams)
    router = Router({V1: Rest(calls, config.server.rest_media_type).serve, V03: RestV03(calls).serve}, legacy)
    app = App(middleware=list(middleware), router=router, request_type=Request)
    app.streams = streams
    app.req_options.strip_url_path_trailing_slash = True
    app.add_error_handler(Exception, _on_error)
    app.add_error_handler(falcon.HTTPError, _on_error)
    rpc = JsonRpc(calls, legacy=legacy)
    for path in (JSONRPC_PATH, "/"):
        app.add_route(path, rpc)
    card = CardResource(cards)
    for path in PATHS:
        app.add_route(path, card)
    for path, resource in (routes or {}).items():
        app.add_route(path, resource)
    return app


class Router(CompiledRouter):
    """Falcon's router for fixed paths, and `rest_paths` for those of the HTTP+JSON bindings."""

    __slots__ = ("_legacy", "_methods")

    def __init__(self, serve: Mapping[str, Serve], legacy: bool) -> None:
        super().__init__()
        self._legacy = legacy
        self._methods = {
            endpoint.template: _responders(serve[endpoint.version], endpoint) for endpoint in rest_paths.ENDPOINTS
        }

    def find(self, uri: str, req: falcon.Request | None = None) -> Any:
        """The resource, responders, parameters and template of a path; None when there is none."""
        found = super().find(uri, req)
        if found is not None or req is None:
            return found
        matched = rest_paths.match(raw_path(req), self._legacy)
        if matched is None:
            return None
        endpoint = matched.endpoint
        return endpoint, self._methods[endpoint.template], {"match": matched}, endpoint.template


def raw_path(req: falcon.Request) -> str:
    """The path as it was sent, percent-encoded."""
    raw = getattr(req, "scope", {}).get("raw_path")
    return raw.partition(b"?")[0].decode("latin-1") if raw else req.path


def _responders(serve: Serve, endpoint: rest_paths.Endpoint) -> dict[str, Any]:
    async def respond(operation: Operation, req: Request, resp: falcon.asgi.Response, match: rest_paths.Match) -> None:
        await serve(operation, req, resp, match.tenant, match.ids)

    responders: dict[str, Any] = {method: partial(respond, each) for method, each in endpoint.methods.items()}
    get = endpoint.methods.get("GET")
    if get is not None and not get.streams:
        responders["HEAD"] = responders["GET"]
    set_default_responders(responders, asgi=True)
    return responders


async def _on_error(req: Request, resp: falcon.asgi.Response, error: Exception, _params: Any, **_: Any) -> None:
    wire = describe(error)
    refuse(resp, wire, _error_body(raw_path(req), wire))


def _error_body(path: str, error: WireError) -> bytes:
    match rest_paths.binding(path):
        case "jsonrpc":
            return error.rpc(None)
        case "rest-v03":
            return error.rest_v03()
        case _:
            return error.rest()

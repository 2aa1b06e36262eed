"""The JSON-RPC binding: one POST URL for both versions, told apart by the method's name (A2A v1.0 section 9).

Conflict decisions: protocol errors are HTTP 200; a request without `id` is answered with `id: null`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import falcon.asgi
import orjson
from a2a.server.context import ServerCallContext
from a2a.utils.errors import InvalidRequestError, MethodNotFoundError

from a2a_claude.a2a import sse
from a2a_claude.a2a.calls import Calls, Request, refuse, respond, stream_response, translated
from a2a_claude.a2a.errors import describe, invalid_params
from a2a_claude.a2a.operations import ALL, EXTENDED_CARD, PUSH_CREATE, PUSH_DELETE, Operation
from a2a_claude.a2a.v03_jsonrpc import Method, method_for
from a2a_claude.a2a.validation import require_json
from a2a_claude.a2a.versions import V03, V1

_NO_METHOD: Final = "method must be a non-empty string"


class _Call(NamedTuple):
    """A well-formed JSON-RPC request."""

    id: Any
    method: str
    params: Any


class JsonRpc:
    """Falcon resource of the JSON-RPC endpoint."""

    def __init__(self, calls: Calls, *, legacy: bool = True) -> None:
        self._calls = calls
        self._legacy = legacy
        self._v1: Mapping[str, Operation] = {each.name: each for each in ALL}

    async def on_post(self, req: Request, resp: falcon.asgi.Response) -> None:
        """Any JSON-RPC request."""
        require_json(req)
        request_id: Any = None
        legacy: Method | None = None
        try:
            data = self._calls.validator.parse(await self._calls.body(req))
            if isinstance(data, dict) and _is_id(data.get("id")):
                request_id = data.get("id")
            call = _call(data)
            if (operation := self._v1.get(call.method)) is not None:
                await self._serve(req, resp, call, operation)
            elif self._legacy and (legacy := method_for(call.method, call.params)) is not None:
                await self._serve_v03(req, resp, call, legacy)
            else:
                raise MethodNotFoundError(f"Method not found: {call.method[:80]}")
        except falcon.HTTPError:
            raise
        except Exception as error:  # noqa: BLE001 - every failure is answered in the protocol's form
            wire = describe(error)
            if legacy is None:
                refuse(resp, wire, wire.rpc(request_id), status=200)
                return
            answer = wire.rpc_v03(request_id)
            if legacy.always_streams:
                stream_response(resp, self._calls.streams.failed(sse.data_frame(answer), req.receive))
            else:
                refuse(resp, wire, answer, status=200)

    async def _serve(self, req: Request, resp: falcon.asgi.Response, call: _Call, operation: Operation) -> None:
        calls = self._calls
        tenant = call.params.get("tenant")
        context = calls.context(req, resp, V1, operation, tenant if isinstance(tenant, str) else "")
        params = calls.validator.request(operation.request, call.params)
        head = _head(call.id)
        if operation.streams:
            events = calls.operations.stream(operation, params, context)
            await calls.respond_with_stream(
                req, resp, events, _framer(head), lambda error: describe(error).rpc(call.id)
            )
            return
        result = await calls.operations.run(operation, params, context)
        respond(resp, b"%b%b}" % (head, b"null" if operation is PUSH_DELETE else result))

    async def _serve_v03(self, req: Request, resp: falcon.asgi.Response, call: _Call, method: Method) -> None:
        calls = self._calls
        operation = method.operation
        context = calls.context(req, resp, V03, operation, "")
        core = method.to_core(call.params)
        if operation is PUSH_CREATE:
            core = await calls.with_config_id(core, context)
        params = calls.validator.request(operation.request, core)
        head = _head(call.id)
        if operation.streams:
            events = calls.operations.stream(operation, params, context)
            await calls.respond_with_stream(
                req,
                resp,
                events,
                _framer(head, method.from_core),
                lambda error: describe(error).rpc_v03(call.id),
            )
            return
        result = await self._result_v03(method, params, context)
        respond(resp, b"%b%b}" % (head, result))

    async def _result_v03(self, method: Method, params: Any, context: ServerCallContext) -> bytes:
        result = await self._calls.operations.run(method.operation, params, context)
        return result if method.operation is EXTENDED_CARD else translated(method.from_core, result)


def _call(data: Any) -> _Call:
    """Raises InvalidRequestError for what is no JSON-RPC request, InvalidParamsError for params of a wrong type."""
    if isinstance(data, list):
        raise InvalidRequestError("Batch requests are not supported")
    if not isinstance(data, dict):
        raise InvalidRequestError("A JSON-RPC request must be an object")
    if data.get("jsonrpc") != "2.0":
        raise InvalidRequestError("jsonrpc must be exactly '2.0'")
    if not _is_id(data.get("id")):
        raise InvalidRequestError("id must be a string, an integer or null")
    method = data.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError(_NO_METHOD)
    params = data.get("params")
    if params is None:
        params = {}
    elif not isinstance(params, dict):
        raise invalid_params(("params", "must be an object"))
    return _Call(data.get("id"), method, params)


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool))


def _head(request_id: Any) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":' % orjson.dumps(request_id)


def _framer(head: bytes, from_core: Callable[[Any], Any] | None = None) -> sse.Frame:
    if from_core is None:
        return lambda event: b"data: %b%b}\n\n" % (head, event)
    change = from_core
    return lambda event: b"data: %b%b}\n\n" % (head, translated(change, event))

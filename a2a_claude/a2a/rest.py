"""The HTTP+JSON binding of A2A v1.0 (section 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import falcon.asgi
from a2a.utils.errors import InvalidParamsError

from a2a_claude.a2a import sse
from a2a_claude.a2a.calls import Calls, Request, refuse, respond
from a2a_claude.a2a.decoding import from_query
from a2a_claude.a2a.errors import describe, invalid_params
from a2a_claude.a2a.operations import Operation
from a2a_claude.a2a.validation import require_json
from a2a_claude.a2a.versions import V1


class Rest:
    """Answers the operations of v1.0 REST; `media_type` is that of answers which are not errors."""

    def __init__(self, calls: Calls, media_type: str) -> None:
        self._calls = calls
        self._media_type = media_type

    async def serve(
        self, operation: Operation, req: Request, resp: falcon.asgi.Response, tenant: str, ids: Mapping[str, str]
    ) -> None:
        """One request whose path was matched."""
        calls = self._calls
        try:
            context = calls.context(req, resp, V1, operation, tenant)
            data = await request_data(calls, operation, req)
            bind(data, {"tenant": tenant, **ids} if tenant else ids)
            context.tenant = data.get("tenant") or ""
            params = calls.validator.request(operation.request, data)
            if operation.streams:
                events = calls.operations.stream(operation, params, context)
                await calls.respond_with_stream(req, resp, events, sse.data_frame, lambda error: describe(error).rest())
            else:
                respond(resp, await calls.operations.run(operation, params, context), self._media_type)
        except falcon.HTTPError:
            raise
        except Exception as error:  # noqa: BLE001 - every failure is answered in the protocol's form
            wire = describe(error)
            refuse(resp, wire, wire.rest())


async def request_data(calls: Calls, operation: Operation, req: Request) -> dict[str, Any]:
    """The request as one JSON object: the query of a GET or DELETE, else the body (which may be empty).

    Raises:
        InvalidParamsError: the body is JSON but no object.
        JSONParseError: the body is no JSON.
    """
    if req.method in ("GET", "HEAD", "DELETE"):
        return from_query(operation.request, parse_qsl(req.query_string, keep_blank_values=True))
    body = await calls.body(req)
    if not body.strip():
        return {}
    require_json(req)
    data = calls.validator.parse(body)
    if not isinstance(data, dict):
        raise invalid_params(("", "the body must be a JSON object"))
    return data


_SNAKE = {"taskId": "task_id"}


def bind(data: dict[str, Any], bound: Mapping[str, str]) -> None:
    """Puts what the path says into `data`.

    Raises:
        InvalidParamsError: the body says otherwise.
    """
    differing = []
    for name, value in bound.items():
        if data.pop(_SNAKE.get(name, name), value) not in (value, None, "") or (
            name in data and data[name] not in (value, None, "")
        ):
            differing.append((name, f"is {value!r} in the path and another in the request"))
        data[name] = value
    if differing:
        error: InvalidParamsError = invalid_params(*differing)
        raise error

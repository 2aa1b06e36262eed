"""The HTTP+JSON binding of A2A v0.3, under `/v1`: ProtoJSON of that version's protobuf, bare error objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

import falcon.asgi

from a2a_claude.a2a import operations as op
from a2a_claude.a2a import sse
from a2a_claude.a2a import v03_proto as proto
from a2a_claude.a2a.calls import Calls, Request, refuse, respond, translated
from a2a_claude.a2a.errors import describe
from a2a_claude.a2a.operations import Operation
from a2a_claude.a2a.rest import request_data
from a2a_claude.a2a.v03_objects import to_core_push_config
from a2a_claude.a2a.versions import V03

Json = Any


class RestV03:
    """Answers the operations of v0.3 REST."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def serve(
        self, operation: Operation, req: Request, resp: falcon.asgi.Response, _tenant: str, ids: Mapping[str, str]
    ) -> None:
        """One request whose path was matched."""
        calls = self._calls
        shapes = proto.ProtoShapes(doubled=(req.user_agent or "").startswith("python-httpx"))
        try:
            context = calls.context(req, resp, V03, operation, "")
            data = await self._request(operation, req, shapes, ids)
            if operation is op.PUSH_CREATE:
                data = await calls.with_config_id(data, context)
            params = calls.validator.request(operation.request, data)
            if operation.streams:
                events = calls.operations.stream(operation, params, context)
                await calls.respond_with_stream(
                    req,
                    resp,
                    events,
                    lambda event: sse.data_frame(translated(shapes.event, event)),
                    lambda error: describe(error).rest_v03(),
                )
                return
            result = await calls.operations.run(operation, params, context)
            change = _answers(shapes).get(operation.name)
            respond(resp, translated(change, result) if change else result)
        except falcon.HTTPError:
            raise
        except Exception as error:  # noqa: BLE001 - every failure is answered in the protocol's form
            wire = describe(error)
            refuse(resp, wire, wire.rest_v03())

    async def _request(
        self, operation: Operation, req: Request, shapes: proto.ProtoShapes, ids: Mapping[str, str]
    ) -> dict[str, Json]:
        if operation in (op.SEND, op.STREAM):
            sent: dict[str, Json] = shapes.to_core_send(await request_data(self._calls, operation, req))
            return sent
        if operation is op.PUSH_CREATE:
            body = await request_data(self._calls, operation, req)
            config, config_id = proto.to_core_push_create(body)
            core = to_core_push_config(config)
            core = core if isinstance(core, dict) else {}
            return {**core, **({"id": config_id} if config_id else {}), **ids}
        if operation is op.GET:
            query = dict(parse_qsl(req.query_string))
            asked = query.get("historyLength", query.get("history_length"))
            # As in JSON-RPC v0.3, a length of 0 sets no bound.
            return {**ids, "historyLength": None if asked in (None, "0") else asked}
        if req.method == "POST":
            # The body only repeats the name of the task that the path gives; what it holds must be JSON all the same.
            await request_data(self._calls, operation, req)
        return dict(ids)


_DELETED: Final[dict[str, Json]] = {}


def _answers(shapes: proto.ProtoShapes) -> Mapping[str, Callable[[Json], Json]]:
    return {
        op.SEND.name: shapes.event,
        op.GET.name: shapes.task,
        op.CANCEL.name: shapes.task,
        op.PUSH_CREATE.name: proto.push_config,
        op.PUSH_GET.name: proto.push_config,
        op.PUSH_LIST.name: lambda page: {"configs": [proto.push_config(each) for each in page["configs"]]},
        op.PUSH_DELETE.name: lambda _: _DELETED,
    }

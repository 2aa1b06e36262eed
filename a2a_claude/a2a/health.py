"""`/health`, `/ready` and `/metrics`: what a supervisor, a load balancer and Prometheus ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import falcon.asgi
import orjson

from a2a_claude.observe.logs import bind
from a2a_claude.observe.metrics import CONTENT_TYPE, Metrics

HEALTH, READY, METRICS = "/health", "/ready", "/metrics"

Problems = Callable[[], Awaitable[Mapping[str, str]]]
Degraded = Callable[[], Mapping[str, str]]
_FRESH: Final = {"Cache-Control": "no-store"}


class Health:
    """GET /health: the process answers. 200 and the name of the agent, as the TypeScript a2a-claude has it."""

    def __init__(self, agent: str) -> None:
        self._body = orjson.dumps({"status": "healthy", "agent": agent})

    async def on_get(self, _req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Looks at nothing: a server that is short of something must not be restarted for it."""
        resp.content_type = falcon.MEDIA_JSON
        resp.set_headers(_FRESH)
        resp.data = self._body

    on_head = on_get


class Ready:
    """GET /ready: new messages are welcome. 503 says what is missing, by part, while they are not.

    What an agent can work without is told as `degraded` and stays 200: the remote part of an agent that is down for all
    of its replicas must not take them all out of service.
    """

    def __init__(self, agent: str, problems: Problems, degraded: Degraded = dict) -> None:
        self._agent = agent
        self._problems, self._degraded = problems, degraded

    async def on_get(self, _req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """`status`, and as `problems` and `degraded` what is wrong, by part, where something is."""
        problems, degraded = await self._problems(), self._degraded()
        resp.content_type = falcon.MEDIA_JSON
        resp.set_headers(_FRESH)
        resp.status = falcon.HTTP_503 if problems else falcon.HTTP_200
        body: dict[str, Any] = {"status": "unavailable" if problems else "ready", "agent": self._agent}
        told = {"problems": dict(problems), "degraded": dict(degraded)}
        resp.data = orjson.dumps(body | {name: each for name, each in told.items() if each})

    on_head = on_get


class MetricsResource:
    """GET /metrics. Numbers only, no content and no names of callers; where the agent has auth, it is behind it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def on_get(self, _req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Everything in Prometheus' text format."""
        resp.content_type = CONTENT_TYPE
        resp.set_headers(_FRESH)
        resp.data = self._metrics.render()


class Observation:
    """Falcon middleware: gives each request its id, counts it when it is answered, and logs it at debug.

    The id is the caller's `X-Request-Id` when it is one word, so that logs can be joined across hosts; the response
    repeats it.
    """

    def __init__(self, metrics: Metrics, new_id: Callable[[], str], log: Callable[..., None] | None) -> None:
        self._metrics = metrics
        self._new_id = new_id
        self._log = log

    async def process_request(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """Before routing."""
        sent = req.get_header("X-Request-Id") or ""
        request_id = sent if 0 < len(sent) <= 64 and sent.isascii() and sent.isprintable() and " " not in sent else ""
        req.context.request_id = request_id or self._new_id()
        bind(request_id=req.context.request_id)
        resp.set_header("X-Request-Id", req.context.request_id)

    async def process_response(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, _resource: object, _succeeded: bool
    ) -> None:
        """After the responder, before the body of a stream."""
        code = str(resp.status_code)
        self._metrics.requests.add(req.method, req.uri_template or "unknown", code)
        if self._log:
            self._log("%s %s %s", req.method, req.path, code)

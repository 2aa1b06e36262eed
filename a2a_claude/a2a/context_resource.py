"""`/context` and `/context/build`: what an agent knows of its workspace, read and made anew.

Not of A2A: the TypeScript a2a-claude has these routes. An executor that offers them has a `Contexts`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Protocol

import falcon
import falcon.asgi
import orjson

from a2a_claude.a2a.validation import read_body

CONTEXT, BUILD = "/context", "/context/build"

_MESSAGE: Final = "Context file built"
_STATUS: Final = {
    "busy": HTTPStatus.CONFLICT,
    "canceled": HTTPStatus.SERVICE_UNAVAILABLE,
    "overloaded": HTTPStatus.SERVICE_UNAVAILABLE,
    "rate_limit": HTTPStatus.SERVICE_UNAVAILABLE,
    "timeout": HTTPStatus.GATEWAY_TIMEOUT,
}


class BuiltContext(Protocol):
    """What came of a build: its `text`, or a `reason` for programs and a `problem` for people."""

    @property
    def text(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def problem(self) -> str: ...


class Contexts(Protocol):
    """The context of one agent."""

    async def read(self) -> bytes | None:
        """The text that was built last; None when there is none."""
        ...

    async def build(self, prompt: str = "") -> BuiltContext:
        """Makes it anew, by `prompt` unless that is empty."""
        ...


class Context:
    """GET /context."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    async def on_get(self, _req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """The text as Markdown, or 404."""
        text = await self._contexts.read()
        if text is None:
            _answer(resp, HTTPStatus.NOT_FOUND, {"error": "There is no context file: POST /context/build makes one."})
            return
        resp.content_type = "text/markdown; charset=utf-8"
        resp.set_headers({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
        resp.data = text


class ContextBuild:
    """POST /context/build."""

    def __init__(self, contexts: Contexts, most_bytes: int) -> None:
        """`most_bytes` bounds the body of a request."""
        self._contexts, self._most_bytes = contexts, most_bytes

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        """`{"prompt": text}`, or nothing, is answered when the file is written, with its text as `context`.

        409 while another build runs; 503 and 504 when Claude is not available or too slow; 500 for other failures.
        `reason` is that of a failed task.
        """
        prompt = _prompt(await read_body(req, self._most_bytes))
        if prompt is None:
            _answer(resp, HTTPStatus.BAD_REQUEST, {"error": 'The body is not {"prompt": "a text"}.'})
            return
        built = await self._contexts.build(prompt)
        if built.reason:
            status = _STATUS.get(built.reason, HTTPStatus.INTERNAL_SERVER_ERROR)
            _answer(resp, status, {"error": built.problem, "reason": built.reason})
            return
        told = {"status": "completed", "message": _MESSAGE, "response": built.text, "context": built.text}
        _answer(resp, HTTPStatus.OK, told)


def _prompt(body: bytes) -> str | None:
    if not body.strip():
        return ""
    try:
        read = orjson.loads(body)
    except ValueError:
        return None
    prompt = read.get("prompt", "") if isinstance(read, dict) else None
    return prompt if isinstance(prompt, str) else None


def _answer(resp: falcon.asgi.Response, status: HTTPStatus, body: dict[str, str]) -> None:
    resp.status = f"{status.value} {status.phrase}"
    resp.content_type = falcon.MEDIA_JSON
    resp.set_headers({"Cache-Control": "no-store"})
    resp.data = orjson.dumps(body)

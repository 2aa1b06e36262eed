"""A Messages API on loopback, scripted by a directive inside the prompt, for the real Claude CLI to talk to.

The prompt carries `<<FAKE {"turns":[TURN, …]} FAKE>>` (`directive` writes it). The last one of a request counts;
the number of assistant messages after it is the turn to play, and the last one repeats. Nothing is remembered between
requests, so sessions, resumes and forks may run side by side. Requests without a directive are answered `ok`, as are
those that are nested deeper than Python reads JSON.

| member of a turn | meaning |
|---|---|
| `thinking`, `text` | such a block |
| `tools` | `[{"name", "input", "id"?}]`, tool_use blocks; an `input` that is a string is JSON already |
| `find` | names and regular expressions: in `tools` a name becomes what its expression finds in the request |
| `chunks`, `delay` | text in so many deltas, seconds after each |
| `stall` | seconds after the last delta of the text, before its end |
| `pre_delay`, `hang` | seconds before the first byte; seconds after `message_start` |
| `status`, `error`, `error_type`, `fail_times`, `retry_after` | an HTTP error, for the first so many attempts |
| `headers`, `stop_reason`, `usage`, `model` | of the answer |
| `sse_error`, `cut` | an `error` event, or a closed socket, after the first text |
| `no_end` | the stream ends in good order, but before (2) or after (1) the end of the first block |
| `only_streams` | an answer that is not to be streamed fails with HTTP 500: Claude Code asks so after a broken stream |

https://docs.anthropic.com/en/api/messages-streaming is what it imitates.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_DIRECTIVE = re.compile(r"<<FAKE (.*?) FAKE>>", re.DOTALL)
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def directive(*turns: dict[str, Any]) -> str:
    """Text to put into a prompt; a turn may have another directive in it, for a sub-agent."""
    text = json.dumps({"turns": turns}).replace("<<", r"\u003c<").replace(">>", r">\u003e")
    return f"<<FAKE {text} FAKE>>"


def _scripted(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The turn to play, and what identifies it."""
    messages = body.get("messages") or []
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            for text in reversed(_texts(messages[index])):
                if found := _DIRECTIVE.findall(text):
                    turns = json.loads(found[-1])["turns"]
                    played = sum(each.get("role") == "assistant" for each in messages[index + 1 :])
                    return turns[min(played, len(turns) - 1)], f"{found[-1]} {played}"
    return {"text": "ok"}, ""


def _found(turn: dict[str, Any], request: str) -> dict[str, Any]:
    """The turn with what is found in the request in its place."""
    tools = json.dumps(turn["tools"])
    for name, expression in turn["find"].items():
        tools = tools.replace(name, match[0] if (match := re.search(expression, request)) else "")
    return {**turn, "tools": json.loads(tools)}


def _texts(message: dict[str, Any]) -> list[str]:
    content = message.get("content")
    if isinstance(content, str):
        return [content]
    return [each["text"] for each in content or [] if isinstance(each, dict) and each.get("type") == "text"]


class FakeAPI(ThreadingHTTPServer):
    """The server. `log` has each request: `path`, `headers` (lower case), `body`, `at` (time.time()).

    `host` is the address it listens on: containers with a network of their own do not reach this host's loopback.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__((host, port), _Handler)
        self.log: list[dict[str, Any]] = []
        self.attempts: dict[str, int] = {}
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The logged requests for a message."""
        return [each for each in self.log if re.match(r"/v1/messages(\?|$)", each["path"])]

    def start(self) -> FakeAPI:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeAPI

    def log_message(self, format: str, *args: Any) -> None:
        """`log` has it."""

    def do_GET(self) -> None:
        self._record({})
        if self.path.startswith("/v1/models"):
            self._json(200, {"data": [], "has_more": False, "first_id": None, "last_id": None})
        else:
            self._error(404, "not_found_error", self.path)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw)
        except ValueError:
            body = {}
        except RecursionError:
            body = {"stream": True}
        self._record(body)
        if self.path.startswith("/v1/messages/count_tokens"):
            return self._json(200, {"input_tokens": len(raw) // 4})
        if not self.path.startswith("/v1/messages"):
            return self._error(404, "not_found_error", self.path)
        turn, key = _scripted(body)
        if "find" in turn:
            turn = _found(turn, raw.decode())
        time.sleep(turn.get("pre_delay", 0))
        if "status" in turn and self._fails(turn, key):
            return None
        return self._answer(turn, body)

    def _record(self, body: dict[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            self.server.log.append({"path": self.path, "headers": headers, "body": body, "at": time.time()})

    def _fails(self, turn: dict[str, Any], key: str) -> bool:
        with self.server.lock:
            attempt = self.server.attempts[key] = self.server.attempts.get(key, 0) + 1
        if attempt > turn.get("fail_times", attempt):
            return False
        status = turn["status"]
        headers = dict(turn.get("headers") or {})
        if "retry_after" in turn:
            headers["retry-after"] = turn["retry_after"]
        kind = turn.get("error_type", _ERRORS.get(status, "api_error"))
        self._error(status, kind, turn.get("error", "fake error"), headers)
        return True

    def _error(self, status: int, kind: str, message: str, headers: dict[str, Any] | None = None) -> None:
        self._json(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)

    def _json(self, status: int, content: Any, headers: dict[str, Any] | None = None) -> None:
        data = json.dumps(content).encode()
        self._head(status, {"content-type": "application/json", "content-length": len(data), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _head(self, status: int, headers: dict[str, Any]) -> None:
        self.send_response(status)
        for name, value in {"request-id": f"req_{uuid.uuid4().hex[:20]}", **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()

    def _answer(self, turn: dict[str, Any], body: dict[str, Any]) -> None:
        blocks = list(_blocks(turn))
        usage = {
            "input_tokens": 100,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 20,
            **(turn.get("usage") or {}),
        }
        message = {
            "id": f"msg_{uuid.uuid4().hex[:22]}",
            "type": "message",
            "role": "assistant",
            "model": turn.get("model") or body.get("model") or "claude-fake",
            "stop_reason": turn.get("stop_reason") or ("tool_use" if turn.get("tools") else "end_turn"),
            "stop_sequence": None,
        }
        if turn.get("only_streams") and not body.get("stream"):
            self._error(500, "api_error", "fake error")
        elif body.get("stream"):
            self._stream(turn, message, blocks, usage)
        else:
            self._json(200, {**message, "content": blocks, "usage": usage}, turn.get("headers"))

    def _stream(
        self, turn: dict[str, Any], message: dict[str, Any], blocks: list[dict[str, Any]], usage: dict[str, Any]
    ) -> None:
        headers = {"content-type": "text/event-stream", "cache-control": "no-cache", "transfer-encoding": "chunked"}
        self._head(200, {**headers, **(turn.get("headers") or {})})
        begun = {**message, "stop_reason": None, "content": [], "usage": {**usage, "output_tokens": 1}}
        self._event("message_start", message=begun)
        self._wait(turn.get("hang", 0))
        for index, block in enumerate(blocks):
            empty, deltas = _as_deltas(block, max(1, int(turn.get("chunks", 2))))
            self._event("content_block_start", index=index, content_block=empty)
            for delta in deltas:
                self._event("content_block_delta", index=index, delta=delta)
                time.sleep(turn.get("delay", 0))
            if block["type"] == "text":
                self._wait(turn.get("stall", 0))
            if block["type"] == "text" and turn.get("sse_error"):
                self._event("error", error=turn["sse_error"])
                self.wfile.write(b"0\r\n\r\n")
                return
            if block["type"] == "text" and turn.get("no_end") == 2:
                self.wfile.write(b"0\r\n\r\n")
                return
            if block["type"] == "text" and turn.get("cut"):
                self.close_connection = True
                self.connection.close()
                return
            self._event("content_block_stop", index=index)
        if turn.get("no_end"):
            self.wfile.write(b"0\r\n\r\n")
            return
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        self._event("message_delta", delta=end, usage=usage)
        self._event("message_stop")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _wait(self, seconds: float) -> None:
        until = time.time() + seconds
        while time.time() < until:
            time.sleep(0.1)
            self._event("ping")  # breaks when the client has gone

    def _event(self, kind: str, **members: Any) -> None:
        data = f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def _blocks(turn: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "thinking" in turn:
        yield {"type": "thinking", "thinking": turn["thinking"], "signature": "c2ln"}
    if "text" in turn:
        yield {"type": "text", "text": turn["text"]}
    for tool in turn.get("tools") or []:
        identity = tool.get("id") or f"toolu_{uuid.uuid4().hex[:22]}"
        yield {"type": "tool_use", "id": identity, "name": tool["name"], "input": tool.get("input") or {}}


def _as_deltas(block: dict[str, Any], chunks: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The empty block that a stream starts with, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            pieces = [{"type": "thinking_delta", "thinking": each} for each in _cut(block["thinking"], chunks)]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, signature]
        case "text":
            pieces = [{"type": "text_delta", "text": each} for each in _cut(block["text"], chunks)]
            return {"type": "text", "text": ""}, pieces
    text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": each} for each in _cut(text, chunks)]


def _cut(text: str, chunks: int) -> list[str]:
    size = max(1, -(-len(text) // chunks))
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]

"""A client of other agents, on a2a-sdk's: what `call`, `card` and `cancel` do. v1.0 and v0.3 servers."""

from __future__ import annotations

import contextlib
import mimetypes
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
from google.protobuf.struct_pb2 import Value

from a2a_claude.outgoing import TooLarge, bound, is_loopback, origin, reachable

CONNECT_SECONDS: Final = 10.0
MAX_ANSWER: Final = 64 << 20
"""Bytes of one answer, or of one event of a stream, which may go on for as long as it likes."""
_BINDINGS: Final = ["JSONRPC", "HTTP+JSON"]
_CARD: Final = "/.well-known/agent-card.json"
_TOKEN: Final = re.compile(r"[!-~]+")  # RFC 9110 section 5.5
_ENDED: Final = {
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
}


class CallError(Exception):
    """The agent could not be reached, or refused; the message says what it said. `status` is HTTP's, if it is one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Remote:
    """An agent at a URL, by its card. Use `connect`."""

    def __init__(self, client: Client, card: AgentCard) -> None:
        self._client = client
        self.card = card

    async def send(
        self, text: str = "", *, files: Iterable[Path] = (), data: Any = None, task_id: str = "", context_id: str = ""
    ) -> AsyncIterator[StreamResponse]:
        """Sends a message and gives what comes back: a stream where the agent streams, else one task or message.

        Its parts are the `text` unless it is empty, the `files`, and `data` as JSON unless it is None.
        """
        parts = [Part(text=text)] if text or data is None else []
        parts += [_file_part(each) for each in files]
        if data is not None:
            parts.append(Part(data=ParseDict(data, Value()), media_type="application/json"))
        message = Message(
            message_id=str(uuid4()), role=Role.ROLE_USER, parts=parts, task_id=task_id, context_id=context_id
        )
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration())
        with _told():
            async for event in self._client.send_message(request):
                yield event

    async def cancel(self, task_id: str) -> Task:
        """Cancels a task; gives it as it is then."""
        with _told():
            return await self._client.cancel_task(CancelTaskRequest(id=task_id))


@contextlib.asynccontextmanager
async def connect(url: str, token: str | None = None, extensions: Iterable[str] = ()) -> AsyncIterator[Remote]:
    """The agent at `url`: its base URL, or that of its card. `extensions` are asked for with every request.

    The token goes to the origin of `url` alone: a card must not send it elsewhere. A loopback address on the card of an
    agent elsewhere means the host that was asked.

    Raises:
        CallError: no card there, or none of its interfaces can be spoken to.
    """
    with _told():
        async with _http(url, token, extensions) as http:
            card = await _resolver(http, url).get_agent_card()
            try:
                for each in card.supported_interfaces:
                    each.url = reachable(each.url, url)
                factory = ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=_BINDINGS))
                client = factory.create(card)
            except ValueError as error:
                raise CallError(f"{url}: {error}") from error
            yield Remote(client, card)


async def fetch_card(url: str, token: str | None = None) -> dict[str, Any]:
    """The card as it is served, v1.0 where the agent has it."""
    with _told():
        async with _http(url, token) as http:
            resolver = _resolver(http, url)
            response = await http.get(f"{resolver.base_url}/{resolver.agent_card_path}")
            response.raise_for_status()
            try:
                card = response.json()
            except ValueError as error:
                raise CallError(f"{response.url} has no JSON: {error}") from error
            if not isinstance(card, dict):
                raise CallError(f"{response.url} has no card: a JSON object is expected")
            return card


def as_json(event: Any) -> dict[str, Any]:
    """An event, task, message or part of one as ProtoJSON; CallError when JSON cannot have it."""
    try:
        found: dict[str, Any] = MessageToDict(event)
    except (SerializeToJsonError, ValueError) as error:  # protobuf takes NaN
        raise CallError(f"what the agent says is not JSON: {error}") from error
    return found


def texts(parts: Iterable[Part]) -> str:
    """What a terminal can show of parts: text, and a word about anything else."""
    return "".join(part.text if part.HasField("text") else _mention(part) for part in parts)


def state_name(state: int) -> str:
    """`completed`, `input-required`, …; also of a state that this version does not know."""
    name = TaskState.Name(state) if state in TaskState.values() else f"TASK_STATE_{state}"
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")


def has_ended(state: int) -> bool:
    """Whether nothing more can come of a task in this state."""
    return state in _ENDED


def _mention(part: Part) -> str:
    if part.HasField("data"):
        return f"{as_json(part.data)}\n"
    what = part.url or part.filename or "a file"
    return f"[{what}{', ' + part.media_type if part.media_type else ''}]\n"


def _file_part(path: Path) -> Part:
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Part(raw=path.read_bytes(), filename=path.name, media_type=media_type)


def _resolver(http: httpx.AsyncClient, url: str) -> A2ACardResolver:
    parts = urlsplit(url)
    if parts.path.endswith(".json"):
        return A2ACardResolver(http, f"{parts.scheme}://{parts.netloc}", parts.path)
    return A2ACardResolver(http, url.rstrip("/"), _CARD)


def _check(url: str, token: str | None) -> None:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        known = known and bool(httpx.URL(url).host)
    except (ValueError, httpx.InvalidURL):
        known = False
    if not known:
        raise CallError(f"{url} is no URL of an agent: write http://host:port")
    if token and not _TOKEN.fullmatch(token):
        # Whatever sends it would quote it in its error.
        raise CallError("the token has spaces or characters that no header can have")


def _http(url: str, token: str | None, extensions: Iterable[str] = ()) -> httpx.AsyncClient:
    token = token and token.strip()
    _check(url, token)
    own = httpx.URL(url)

    async def authorize(request: httpx.Request) -> None:
        if not token:
            return
        if (found := origin(request.url)) != origin(own):
            raise CallError(f"the card sends callers to {found}, and the token is for {origin(own)}: call that itself")
        request.headers["Authorization"] = f"Bearer {token}"

    async def bounded(response: httpx.Response) -> None:
        bound(response, MAX_ANSWER, each_event=True)

    # An agent may think for as long as it likes; its server says when it is gone.
    timeout = httpx.Timeout(CONNECT_SECONDS, read=None)
    headers = {"A2A-Version": "1.0", "Accept-Encoding": "identity"}
    if asked := ", ".join(extensions):
        headers |= {"A2A-Extensions": asked, "X-A2A-Extensions": asked}  # v1.0 and v0.3
    # Its own host is never reached through a proxy.
    return httpx.AsyncClient(
        timeout=timeout,
        headers=headers,
        event_hooks={"request": [authorize], "response": [bounded]},
        trust_env=not is_loopback(own.host),
    )


@contextlib.contextmanager
def _told() -> Any:
    try:
        yield
    except A2AClientError as error:
        if isinstance(error.__cause__, httpx.HTTPStatusError):
            raise _answered(error.__cause__) from error
        raise CallError(str(error)) from error
    except A2AError as error:
        raise CallError(error.message) from error
    except TooLarge as error:
        raise CallError(f"what the agent says cannot be taken: {error}") from error
    except httpx.HTTPStatusError as error:
        raise _answered(error) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        raise CallError(f"{type(error).__name__}: {error}") from error


def _answered(error: httpx.HTTPStatusError) -> CallError:
    status = error.response.status_code
    return CallError(f"{error.request.url} answered {status} {error.response.reason_phrase}".rstrip(), status)

"""What a request must satisfy, beyond being ProtoJSON, to reach the handler (A2A v1.0 sections 3.1, 4 and 5.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import falcon.asgi
import orjson
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidRequestError, JSONParseError
from google.protobuf.message import Message

from a2a_claude.a2a.decoding import Violations, decode
from a2a_claude.a2a.errors import invalid_params
from a2a_claude.a2a.input_modes import InputModes
from a2a_claude.a2a.webhook_request import is_auth_scheme, is_header_value
from a2a_claude.config.model import AgentCard, Limits

MessageT = TypeVar("MessageT", bound=Message)

MAX_PAGE_SIZE: Final = 100
# A body may take so long, and longer as long as it keeps arriving at this rate: slow links may send large files, but
# nobody holds a connection by a byte now and then.
BODY_SECONDS: Final = 30.0
BODY_BYTES_PER_SECOND: Final = 16 * 1024
JSON_TYPES: Final = frozenset(("application/json", "application/a2a+json"))
# A path `/{tenant}/…` cannot be told from the agent's own paths when a tenant has one of these names.
RESERVED_TENANTS: Final = frozenset(("tasks", "v1", "a2a", ".well-known", "extendedAgentCard"))


async def read_body(req: falcon.asgi.Request, limit: int) -> bytes:
    """The whole body, refused as soon as it is longer than `limit` bytes, whatever its Content-Length says.

    Raises:
        falcon.HTTPContentTooLarge: with the limit.
        falcon.HTTPError: 408, it came too slowly.
    """
    if (req.content_length or 0) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(started + BODY_SECONDS) as deadline:
            async for chunk in req.stream:
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                chunks.append(chunk)
                deadline.reschedule(started + BODY_SECONDS + size / BODY_BYTES_PER_SECOND)
    except TimeoutError:
        raise falcon.HTTPError(
            falcon.HTTP_408, title="Request timeout", description="the body came too slowly"
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(limit: int) -> falcon.HTTPContentTooLarge:
    return falcon.HTTPContentTooLarge(
        title="Payload too large", description=f"a request body may have {limit} bytes at most"
    )


def require_json(req: falcon.asgi.Request) -> None:
    """Refuse a body that declares another media type than JSON; none declared is taken for JSON.

    Raises:
        falcon.HTTPUnsupportedMediaType: naming what is accepted.
    """
    declared = req.content_type
    if declared in (None, "", "application/json") or declared.partition(";")[0].strip().lower() in JSON_TYPES:
        return
    raise falcon.HTTPUnsupportedMediaType(
        title="Incompatible content types", description="send application/json or application/a2a+json"
    )


def acceptable_tenant(name: str) -> bool:
    """Whether a tenant of this name can be told from the agent's own paths."""
    return name not in RESERVED_TENANTS and not name.startswith("message:") and "/" not in name


class Validator:
    """Checks requests against the bounds of `server.limits` and what the card promises to take."""

    def __init__(self, limits: Limits, card: AgentCard) -> None:
        self._limits = limits
        self._input_modes = InputModes(card)
        self._checks: Mapping[type[Message], Callable[[Any, Any, Violations], None]] = {
            pb.SendMessageRequest: self._send,
            pb.GetTaskRequest: _history_length,
            pb.ListTasksRequest: _list_tasks,
            pb.TaskPushNotificationConfig: _push_create,
            pb.ListTaskPushNotificationConfigsRequest: _page,
        }

    @property
    def max_body_bytes(self) -> int:
        """Size of a request body, in bytes."""
        return self._limits.max_body_bytes

    def parse(self, body: bytes) -> Any:
        """The JSON in a body.

        Raises:
            JSONParseError: not JSON, not UTF-8, or nested beyond what the parser takes.
            InvalidRequestError: nested deeper than `maxJsonDepth`.
        """
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise JSONParseError(f"Invalid JSON payload: {error}") from None
        depth = self._limits.max_json_depth
        if body.count(b"{") + body.count(b"[") > depth and _is_deeper(data, depth):
            raise InvalidRequestError(f"The request is nested deeper than {depth} levels")
        return data

    def request(self, kind: type[MessageT], data: Any) -> MessageT:
        """`data` as a request of that kind.

        Raises:
            InvalidParamsError: naming every field that is wrong and why.
            ContentTypeNotSupportedError: the agent does not take a part of this media type.
        """
        violations: Violations = []
        request = decode(kind, data, violations)
        if not violations:
            if (tenant := data.get("tenant")) and not acceptable_tenant(tenant):
                violations.append(("tenant", "is a reserved name"))
            if (check := self._checks.get(kind)) is not None:
                check(request, data, violations)
        if violations:
            raise invalid_params(*violations)
        if isinstance(request, pb.SendMessageRequest):
            self._input_modes.check(request.message)
        return request

    def _send(self, request: pb.SendMessageRequest, data: Any, violations: Violations) -> None:
        message = request.message
        if message.role != pb.ROLE_USER:
            violations.append(("message.role", "must be ROLE_USER: an agent is sent messages by its user"))
        limits = self._limits
        if len(message.parts) > limits.max_parts:
            violations.append(("message.parts", f"may have {limits.max_parts} parts at most"))
            return
        for index, part in enumerate(message.parts):
            content = part.WhichOneof("content")
            if content is None:
                violations.append((f"message.parts[{index}]", "must have exactly one of text, raw, url and data"))
            elif content == "raw" and len(part.raw) > limits.max_file_bytes:
                violations.append((f"message.parts[{index}].raw", f"may have {limits.max_file_bytes} bytes at most"))
        if _metadata_bytes(data) > limits.max_metadata_bytes:
            violations.append(("metadata", f"may have {limits.max_metadata_bytes} bytes of JSON at most"))
        if request.HasField("configuration"):
            _history_length(request.configuration, data, violations, "configuration.")
            if request.configuration.HasField("task_push_notification_config"):
                config = request.configuration.task_push_notification_config
                _push_config(config, data, violations, "configuration.taskPushNotificationConfig.")


def _is_deeper(data: Any, depth: int) -> bool:
    level = [data]
    for _ in range(depth):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _metadata_bytes(data: Mapping[str, Any]) -> int:
    message = data["message"]
    holders = [data, message, *message["parts"]]
    return sum(len(orjson.dumps(each["metadata"])) for each in holders if each.get("metadata"))


def _history_length(request: Any, _data: Any, violations: Violations, prefix: str = "") -> None:
    if request.history_length < 0:
        violations.append((f"{prefix}historyLength", "must not be negative"))


def _list_tasks(request: pb.ListTasksRequest, data: Any, violations: Violations) -> None:
    _history_length(request, data, violations)
    if request.HasField("page_size") and not 1 <= request.page_size <= MAX_PAGE_SIZE:
        violations.append(("pageSize", f"must be from 1 to {MAX_PAGE_SIZE}"))


def _page(request: pb.ListTaskPushNotificationConfigsRequest, _data: Any, violations: Violations) -> None:
    if request.page_size < 0:
        violations.append(("pageSize", "must not be negative"))


def _push_create(request: pb.TaskPushNotificationConfig, data: Any, violations: Violations) -> None:
    if not request.task_id:
        violations.append(("taskId", "is required"))
    _push_config(request, data, violations)


def _push_config(request: pb.TaskPushNotificationConfig, _data: Any, violations: Violations, prefix: str = "") -> None:
    values = {
        "token": request.token,
        "authentication.scheme": request.authentication.scheme,
        "authentication.credentials": request.authentication.credentials,
    }
    for name, value in values.items():
        # They become header values of the webhook's requests.
        if not is_header_value(value):
            violations.append((prefix + name, "must be printable ASCII"))
    if request.authentication.scheme and not is_auth_scheme(request.authentication.scheme):
        violations.append((f"{prefix}authentication.scheme", "must be the name of a scheme, for example Bearer"))
    if not request.url.lower().startswith(("https://", "http://")):
        violations.append((f"{prefix}url", "must be an http or https URL"))

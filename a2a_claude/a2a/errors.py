"""Errors on the wire: one description of each error, three forms to write it in.

Sources: A2A v1.0.1 sections 3.3.2 (errors), 5.4 (codes), 9.5 (JSON-RPC), 11.6 (`google.rpc.Status`); v0.3 section 8.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import falcon
import orjson
from a2a.utils import errors as a2a_errors
from a2a.utils.errors import A2AError

logger = logging.getLogger(__name__)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603

_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_DOMAIN = "a2a-protocol.org"


@dataclass(frozen=True, slots=True)
class WireError:
    """What a caller is told: JSON-RPC code, HTTP status, google.rpc code, reason, message and details.

    `violations` are `(field, description)` pairs; `metadata` goes into ErrorInfo; `headers` are HTTP response headers.
    """

    code: int
    status: int
    canonical: str
    reason: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    violations: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def details(self) -> list[dict[str, Any]]:
        """The `@type` objects of JSON-RPC `error.data` and of `google.rpc.Status.details`."""
        info = {"@type": _ERROR_INFO, "reason": self.reason, "domain": _DOMAIN, "metadata": dict(self.metadata)}
        if not self.violations:
            return [info]
        violations = [{"field": name, "description": text} for name, text in self.violations]
        return [info, {"@type": _BAD_REQUEST, "fieldViolations": violations}]

    def rpc(self, request_id: Any) -> bytes:
        """A JSON-RPC v1.0 error response."""
        return self._rpc(request_id, self.code, self.details)

    def rpc_v03(self, request_id: Any) -> bytes:
        """A JSON-RPC v0.3 error response; codes that v0.3 does not know become -32600."""
        return self._rpc(request_id, self.code_v03, self.details)

    def rest(self) -> bytes:
        """The AIP-193 body of an HTTP+JSON v1.0 error."""
        return orjson.dumps(
            {
                "error": {
                    "code": self.status,
                    "status": self.canonical,
                    "message": self.message,
                    "details": self.details,
                }
            }
        )

    def rest_v03(self) -> bytes:
        """The bare object of an HTTP+JSON v0.3 error, as that version's clients read it."""
        body = {"code": self.code_v03, "message": self.message, "data": self.details}
        # a2a-sdk 1.x knows an error of v0.3 by this name alone.
        return orjson.dumps(body | {"type": name} if (name := _NAMES.get(self.reason)) else body)

    @property
    def code_v03(self) -> int:
        """The code, where v0.3 knows it: -32008 and -32009 came with v1.0."""
        return INVALID_REQUEST if self.code in (-32008, -32009) else self.code

    def _rpc(self, request_id: Any, code: int, data: list[dict[str, Any]]) -> bytes:
        error = {"code": code, "message": self.message, "data": data}
        return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


_KNOWN: Final[dict[type[A2AError], tuple[int, int, str, str]]] = {
    kind: (a2a_errors.JSON_RPC_ERROR_CODE_MAP[kind], mapping.http_code, mapping.grpc_status, mapping.reason)
    for kind, mapping in a2a_errors.A2A_ERROR_MAPPING.items()
}
_NAMES: Final = {mapping.reason: kind.__name__ for kind, mapping in a2a_errors.A2A_ERROR_MAPPING.items()}
_KNOWN[a2a_errors.JSONParseError] = (PARSE_ERROR, 400, "INVALID_ARGUMENT", "PARSE_ERROR")

_CANONICAL: Final[dict[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    405: "UNIMPLEMENTED",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    414: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    431: "INVALID_ARGUMENT",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def describe(error: BaseException) -> WireError:
    """What to tell the caller of any exception.

    A subclass of a known A2A error counts as that error. `A2AError.data` reaches the caller: scalars as ErrorInfo
    metadata (strings only, as `google.rpc.ErrorInfo` has it), `errors` as field violations. A Falcon `HTTPError` keeps
    its status and headers, and so does an A2A error with `http_status` and `retry_after`. Anything else is an internal
    error whose text stays in the log.
    """
    if isinstance(error, A2AError):
        return _from_a2a(error)
    if isinstance(error, falcon.HTTPError):
        return _from_http(error)
    logger.error("Request failed", exc_info=error)
    return WireError(INTERNAL_ERROR, 500, "INTERNAL", "INTERNAL_ERROR", "Internal error")


def _from_a2a(error: A2AError) -> WireError:
    known = next((_KNOWN[kind] for kind in type(error).__mro__ if kind in _KNOWN), None)
    if known is None:
        logger.error("Request failed", exc_info=error)
        known = _KNOWN[a2a_errors.InternalError]
    code, status, canonical, reason = known
    data: Mapping[str, Any] = error.data if isinstance(error.data, dict) else {}
    metadata = {str(key): str(value) for key, value in data.items() if isinstance(value, str | int | float | bool)}
    found = data.get("errors")
    violations = [
        (str(each.get("field", "")), str(each.get("message", "")))
        for each in (found if isinstance(found, list) else [])
        if isinstance(each, dict)
    ]
    message = str(error.message)
    if violations and message in ("Validation failed", "Invalid params"):
        message = "Invalid params: " + "; ".join(f"{name}: {text}" for name, text in violations[:5])
    headers: dict[str, str] = {}
    if (http_status := getattr(error, "http_status", None)) is not None:
        status, canonical = http_status, _CANONICAL.get(http_status, canonical)
        reason = _reason(http_status)
    if (retry_after := getattr(error, "retry_after", None)) is not None:
        headers["Retry-After"] = str(retry_after)
    return WireError(code, status, canonical, reason, message, metadata, violations, headers)


def _from_http(error: falcon.HTTPError) -> WireError:
    status = error.status_code
    title = (error.title or "").removeprefix(f"{status} ") or HTTPStatus(status).phrase
    message = f"{title}: {error.description}" if error.description else title
    if status == 415:
        code, reason = -32005, "CONTENT_TYPE_NOT_SUPPORTED"
    else:
        code = INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
        reason = _reason(status)
    headers = dict(error.headers or {})
    default = "INTERNAL" if status >= 500 else "FAILED_PRECONDITION"
    return WireError(code, status, _CANONICAL.get(status, default), reason, message, headers=headers)


def _reason(status: int) -> str:
    return HTTPStatus(status).phrase.upper().replace(" ", "_").replace("-", "_")


def invalid_params(*violations: tuple[str, str]) -> a2a_errors.InvalidParamsError:
    """An error that names each wrong field: `(field, what is wrong)`."""
    text = "; ".join(f"{name}: {description}" if name else description for name, description in violations[:5])
    data = {"errors": [{"field": name, "message": description} for name, description in violations]}
    return a2a_errors.InvalidParamsError(f"Invalid params: {text}", data)

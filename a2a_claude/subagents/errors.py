"""What went wrong between this server and a remote agent, in words for Claude and for the log."""

from __future__ import annotations

from typing import Final

import httpx
from a2a.client.errors import A2AClientError
from a2a.utils.errors import A2AError

from a2a_claude.outgoing import TooLarge
from a2a_claude.subagents.credentials import CredentialsError
from a2a_claude.subagents.http import OtherOrigin

_LONGEST: Final = 1000


class RemoteError(Exception):
    """A remote agent could not be asked, or refused. `lost`: the connection broke, and a task may go on there."""

    def __init__(self, text: str, *, lost: bool = False) -> None:
        super().__init__(text)
        self.lost = lost


def told(error: BaseException) -> RemoteError:
    """Any error of the client as one that can be read; of the request it says nothing, for that may hold secrets."""
    if isinstance(error, RemoteError):
        return error
    cause = error.__cause__ if isinstance(error, A2AClientError) and error.__cause__ is not None else error
    match cause:
        case OtherOrigin() | TooLarge() | CredentialsError():
            return RemoteError(str(cause))
        case httpx.HTTPStatusError():
            return RemoteError(_status(cause.response.status_code))
        case TimeoutError() | httpx.TimeoutException():
            return RemoteError("it did not answer in time", lost=True)
        case httpx.ConnectError():
            return RemoteError("it cannot be reached: nothing answers there")
        case httpx.RequestError():
            return RemoteError(f"the connection broke ({type(cause).__name__})", lost=True)
        case A2AError():
            return RemoteError(f"it refused: {cause.message[:_LONGEST]}")
        case A2AClientError():
            return RemoteError(f"it answered with an error: {str(cause)[:_LONGEST]}")
    return RemoteError(f"what it answered is not A2A ({type(cause).__name__})")


def _status(code: int) -> str:
    match code:
        case 401:
            return "it wants other credentials (HTTP 401): see subAgents.agents[].auth"
        case 403:
            return "its credentials do not allow this (HTTP 403)"
        case 429:
            return "it is asked too often now (HTTP 429): try again later"
        case _ if 300 <= code < 400:
            return f"it is somewhere else (HTTP {code}): redirects are not followed"
    return f"it answered HTTP {code}"

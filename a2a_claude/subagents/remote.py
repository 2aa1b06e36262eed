"""`Remote`: one agent that may be called, on a2a-sdk's client. v1.0 and v0.3 agents, JSON-RPC and HTTP+JSON."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientCallContext
from a2a.types.a2a_pb2 import (
    AgentCard,
    AgentInterface,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    SendMessageRequest,
    StreamResponse,
    Task,
)

from a2a_claude.config.model import SubAgent
from a2a_claude.outgoing import reachable, shown
from a2a_claude.subagents.errors import RemoteError, told
from a2a_claude.subagents.http import client as http_client

logger = logging.getLogger(__name__)

# Agents from before v0.3 have the second one.
_WELL_KNOWN: Final = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_BINDINGS: Final = ("JSONRPC", "HTTP+JSON")
_MAX_CARD: Final = 1 << 20
ASK_SECONDS: Final = 15.0
CANCEL_SECONDS: Final = 5.0
# How old a card may become, and how long an agent that was down is left alone.
_FRESH_SECONDS: Final = 600.0
_DOWN_SECONDS: Final = 15.0


class Remote:
    """One remote. Its card is fetched by `probe`, and by a call when there is none."""

    def __init__(self, agent: SubAgent, probe_seconds: float) -> None:
        self.name = agent.name
        self.card: AgentCard | None = None
        self.problem = "it has not been asked yet"
        """Why it cannot be called; empty when it can, as far as is known."""
        self._agent, self._probe_seconds = agent, probe_seconds
        self._http = http_client(agent)
        self._client: Client | None = None
        self._probing: asyncio.Task[None] | None = None
        self._probed = 0.0

    @property
    def stale(self) -> bool:
        """Whether its card should be fetched again."""
        age = time.monotonic() - self._probed
        return self._probing is None and age >= (_DOWN_SECONDS if self.problem else _FRESH_SECONDS)

    async def probe(self) -> None:
        """Fetches its card; `problem` says why it could not. One fetch serves all who wait for it. Raises nothing."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe(), name=f"probe-{self.name}")
        await asyncio.wait({self._probing})

    async def send(self, message: Message) -> AsyncIterator[StreamResponse]:
        """Sends a message; what comes back until the remote ends the answer. A remote that cannot stream gives the
        task as it is at once, where it can do that.

        Raises:
            RemoteError: it could not be sent, or the answer broke off.
        """
        client = await self._connected()
        assert self.card is not None  # noqa: S101 (connected)
        request = SendMessageRequest(message=message)
        # A task that is answered would be given as it is before the answer: waiting still.
        request.configuration.return_immediately = not (self.card.capabilities.streaming or message.task_id)
        try:
            async for event in client.send_message(request):
                self.problem = ""
                yield event
        except Exception as error:
            raise self._failed(error) from error

    async def task(self, task_id: str) -> Task:
        """A task as it is now; RemoteError when it cannot be had."""
        client = await self._connected()
        try:
            return await client.get_task(GetTaskRequest(id=task_id, history_length=1), context=_within(ASK_SECONDS))
        except Exception as error:
            raise self._failed(error) from error

    async def cancel(self, task_id: str) -> Task:
        """Cancels a task and gives it as it is then; RemoteError when it is over, or cannot be reached."""
        client = await self._connected()
        try:
            return await client.cancel_task(CancelTaskRequest(id=task_id), context=_within(CANCEL_SECONDS))
        except Exception as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        """Closes its connections."""
        if self._probing is not None:
            self._probing.cancel()
        await self._http.aclose()

    async def _connected(self) -> Client:
        if self._client is None:
            await self.probe()
        if self._client is None:
            raise RemoteError(self.problem)
        return self._client

    async def _probe(self) -> None:
        before = self.problem
        try:
            async with asyncio.timeout(self._probe_seconds):
                card = await self._fetch()
            self._client, self.card, self.problem = self._connect(card), card, ""
        except Exception as error:  # noqa: BLE001 (whatever a stranger sends must not stop the server)
            self.problem = str(told(error))
        finally:
            self._probed, self._probing = time.monotonic(), None
        where = shown(self._agent.agent_card_url)
        if self.problem and self.problem != before:
            logger.warning("Sub-agent %s at %s is not available: %s", self.name, where, self.problem)
        elif before and not self.problem:
            logger.info("Sub-agent %s at %s is %s", self.name, where, card.name[:100])

    async def _fetch(self) -> AgentCard:
        parts = urlsplit(self._agent.agent_card_url)
        if parts.path.endswith(".json"):
            paths: tuple[str, ...] = (parts.path,)
        else:
            paths = tuple(parts.path.rstrip("/") + each for each in _WELL_KNOWN)
        for path in paths:
            url = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
            async with self._http.stream("GET", url, headers={"Accept": "application/json"}) as response:
                if response.status_code == httpx.codes.NOT_FOUND and path != paths[-1]:
                    continue
                if response.status_code != httpx.codes.OK:
                    raise httpx.HTTPStatusError("", request=response.request, response=response)
                body = b""
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_CARD:
                        raise RemoteError("its card is too large")
            break
        try:
            found: Any = httpx.Response(200, content=body).json()
            return parse_agent_card(found)
        except Exception as error:
            raise RemoteError("what is there is no card of an agent") from error

    def _connect(self, card: AgentCard) -> Client:
        """A client for the interface of the card that is used."""
        chosen = AgentInterface()
        usable = [each for each in card.supported_interfaces if each.protocol_binding in _BINDINGS]
        override = self._agent.endpoint_url_override
        if override:
            usable.sort(key=lambda each: _BINDINGS.index(each.protocol_binding))
        if not usable:
            raise RemoteError("its card has no interface by JSON-RPC or HTTP+JSON")
        same = [each for each in usable if each.protocol_binding == usable[0].protocol_binding]
        chosen.CopyFrom(next((each for each in same if not each.protocol_version.startswith("0")), usable[0]))
        chosen.url = override or reachable(chosen.url, self._agent.agent_card_url)
        narrowed = AgentCard()
        narrowed.CopyFrom(card)
        del narrowed.supported_interfaces[:]
        narrowed.supported_interfaces.append(chosen)
        config = ClientConfig(httpx_client=self._http, supported_protocol_bindings=list(_BINDINGS))
        return ClientFactory(config).create(narrowed)

    def _failed(self, error: Exception) -> RemoteError:
        found = told(error)
        logger.debug("Sub-agent %s: %s", self.name, found, exc_info=error)
        if not isinstance(error, RemoteError) and isinstance(error.__cause__, httpx.ConnectError):
            self.problem = str(found)
            self._probed = time.monotonic()
        return found


def _within(seconds: float) -> ClientCallContext:
    return ClientCallContext(timeout=seconds)

"""The HTTP of one remote agent: to its own origins alone, within bounds, with its credentials.

A card is the remote's word. It may not send this server, and even less its credentials, to an origin (scheme, host and
port, RFC 6454) that the config does not name (server-side request forgery, OWASP API7:2023).
"""

from __future__ import annotations

from typing import Final

import httpx

from a2a_claude import __version__
from a2a_claude.config.model import SubAgent
from a2a_claude.outgoing import bound, is_loopback, origin
from a2a_claude.subagents.credentials import auth

CONNECT_SECONDS: Final = 10.0
MAX_RESPONSE: Final = 32 << 20
"""Bytes of one response, or of all events of one stream."""


class OtherOrigin(httpx.RequestError):
    """A request to an origin that the config does not name."""


def client(agent: SubAgent) -> httpx.AsyncClient:
    """A client for the origins of `agentCardUrl` and `endpointUrlOverride`; a stream may be silent for as long as it
    likes. Close it at the end.
    """
    own = [httpx.URL(each) for each in (agent.agent_card_url, agent.endpoint_url_override) if each]
    origins = set(map(origin, own))

    async def stay(request: httpx.Request) -> None:
        if (found := origin(request.url)) not in origins:
            raise OtherOrigin(
                f"its card leads elsewhere ({found[:100]}): if that is right, "
                "set subAgents.agents[].endpointUrlOverride"
            )

    async def bounded(response: httpx.Response) -> None:
        bound(response, MAX_RESPONSE)

    return httpx.AsyncClient(
        auth=auth(agent.auth),
        timeout=httpx.Timeout(CONNECT_SECONDS, read=None),
        headers={
            "A2A-Version": "1.0",
            "Accept-Encoding": "identity",
            "User-Agent": f"a2a-claude/{__version__}",
        },
        # Calls that hang must not stand in the way of others; how many there are is bounded elsewhere.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=10),
        event_hooks={"request": [stay], "response": [bounded]},
        # Its own host is never reached through a proxy.
        trust_env=not all(is_loopback(each.host) for each in own),
    )

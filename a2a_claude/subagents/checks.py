"""What is wrong with the values that references in `subAgents` have become, told before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

import httpx

from a2a_claude.claude.session import OptionsError
from a2a_claude.config.model import (
    SubAgent,
    SubAgentAuth,
    SubAgentAuthApiKey,
    SubAgentAuthBearer,
    SubAgentAuthOauth2ClientCredentials,
)

# RFC 9110 sections 5.1 and 5.5, of the latter what is ASCII.
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


def checked(agents: Sequence[SubAgent]) -> Iterator[SubAgent]:
    """The agents, their credentials without spaces around them.

    Raises:
        OptionsError: a URL is none, or a credential cannot be sent; the message names the key and holds no secret.
    """
    for index, agent in enumerate(agents):
        where = f"subAgents.agents[{index}]"
        _url(f"{where}.agentCardUrl", agent.agent_card_url)
        if agent.endpoint_url_override is not None:
            _url(f"{where}.endpointUrlOverride", agent.endpoint_url_override)
        yield replace(agent, auth=_auth(f"{where}.auth", agent.auth))


def _auth(where: str, auth: SubAgentAuth | None) -> SubAgentAuth | None:
    match auth:
        case SubAgentAuthBearer() | SubAgentAuthApiKey():
            token = auth.token.strip()
            if not _HEADER_VALUE.fullmatch(token):
                raise OptionsError(f"{where}.token has characters that no header can have")
            if isinstance(auth, SubAgentAuthApiKey) and not _HEADER_NAME.fullmatch(auth.header_name):
                raise OptionsError(f"{where}.headerName is not the name of a header")
            return replace(auth, token=token)
        case SubAgentAuthOauth2ClientCredentials():
            _url(f"{where}.tokenUrl", auth.token_url)
            return replace(auth, client_id=auth.client_id.strip(), client_secret=auth.client_secret.strip())
    return auth


def _url(where: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        good = good and bool(httpx.URL(url).host)  # also where half a name of IDNA is none
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise OptionsError(f"{where} is no absolute http or https URL: write https://host/path")

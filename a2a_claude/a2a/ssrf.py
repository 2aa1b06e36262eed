"""Which URLs a caller may give (webhooks, files): nothing on this host or its network can be reached through one.

A caller chooses the URL, the server sends the request: without these rules anybody who may call could reach the
cloud's metadata service or a neighbour's admin port (server-side request forgery, OWASP API7:2023). The rules hold when
a webhook is registered and again at each connection, which goes to the very address that was checked.

Addresses: IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its successors), written out because
`ipaddress.is_global` differs between Python versions and takes IPv4 inside IPv6 for global.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple, Protocol, TypeAlias

from a2a_claude.a2a.errors import invalid_params

Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[Iterable[str]]]

MAX_URL: Final = 2048
RESOLVE_SECONDS: Final = 5.0

_URL = re.compile(r"(https?)://([^/?#]*)([/?][^#]*)?(?:#.*)?", re.ASCII | re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::([0-9]{1,5}))?", re.ASCII)
_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# What browsers and inet_aton(3) read as a number, and so as an address: 2130706433, 0x7f000001, 0177.1
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)

_NOT_PUBLIC_V4: Final = tuple(
    ipaddress.IPv4Network(each)
    for each in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    )
)
_PUBLIC_V6: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_V6: Final = tuple(
    ipaddress.IPv6Network(each) for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# What allowedHosts may open: the networks that a site numbers itself, and this host. Never link-local addresses, where
# clouds keep their metadata service.
_PRIVATE: Final = tuple(
    ipaddress.ip_network(each)
    for each in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "::1/128",
        "fc00::/7",
    )
)


class ForbiddenUrl(ValueError):
    """A URL that may not be used; the message says why in words for the caller."""


class Target(NamedTuple):
    """Where requests go: `host` is a lower-case name or an address without brackets."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.scheme == "https" else 80) else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        """What may be logged of a URL: its path and query may hold secrets."""
        return f"{self.scheme}://{self.authority}"


def parse(url: str) -> Target:
    """The parts of an absolute http or https URL.

    One reading only: what parsers are known to read differently (user info, backslashes, control characters, numbers
    as hosts, percent-encoded hosts) is refused rather than interpreted.

    Raises:
        ForbiddenUrl: it is none, or may be read in two ways.
    """
    if len(url) > MAX_URL:
        raise ForbiddenUrl(f"may have {MAX_URL} characters at most")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ForbiddenUrl("must be ASCII without spaces, backslashes and control characters: percent-encode them")
    found = _URL.fullmatch(url)
    if found is None:
        raise ForbiddenUrl("must be an http or https URL")
    scheme, authority, path = found.group(1).lower(), found.group(2).lower(), found.group(3) or "/"
    if "@" in authority:
        raise ForbiddenUrl("must not have user information: use authentication or token")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise ForbiddenUrl("must name a host")
    port = int(parts.group(3) or (443 if scheme == "https" else 80))
    if not 0 < port < 65536:
        raise ForbiddenUrl("must have a port from 1 to 65535")
    host = _bracketed(parts.group(1)) if parts.group(1) else _host(parts.group(2))
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def _bracketed(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        raise ForbiddenUrl("must name a host: what is in brackets is no IPv6 address") from None


def _host(text: str) -> str:
    name = text.removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        try:
            return str(IPv4Address(name))
        except ValueError:
            raise ForbiddenUrl("must write an IPv4 address as four decimal numbers") from None
    if len(name) > 253 or not _NAME.fullmatch(name):
        raise ForbiddenUrl("must name a host")
    return name


def is_public(address: Address) -> bool:
    """Whether an address is somebody's on the Internet. IPv4 inside IPv6 (mapped, NAT64) is judged as IPv4."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


def _inner(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _is_private(address: Address) -> bool:
    inner = _inner(address) if isinstance(address, IPv6Address) else None
    return any((inner or address) in network for network in _PRIVATE)


async def system_resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order of preference. OSError when there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Rules(Protocol):
    """A part of the config that says which URLs are allowed: `push`, `server.fileUrls`."""

    @property
    def allow_http(self) -> bool: ...

    @property
    def allowed_hosts(self) -> Sequence[str]: ...


class Guard:
    """The rules of one purpose. `resolve` gives a name's addresses."""

    def __init__(self, settings: Rules, resolve: Resolve = system_resolve) -> None:
        self._allow_http = settings.allow_http
        self._allowed = {_plain(each) for each in settings.allowed_hosts}
        self._resolve = resolve

    async def check(self, url: str) -> None:
        """For registration: InvalidParamsError, naming `url`, when no webhook may have it."""
        try:
            target = self.target(url)
            await self.addresses(target.host, target.port)
        except ForbiddenUrl as error:
            raise invalid_params(("url", str(error))) from error

    def target(self, url: str) -> Target:
        """What can be told without asking for addresses: ForbiddenUrl, or the parts."""
        target = parse(url)
        if target.scheme == "http" and not self._allow_http:
            raise ForbiddenUrl("must be an https URL: this agent sends no requests without TLS")
        if _is_address(target.host):
            self._judge(target.host, [target.host])
        return target

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses that may be connected to; ForbiddenUrl when one of them may not, or there is none.

        One answer for "no such name" and "a private address": otherwise callers could map the network by asking.
        """
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                texts = [host] if _is_address(host) else list(await self._resolve(host, port))
        except (OSError, UnicodeError):
            texts = []
        return self._judge(host, texts)

    def _judge(self, host: str, texts: Iterable[str]) -> list[str]:
        refusal = ForbiddenUrl("must be on a host with public addresses only")
        try:
            found = [ipaddress.ip_address(each) for each in texts]
        except ValueError:
            raise refusal from None
        allowed = host in self._allowed
        if not found or not all(is_public(each) or (allowed and _is_private(each)) for each in found):
            raise refusal
        return [str(each) for each in found]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _plain(host: str) -> str:
    name = host.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")
    return str(ipaddress.ip_address(name)) if _is_address(name) else name

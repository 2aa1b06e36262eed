"""No webhook leads to this host or its network, however its URL is written."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import pytest
from a2a.utils.errors import InvalidParamsError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from a2a_claude.a2a.ssrf import ForbiddenUrl, Guard, is_public, parse
from tests.lifecycle import asynchronous
from tests.support import make_agent


def guard(*addresses: str, hosts: tuple[str, ...] = (), allow_http: bool = True) -> Guard:
    """A guard for which every name has these addresses."""

    async def resolve(_host: str, _port: int) -> list[str]:
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return list(addresses)

    push = dataclasses.replace(make_agent().config.push, allow_http=allow_http, allowed_hosts=hosts)
    return Guard(push, resolve)


TARGETS: dict[str, tuple[str, str, int, str, str]] = {
    "https://Example.COM": ("https", "example.com", 443, "/", "example.com"),
    "HTTP://example.com:80/a?b=c#d": ("http", "example.com", 80, "/a?b=c", "example.com"),
    "https://example.com?b": ("https", "example.com", 443, "/?b", "example.com"),
    "https://example.com.:8443/%41/..": ("https", "example.com", 8443, "/%41/..", "example.com:8443"),
    "https://8.8.8.8/": ("https", "8.8.8.8", 443, "/", "8.8.8.8"),
    "https://[2606:4700:0::1111]:444/": ("https", "2606:4700::1111", 444, "/", "[2606:4700::1111]:444"),
    "https://xn--bcher-kva.example/": ("https", "xn--bcher-kva.example", 443, "/", "xn--bcher-kva.example"),
    "https://hooks/a@b": ("https", "hooks", 443, "/a@b", "hooks"),
    "https://1.example_x.com/": ("https", "1.example_x.com", 443, "/", "1.example_x.com"),
}
MALFORMED = [
    "",
    "example.com",
    "//example.com",
    "ftp://example.com/",
    "file:///etc/passwd",
    "unix:///run/docker.sock",
    "https:example.com",
    "https:/example.com",
    "https:///example.com",
    "https://",
    "https://:443/",
    "https://example.com:/",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:080000/",
    "https://example.com:-1/",
    "https://example.com:80:80/",
    "https://user@example.com/",
    "https://user:secret@example.com/",
    "https://8.8.8.8@127.0.0.1/",
    "https://example.com\\@127.0.0.1/",
    "https://example.com\\.evil.example/",
    "https://exam\tple.com/",
    "https://example.com/\r\nX-Injected: 1",
    "https://example.com/\n",
    "https://example.com/a b",
    "https://example.com/\x00",
    "https://bücher.example/",
    "https://example。com/",
    "https://①②⑦.0.0.1/",
    "https://%31%32%37.0.0.1/",
    "https://example..com/",
    "https://-example.com/",
    "https://example-.com/",
    "https://[::1/",
    "https://[::1]x/",
    "https://[fe80::1%25eth0]/",
    "https://[v1.x]/",
    "https://[127.0.0.1]/",
    "https://::1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://0300.0250.0.1/",
    "https://127.0.0.1.5/",
    "https://1.2.3.0x4/",
    "https://256.256.256.256/",
    "https://0x/",
    "https://example.0/",
    "https://" + "a" * 64 + ".example/",
    "https://" + "a." * 130 + "example/",
    "https://example.com/" + "a" * 2048,
]


@pytest.mark.parametrize(("url", "target"), TARGETS.items())
def test_a_url_has_these_parts(url: str, target: tuple[str, str, int, str, str]) -> None:
    assert (*parse(url), parse(url).authority) == target


@pytest.mark.parametrize("url", MALFORMED)
@asynchronous
async def test_what_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(ForbiddenUrl):
        parse(url)
    with pytest.raises(InvalidParamsError) as refused:
        await guard("8.8.8.8", hosts=("127.0.0.1", "localhost")).check(url)
    assert refused.value.data is not None
    assert refused.value.data["errors"][0]["field"] == "url"
    assert "secret" not in str(refused.value)


NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
@asynchronous
async def test_addresses_that_are_nobodys_on_the_internet(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    literal = f"https://[{address}]/" if ":" in address else f"https://{address}/"
    for check in (guard("8.8.8.8").check(literal), guard(address).check("https://hooks.example/")):
        with pytest.raises(InvalidParamsError, match="public addresses only"):
            await check


@pytest.mark.parametrize("address", PUBLIC)
@asynchronous
async def test_addresses_of_the_internet(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    await guard(address).check("https://hooks.example/")


@given(st.ip_addresses())
@settings(max_examples=1000)
def test_what_python_knows_to_be_private_never_passes(address: Any) -> None:
    if is_public(address):
        inner = getattr(address, "ipv4_mapped", None) or address
        assert inner.is_global or int(address) >> 32 == 0x64FF9B << 64
        assert not inner.is_private
        assert not inner.is_multicast


def spelled(octets: int, forms: list[str], parts: int) -> str:
    """An IPv4 address in one of the spellings of inet_aton(3)."""
    numbers = [octets >> 8 * (3 - index) & 0xFF for index in range(parts - 1)]
    numbers.append(octets & (1 << 8 * (5 - parts)) - 1)
    write: dict[str, Callable[[int], str]] = {
        "d": str,
        "x": hex,
        "o": lambda number: f"0{number:o}",
        "X": lambda number: f"0X{number:X}",
    }
    return ".".join(write[form](number) for form, number in zip(forms, numbers, strict=False))


@given(
    st.integers(0, 2**32 - 1) | st.sampled_from([0x7F000001, 0xA9FEA9FE, 0x0A000001, 0]),
    st.lists(st.sampled_from("dxoX"), min_size=4, max_size=4),
    st.integers(1, 4),
    st.sampled_from(["", "."]),
)
@settings(max_examples=500)
def test_an_ipv4_address_is_four_decimal_numbers_or_refused(
    octets: int, forms: list[str], parts: int, dot: str
) -> None:
    text = spelled(octets, forms, parts)
    assert socket.inet_aton(text) == octets.to_bytes(4, "big")
    try:
        found = parse(f"https://{text}{dot}/").host
    except ForbiddenUrl:
        assert text != str(ipaddress.IPv4Address(octets))
    else:
        assert found == str(ipaddress.IPv4Address(octets)) == text


@given(st.text("0123456789abcdefxX.:[]@%\\/?#-_ lo", max_size=40))
@settings(max_examples=1000)
@example("1.1.1.1:80@127.0.0.1")
@example("0x7f.1")
def test_a_host_that_passes_is_no_address_in_disguise(text: str) -> None:
    try:
        host = parse(f"https://{text}/").host
    except ForbiddenUrl:
        return
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        with pytest.raises(OSError, match="illegal"):
            socket.inet_aton(host)
    else:
        assert str(address) == host


@asynchronous
async def test_without_tls_only_where_the_config_says_so() -> None:
    await guard("8.8.8.8", allow_http=True).check("http://hooks.example/")
    with pytest.raises(InvalidParamsError, match="must be an https URL"):
        await guard("8.8.8.8", allow_http=False).check("http://hooks.example/")


@asynchronous
async def test_one_private_address_among_public_ones_is_one_too_many() -> None:
    for addresses in (("8.8.8.8", "127.0.0.1"), ("10.0.0.1", "8.8.8.8")):
        with pytest.raises(InvalidParamsError):
            await guard(*addresses).check("https://hooks.example/")


@asynchronous
async def test_callers_cannot_map_the_network_by_asking() -> None:
    answers = []
    for addresses in ((), ("10.0.0.1",), ("not an address",)):
        with pytest.raises(InvalidParamsError) as refused:
            await guard(*addresses).check("https://internal.example/")
        answers.append(str(refused.value))
    assert len(set(answers)) == 1


@asynchronous
async def test_allowed_hosts_may_be_private_and_no_others() -> None:
    hosts = ("Hooks.Internal", "10.0.0.7", "[fd00::7]")
    for url, address in (
        ("https://hooks.internal/", "10.0.0.1"),
        ("https://HOOKS.internal.:444/", "127.0.0.1"),
        ("https://hooks.internal/", "fd00::1"),
        ("https://hooks.internal/", "8.8.8.8"),
        ("https://10.0.0.7/", "8.8.8.8"),
        ("https://[FD00:0::7]/", "8.8.8.8"),
    ):
        await guard(address, hosts=hosts).check(url)
    for url, address in (
        ("https://other.internal/", "10.0.0.1"),
        ("https://x.hooks.internal/", "10.0.0.1"),
        ("https://10.0.0.8/", "8.8.8.8"),
        ("https://hooks.internal/", "169.254.169.254"),
        ("https://hooks.internal/", "::ffff:169.254.169.254"),
        ("https://hooks.internal/", "fe80::1"),
        ("https://hooks.internal/", "0.0.0.0"),
        ("https://hooks.internal/", "224.0.0.1"),
    ):
        with pytest.raises(InvalidParamsError):
            await guard(address, hosts=hosts).check(url)


@asynchronous
async def test_the_systems_resolver_is_asked_by_default() -> None:
    push = make_agent({"push": {"allowedHosts": ["localhost"]}}).config.push
    assert set(await Guard(push).addresses("localhost", 443)) <= {"127.0.0.1", "::1"}
    with pytest.raises(InvalidParamsError):
        await Guard(push).check("https://no-such-name.invalid/")

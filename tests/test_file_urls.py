"""Files by URL are fetched as a stranger's: bounded, and from nowhere but where the config allows."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from a2a_claude.a2a.file_urls import FetchError, File, FileFetcher
from a2a_claude.a2a.ssrf import Guard, Resolve, system_resolve
from tests import certificates
from tests.lifecycle import asynchronous
from tests.support import make_agent
from tests.webhook_receiver import Received, Receiver, receiving

MOST = 1000


@asynccontextmanager
async def fetching(
    answer: str | bytes = b"",
    *,
    hosts: tuple[str, ...] = ("127.0.0.1", "files.test"),
    allow_http: bool = True,
    resolve: Resolve = system_resolve,
    seconds: float = 30.0,
    more: bytes = b"",
    server_tls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[FileFetcher, Receiver]]:
    """A fetcher and a server that sends `answer` as it is, then `more` until nobody listens."""
    head = answer.encode() if isinstance(answer, str) else answer

    async def respond(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        while more:
            writer.write(more)
            await writer.drain()

    settings = {"allowHttp": allow_http, "allowedHosts": list(hosts)}
    guard = Guard(make_agent({"server": {"fileUrls": settings}}).config.server.file_urls, resolve)
    async with receiving(server_tls) as receiver:
        receiver.answer = respond
        fetcher = FileFetcher(guard, tls, seconds=seconds)
        try:
            yield fetcher, receiver
        finally:
            await fetcher.close()


def ok(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def moved(location: str, status: int = 302) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@asynchronous
async def test_a_file_comes_with_the_type_that_its_server_says() -> None:
    async with fetching(ok(b"x" * MOST, "Content-Type: text/csv; charset=utf-8")) as (fetcher, receiver):
        assert await fetcher.get(f"{receiver.url}/a/b.csv?c=d", MOST) == File(b"x" * MOST, "text/csv; charset=utf-8")
    [asked] = receiver.received
    assert (asked.method, asked.path) == ("GET", "/a/b.csv?c=d")
    assert set(asked.headers) == {"host", "accept", "accept-encoding", "user-agent"}
    assert asked.headers["accept-encoding"] == "identity"


HOSTILE: dict[str, tuple[bytes, bytes, str]] = {
    "not there": (b"HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno", b"", "answered 404"),
    "a part of it": (b"HTTP/1.1 206 Part\r\nContent-Length: 2\r\n\r\nno", b"", "answered 206"),
    "said to be too large": (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", b"", "more than 1000 bytes"),
    "a length of many digits": (
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 20 + b"\r\n\r\n",
        b"",
        "more than 1000",
    ),
    "too large without a length": (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001, b"", "more than 1000 bytes"),
    "endless": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100, "more than 1000 bytes"),
    "endless in chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"4\r\nxxxx\r\n", "more than 1000"),
    "a redirect to half an address": (
        b"HTTP/1.1 302 Found\r\nLocation: //[\r\nContent-Length: 0\r\n\r\n",
        b"",
        "no URL",
    ),
    "a redirect to a name in brackets": (
        b"HTTP/1.1 302 Found\r\nLocation: http://[x]/\r\nContent-Length: 0\r\n\r\n",
        b"",
        "no URL",
    ),
    "endless headers": (b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"b" * 1000 + b"\r\n", "RemoteProtocolError"),
    "shorter than said": (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", b"", "RemoteProtocolError"),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nshort", b"", "RemoteProtocol"),
    "chunks that end early": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
        b"",
        "RemoteProtocolError",
    ),
    "compressed": (ok(gzip.compress(b"\0" * 10_000_000)[:900], "Content-Encoding: gzip"), b"", "compressed (gzip)"),
    "no HTTP": (b"220 ftp ready\r\n", b"", "RemoteProtocolError"),
    "nothing": (b"", b"", "RemoteProtocolError"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_whole_file_within_bounds_is_refused(case: str) -> None:
    answer, more, why = HOSTILE[case]

    @asynchronous
    async def run() -> None:
        async with fetching(answer, more=more) as (fetcher, receiver):
            with pytest.raises(FetchError) as raised:
                await fetcher.get(f"{receiver.url}/secret-path", MOST)
            assert why in str(raised.value)
            assert "secret-path" not in str(raised.value)

    run()


def test_a_body_in_tiny_chunks_is_given_up_long_before_it_is_too_large() -> None:
    @asynchronous
    async def run() -> None:
        start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with fetching(start, more=b"2\r\nxx\r\n" * 1000) as (fetcher, receiver):
            with pytest.raises(FetchError, match="too small pieces"):
                await fetcher.get(receiver.url, 20_000_000)

    run()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslow", b"HTTP/1.1 200 OK\r\n"])
def test_a_server_that_stops_in_the_middle_is_given_up(answer: bytes) -> None:
    @asynchronous
    async def run() -> None:
        async with fetching(seconds=0.1) as (fetcher, receiver):

            async def respond(_request: Received, writer: asyncio.StreamWriter) -> None:
                writer.write(answer)
                await asyncio.Event().wait()

            receiver.answer = respond
            with pytest.raises(FetchError, match="took too long"):
                await fetcher.get(receiver.url, MOST)

    run()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://2130706433:{port}/",
        "http://inside.test:{port}/",
        "http://mixed.test:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
        "http://user@files.test:{port}/",
    ],
)
def test_nothing_of_this_network_is_asked(url: str) -> None:
    """Neither directly nor by a redirect of a host that may be asked."""

    async def resolve(host: str, _port: int) -> list[str]:
        return {"mixed.test": ["93.184.215.14", "10.0.0.1"]}.get(host, ["127.0.0.1"])

    @asynchronous
    async def run() -> None:
        async with fetching(hosts=("files.test",), resolve=resolve) as (fetcher, receiver):
            hostile = url.format(port=receiver.port)
            with pytest.raises(FetchError, match="its URL must"):
                await fetcher.get(hostile, MOST)
            assert receiver.received == []
            answers = [moved(hostile), ok(b"inside")]

            async def respond(_request: Received, writer: asyncio.StreamWriter) -> None:
                writer.write(answers.pop(0))

            receiver.answer = respond
            with pytest.raises(FetchError, match="its URL must"):
                await fetcher.get(f"http://files.test:{receiver.port}/", MOST)
            assert len(receiver.received) == 1

    run()


@asynchronous
async def test_a_name_that_changes_its_address_is_asked_for_once() -> None:
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def resolve(_host: str, _port: int) -> list[str]:
        return answers.pop(0)

    async with fetching(ok(b"file"), resolve=resolve) as (fetcher, receiver):
        assert (await fetcher.get(f"http://files.test:{receiver.port}/", MOST)).content == b"file"
    assert len(answers) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_as_far_as_is_usual(status: int) -> None:
    @asynchronous
    async def run() -> None:
        async with fetching() as (fetcher, receiver):
            hops = 4

            async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
                number = int(request.path.removeprefix("/"))
                writer.write(moved(f"{number + 1}", status) if number < hops else ok(b"there"))

            receiver.answer = respond
            assert (await fetcher.get(f"{receiver.url}/0", MOST)).content == b"there"
            hops = 5
            with pytest.raises(FetchError, match="leads on more than 4 times"):
                await fetcher.get(f"{receiver.url}/0", MOST)

    run()


@asynchronous
async def test_without_tls_nothing_is_asked_unless_the_config_says_so() -> None:
    async with fetching(ok(b"file"), allow_http=False) as (fetcher, receiver):
        with pytest.raises(FetchError, match="must be an https URL"):
            await fetcher.get(receiver.url, MOST)
        assert receiver.connections == 0


@pytest.mark.parametrize("name", ["files.test", "other.test"])
def test_a_certificate_must_be_of_the_name_in_the_url(name: str, tmp_path: Path) -> None:
    authority = certificates.Authority(tmp_path)
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(*authority.issue(name))
    tls = ssl.create_default_context(cafile=str(authority.file))

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    @asynchronous
    async def run() -> None:
        async with fetching(ok(b"file"), resolve=resolve, allow_http=False, server_tls=server_tls, tls=tls) as (
            fetcher,
            receiver,
        ):
            url = f"https://files.test:{receiver.port}/"
            if name == "files.test":
                assert (await fetcher.get(url, MOST)).content == b"file"
            else:
                with pytest.raises(FetchError, match="TLS failed"):
                    await fetcher.get(url, MOST)

    run()

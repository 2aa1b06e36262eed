"""Who is let in: tokens, keys, signed tokens, certificates; on a real server, with real tokens and a real issuer."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import http.server
import json
import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import falcon.asgi
import falcon.testing
import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from granian.constants import Interfaces
from granian.server.embed import Server as Granian
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from a2a_claude.a2a.app import App, make_app
from a2a_claude.a2a.auth import Authentication
from a2a_claude.a2a.edge import ExposureError, check_exposure, make_edge
from a2a_claude.a2a.jwt_auth import InvalidToken, KeysUnavailable, TokenVerifier
from a2a_claude.a2a.limits import Buckets, Peers
from a2a_claude.a2a.tokens import TokenError, TokenTable
from tests import certificates
from tests.a2a_support import Client, Running, running, sdk_handler, user_message
from tests.lifecycle import asynchronous
from tests.support import make_agent

ALICE = "alice-token-0123456789"
BOB = "bob-token-0123456789"
KEY = "robot-key-0123456789"
TOKENS = f"# who may call\n\nalice:{ALICE}\nbob:sha256:{hashlib.sha256(BOB.encode()).hexdigest()}\n"
KINDS = {"tokensVariable": "A2A_TOKENS"}


def serve(server: dict[str, Any], environment: dict[str, str]) -> Any:
    """A server with the edge of this configuration."""

    def make() -> Any:
        agent = make_agent({"server": server, "agentCard": {"extendedCard": True}})
        middleware = make_edge(agent.config.server, environment)
        return make_app(agent, sdk_handler(), middleware=middleware, environment={})

    return running(make)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    auth = {"bearer": KINDS, "apiKey": {"keysVariable": "A2A_KEYS"}}
    with serve({"auth": auth}, {"A2A_TOKENS": TOKENS, "A2A_KEYS": f"robot:{KEY}"}) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(base_url=server.url) as made:
        yield made


REFUSED = {
    "nothing": {},
    "empty": {"Authorization": ""},
    "another scheme": {"Authorization": f"Basic {ALICE}"},
    "wrong token": bearer("nobody-token-0123456789"),
    "the hash itself": bearer(hashlib.sha256(BOB.encode()).hexdigest()),
    "no token": {"Authorization": "Bearer"},
    "two tokens": {"Authorization": f"Bearer {ALICE}, Bearer {ALICE}"},
    "token and principal": bearer(f"alice:{ALICE}"),
    "not ASCII": {"Authorization": "Bearer gr\xfc\xdfe".encode("latin-1")},
    "key as token": bearer(KEY),
    "token as key": {"X-API-Key": ALICE},
    "wrong key": {"X-API-Key": "x"},
}
PATHS = [
    ("POST", "/a2a/jsonrpc"),
    ("POST", "/"),
    ("GET", "/tasks"),
    ("GET", "/tasks/unknown"),
    ("POST", "/message:send"),
    ("POST", "/a2a/rest/v1/message:send"),
    ("GET", "/extendedAgentCard"),
    ("GET", "/no/such/path"),
    ("POST", "/.well-known/agent-card.json"),
    ("OPTIONS", "/tasks"),
]


@pytest.mark.parametrize("headers", REFUSED.values(), ids=REFUSED)
def test_without_valid_credentials_nobody_learns_anything(client: Client, headers: dict[str, Any]) -> None:
    for method, path in PATHS:
        answer = client.request(method, path, headers=headers, content=b"{" if method == "POST" else None)
        assert answer.status_code == 401, (method, path, answer.text)
        challenges = answer.headers["WWW-Authenticate"]
        assert challenges.startswith('Bearer realm="a2a"')
        assert 'ApiKey realm="a2a", header="X-API-Key"' in challenges
        body = answer.json()
        if path in ("/", "/a2a/jsonrpc"):
            assert body["jsonrpc"] == "2.0"
            assert body["id"] is None
            assert body["error"]["data"][0]["reason"] == "UNAUTHORIZED"
        elif "/v1/" in path:
            assert set(body) == {"code", "message", "data"}
        else:
            assert body["error"]["status"] == "UNAUTHENTICATED"


def test_a_wrong_token_is_told_apart_from_none(client: Client) -> None:
    assert "error" not in client.get("/tasks").headers["WWW-Authenticate"]
    assert 'error="invalid_token"' in client.get("/tasks", headers=bearer("x")).headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    "headers",
    [bearer(ALICE), bearer(BOB), {"Authorization": f"bearer {ALICE}"}, {"X-API-Key": KEY}, {"x-api-key": KEY}],
)
def test_any_one_scheme_admits(client: Client, headers: dict[str, str]) -> None:
    assert client.get("/tasks", headers=headers | {"A2A-Version": "1.0"}).status_code == 200
    assert client.get("/extendedAgentCard", headers=headers | {"A2A-Version": "1.0"}).status_code == 200


def test_a_wrong_key_beside_a_valid_token_is_no_harm(client: Client) -> None:
    headers = bearer(ALICE) | {"X-API-Key": "x", "A2A-Version": "1.0"}
    assert client.get("/tasks", headers=headers).status_code == 200


def test_the_public_card_is_open_and_names_the_schemes(client: Client) -> None:
    card = client.get("/.well-known/agent-card.json", headers={"A2A-Version": "1.0"})
    assert card.status_code == 200
    assert set(card.json()["securitySchemes"]) == {"bearer", "apiKey"}
    assert client.head("/.well-known/agent-card.json").status_code == 200
    assert client.get("/.well-known/agent-card.json/").status_code == 200


def test_a_principal_sees_no_tasks_of_another(client: Client) -> None:
    alice, bob, robot = bearer(ALICE), bearer(BOB), {"X-API-Key": KEY}
    sent = client.rpc("SendMessage", {"message": user_message()}, **alice).json()
    task_id = sent["result"]["task"]["id"]
    assert client.rpc("GetTask", {"id": task_id}, **alice).json()["result"]["id"] == task_id
    for other in (bob, robot):
        foreign = client.rpc("GetTask", {"id": task_id}, **other).json()["error"]
        unknown = client.rpc("GetTask", {"id": "unknown"}, **other).json()["error"]
        assert foreign["code"] == unknown["code"] == -32001
        assert foreign["message"].replace(task_id, "unknown") == unknown["message"]


WRONG_LINES = ["alice", "alice:", ":token", "al ice:token", "alice:sha256:abc", "a:same\nb:same", "", "# nobody\n"]


@pytest.mark.parametrize("text", WRONG_LINES)
def test_wrong_lines_are_refused_without_showing_them(text: str, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(TokenError, match="tokens") as refused:
        TokenTable.load(str(tmp_path / "tokens"), None, {})
    assert not text or "same" not in str(refused.value)


def test_missing_tokens_say_where_to_put_them(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="server's user can read"):
        TokenTable.load(str(tmp_path / "none"), None, {})
    with pytest.raises(TokenError, match="A2A_TOKENS is not set"):
        TokenTable.load(None, "A2A_TOKENS", {})


def write_in_place(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 1))


def write_by_rename(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


@pytest.mark.parametrize("write", [write_in_place, write_by_rename])
def test_tokens_are_rotated_without_a_restart(
    write: Callable[[Path, str], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text("alice:first\n")
    with (
        serve({"auth": {"bearer": {"tokensFile": str(path)}}}, {}) as started,
        Client(base_url=started.url, headers={"A2A-Version": "1.0"}) as client,
    ):

        def status(token: str) -> int:
            return client.get("/tasks", headers=bearer(token)).status_code

        assert (status("first"), status("second")) == (200, 401)
        write(path, "alice:first\nalice:second\n")
        assert (status("first"), status("second")) == (200, 200)
        write(path, "alice:second\n")
        assert (status("first"), status("second")) == (401, 200)
        with caplog.at_level(logging.ERROR):
            write(path, "alice second-secret\n")
            assert (status("second"), status("second-secret")) == (200, 401)
            path.unlink()
            assert status("second") == 200
        assert [each.name for each in caplog.records].count("a2a_claude.a2a.tokens") == 2
        assert "stay valid" in caplog.text
        assert "second-secret" not in caplog.text
        path.write_text("bob:third")
        assert (status("second"), status("third")) == (401, 200)


# Signed tokens


class Issuer:
    """An OpenID Connect issuer on loopback: discovery, keys, tokens."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.fetched = 0
        self.broken = False
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                documents = {
                    "/.well-known/openid-configuration": {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"},
                    "/jwks": {"keys": [each[1] for each in issuer.keys.values()]},
                }
                issuer.fetched += self.path == "/jwks"
                body = json.dumps(documents.get(self.path)).encode()
                self.send_response(500 if issuer.broken else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, key_id: str, algorithm: str | None = "ES256", **members: Any) -> None:
        """Makes a key and publishes it."""
        if algorithm is None or algorithm[:2] in ("RS", "PS"):
            made: Any = rsa.generate_private_key(65537, 2048)
            public = RSAAlgorithm.to_jwk(made.public_key(), as_dict=True)
        else:
            made = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(made.public_key(), as_dict=True)
        if algorithm:
            public["alg"] = algorithm
        self.keys[key_id] = (made, public | {"kid": key_id, "use": "sig"} | members)

    def token(
        self, key_id: str = "k1", algorithm: str = "ES256", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """A token for user 42; a claim of None is left out."""
        full = {"iss": self.url, "aud": "reviewer", "sub": "42", "exp": time.time() + 60, "scope": "a2a.call"} | claims
        content = {name: value for name, value in full.items() if value is not None}
        named = {name: value for name, value in ({"kid": key_id} | (header or {})).items() if value is not None}
        return jwt.encode(content, self.keys[key_id][0], algorithm, named)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.add("k1")
    made.add("rsa", None)
    yield made
    made.stop()


def jwt_settings(issuer: Issuer, **changed: Any) -> dict[str, Any]:
    settings = {"issuer": issuer.url, "audience": "reviewer", "scopes": ["a2a.call"], "leeway": 5}
    return {"auth": {"jwt": settings | changed}}


@pytest.fixture(scope="module")
def verifying(issuer: Issuer) -> Iterator[Client]:
    with (
        serve(jwt_settings(issuer), {}) as started,
        Client(base_url=started.url, headers={"A2A-Version": "1.0"}) as made,
    ):
        yield made


GOOD_TOKENS: dict[str, Callable[[Issuer], str]] = {
    "plain": lambda issuer: issuer.token(),
    "audience in a list": lambda issuer: issuer.token(aud=["other", "reviewer"]),
    "expired within the leeway": lambda issuer: issuer.token(exp=time.time() - 2),
    "RSA key without alg": lambda issuer: issuer.token("rsa", "RS256"),
    "no key id": lambda issuer: issuer.token(header={"kid": None}),
    "scope among others": lambda issuer: issuer.token(scope="x a2a.call y"),
    "scp list": lambda issuer: issuer.token(scope=None, scp=["a2a.call"]),
}
BAD_TOKENS: dict[str, Callable[[Issuer], str]] = {
    "no JWT": lambda _: "a.b.c",
    "one word": lambda _: "token",
    "expired": lambda issuer: issuer.token(exp=time.time() - 20),
    "no expiry": lambda issuer: issuer.token(exp=None),
    "not yet": lambda issuer: issuer.token(nbf=time.time() + 60),
    "another audience": lambda issuer: issuer.token(aud="other"),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "no subject": lambda issuer: issuer.token(sub=None),
    "empty subject": lambda issuer: issuer.token(sub=""),
    "line break in the subject": lambda issuer: issuer.token(sub="a\nb"),
    "algorithm not accepted": lambda issuer: issuer.token("rsa", "PS256"),
    "key of another type": lambda issuer: issuer.token(header={"kid": "rsa"}),
    "no algorithm": lambda issuer: jwt.encode({"iss": issuer.url, "aud": "reviewer", "sub": "42"}, "", "none"),
    "public key as a secret": lambda issuer: jwt.encode(
        {"iss": issuer.url, "aud": "reviewer", "sub": "42", "exp": time.time() + 60}, "x" * 64, "HS256", {"kid": "k1"}
    ),
    "tampered": lambda issuer: _tampered(issuer.token()),
    "huge": lambda issuer: issuer.token(more="x" * 20_000),
}


def _tampered(token: str) -> str:
    head, _, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False}) | {"sub": "1"}
    return f"{head}.{jwt.utils.base64url_encode(json.dumps(claims).encode()).decode()}.{signature}"


@pytest.mark.parametrize("make", GOOD_TOKENS.values(), ids=GOOD_TOKENS)
def test_signed_tokens_admit(verifying: Client, issuer: Issuer, make: Callable[[Issuer], str]) -> None:
    answer = verifying.get("/tasks", headers=bearer(make(issuer)))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("make", BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_bad_signed_tokens_do_not(verifying: Client, issuer: Issuer, make: Callable[[Issuer], str]) -> None:
    answer = verifying.get("/tasks", headers=bearer(make(issuer)))
    assert answer.status_code == 401, answer.text
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"


@pytest.mark.parametrize("claims", [{"scope": "other"}, {"scope": None}, {"scope": "a2a.call.more"}, {"scope": 7}])
def test_a_token_without_the_scope_is_forbidden(verifying: Client, issuer: Issuer, claims: dict[str, Any]) -> None:
    answer = verifying.get("/tasks", headers=bearer(issuer.token(**claims)))
    assert answer.status_code == 403
    assert 'error="insufficient_scope", scope="a2a.call"' in answer.headers["WWW-Authenticate"]
    assert answer.json()["error"]["status"] == "PERMISSION_DENIED"


def verifier(server: dict[str, Any], **options: float) -> TokenVerifier:
    configured = make_agent({"server": server}).config.server.auth.jwt
    assert configured is not None
    return TokenVerifier(configured, **options)


@asynchronous
async def test_the_principal_is_of_its_issuer(issuer: Issuer) -> None:
    assert await verifier(jwt_settings(issuer)).principal(issuer.token()) == f"{issuer.url}#42"
    by_client = verifier(jwt_settings(issuer, principalClaim="client_id"))
    assert await by_client.principal(issuer.token(client_id="robot")) == f"{issuer.url}#robot"


@asynchronous
async def test_new_keys_of_the_issuer_are_found_and_old_ones_forgotten() -> None:
    issuer = Issuer()
    issuer.add("k1")
    tokens = verifier(jwt_settings(issuer), pause=0.0)
    await tokens.principal(old := issuer.token())
    issuer.keys.clear()
    issuer.add("k2")
    await tokens.principal(issuer.token("k2"))
    assert issuer.fetched == 2
    with pytest.raises(InvalidToken):
        await tokens.principal(old)
    issuer.stop()


@asynchronous
async def test_a_token_that_was_valid_once_expires_all_the_same(issuer: Issuer) -> None:
    tokens = verifier(jwt_settings(issuer, leeway=0))
    token = issuer.token(exp=time.time() + 1.5)
    assert await tokens.principal(token) == await tokens.principal(token)
    await asyncio.sleep(2.0)
    with pytest.raises(InvalidToken, match="expired"):
        await tokens.principal(token)


@asynchronous
async def test_made_up_keys_do_not_flood_the_issuer() -> None:
    issuer = Issuer()
    issuer.add("k1")
    tokens = verifier(jwt_settings(issuer))
    for number in range(50):
        with pytest.raises(InvalidToken):
            await tokens.principal(issuer.token(header={"kid": f"made up {number}"}))
    await asyncio.gather(*(tokens.principal(issuer.token()) for _ in range(50)))
    assert issuer.fetched == 1
    issuer.stop()


@asynchronous
async def test_while_the_issuer_is_away_its_last_keys_serve() -> None:
    issuer = Issuer()
    issuer.add("k1")
    tokens = verifier(jwt_settings(issuer), pause=0.0)
    issuer.broken = True
    with pytest.raises(KeysUnavailable):
        await tokens.principal(issuer.token())
    issuer.broken = False
    await tokens.principal(issuer.token())
    issuer.broken = True
    with pytest.raises(InvalidToken):
        await tokens.principal(issuer.token(header={"kid": "unknown"}))
    await tokens.principal(issuer.token())
    issuer.stop()


def test_without_keys_the_server_asks_to_come_back(tmp_path: Path) -> None:
    settings = {"issuer": "http://127.0.0.1:1", "audience": "reviewer"}
    token = jwt.encode({"sub": "1"}, ec.generate_private_key(ec.SECP256R1()), "ES256")
    with serve({"auth": {"jwt": settings}}, {}) as started, Client(base_url=started.url) as client:
        answer = client.get("/tasks", headers=bearer(token))
        assert answer.status_code == 503
        assert answer.headers["Retry-After"] == "10"
        assert answer.json()["error"]["status"] == "UNAVAILABLE"


@asynchronous
async def test_keys_may_come_from_a_file_that_changes(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": [issuer.keys["rsa"][1]]}))
    tokens = verifier(jwt_settings(issuer, jwksFile=str(path)))
    await tokens.principal(issuer.token("rsa", "RS256"))
    with pytest.raises(InvalidToken):
        await tokens.principal(issuer.token())
    write_by_rename(path, json.dumps({"keys": [issuer.keys["k1"][1]]}))
    await tokens.principal(issuer.token())
    write_by_rename(path, "{")
    await tokens.principal(issuer.token())


@asynchronous
async def test_keys_that_are_not_for_this_are_ignored(tmp_path: Path) -> None:
    issuer = Issuer()
    issuer.add("encryption", use="enc")
    issuer.add("other", alg="ES384")
    issuer.keys["shared"] = (b"x" * 64, {"kty": "oct", "k": "eHg", "kid": "shared"})
    issuer.keys["odd"] = (None, {"kty": "new", "kid": "odd"})
    issuer.add("k1")
    tokens = verifier(jwt_settings(issuer))
    await tokens.principal(issuer.token())
    for key_id in ("encryption", "other"):
        with pytest.raises(InvalidToken):
            await tokens.principal(issuer.token(key_id))
    issuer.stop()


@asynchronous
async def test_a_discovery_document_of_another_issuer_is_not_believed() -> None:
    issuer = Issuer()
    issuer.add("k1")
    token = issuer.token()
    real = issuer.url
    issuer.url = "https://evil.example"
    with pytest.raises(KeysUnavailable):
        await verifier({"auth": {"jwt": {"issuer": real, "audience": "reviewer"}}}).principal(token)
    issuer.stop()


def test_opaque_and_signed_tokens_go_together(issuer: Issuer) -> None:
    auth = {"bearer": KINDS, **jwt_settings(issuer)["auth"]}
    with (
        serve({"auth": auth}, {"A2A_TOKENS": TOKENS}) as started,
        Client(base_url=started.url, headers={"A2A-Version": "1.0"}) as client,
    ):
        assert client.get("/tasks", headers=bearer(ALICE)).status_code == 200
        assert client.get("/tasks", headers=bearer(issuer.token())).status_code == 200
        assert client.get("/tasks", headers=bearer("x")).status_code == 401


# Certificates


class RunningWithTls(Running):
    """A server that demands certificates of its authority."""

    authority: Path
    certificate: tuple[Path, Path]

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        made = self._make()
        self.app = made if isinstance(made, App) else await made
        self._granian = Granian(
            self.app,
            address="127.0.0.1",
            port=self.port,
            interface=Interfaces.ASGI,
            log_enabled=False,
            ssl_cert=self.certificate[0],
            ssl_key=self.certificate[1],
            ssl_ca=self.authority,
            ssl_client_verify=True,
        )
        await self._granian.serve()


def test_a_certificate_admits_and_only_one_of_the_authority(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = certificates.Authority(tmp_path / "ours"), certificates.Authority(tmp_path / "theirs")
    RunningWithTls.authority, RunningWithTls.certificate = ours.file, ours.issue("localhost")

    def make() -> Any:
        agent = make_agent({"server": {"auth": {"mtls": True, "bearer": KINDS}}})
        middleware = make_edge(agent.config.server, {"A2A_TOKENS": TOKENS})
        return make_app(agent, sdk_handler(), middleware=middleware, environment={})

    def get(certificate: tuple[Path, Path] | None, **headers: str) -> int:
        context = ssl.create_default_context(cafile=str(ours.file))
        if certificate:
            context.load_cert_chain(*certificate)
        url = f"https://localhost:{started.port}/tasks"
        return httpx.get(url, verify=context, headers={"A2A-Version": "1.0", **headers}).status_code

    started = RunningWithTls(make)
    try:
        assert get(ours.issue("alice")) == 200
        assert get(ours.issue("alice"), **bearer(ALICE)) == 200
        assert get(ours.issue("alice"), **bearer("wrong")) == 401
        for refused in (None, theirs.issue("alice")):
            with pytest.raises(httpx.TransportError):
                get(refused, **bearer(ALICE))
    finally:
        started.stop()


CONNECTIONS: dict[str, tuple[dict[str, Any], str | None]] = {
    "plain": ({"scheme": "http"}, None),
    "verified, subject not told": ({"scheme": "https"}, "mtls"),
    "verified, subject told": (
        {"scheme": "https", "extensions": {"tls": {"client_cert_name": "CN=alice,O=Example"}}},
        "mtls:CN=alice,O=Example",
    ),
    "subject claimed without TLS": ({"scheme": "http", "extensions": {"tls": {"client_cert_name": "CN=alice"}}}, None),
}


@pytest.mark.parametrize(("scope", "name"), CONNECTIONS.values(), ids=CONNECTIONS)
@asynchronous
async def test_the_subject_is_the_principal_where_the_server_tells_it(scope: dict[str, Any], name: str | None) -> None:
    server = make_agent({"server": {"auth": {"mtls": True}}}).config.server
    authentication = Authentication(server, {}, Buckets(0), Peers(()))
    req = falcon.testing.create_asgi_req()
    req.scope.update(scope)
    if name is None:
        with pytest.raises(falcon.HTTPUnauthorized):
            await authentication.process_request(req, falcon.asgi.Response())
    else:
        await authentication.process_request(req, falcon.asgi.Response())
        assert req.context.user.user_name == name
        assert req.context.user.is_authenticated


# Being open

OPEN = ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST", "agent.localhost"]
EXPOSED = ["0.0.0.0", "::", "192.168.1.7", "example.com", "localhost.example.com"]


@pytest.mark.parametrize("host", OPEN)
def test_loopback_may_be_open(host: str, caplog: pytest.LogCaptureFixture) -> None:
    check_exposure(make_agent({"server": {"hostname": host}}).config.server)
    assert not caplog.records


@pytest.mark.parametrize("host", EXPOSED)
def test_a_network_address_may_not_unless_it_is_said_so(host: str, caplog: pytest.LogCaptureFixture) -> None:
    server = make_agent({"server": {"hostname": host}}).config.server
    with pytest.raises(ExposureError, match=r"server\.auth\.allowUnauthenticated: true"):
        check_exposure(server)
    check_exposure(dataclasses.replace(server, auth=dataclasses.replace(server.auth, mtls=True)))
    assert not caplog.records
    check_exposure(dataclasses.replace(server, auth=dataclasses.replace(server.auth, allow_unauthenticated=True)))
    assert "NO AUTHENTICATION" in caplog.text

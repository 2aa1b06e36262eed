"""The agent card: what it says, in which shape, how it is cached and signed, and whom it believes."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import rfc8785
from a2a.compat.v0_3 import types as types03
from a2a.types import a2a_pb2 as pb
from a2a.utils.proto_utils import validate_proto_required_fields
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import MessageToDict, ParseDict
from joserfc import jws
from joserfc.jwk import KeySet
from joserfc.jwk import import_key as import_jwk
from jwt import PyJWK

from a2a_claude.a2a.app import make_app
from a2a_claude.a2a.card import base_url, core_card, declared_extensions, hybrid_card
from a2a_claude.a2a.signing import SigningError, canonical, signer_for, thumbprint
from tests.a2a_support import Client, running, sdk_handler
from tests.support import make_agent

CARD = "/.well-known/agent-card.json"
PATHS = (CARD, "/.well-known/agent.json", "/.well-known/agent-json")

FULL: dict[str, Any] = {
    "agentCard": {
        "name": "Grüße",
        "description": "Reviews.",
        "version": "2.1.0",
        "skills": [
            {"id": "s1", "name": "S", "description": "D", "tags": ["a"], "examples": ["e"], "inputModes": ["text"]},
            {"id": "s2", "name": "T", "description": ""},
        ],
        "defaultInputModes": ["text", "image/png"],
        "pushNotifications": True,
        "extendedCard": True,
        "documentationUrl": "https://example.com/d",
        "iconUrl": "https://example.com/i.png",
        "provider": {"organization": "Example"},
    },
    "server": {
        "publicUrl": "https://agents.example.com/reviewer/",
        "auth": {
            "bearer": {"tokensVariable": "TOKENS"},
            "apiKey": {"header": "X-Key", "keysVariable": "KEYS"},
            "jwt": {"issuer": "https://id.example.com/", "audience": "a", "scopes": ["agents"]},
            "mtls": True,
        },
    },
}


def card_of(document: dict[str, Any]) -> dict[str, Any]:
    agent = make_agent(document)
    return core_card(agent, base_url(agent.config.server), declared_extensions(agent))


@pytest.mark.parametrize("document", [{}, FULL], ids=["defaults", "full"])
def test_a_card_has_every_required_member_and_reads_back_as_it_is(document: dict[str, Any]) -> None:
    card = card_of(document)
    parsed = ParseDict(card, pb.AgentCard())
    validate_proto_required_fields(parsed)
    expected = orjson.loads(orjson.dumps(card))
    for each in expected.get("securityRequirements", []):
        # ProtoJSON leaves an empty list out; the served card shows it.
        each["schemes"] = {name: scopes if scopes["list"] else {} for name, scopes in each["schemes"].items()}
    assert MessageToDict(parsed) == expected


def test_a_card_says_what_the_config_says() -> None:
    card = card_of(FULL)
    base = "https://agents.example.com/reviewer"
    assert [
        (each["protocolBinding"], each["protocolVersion"], each["url"]) for each in card["supportedInterfaces"]
    ] == [
        ("JSONRPC", "1.0", f"{base}/a2a/jsonrpc"),
        ("HTTP+JSON", "1.0", f"{base}/a2a/rest"),
        ("JSONRPC", "0.3", f"{base}/a2a/jsonrpc"),
        ("HTTP+JSON", "0.3", f"{base}/a2a/rest"),
        ("JSONRPC", "0.3.0", f"{base}/a2a/jsonrpc"),
        ("HTTP+JSON", "0.3.0", f"{base}/a2a/rest"),
    ]
    assert card["defaultInputModes"] == ["text/plain", "image/png"]
    assert card["skills"][0]["inputModes"] == ["text/plain"]
    assert card["skills"][1] == {"id": "s2", "name": "T", "description": "T", "tags": ["s2"]}
    assert card["provider"] == {"organization": "Example", "url": base}
    assert card["capabilities"]["extensions"][0]["uri"] == "urn:x-a2a:trace:v1"
    assert card["securitySchemes"] == {
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}},
        "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
        "openIdConnect": {
            "openIdConnectSecurityScheme": {
                "openIdConnectUrl": "https://id.example.com/.well-known/openid-configuration"
            }
        },
        "mtls": {"mtlsSecurityScheme": {"description": "A client certificate that the server trusts."}},
    }
    assert card["securityRequirements"] == [
        {"schemes": {"bearer": {"list": []}}},
        {"schemes": {"apiKey": {"list": []}}},
        {"schemes": {"openIdConnect": {"list": ["agents"]}}},
        {"schemes": {"mtls": {"list": []}}},
    ]


def test_an_agent_without_skills_has_one_derived_from_its_name() -> None:
    card = card_of({"agentCard": {"name": "R", "description": "Reviews."}})
    assert card["skills"] == [{"id": "reviewer", "name": "R", "description": "Reviews.", "tags": ["reviewer"]}]
    assert card["defaultInputModes"] == card["defaultOutputModes"] == ["text/plain"]
    assert "securitySchemes" not in card


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ({}, "http://localhost:3030"),
        ({"hostname": "0.0.0.0", "port": 4000}, "http://localhost:4000"),
        ({"advertiseHost": "a.example", "advertiseProtocol": "https"}, "https://a.example:3030"),
        ({"advertiseHost": "::1"}, "http://[::1]:3030"),
        ({"tls": {"certificateFile": "c", "keyFile": "k"}}, "https://localhost:3030"),
        ({"advertiseHost": "a.example", "publicUrl": "https://p.example/x/"}, "https://p.example/x"),
    ],
)
def test_the_url_is_the_configured_one(server: dict[str, Any], expected: str) -> None:
    assert base_url(make_agent({"server": server}).config.server) == expected


@pytest.mark.parametrize("document", [{}, FULL], ids=["defaults", "full"])
def test_the_hybrid_card_is_a_card_of_both_versions(document: dict[str, Any]) -> None:
    core = card_of(document)
    hybrid = hybrid_card(core)
    assert ParseDict(hybrid, pb.AgentCard(), ignore_unknown_fields=True) == ParseDict(core, pb.AgentCard())
    legacy = types03.AgentCard.model_validate(hybrid)
    assert legacy.url.endswith("/a2a/jsonrpc")
    assert legacy.preferred_transport == "JSONRPC"
    assert legacy.protocol_version == "0.3.0"
    assert [each.transport for each in legacy.additional_interfaces or []] == ["JSONRPC", "HTTP+JSON"]
    assert legacy.supports_authenticated_extended_card is core["capabilities"]["extendedAgentCard"]
    assert set(legacy.security_schemes or {}) == set(core.get("securitySchemes", {}))
    if document:
        assert legacy.security == [{"bearer": []}, {"apiKey": []}, {"openIdConnect": ["agents"]}, {"mtls": []}]


def test_without_v03_the_card_has_no_trace_of_it() -> None:
    core = core_card(make_agent({}), "http://h", [], legacy=False)
    assert {each["protocolVersion"] for each in core["supportedInterfaces"]} == {"1.0"}
    assert hybrid_card(core) == core


# --- over HTTP --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with (
        running(lambda: make_app(make_agent(FULL), sdk_handler())) as server,
        Client(base_url=server.url) as made,
    ):
        yield made


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("version", "hybrid"),
    [(None, True), ("", True), ("0.3", True), ("0.3.0", True), ("1.0", False), ("1.0.1", False), ("2.0", False)],
)
def test_the_shape_is_negotiated(client: Client, path: str, version: str | None, hybrid: bool) -> None:
    response = client.get(path, headers={} if version is None else {"A2A-Version": version})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert "A2A-Version" in response.headers["vary"]
    assert ("url" in response.json()) is hybrid
    assert "localhost" not in response.text


def test_the_card_is_cached_and_revalidated(client: Client) -> None:
    first = client.get(CARD)
    assert "max-age=" in first.headers["cache-control"]
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    pure = client.get(CARD, headers={"A2A-Version": "1.0"}).headers["etag"]
    assert etag != pure
    cases: list[tuple[dict[str, str], int]] = [
        ({"If-None-Match": etag}, 304),
        ({"If-None-Match": f'"other", W/{etag}'}, 304),
        ({"If-None-Match": "*"}, 304),
        ({"If-None-Match": '"other"'}, 200),
        ({"If-None-Match": etag, "A2A-Version": "1.0"}, 200),
        ({"If-Modified-Since": modified}, 304),
        ({"If-Modified-Since": "Mon, 01 Jan 2001 00:00:00 GMT"}, 200),
        ({"If-Modified-Since": "nonsense"}, 200),
        ({"If-None-Match": '"other"', "If-Modified-Since": modified}, 200),
    ]
    for headers, status in cases:
        response = client.get(CARD, headers=headers)
        assert response.status_code == status, headers
        assert response.headers["etag"]
        if status == 304:
            assert response.content == b""
    head = client.head(CARD)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", etag)
    assert head.headers["content-length"] == str(len(first.content))


FORWARDED = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "proxy.example", "X-Forwarded-Prefix": "/agent"}


@pytest.mark.parametrize(
    ("server", "headers", "expected"),
    [
        ({}, {"Host": "evil.example"}, "http://localhost:3030"),
        ({}, FORWARDED, "http://localhost:3030"),
        ({"trustedProxies": ["10.0.0.0/8"]}, FORWARDED, "http://localhost:3030"),
        ({"trustedProxies": ["127.0.0.0/8"]}, FORWARDED, "https://proxy.example/agent"),
        ({"trustedProxies": ["127.0.0.1/32"]}, {"X-Forwarded-Host": "spoofed, real.example:8443"}, "http://real.example:8443"),
        ({"trustedProxies": ["127.0.0.1/32"]}, {"X-Forwarded-Host": "a b"}, "http://localhost:3030"),
        ({"trustedProxies": ["127.0.0.1/32"]}, {"X-Forwarded-Host": "h", "X-Forwarded-Prefix": "/a?b"}, "http://h"),
        ({"trustedProxies": ["127.0.0.1/32"]}, {"X-Forwarded-Host": "h", "X-Forwarded-Proto": "gopher"}, "http://h"),
        ({"trustedProxies": ["127.0.0.1/32"]}, {"Host": "evil.example"}, "http://localhost:3030"),
        ({"trustedProxies": ["127.0.0.1/32"], "publicUrl": "https://p.example"}, FORWARDED, "https://p.example"),
    ],
)  # fmt: skip
def test_only_a_trusted_proxy_is_believed(server: dict[str, Any], headers: dict[str, str], expected: str) -> None:
    with (
        running(lambda: make_app(make_agent({"server": server}), sdk_handler())) as started,
        Client(base_url=started.url) as client,
    ):
        response = client.get(CARD, headers=headers)
    assert response.json()["url"] == f"{expected}/a2a/jsonrpc"
    believes = "trustedProxies" in server and "publicUrl" not in server
    assert ("X-Forwarded-Host" in response.headers["vary"]) is believes


# --- signatures -------------------------------------------------------------------------------------------------------


def private_jwk(algorithm: str) -> dict[str, Any]:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    key: Any
    if algorithm.startswith("ES"):
        key = ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])
    elif algorithm == "EdDSA":
        key = OKPKey.generate_key("Ed25519")
    else:
        key = RSAKey.generate_key(2048)
    exported: dict[str, Any] = key.as_dict(private=True)
    exported.pop("kid", None)
    return exported


def signed_agent(_algorithm: str, **signing: Any) -> Any:
    wanted = {"enabled": True, "privateKeyJwkEnvVar": "CARD_KEY", "algorithm": _algorithm, **signing}
    return make_agent({**FULL, "agentCard": {**FULL["agentCard"], "signing": wanted}})


def decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA"])
def test_a_signed_card_is_verified_by_others(algorithm: str) -> None:
    jwk = private_jwk(algorithm)
    environment = {"CARD_KEY": orjson.dumps(jwk).decode()}
    agent = signed_agent(algorithm, keyId="card-1")
    with (
        running(lambda: make_app(agent, sdk_handler(), environment=environment)) as server,
        Client(base_url=server.url) as client,
    ):
        pure = client.get(CARD, headers={"A2A-Version": "1.0"}).json()
        hybrid = client.get(CARD, headers={"Host": "evil.example"}).json()
    public = {key: value for key, value in jwk.items() if key not in ("d", "p", "q", "dp", "dq", "qi")}
    (signature,) = pure["signatures"]
    header = orjson.loads(decode(signature["protected"]))
    assert header == {"alg": algorithm, "kid": "card-1", "typ": "JOSE"}

    # a2a-sdk's own verification, of both shapes.
    verify = create_signature_verifier(lambda *_: PyJWK(public, algorithm=algorithm), [algorithm])
    verify(ParseDict(pure, pb.AgentCard()))
    verify(ParseDict(hybrid, pb.AgentCard(), ignore_unknown_fields=True))
    tampered = ParseDict({**pure, "name": "Mallory"}, pb.AgentCard())
    with pytest.raises(InvalidSignaturesError):
        verify(tampered)

    # Another implementation of JWS over the canonical form.
    payload = base64.urlsafe_b64encode(canonical(pure)).rstrip(b"=").decode()
    token = f"{signature['protected']}.{payload}.{signature['signature']}"
    verified = jws.deserialize_compact(token, KeySet([import_jwk({**public, "kid": "card-1"})]), algorithms=[algorithm])
    assert verified.payload == canonical(pure)


def test_the_canonical_form_is_rfc_8785_without_signatures_and_empty_values() -> None:
    card = {"b": 1, "a": {"y": "é", "x": []}, "signatures": [1], "c": "", "d": False, "e": [{"f": {}}], "\u20ac": 2}
    assert canonical(card) == '{"a":{"y":"é"},"b":1,"d":false,"€":2}'.encode()
    assert canonical(card_of({})) == rfc8785.dumps(card_of({}))


def test_a_card_is_signed_once() -> None:
    jwk = private_jwk("ES256")
    environment = {"CARD_KEY": orjson.dumps(jwk).decode()}
    with (
        running(lambda: make_app(signed_agent("ES256"), sdk_handler(), environment=environment)) as server,
        Client(base_url=server.url) as client,
    ):
        cards = [client.get(CARD, headers=headers).json() for headers in ({}, {"A2A-Version": "1.0"}, {})]
    # ECDSA signatures are random: another one at each request would defeat every cache.
    assert cards[0] == cards[2]
    assert cards[0]["signatures"] == cards[1]["signatures"]
    assert orjson.loads(decode(cards[1]["signatures"][0]["protected"]))["kid"] == thumbprint(jwk)


def test_the_thumbprint_is_that_of_rfc_7638() -> None:
    n = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"  # noqa: E501
    assert thumbprint({"kty": "RSA", "n": n, "e": "AQAB"}) == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


def _jwk_text(**changes: Any) -> str:
    return orjson.dumps({**private_jwk("ES256"), **changes}).decode()


@pytest.mark.parametrize(
    ("signing", "environment", "says"),
    [
        ({"privateKeyJwkEnvVar": None}, {}, "privateKeyJwkEnvVar"),
        ({}, {}, "CARD_KEY"),
        ({}, {"CARD_KEY": "not JSON"}, "CARD_KEY"),
        ({}, {"CARD_KEY": "[]"}, "member d"),
        ({}, {"CARD_KEY": '{"kty":"EC"}'}, "member d"),
        ({}, {"CARD_KEY": '{"kty":"EC","d":"x"}'}, "ES256"),
        ({"algorithm": "RS256"}, {"CARD_KEY": _jwk_text()}, "RS256"),
        ({}, {"CARD_KEY": _jwk_text(kty="oct", k="c2VjcmV0")}, "ES256"),
    ],
)
def test_a_key_that_cannot_sign_is_named_and_not_shown(
    signing: dict[str, Any], environment: dict[str, str], says: str
) -> None:
    agent = signed_agent("ES256", **signing)
    with pytest.raises(SigningError) as caught:
        make_app(agent, sdk_handler(), environment=environment)
    assert says in str(caught.value)
    for value in environment.values():
        assert value not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_card_that_is_not_to_be_signed_needs_no_key() -> None:
    assert signer_for(make_agent({}).config.agent_card.signing, {}) is None


def test_keys_of_the_field_are_understood() -> None:
    """A JWK written by hand from a key that openssl or cryptography made."""
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.private_numbers()

    def text(number: int) -> str:
        return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()

    public = numbers.public_numbers
    jwk = {"kty": "EC", "crv": "P-256", "x": text(public.x), "y": text(public.y), "d": text(numbers.private_value)}
    signer = signer_for(signed_agent("ES256").config.agent_card.signing, {"CARD_KEY": orjson.dumps(jwk).decode()})
    assert signer is not None
    assert set(signer.sign({"name": "x"})) == {"protected", "signature"}

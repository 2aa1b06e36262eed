"""An answer without credentials, whole and in pieces."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.observe.redaction import REDACTED, Redactor, StreamRedactor

SECRETS = ("correct-horse-battery", "two words secret", "line one\nline two", "geheim-密码密码密码密")
BASE64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"
CREDENTIALS = (
    *SECRETS,
    "ghp_0123456789abcdefghij0123",
    "sk-ant-api03-abcdefghijklmnop0123",
    "Authorization: Bearer abcdef0123456789",
    "authorization=token  abcdef0123456789",
    "bearer abcdef0123456789",
    "https://user:hunter2x@example.org/",
    "https://example.org/?token=abcdef01",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BASE64}\nab12==\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\\n{BASE64}\\nab12==\\n-----END PRIVATE KEY-----",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BASE64}\n{BASE64}",
)
HARMLESS = (
    "token = next(tokens)",
    "****",
    "** bold **",
    "a key: value",
    "日本語の文章です",
    "bearer",
    "one\ntwo",
    " ",
    "  ",
    "=",
)
TEXT = st.lists(st.sampled_from([*CREDENTIALS, *HARMLESS, "two words", "correct-horse", "ghp_", "密"]), max_size=12)


def in_pieces(text: str, cuts: list[int], bound: int = 4096) -> str:
    stream = StreamRedactor(Redactor(SECRETS), bound)
    places = sorted({0, len(text), *(each % (len(text) + 1) for each in cuts)})
    pieces = [stream.feed(text[start:end]) for start, end in itertools.pairwise(places)]
    return "".join([*pieces, stream.finish()])


@given(TEXT, st.sampled_from(["", " ", "\n", ", "]), st.lists(st.integers(0, 2000), max_size=30))
@settings(max_examples=300, deadline=None)
def test_pieces_give_what_the_whole_gives_wherever_they_are_cut(parts: list[str], glue: str, cuts: list[int]) -> None:
    text = glue.join(parts)
    assert in_pieces(text, cuts) == Redactor(SECRETS).answer(text)


@pytest.mark.parametrize("text", CREDENTIALS)
def test_no_cut_lets_a_credential_through(text: str) -> None:
    said = f"before {text} after"
    whole = Redactor(SECRETS).answer(said)
    assert REDACTED in whole
    for cut in range(len(said)):
        assert in_pieces(said, [cut]) == whole
    assert in_pieces(said, list(range(len(said)))) == whole


@pytest.mark.parametrize("text", ["****", "****bold****", "token = next(tokens)", "password: see the vault", "key=1"])
def test_what_is_no_credential_stays_as_it_is(text: str) -> None:
    assert Redactor(SECRETS).answer(text) == text


def test_what_is_held_back_is_bounded_and_a_long_credential_goes_to_its_end() -> None:
    stream = StreamRedactor(Redactor(), bound=64)
    told = [stream.feed("ghp_" + "a1" * 20)] + [stream.feed("b2" * 20) for _ in range(10)] + [stream.feed(" after ")]
    assert "".join([*told, stream.finish()]) == f"{REDACTED} after "
    key = "-----BEGIN PRIVATE KEY-----\n" + f"{BASE64}\n" * 5
    stream = StreamRedactor(Redactor(), bound=64)
    told = [stream.feed(each) for each in (key, BASE64, f"\n{BASE64}\n", "-----END PRIVATE KEY----- after ")]
    assert "".join([*told, stream.finish()]) == f"{REDACTED}\n-----END PRIVATE KEY----- after "
    stream = StreamRedactor(Redactor(), bound=64)
    assert len("".join(stream.feed("word" * 10) for _ in range(10))) >= 400 - 64


def test_scripts_without_spaces_are_not_held_back() -> None:
    stream = StreamRedactor(Redactor())
    assert stream.feed("日本語の文章です") == "日本語の文章で"

"""Redaction: what is taken out, what is left, and how much work a hostile text can make of it."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.config import credentials
from a2a_claude.observe import redaction
from a2a_claude.observe.redaction import REDACTED, Redactor
from tests.regex_steps import Steps

ROOT = Path(__file__).parent.parent
S, W = "S3cr3tS3cr3tS3cr3t", "hunter-two-words"
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ"

HOLDS_SECRET = [
    f'{{"api_key": "{S}"}}',
    f"{{'api_key': '{S}'}}",
    f'{{"dbPassword":"two {W}"}}',
    f'{{\\"password\\": \\"two {W}\\", \\"a\\": 1}}',
    f'"{{\\\\\\"password\\\\\\": \\\\\\"two {W}\\\\\\"}}"',
    f"-H 'x-api-key:{S}'",
    f'-H "Authorization: Token {S}"',
    f"postgres://user:{S}@host/db",
    "https://u:abc@host/",
    f"redis://:{S}@host",
    f"curl -u user:{S} https://x",
    f"curl -sS --user 'user:{S}' https://x",
    f"mysql -u root -p{S} db",
    f"sshpass -p {S} ssh host",
    f"machine host login me password {S}",
    f"--token '{S} and {W}'",
    f'--token "{S} and {W}" --verbose',
    f"--client-secret={S}",
    f"mysqldump --password {S}",
    f"export A_TOKEN='{S} {W}'",
    f'TOKEN="esc\\" {W}"',
    f'TOKEN="cut off {W}',
    f"password: 'it''s {W}'",
    f"password=abc{S};x",
    "password=abc",
    "password: hunter",
    f"token => '{S}'",
    f'token := "{S}"',
    f"if password == '{S}':",
    f'if password != "{S}":',
    f"secret: |\n  {S}\n  {W}\nnext: 1",
    f"<password>{S}</password>",
    f"Cookie: session={S}; b={W}",
    f"Set-Cookie: sid={S}; Path=/",
    f"https://s3/x?X-Amz-Signature={S}&a=b",
    f"//registry.npmjs.org/:_authToken={S}",
    f"AccountKey={S}==;EndpointSuffix=core",
    f"PGPASSWORD={S} psql",
    f"error: token={S}",
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{LINE}\nab{S}==\n-----END RSA PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\\n{LINE}\\nab{S}==\\n-----END PRIVATE KEY-----\\n",
    f"  -----BEGIN OPENSSH PRIVATE KEY-----\n  {LINE}\n  b3Bl{S}\n",
    f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{LINE}\n=ab{S[:2]}\n-----END PGP PRIVATE KEY BLOCK-----",
    "ghp_0123456789abcdefghij0123456789abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    f"sk-ant-api03-{S}{S}",
    f"xoxb-123456789012-{S}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("text", HOLDS_SECRET)
def test_a_credential_is_taken_out_wherever_it_stands(text: str) -> None:
    redacted = Redactor().text(f"before {text}\nafter")
    assert REDACTED in redacted
    for secret in (S, W, LINE, "abc@", "=abc", "hunter", "ghp_", "AKIA", "c2lnbmF0dXJl"):
        assert secret not in redacted
    assert redacted.startswith("before ")
    assert redacted.endswith(("after", "after\n")) or "\n" not in redacted.removesuffix("\nafter")
    assert Redactor().text(redacted) == redacted


HOLDS_NONE = [
    "key: id",
    "the password is checked, and the token is refreshed",
    "token: a string that stands for a session",
    "Password: required. The secret: nobody knows.",
    "authorization is the business of the gateway",
    "12 tests pass: 10, fail: 2",
    "pass: 120 fail=3",
    "token = next(tokens)",
    "password = getpass.getpass()",
    "token = self.token",
    "api_key = os.environ['API_KEY']",
    "headers = {'Authorization': f'Bearer {token}'}",
    "def login(user: str, password: str, token: str | None = None) -> None:",
    "interface Login { user: string; password: string }",
    "connect(password=password, token=access_token)",
    "secret: ${SECRET}",
    "password: $PASSWORD",
    'password: ""',
    "token = tokens[0]",
    "token: <your token>",
    'logger.info("token=%s", token)',
    "mysql -u root db",
    "cp -pr a b; mkdir -p c; docker run -u 1000:1000 image",
    "--password-file /run/secrets/password --key-count=12",
    "http://user@host/path?page=2&sort=name",
    "-----BEGIN CERTIFICATE-----",
    'if "-----BEGIN" in text:',
    "**** four stars, and ** bold **",
    "<title>The password</title>",
    "max_tokens=4096, input_tokens: 12",
    "git commit -m 'key: value pairs'",
    "input('Enter the password: ')",
    'prompt("Token: ", label="Password: ")',
    "Token = Ignore + PlainToken",
    "`LoadCredential=` from `/etc/a2a-claude`",
    'headers: {Authorization: "Bearer ${LINEAR_API_KEY}", "X-Token": "{token}"}',
    "日本語: パスワードの説明",
]


@pytest.mark.parametrize("text", HOLDS_NONE)
def test_prose_and_code_stay_as_they_are(text: str) -> None:
    assert Redactor().text(text) == text


def test_few_lines_of_ordinary_code_and_prose_are_touched() -> None:
    """Python's own library and this project's pages: what is taken out there are examples of credentials."""
    library = Path(sysconfig.get_path("stdlib"))
    names = ["getpass.py", "imaplib.py", "secrets.py", "smtplib.py", "ssl.py", "tokenize.py", "urllib/request.py"]
    files = [*(library / name for name in names), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    redactor = Redactor()
    touched = [line for line in lines if redactor.text(line) != line]
    assert len(lines) > 8000
    assert len(touched) * 400 < len(lines), "\n".join(touched)


PIECES = st.one_of(
    st.sampled_from(
        [*HOLDS_SECRET, *HOLDS_NONE, "password", "token", "=", ":", '"', "'", "\\", "\n", " ", "--", "<", ">"]
    ),
    st.text(max_size=12),
)


@given(st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_is_redacted_once_and_for_all(text: str) -> None:
    redactor = Redactor(["a-known-secret"])
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert "a-known-secret" not in redactor.text(f"{text} a-known-secret {text}")


@given(st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=12, max_size=40), st.data())
@settings(max_examples=150, deadline=None)
def test_a_value_behind_a_name_is_taken_out_in_every_notation(value: str, data: st.DataObject) -> None:
    value += "7x"
    name = data.draw(st.sampled_from(["password", "api_key", "apiKey", "DB_PASSWORD", "client-secret", "X-Auth-Token"]))
    form = data.draw(st.sampled_from(["{n}={v}", "{n}: {v}", '"{n}":"{v}"', '{n} = "{v}"', "{n}='{v} x'", "--{n} {v}"]))
    before, after = data.draw(st.sampled_from([("", ""), ("a ", " b"), ("{", "}"), ("\n", "\n")]))
    if form.startswith("--"):
        name, before = "client-secret", " "
    assert value not in Redactor().text(before + form.format(n=name, v=value) + after)


# --- Excerpts ---------------------------------------------------------------------------------------------------------


def test_an_excerpt_is_bounded_and_says_how_long_the_text_is() -> None:
    assert Redactor().excerpt("short", 10) == "short"
    assert Redactor().excerpt("a" * 10, 10) == "a" * 10
    assert Redactor().excerpt("word " * 10_000, 10) == "word word … [50000 characters]"
    assert Redactor().excerpt("x" * 50_000, 10) == "xxxxxxxxxx… [50000 characters]"


@given(st.integers(0, 60), st.sampled_from(["ghp_0123456789abcdefghij0123", f"password='{S} {W}'", f"token={S}"]))
@settings(max_examples=150, deadline=None)
def test_no_bound_of_an_excerpt_lets_a_part_of_a_credential_through(at: int, secret: str) -> None:
    for longer in (0, 6000):
        text = "w " * 30 + secret + " w" * longer
        for most in (60 + at, 60 + at - 4096):
            told = Redactor().excerpt(text, max(most, 1))
            assert not re.search(r"ghp_|S3cr|hunter", told)


# --- Work -------------------------------------------------------------------------------------------------------------

PATTERNS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in (credentials, redaction)
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}
UNITS = [
    "aa=",
    'a="',
    "a=\\'",
    'token="',
    "token='\\",
    "token: ",
    "token\\\\",
    "--token ",
    '--token "',
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
    "A" * 20 + "\n",
    "curl -u ",
    "curl -u a",
    "mysql ",
    "login a password ",
    "cookie: a",
    "cookie:a=",
    "<ab>",
    "<token>a",
    "?sig=",
    "&a=",
    "http://",
    "a://b:",
    "bearer ",
    "authorization: bearer ",
    "eyJaaaaaaaaa.",
    "sk-",
    "x" * 10,
    " ",
    "\n ",
    "|\n  a\n",
    "token: |\n a",
    "-",
    "\\",
    "\"'",
    "[ab.",
    "日本",
]


# These are only ever matched at one place.
ANCHORED = ("_CODE", "_WORD_OF_MANY", "_PLACEHOLDER", "_ENDS", "_LETTERS", "_VALUE", "_PEM_REST", "_WORD_REST")


def steps(pattern: re.Pattern[str], text: str, *, anchored: bool = False) -> int:
    counter = Steps(pattern)
    counter.spans(text, most=1 if anchored else len(text) + 1)
    return counter.count


@pytest.mark.parametrize("name", PATTERNS)
def test_the_work_of_a_pattern_grows_as_its_text_does(name: str) -> None:
    """Twice the text is about twice the steps: four times would be quadratic."""
    pattern, anchored = PATTERNS[name], name.endswith(ANCHORED)
    for unit in UNITS:
        times = max(1, 150 // len(unit))
        once, twice = (steps(pattern, unit * count, anchored=anchored) for count in (times, 2 * times))
        assert twice < 3 * once + 200, f"{unit!r}: {once} steps, then {twice}"


def test_the_counter_sees_work_that_explodes() -> None:
    assert steps(re.compile(r"(?:a|a)*b"), "a" * 12) > 40 * steps(re.compile(r"(?:a|a)*b"), "a" * 6)
    assert steps(re.compile(r"a+b"), "a" * 160) > 10 * steps(re.compile(r"a+b"), "a" * 40)


@pytest.mark.parametrize("name", PATTERNS)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_the_counter_matches_as_python_does(name: str, data: st.DataObject) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from([*HOLDS_SECRET, *UNITS]), max_size=4)))
    pattern = PATTERNS[name]
    found = [match.span() for match in pattern.finditer(text) if match[0]]
    assert [span for span in Steps(pattern).spans(text) if span[0] < span[1]] == found


def test_the_passes_over_a_text_do_not_add_up_to_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """`_without_named` searches again and again: each search begins where the one before ended."""

    class Counted:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self.pattern, self.read = pattern, 0

        def search(self, text: str, at: int) -> re.Match[str] | None:
            return self._note(self.pattern.search(text, at), text, at)

        def match(self, text: str, at: int) -> re.Match[str] | None:
            return self._note(self.pattern.match(text, at), text, at)

        def _note(self, match: re.Match[str] | None, text: str, at: int) -> re.Match[str] | None:
            self.read += (match.end() if match else len(text)) - at
            return match

    named, value = Counted(redaction._NAMED), Counted(redaction._VALUE)
    monkeypatch.setattr(redaction, "_NAMED", named)
    monkeypatch.setattr(redaction, "_VALUE", value)
    for unit in UNITS:
        text = unit * 300
        named.read = value.read = 0
        redaction._without_named(text)
        assert named.read + value.read <= 3 * len(text), unit

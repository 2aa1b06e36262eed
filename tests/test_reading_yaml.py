"""YAML is read only where YAML 1.1 and 1.2 agree; whatever else stands in a file is told at its place, and cheaply."""

from __future__ import annotations

import io
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError as RuamelError

from a2a_claude.config.diagnostics import MAX_PROBLEMS
from a2a_claude.config.node import Entry
from a2a_claude.config.reader import read_file, read_source
from a2a_claude.config.scalars import resolve_plain
from a2a_claude.config.source import Source

MIB = 1 << 20


def read(text: str) -> tuple[Any, list[tuple[str, str]]]:
    """The value of a document and its problems, as rule and `line:column`."""
    node, problems = read_source(Source("agent.yaml", text))
    places = [(each.rule, str(each.span).removeprefix("agent.yaml:")) for each in problems]
    return node.plain() if node is not None else None, places


# --- Defined behaviour ------------------------------------------------------------------------------------------------

READ: list[tuple[str, str, Any]] = [
    ("an empty file", "", {}),
    ("only comments", "# one\n\n# two\n", {}),
    ("only a null", "~\n", {}),
    ("CRLF", "a: b\r\nc: d\r\n", {"a": "b", "c": "d"}),
    ("lone CR", "a: b\rc: d\r", {"a": "b", "c": "d"}),
    ("a tab between key and value", "a:\tb", {"a": "b"}),
    ("a directive", "%YAML 1.2\n---\na: b\n", {"a": "b"}),
    ("a tag directive", "%TAG !e! tag:yaml.org,2002:\n---\na: !e!str 1\n", {"a": "1"}),
    ("the tags of JSON", 'a: !!str 1\nb: !!int "1"\nc: !!float 1\nd: !!null ""\ne: !!bool true\nf: !!map {}', None),
    ("an explicit key", "? a\n: b", {"a": "b"}),
    ("an end marker", "a: b\n...\n", {"a": "b"}),
    ("an alias", "a: &x {b: c}\nd: *x", {"a": {"b": "c"}, "d": {"b": "c"}}),
    ("an alias as key", "a: &x b\n*x : c", {"a": "b", "b": "c"}),
    ("an anchor used again", "a: &x 1\nb: *x\nc: &x 2\nd: *x", {"a": 1, "b": 1, "c": 2, "d": 2}),
    ("a merge", "a: &x {b: 1, c: 1}\nd: {<<: *x, c: 2}", {"a": {"b": 1, "c": 1}, "d": {"b": 1, "c": 2}}),
    ("a merge of several", "a: &x {b: 1}\nc: &y {b: 2, d: 2}\ne: {<<: [*x, *y]}", None),
    ("a merge of what merged", "a: &x {b: 1}\nc: &y {<<: *x, d: 2}\ne: {<<: *y}", None),
    ("a quoted <<", 'a: {"<<": b}', {"a": {"<<": "b"}}),
    ("a block with an indicator", "a: |2-\n   b\n  c\n", {"a": " b\nc"}),
    ("words that look like numbers", "a: [1.2.3, 1a, 0x, +, 12e, 3:99, '0755', \"no\"]", None),
    ("a smiley by its escapes", r'a: "\U0001F600"', {"a": "\U0001f600"}),
]


@pytest.mark.parametrize(("text", "value"), [case[1:] for case in READ], ids=[case[0] for case in READ])
def test_what_versions_agree_on_is_read(text: str, value: Any) -> None:
    assert read(text) == (yaml.safe_load(text) or {} if value is None else value, [])


# --- Named errors -----------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, str, str, str]] = [
    ("a duplicate key", "a: 1\na: 2", "duplicate-key", "2:1"),
    ("a duplicate key by another spelling", 'a: 1\n"a": 2', "duplicate-key", "2:1"),
    ("two merges", "a: &x {b: 1}\nc:\n  <<: *x\n  <<: *x", "duplicate-key", "4:3"),
    ("no", "a: no", "ambiguous-scalar", "1:4"),
    ("on as a key", "on: a", "ambiguous-scalar", "1:1"),
    ("octal", "a: 0755", "ambiguous-scalar", "1:4"),
    ("octal of 1.2", "a: 0o755", "ambiguous-scalar", "1:4"),
    ("base 60", "a: 22:22", "ambiguous-scalar", "1:4"),
    ("an exponent", "a: 1e3", "ambiguous-scalar", "1:4"),
    ("thousands", "a: 1_000", "ambiguous-scalar", "1:4"),
    ("binary", "a: 0b11", "ambiguous-scalar", "1:4"),
    ("a date", "a: 2001-01-01", "ambiguous-scalar", "1:4"),
    ("a date over two lines", "a: 2001-01-01 1\n\n  b", "ambiguous-scalar", "1:4"),
    ("the default key", "a: =", "ambiguous-scalar", "1:4"),
    ("a merge as value", "a: <<", "ambiguous-scalar", "1:4"),
    ("not a number", "a: .nan", "number-range", "1:4"),
    ("infinity", "a: -.inf", "number-range", "1:4"),
    ("65 bits", "a: 18446744073709551616", "number-range", "1:4"),
    ("a float too large", "a: 1.0e+999", "number-range", "1:4"),
    ("a number as key", "1: a", "key-not-string", "1:1"),
    ("true as key", "true: a", "key-not-string", "1:1"),
    ("nothing as key", "? \n: a", "key-not-string", "1:2"),
    ("a list as key", "[a]: b", "key-not-string", "1:1"),
    ("a mapping as key", "? {a: b}\n: c", "key-not-string", "1:3"),
    ("a Python object", "a: !!python/object:os.system b", "yaml-tag", "1:4"),
    ("a tag of one's own", "a: !mine b", "yaml-tag", "1:4"),
    ("the tag of no type", "a: ! 1", "yaml-tag", "1:4"),
    ("binary data", "a: !!binary aGk=", "yaml-tag", "1:4"),
    ("a set", "a: !!set {b}", "yaml-tag", "1:4"),
    ("an ordered map", "a: !!omap [b: c]", "yaml-tag", "1:4"),
    ("a number that is none", "a: !!int b", "yaml-tag", "1:4"),
    ("a second document", "a: b\n---\nc: d", "second-document", "2:1"),
    ("an alias without anchor", "a: *x", "yaml-alias", "1:4"),
    ("an alias to itself", "a: &x [*x]", "yaml-alias", "1:8"),
    ("a merge of itself", "a: &x {<<: *x}", "yaml-alias", "1:12"),
    ("a merge of a list of text", "a: {<<: [b]}", "yaml-alias", "1:10"),
    ("a merge of nothing", "a: {<<: }", "yaml-alias", "1:9"),
    ("a tab", "a:\n\tb: c", "yaml-tab", "2:1"),
    ("a colon", "a: b: c", "yaml-colon", "1:4"),
    ("an open bracket", "a: [b", "yaml-syntax", "1:6"),
    ("an open quote", 'a: "b', "yaml-syntax", "1:6"),
    ("half a character", r'a: "\ud83d"', "yaml-syntax", "1:7"),
    ("another version", "%YAML 2.0\n---\na: b", "yaml-syntax", "1:1"),
    ("text alone", "hello", "not-a-mapping", "1:1"),
    ("a list alone", "- a", "not-a-mapping", "1:1"),
    ("deep nesting", "a: " + "[" * 64 + "]" * 64, "too-deep", "1:67"),
    ("deeper than the parser goes", "[" * 5000, "too-deep", "1:1001"),
]


@pytest.mark.parametrize(("text", "rule", "where"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_the_rest_is_named_at_its_place(text: str, rule: str, where: str) -> None:
    assert read(text)[1] == [(rule, where)]


BYTES: list[tuple[str, bytes, str | None, str]] = [
    ("a BOM", b"\xef\xbb\xbfa: b", None, ""),
    ("a BOM in the middle", b"a: \xef\xbb\xbfb", "control-character", "1:4"),
    ("UTF-16", "a: b".encode("utf-16"), "not-utf-8", "1:1"),
    ("Latin-1", b"a: \xfc", "not-utf-8", "1:4"),
    ("a surrogate in UTF-8", b"a: \xed\xa0\x80", "not-utf-8", "1:4"),
    ("an overlong slash", b"a: \xc0\xaf", "not-utf-8", "1:4"),
    ("NUL", b"a: b\nc: \x00", "control-character", "2:4"),
    ("escape", b"a: \x1b[31m", "control-character", "1:4"),
    ("next line", "a: \x85".encode(), "control-character", "1:4"),
    ("line separator", "a: \u2028".encode(), "control-character", "1:4"),
    ("paragraph separator", "a: \u2029".encode(), "control-character", "1:4"),
    ("right to left", "a: \u202e".encode(), "control-character", "1:4"),
    ("a byte too many", b"#" * (MIB + 1), "file-too-large", "1:1"),
]


@pytest.mark.parametrize(("data", "rule", "where"), [case[1:] for case in BYTES], ids=[case[0] for case in BYTES])
def test_bytes_that_are_no_text_are_named(data: bytes, rule: str | None, where: str, tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_bytes(data)
    node, problems = read_file(file, "agent.yaml")
    assert [(each.rule, str(each.span)) for each in problems] == ([(rule, f"agent.yaml:{where}")] if rule else [])
    assert (node is not None and node.plain()) == ({"a": "b"} if rule is None else False)


def test_the_place_of_a_value_by_an_alias_is_where_it_is_written() -> None:
    node, _ = read_source(Source("agent.yaml", "x-a: &x\n  é😀: {b: value}\nc: *x"))
    assert node is not None
    found = node.find(("c", "é😀", "b"))
    assert isinstance(found, Entry)
    assert str(found.node.span) == "agent.yaml:2:11"


def test_reading_stops_when_nearly_everything_is_wrong() -> None:
    _, problems = read("a: 1\n" * 10_000)
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == ("too-many-problems", f"{MAX_PROBLEMS + 2}:1")


# --- Cost -------------------------------------------------------------------------------------------------------------


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    return "\n".join(lines)


HOSTILE: list[tuple[str, str]] = [
    ("an alias bomb", bomb()),
    ("anchors on anchors", "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000))),
    ("brackets", "[" * MIB),
    ("dashes", "- " * (MIB // 2)),
    ("mappings", "{a: " * (MIB // 4)),
    ("question marks", "? " * (MIB // 2)),
    ("a long line", "x-a: " + "a" * (MIB - 9)),
    ("a long key", '? "' + "a" * (MIB - 99) + '"\n: 1'),
    ("a long scheme", f"mcp: {{a: {{type: http, url: {'a' * (MIB - 99)}}}}}"),
    ("half tokens", f"mcp: {{a: {{type: http, url: {'eyJaaaaaaaaa-' * (MIB // 14)}}}}}"),
    ("open references", f"mcp: {{a: {{type: http, url: '{'${A:-' * (MIB // 6)}'}}}}"),
    ("references", f"mcp: {{a: {{type: http, url: '{'$A ' * (MIB // 4)}'}}}}"),
    ("dashes before a colon", "a: b\n  " + "- " * (MIB // 2 - 99) + "x:y: z"),
    ("a long date", "x-a: 2001-01-01 " + "1" * (MIB - 99) + "\n\n  x"),
    ("a long number", "server: {port: " + "1" * (MIB - 99) + "}"),
    ("a long port to publish", "deploy: {compose: {publish: '" + "1" * (MIB - 99) + "'}}"),
    ("a long fraction", "server: {port: 0." + "1" * (MIB - 99) + "}"),
    ("many keys", "".join(f"k{n}: 1\n" for n in range(90_000))),
    ("many duplicates", "a: 1\n" * 100_000),
    ("many duplicates on a long line", "{" + "a: 1, " * 9900 + "x-p: " + "b" * 900_000 + "}"),
    ("many unknown keys", "claude:\n" + "".join(f"  permissionMod{n}: 1\n" for n in range(9000))),
    ("many wrong items", "claude: {allowedTools: [" + "1, " * 19_000 + "]}"),
    ("many ambiguous items", "x-a: [" + "no, " * 19_900 + "b" * 900_000 + "]"),
]
ALLOWED = 100 << 20


def _limited() -> None:
    # What Python and its libraries map before they read anything is about as much again.
    resource.setrlimit(resource.RLIMIT_AS, (3 * ALLOWED, 3 * ALLOWED))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def test_no_file_costs_much_memory_or_is_answered_by_a_traceback(tmp_path: Path) -> None:
    """All in one process: what the first leaves behind counts against the next. The processor's limit is no measure of
    speed, but what was quadratic took hours."""
    for number, (_, text) in enumerate(HOSTILE):
        folder = tmp_path / "agents" / f"a{number}"
        folder.mkdir(parents=True)
        (folder / "agent.yaml").write_text(text[:MIB], "utf-8")
    program = (
        "import sys\nfrom click.testing import CliRunner\nfrom a2a_claude.cli import main\n"
        "CliRunner().invoke(main, ['validate', 'missing'])\n"
        "for number in range(int(sys.argv[1])):\n"
        "    done = CliRunner().invoke(main, ['validate', f'agents/a{number}'])\n"
        "    known = done.exception is None or isinstance(done.exception, SystemExit)\n"
        "    print(done.exit_code if known else repr(done.exception), len(done.output))\n"
        # getrusage(2) would count what pytest held before it became this program.
        "peak = open('/proc/self/status').read().split('VmHWM:')[1].split()[0]\n"
        "print(int(peak) << 10)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(len(HOSTILE))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=_limited,
        check=False,
        env={"PYTHONPATH": str(Path(__file__).parent.parent), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, most = done.stdout.splitlines()
    for (name, _), line in zip(HOSTILE, lines, strict=True):
        code, printed = line.split()
        assert code in ("0", "1"), name
        assert int(printed) < 200_000, name
    assert int(most) < ALLOWED


# --- Other readers as oracles -----------------------------------------------------------------------------------------

SCALARS = st.text(alphabet="0123456789+-._:eExXobtTfFnNyYsSaAlLuU~=<> #", max_size=12) | st.sampled_from(
    ["yes", "No", "null", "NULL", "true", "Off", "0o17", "1_0", "1:30", "2001-12-14t21:59:43", ".5", "-.5", "1.", "<<"]
)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, width=32)
    | WORDS
    | SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


def by_version_1_1(text: str) -> Any:
    return yaml.safe_load(text)


def by_version_1_2(text: str) -> Any:
    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 2)
    return reader.load(text)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def verdicts(text: str) -> list[Any]:
    """What the oracles read; nothing of one that refuses the document, since each has gaps of its own."""
    found = []
    for read_by in (by_version_1_1, by_version_1_2):
        try:
            found.append(read_by(text) or {})
        except (yaml.YAMLError, RuamelError, ValueError, AttributeError, io.UnsupportedOperation):
            continue
    return found


@given(SCALARS)
@settings(max_examples=1000)
def test_a_plain_scalar_that_is_accepted_is_the_same_in_both_versions(text: str) -> None:
    node, problems = read_source(Source("agent.yaml", f"a: {text}"))
    if node is not None and not problems:
        for value in verdicts(f"a: {text}"):
            assert same(node.plain(), value)


@given(
    st.dictionaries(WORDS, VALUES, max_size=4),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, "'", '"', "|", ">"]),
    st.integers(10, 80),
)
@settings(max_examples=300)
def test_a_dumped_document_that_is_accepted_reads_as_both_versions_read_it(
    value: dict[str, Any], flow: bool | None, style: str | None, width: int
) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, default_style=style, width=width, allow_unicode=True)
    node, problems = read_source(Source("agent.yaml", text))
    if node is not None and not problems:
        assert same(node.plain(), by_version_1_1(text))
        for other in verdicts(text):
            assert same(node.plain(), other)


PIECES = st.sampled_from(
    [
        *("a: ", "b: ", "- ", "? ", ": ", "\n", "\n  ", "\n    ", "\t", "&x ", "*x", "<<: *x", "{", "}", "[", "]", ","),
        *("'", '"', "|\n", ">-\n", "# c", "!!str ", "!t ", "---", "...", "%", "@", "\\", "1", "no", "true", "é", "😀"),
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join))
@settings(max_examples=1000)
def test_no_document_ends_in_a_traceback_and_both_versions_agree_on_those_accepted(text: str) -> None:
    node, problems = read_source(Source("agent.yaml", text))
    assert node is not None or problems
    for each in problems:
        assert 0 <= each.span.line < len(each.span.source.starts)
        assert each.message
        assert each.hint
    if node is not None and not problems:
        for other in verdicts(text):
            assert same(node.plain(), other)


@pytest.mark.parametrize("text", ["12", "-0", "+1", "0x1F", "1.5", ".5", "1.", "-1.5e+3", "null", "~", "", "True"])
def test_plain_scalars_that_both_versions_read_alike_are_accepted(text: str) -> None:
    value, problem = resolve_plain(text)
    assert problem is None
    assert same(value, by_version_1_1(text))
    assert same(value, by_version_1_2(text))

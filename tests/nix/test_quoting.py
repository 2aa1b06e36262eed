"""The NixOS module's own reading and writing of text: like the compiler's, or a named refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.config.references import BadReference, Reference, parse
from a2a_claude.targets import Unrenderable, systemd_syntax
from a2a_claude.targets.template import Quoted
from tests.nix.hosts import Host
from tests.nix.installation import PROJECT, library_of, nix_of

PRINTABLE = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), min_size=1, max_size=30)
SPECIAL = st.text(st.sampled_from("""ab/%$\\"':;#{}-?_ é"""), min_size=1, max_size=20)


@pytest.fixture(scope="module", params=["machine-stub", "machine-nixpkgs", "trixie-stub", "trixie-nixpkgs"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    place, library = request.param.split("-")
    return Host(nix_of(place, tmp_path_factory.mktemp("nix")), library_of(library))


def quoted(text: str, by: str) -> Quoted | None:
    """What the systemd target writes, None when it refuses."""
    try:
        match by:
            case "line":
                return systemd_syntax.line(text, "x")
            case _:
                return systemd_syntax.word(text, "x")
    except Unrenderable:
        return None


@settings(max_examples=5, deadline=None)
@given(texts=st.lists(PRINTABLE | SPECIAL, min_size=60, max_size=60))
def test_units_are_quoted_like_the_systemd_target_does(host: Host, texts: list[str]) -> None:
    batch = {by: [each for each in texts if quoted(each, by)] for by in ("line", "word")}
    (host.nix.folder / "texts.json").write_text(json.dumps(batch))
    made = host.nix.evaluate(f"""
        let
          systemd = import {PROJECT}/nix/systemd.nix {{ lib = import {host.library}; }};
          texts = builtins.fromJSON (builtins.readFile {host.nix.folder}/texts.json);
        in {{
          line = map systemd.line texts.line;
          word = map systemd.word texts.word;
        }}
    """)
    assert made == {by: [quoted(each, by) for each in of] for by, of in batch.items()}


@pytest.mark.parametrize("function", ["line", "word"])
def test_a_line_break_does_not_reach_a_unit(host: Host, function: str) -> None:
    said = host.nix.refusal(
        f'(import {PROJECT}/nix/systemd.nix {{ lib = import {host.library}; }}).{function} "/a\\nB=c"'
    )
    assert "control character" in said


@settings(max_examples=5, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["$$", "$", "${A}", "${B_1:-x y}", "${C:?no}", "$D", "{", "}", "a", "/", " "])).map(
            "".join
        ),
        min_size=60,
        max_size=60,
    )
)
def test_references_are_read_like_the_compiler_does(host: Host, texts: list[str]) -> None:
    wanted = {}
    for text in texts:
        try:
            wanted[text] = [each if isinstance(each, str) else as_nix(each) for each in merged(parse(text))]
        except BadReference:
            continue
    (host.nix.folder / "texts.json").write_text(json.dumps(list(wanted)))
    made = host.nix.evaluate(f"""
        map (import {PROJECT}/nix/references.nix {{ lib = import {host.library}; }}).parse
          (builtins.fromJSON (builtins.readFile {host.nix.folder}/texts.json))
    """)
    assert [merged(each) for each in made] == list(wanted.values())


def as_nix(reference: Reference) -> dict[str, str | None]:
    return {"name": reference.name, "default": reference.default}


def merged(pieces: list[Any]) -> list[Any]:
    """Neighbouring literals as one."""
    found: list[Any] = []
    for each in pieces:
        if isinstance(each, str) and found and isinstance(found[-1], str):
            found[-1] += each
        else:
            found.append(each)
    return found

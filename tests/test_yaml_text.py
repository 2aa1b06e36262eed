"""YAML that every reader takes for the same data: PyYAML (YAML 1.1), ruamel.yaml (1.2) and Go's, in kustomize."""

from __future__ import annotations

import io
import json
import unicodedata
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from a2a_claude.targets import Unrenderable
from a2a_claude.targets.yaml_text import check, document
from tests.containers import TEXT, TRAPS
from tests.trixie import folder_in, root_with, run_in

VALUES = st.recursive(
    TEXT | st.integers(-(2**53), 2**53) | st.floats(-1024, 1024) | st.booleans() | st.none(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(TEXT, VALUES, min_size=1, max_size=4))
def test_both_versions_of_yaml_read_back_what_was_written(value: dict[str, Any]) -> None:
    text = document(value, "a comment")
    assert yaml.safe_load(text) == value
    assert YAML(typ="safe", pure=True).load(io.StringIO(text)) == value


def test_traps_read_back_as_keys_and_values() -> None:
    value = {each: [each, {each: each}] for each in TRAPS}
    text = document(value)
    assert yaml.safe_load(text) == value
    assert YAML(typ="safe", pure=True).load(io.StringIO(text)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": '{\n  "b": 1\n}\n'}, 'a: |\n  {\n    "b": 1\n  }\n'),
        ({"a": [{"b": 1, "c": ["d"]}, ["e", ["f"]], {}, []]}, "a:\n- b: 1\n  c:\n  - d\n- - e\n  - - f\n- {}\n- []\n"),
        ({"a": ["b\n", "Prüft"]}, 'a:\n- |\n  b\n- "Prüft"\n'),
    ],
)
def test_it_is_written_for_people(value: dict[str, Any], text: str) -> None:
    assert document(value) == text
    assert yaml.safe_load(text) == value


@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(TEXT, min_size=40, max_size=40))
def test_kustomize_reads_back_what_was_written(texts: list[str]) -> None:
    check_kustomize(texts)


def test_kustomize_reads_traps_back() -> None:
    check_kustomize(TRAPS)


def check_kustomize(texts: list[str]) -> None:
    """Kustomize builds a ConfigMap and writes it as YAML in its own way."""
    root = root_with("/usr/bin/kustomize", "kustomize")
    # ruamel.yaml, which reads what kustomize wrote, takes these two for no text where they are plain.
    data = {f"k{number}": text for number, text in enumerate(texts) if text not in ("=", "<<") and is_checked(text)}
    files = {
        "kustomization.yaml": document({"resources": ["a.yaml"]}),
        "a.yaml": document({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}),
    }
    with folder_in(root, files) as folder:
        built = run_in(root, "kustomize", "build", folder).stdout
    assert YAML(typ="safe", pure=True).load(io.StringIO(built))["data"] == data, json.dumps(built)


def is_checked(text: str) -> bool:
    try:
        return check(text, "some.where") == text
    except Unrenderable:
        return False


@pytest.mark.parametrize("text", ["a\0", "\x7f", "a\x9f", "\uffff", "\ud800", "b\udfff"])
def test_what_yaml_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(Unrenderable, match=r"^some\.where: "):
        check(text, "some.where")


def test_the_traps_have_every_kind_of_character() -> None:
    kinds = {unicodedata.category(each) for text in TRAPS for each in text}
    assert {"Cc", "Zl", "So", "Cf"} <= kinds

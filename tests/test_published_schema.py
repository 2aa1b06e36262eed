"""The published schema and its draft-07 twin, as other tools use them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

ROOT = Path(__file__).parent.parent
DRAFTS = {"agent.schema.json": Draft202012Validator, "agent.draft-07.schema.json": Draft7Validator}
CONFIGS = sorted([*(ROOT / "agents").rglob("*.yaml"), *(ROOT / "tests" / "cases" / "configs" / "valid").iterdir()])


def schema(name: str) -> Any:
    return json.loads((ROOT / "schema" / name).read_text("utf-8"))


def properties(node: Any) -> Iterator[tuple[str, Any]]:
    """Each named property below `node` with its own schema."""
    if isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for each in node.values():
            yield from properties(each)
    elif isinstance(node, list):
        for each in node:
            yield from properties(each)


@pytest.mark.parametrize("name", DRAFTS)
def test_check_jsonschema_accepts_every_config(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--schemafile", ROOT / "schema" / name, *CONFIGS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[:2000]


@pytest.mark.parametrize("name", DRAFTS)
def test_every_example_and_default_is_valid_where_it_stands(name: str) -> None:
    """Follows each `$ref` of the schema on its way."""
    whole = DRAFTS[name](schema(name))
    seen = 0
    for key, body in properties(whole.schema):
        if not isinstance(body, dict):
            continue  # of an example
        for value in [*body.get("examples", []), *([body["default"]] if "default" in body else [])]:
            wrong = [each.message for each in whole.evolve(schema=body).iter_errors(value)]
            assert not wrong, (key, value)
            seen += 1
    assert seen > 300


def test_the_twin_says_what_the_schema_says() -> None:
    def named(node: Any) -> list[str]:
        return sorted(key for key, _ in properties(node))

    one, other = (schema(name) for name in DRAFTS)
    assert named(one) == named(other)
    assert "#/$defs/" not in json.dumps(other)

"""`module.nix`: declares the agent to the NixOS module of nix/module.nix, its data read from the agent.json beside it.

Only names are rendered. Strings: the Nix manual, "String literal"; attribute names are strings here, always.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from a2a_claude.config.agent import Agent
from a2a_claude.targets import Artifact, Unrenderable
from a2a_claude.targets.template import Quoted, fill

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "$": "\\$", "\n": "\\n", "\r": "\\r", "\t": "\\t"})

# Sets with these keys are no plain data to Nix: builtins.toJSON writes what they stand for instead of the set.
_MEANINGFUL = frozenset({"outPath", "__toString"})

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LARGEST = 2**63

# What may be in the JSON of a document that _check refuses: most documents need no closer look.
_SUSPECT = re.compile(rb'\\u0000|"(?:outPath|__toString|_type)"|[0-9]{19}|\Aunserializable\Z')


def render(agent: Agent) -> list[Artifact]:
    """`module.nix`. Raises Unrenderable for what Nix cannot read back from agent.json or write in a string."""
    if _SUSPECT.search(_serialized(agent.document)):
        _check(agent.document, "")
    text = fill(
        "nix/module.nix",
        name=string(agent.name, "name"),
        secrets=[string(name, f"secrets.{name}") for name in agent.secrets],
        files=[{"name": string(path, "memory"), "path": string(f"/{path}", "memory")} for path in sorted(agent.files)],
    )
    return [Artifact("module.nix", text)]


def _serialized(document: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(document)
    except TypeError:  # half a surrogate pair, or a number beyond 64 bits
        return b"unserializable"


def string(text: str, origin: str) -> Quoted:
    """`text` as a Nix string; Unrenderable for NUL and lone surrogates, which no Nix string can hold."""
    _check_text(text, origin)
    return Quoted(f'"{text.translate(_ESCAPES)}"')


def _check(value: Any, path: str) -> None:
    """Refuses what builtins.fromJSON cannot read, or would not give back unchanged."""
    match value:
        case str():
            _check_text(value, path)
        case int() if not -_LARGEST <= value < _LARGEST:
            raise Unrenderable(path, "is a larger number than Nix has", "write it as a string")
        case Mapping():
            for key, each in value.items():
                here = f"{path}.{key}" if path else key
                _check_text(key, here)
                if key in _MEANINGFUL or (key == "_type" and isinstance(each, str)):
                    raise Unrenderable(here, "is a key with a meaning of its own in Nix", "rename the key")
                _check(each, here)
        case list() | tuple():
            for index, each in enumerate(value):
                _check(each, f"{path}[{index}]")


def _check_text(text: str, path: str) -> None:
    if found := _NO_TEXT.search(text):
        raise Unrenderable(path, f"has U+{ord(found[0]):04X}, which Nix cannot hold", "remove it")

"""JSON that a model has written, as every client can parse it."""

from __future__ import annotations

from typing import Any, Final

import orjson

# Protobuf parsers take about 30 levels of JSON, https://protobuf.dev/programming-guides/proto-limits/
DEEPEST: Final = 10


def whole(text: str) -> str:
    """`text` as UTF-8 has it: a model can write half a surrogate pair into JSON."""
    return text.encode("utf-8", "replace").decode()


def sendable(value: Any, levels: int = DEEPEST) -> Any:
    """`value` as any client can parse it: what is nested deeper is the text of its JSON."""
    if isinstance(value, str):
        return whole(value)
    if not isinstance(value, dict | list):
        return value
    if not levels:
        try:
            # It counts levels; json's encoder goes by Python's limit, which a program may have raised above its stack.
            return orjson.dumps(value).decode()
        except orjson.JSONEncodeError:
            return "(nested too deep to be shown)"
    if isinstance(value, dict):
        return {whole(key): sendable(each, levels - 1) for key, each in value.items()}
    return [sendable(each, levels - 1) for each in value]

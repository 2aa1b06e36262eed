"""The decoder agrees with protobuf's own ProtoJSON parser, and names what that one would only refuse."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.a2a.decoding import Violations, decode, from_query
from a2a_claude.a2a.operations import ALL

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
STRUCT = st.dictionaries(TEXT, JSON, max_size=3)
NAME = TEXT.filter(bool)


def _content(name: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda inner, more: {name: inner, **more},
        value,
        st.fixed_dictionaries({}, optional={"metadata": STRUCT, "mediaType": TEXT, "filename": TEXT}),
    )


PART = st.one_of(
    _content("text", TEXT),
    _content("url", TEXT),
    _content("raw", st.binary(max_size=9).map(lambda data: __import__("base64").b64encode(data).decode())),
    _content("data", JSON.filter(lambda value: value is not None)),
)
MESSAGE = st.fixed_dictionaries(
    {
        "messageId": NAME,
        "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT", 1, 2]),
        "parts": st.lists(PART, min_size=1, max_size=3),
    },
    optional={
        "contextId": TEXT,
        "taskId": TEXT,
        "metadata": STRUCT,
        "extensions": st.lists(TEXT, max_size=2),
        "referenceTaskIds": st.lists(TEXT, max_size=2),
    },
)
SEND = st.fixed_dictionaries(
    {"message": MESSAGE},
    optional={
        "tenant": TEXT,
        "metadata": STRUCT,
        "configuration": st.fixed_dictionaries(
            {},
            optional={
                "historyLength": st.integers(-5, 5) | st.sampled_from(["3", 4.0]),
                "returnImmediately": st.booleans(),
                "acceptedOutputModes": st.lists(TEXT, max_size=2),
                "taskPushNotificationConfig": st.fixed_dictionaries(
                    {"url": NAME},
                    optional={
                        "authentication": st.fixed_dictionaries({"scheme": NAME}, optional={"credentials": TEXT})
                    },
                ),
            },
        ),
    },
)


@settings(max_examples=200)
@given(data=SEND)
def test_a_right_request_decodes_to_what_protobuf_makes_of_it(data: dict[str, Any]) -> None:
    violations: Violations = []
    decoded = decode(pb.SendMessageRequest, data, violations)
    assert violations == []
    assert decoded == ParseDict(data, pb.SendMessageRequest())
    again: Violations = []
    assert decode(pb.SendMessageRequest, MessageToDict(decoded, preserving_proto_field_name=True), again) == decoded


def _mutations(data: Any) -> st.SearchStrategy[Any]:
    keys = [
        "message",
        "messageId",
        "role",
        "parts",
        "text",
        "raw",
        "url",
        "data",
        "metadata",
        "configuration",
        "historyLength",
        "tenant",
        "authentication",
        "scheme",
    ]
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=12,
    )


@settings(max_examples=300)
@given(data=_mutations(None), operation=st.sampled_from(ALL))
def test_any_json_decodes_or_its_faults_are_named(data: Any, operation: Any) -> None:
    violations: Violations = []
    decoded = decode(operation.request, data, violations)
    if violations:
        assert all(isinstance(path, str) and text for path, text in violations)
        return
    # Nothing that protobuf or the SDK refuses may pass.
    assert decoded == ParseDict(orjson.loads(orjson.dumps(data)), operation.request(), ignore_unknown_fields=True)
    validate_proto_required_fields(decoded)


@pytest.mark.parametrize(
    ("data", "path", "says"),
    [
        ({"message": {"parts": [{"text": "a"}]}}, "message.messageId", "required"),
        ({"message": {"parts": [{"text": "a"}]}}, "message.role", "required"),
        ({"message": {"parts": [{"text": "a", "raw": ""}]}}, "message.parts[0].raw", "excludes text"),
        ({"message": {"parts": [{"text": "a"}, {"raw": "é"}]}}, "message.parts[1].raw", "base64"),
        ({"message": {"role": "ROLE_KING"}}, "message.role", "ROLE_USER, ROLE_AGENT"),
        ({"configuration": {"historyLength": 2**31}}, "configuration.historyLength", "32-bit"),
        ({"configuration": {"historyLength": True}}, "configuration.historyLength", "32-bit"),
        ({"configuration": {"historyLength": 1.5}}, "configuration.historyLength", "32-bit"),
        ({"configuration": {"returnImmediately": 1}}, "configuration.returnImmediately", "true or false"),
        ({"configuration": []}, "configuration", "object"),
        ({"metadata": 5}, "metadata", "object"),
        ({"tenant": 5}, "tenant", "string"),
        (None, "", "object"),
    ],
)
def test_each_fault_is_named_by_its_path(data: Any, path: str, says: str) -> None:
    violations: Violations = []
    decode(pb.SendMessageRequest, data, violations)
    assert any(found == path and says in text for found, text in violations), violations


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([("pageSize", "5"), ("pageSize", "6")], {"pageSize": "6"}),
        ([("page_size", "5")], {"page_size": "5"}),
        ([("includeArtifacts", "TRUE")], {"includeArtifacts": True}),
        ([("includeArtifacts", "1")], {"includeArtifacts": "1"}),
        ([("contextId", ""), ("status", "")], {"contextId": ""}),
        ([("unknown", "x"), ("A2A-Version", "1.0")], {}),
        ([("statusTimestampAfter", "2026-01-01T00:00:00Z")], {"statusTimestampAfter": "2026-01-01T00:00:00Z"}),
    ],
)
def test_a_query_stands_for_a_json_object(query: list[tuple[str, str]], expected: dict[str, Any]) -> None:
    assert from_query(pb.ListTasksRequest, query) == expected

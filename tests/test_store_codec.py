"""The codec writes what `google.protobuf.json_format` writes."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    Artifact,
    AuthenticationInfo,
    Message,
    Part,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.store import codec

text = st.text(max_size=8)
number = st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53).map(float)).map(
    lambda each: each + 0.0
)  # json_format, too, writes -0.0 as 0
plain = st.recursive(
    st.none() | st.booleans() | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def structs(draw: st.DrawFn) -> Struct:
    made = Struct()
    made.update(draw(st.dictionaries(text, plain, max_size=3)))
    return made


@st.composite
def parts(draw: st.DrawFn) -> Part:
    content: dict[str, Any] = draw(
        st.one_of(
            st.fixed_dictionaries({"text": text}),
            st.fixed_dictionaries({"raw": st.binary(max_size=8)}),
            st.fixed_dictionaries({"url": text}),
            st.fixed_dictionaries({"data": structs().map(lambda each: Value(struct_value=each))}),
            st.fixed_dictionaries({"data": st.sampled_from([Value(null_value=0), Value(bool_value=True)])}),  # type: ignore[arg-type]
            st.just({}),
        )
    )
    made = Part(**content)
    if draw(st.booleans()):
        made.metadata.CopyFrom(draw(structs()))
    made.filename, made.media_type = draw(text), draw(text)
    return made


messages = st.builds(
    Message,
    message_id=text.filter(bool),
    context_id=text,
    task_id=text,
    role=st.sampled_from([1, 2]),
    parts=st.lists(parts(), min_size=1, max_size=3),
    metadata=st.none() | structs(),
    extensions=st.lists(text, max_size=2),
    reference_task_ids=st.lists(text, max_size=2),
)
artifacts = st.builds(
    Artifact,
    artifact_id=text.filter(bool),
    name=text,
    description=text,
    parts=st.lists(parts(), min_size=1, max_size=3),
    metadata=st.none() | structs(),
    extensions=st.lists(text, max_size=2),
)


@settings(max_examples=200, deadline=None)
@given(messages)
def test_messages(message: Message) -> None:
    written = codec.dumps(codec.message(message, task_id="", context_id=""))
    assert codec.loads(written) == MessageToDict(message)
    assert codec.decode("message", written) == message


@settings(max_examples=200, deadline=None)
@given(artifacts)
def test_artifacts(artifact: Artifact) -> None:
    written = codec.artifact(codec.dumps(codec.artifact_head(artifact)), [codec.parts(artifact.parts)])
    assert codec.loads(written) == MessageToDict(artifact)
    event = b'{"artifact":%b,"append":true}' % written
    assert codec.decode("artifactUpdate", event) == TaskArtifactUpdateEvent(artifact=artifact, append=True)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        TaskPushNotificationConfig,
        id=text.filter(bool),
        task_id=text.filter(bool),
        url=text.filter(bool),
        token=text,
        tenant=text,
        authentication=st.none() | st.builds(AuthenticationInfo, scheme=text.filter(bool), credentials=text),
    )
)
def test_push_configs(config: TaskPushNotificationConfig) -> None:
    written = codec.encode_push_config(config)
    assert codec.loads(written) == MessageToDict(config)
    assert codec.decode_push_config(written) == config


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 4_000_000_000_000))
def test_timestamps_are_utc_with_milliseconds(moment: int) -> None:
    written = codec.timestamp(moment)
    parsed = Timestamp()
    parsed.FromJsonString(written)
    assert (parsed.ToMilliseconds(), len(written), written[-1]) == (moment, 24, "Z")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_say_is_an_error(bad: float) -> None:
    made = Struct()
    made.update({"deep": [{"x": bad}]})
    with pytest.raises(ValueError, match="no JSON form"):
        codec.struct(made)


@pytest.mark.parametrize("big", [2.0**53 + 2, 1e300, -1e300, 2.0**64])
def test_numbers_beyond_the_whole_ones_stay_numbers(big: float) -> None:
    made = Struct()
    made.update({"x": big})
    assert codec.loads(codec.dumps(codec.struct(made))) == {"x": big}

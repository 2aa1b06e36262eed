"""v0.3 objects from v1.0 JSON and back: the SDK's own conversions are the oracle."""

from __future__ import annotations

from typing import Any

import orjson
from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb03
from a2a.compat.v0_3 import conversions, proto_utils
from a2a.compat.v0_3 import types as types03
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_claude.a2a import v03_objects, v03_proto
from tests.test_binding_decoding import MESSAGE, NAME, PART, SEND, STRUCT, TEXT

STATES = st.sampled_from([name for name in pb.TaskState.keys() if name != "TASK_STATE_UNSPECIFIED"])  # noqa: SIM118
STATUS = st.fixed_dictionaries(
    {"state": STATES}, optional={"message": MESSAGE, "timestamp": st.just("2026-01-02T03:04:05.678Z")}
)
ARTIFACT = st.fixed_dictionaries(
    {"artifactId": NAME, "parts": st.lists(PART, min_size=1, max_size=2)},
    optional={"name": TEXT, "description": TEXT, "metadata": STRUCT, "extensions": st.lists(TEXT, max_size=2)},
)
TASK = st.fixed_dictionaries(
    {"id": NAME, "contextId": NAME, "status": STATUS},
    optional={
        "history": st.lists(MESSAGE, max_size=2),
        "artifacts": st.lists(ARTIFACT, max_size=2),
        "metadata": STRUCT,
    },
)
IDS = {"taskId": NAME, "contextId": NAME}
EVENT = st.one_of(
    st.fixed_dictionaries({"task": TASK}),
    st.fixed_dictionaries({"message": MESSAGE}),
    st.fixed_dictionaries(
        {"statusUpdate": st.fixed_dictionaries({**IDS, "status": STATUS}, optional={"metadata": STRUCT})}
    ),
    st.fixed_dictionaries(
        {
            "artifactUpdate": st.fixed_dictionaries(
                {**IDS, "artifact": ARTIFACT},
                optional={"append": st.booleans(), "lastChunk": st.booleans(), "metadata": STRUCT},
            )
        }
    ),
)


def _plain(value: Any) -> Any:
    """Without what JSON readers take for absent, and without an emptiness that the SDK adds or drops at will."""
    if isinstance(value, dict):
        return {key: inner for key, each in value.items() if (inner := _plain(each)) not in (None, {}, [])}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _compat(core: dict[str, Any]) -> types03.SendStreamingMessageSuccessResponse:
    return conversions.to_compat_stream_response(ParseDict(core, pb.StreamResponse()), "1")


@settings(max_examples=200)
@given(core=EVENT)
def test_an_event_is_what_the_sdk_makes_of_it(core: dict[str, Any]) -> None:
    sent = MessageToDict(ParseDict(core, pb.StreamResponse()))
    ours = v03_objects.event(sent)
    theirs = _compat(core).result.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert _plain(ours) == _plain(theirs)
    types03.SendStreamingMessageSuccessResponse.model_validate({"jsonrpc": "2.0", "id": "1", "result": ours})


@settings(max_examples=200)
@given(core=EVENT)
def test_a_protojson_event_is_read_by_the_sdk_as_its_own(core: dict[str, Any]) -> None:
    sent = MessageToDict(ParseDict(core, pb.StreamResponse()))
    ours = ParseDict(v03_proto.ProtoShapes(doubled=True).event(sent), pb03.StreamResponse())
    theirs = proto_utils.ToProto.stream_response(_compat(core).result)
    assert _plain(MessageToDict(ours)) == _plain(MessageToDict(theirs))


@settings(max_examples=200)
@given(core=SEND)
def test_a_request_survives_the_way_through_v03(core: dict[str, Any]) -> None:
    request = ParseDict(core, pb.SendMessageRequest())
    request.ClearField("tenant")
    if request.configuration.history_length < 0:
        request.configuration.ClearField("history_length")
    compat = conversions.to_compat_send_message_request(request, "1").params
    sent = orjson.loads(compat.model_dump_json(by_alias=True, exclude_none=True))
    ours = {
        "message": v03_objects.to_core_message(sent["message"]),
        "configuration": v03_objects.to_core_configuration(sent.get("configuration")),
        "metadata": sent.get("metadata"),
    }
    theirs = conversions.to_core_send_message_request(types03.SendMessageRequest(id="1", params=compat))
    assert _plain(MessageToDict(ParseDict(ours, pb.SendMessageRequest()))) == _plain(MessageToDict(theirs))


@given(config=st.fixed_dictionaries({"url": NAME}, optional={"id": NAME, "token": NAME, "authentication": st.fixed_dictionaries({"scheme": NAME}, optional={"credentials": NAME})}))  # fmt: skip  # noqa: E501
def test_a_push_config_is_what_the_sdk_makes_of_it(config: dict[str, Any]) -> None:
    core = {**config, "taskId": "t"}
    theirs = conversions.to_compat_task_push_notification_config(ParseDict(core, pb.TaskPushNotificationConfig()))
    ours = v03_objects.push_config(core)
    assert ours == theirs.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert v03_objects.to_core_push_config(ours["pushNotificationConfig"]) | {"taskId": "t"} == core | {
        **({"authentication": {"credentials": None} | core["authentication"]} if "authentication" in core else {})
    }


def test_every_state_has_its_v03_name() -> None:
    for name in pb.TaskState.keys():  # noqa: SIM118
        expected = conversions.to_compat_task_status(pb.TaskStatus(state=name)).state.value
        assert v03_objects.state(name) == expected

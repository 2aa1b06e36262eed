"""ProtoJSON into the SDK's protobuf messages, naming every wrong field.

`google.protobuf.json_format.ParseDict` stops at the first fault, names no path, takes unknown enum values for "unset"
when unknown fields are to be ignored, and is slow. One decoder per message type is made from its descriptor, on first
use. Rules: https://protobuf.dev/programming-guides/json/ and A2A v1.0 section 5.7 (unknown fields are ignored).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeVar

from google.api.field_behavior_pb2 import FieldBehavior, field_behavior  # type: ignore[import-untyped]
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

Violations = list[tuple[str, str]]
Decode = Callable[[Any, str, Violations], Any]
MessageT = TypeVar("MessageT", bound=Message)

_INT32: Final = 2**31


def decode(kind: type[MessageT], data: Any, violations: Violations) -> MessageT:
    """`data` (parsed JSON) as a message; what is wrong with it is added to `violations` as `(path, what is wrong)`.

    Names are taken in camelCase and in snake_case. A message with violations is only good for throwing away.
    """
    decoded: MessageT = _decoder(kind.DESCRIPTOR)(data, "", violations)
    return decoded


def from_query(kind: type[Message], pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Query parameters as the JSON object they stand for (A2A v1.0 section 11.5); of repeated ones the last counts."""
    fields = _fields_by_name(kind.DESCRIPTOR)
    data: dict[str, Any] = {}
    for name, value in pairs:
        field = fields.get(name)
        if field is None or field.is_repeated or field.message_type not in (None, Timestamp.DESCRIPTOR):
            continue
        if field.type == FieldDescriptor.TYPE_BOOL:
            data[name] = {"true": True, "false": False}.get(value.lower(), value)
        elif value or field.type == FieldDescriptor.TYPE_STRING:
            data[name] = value
    return data


@cache
def _fields_by_name(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    return {name: field for field in descriptor.fields for name in (field.name, field.json_name)}


@cache
def _decoder(descriptor: Descriptor) -> Decode:
    if descriptor is Struct.DESCRIPTOR:
        return _struct
    if descriptor is Value.DESCRIPTOR:
        return _value
    if descriptor is Timestamp.DESCRIPTOR:
        return _timestamp
    return _message(descriptor)


def _message(descriptor: Descriptor) -> Decode:
    kind: Any = GetMessageClass(descriptor)
    fields: dict[str, tuple[str, str, Decode, bool, str | None]] = {}
    nullable = {field.name for field in descriptor.fields if field.message_type is Value.DESCRIPTOR}
    required: list[tuple[str, str]] = []
    for field in descriptor.fields:
        union = field.containing_oneof
        one_of = union.name if union is not None and not union.name.startswith("_") else None
        entry = (field.name, field.json_name, _field(field), field.is_repeated, one_of)
        fields[field.name] = fields[field.json_name] = entry
        if FieldBehavior.REQUIRED in field.GetOptions().Extensions[field_behavior]:
            required.append((field.name, field.json_name))

    def decode_message(data: Any, path: str, violations: Violations) -> Any:
        if not isinstance(data, dict):
            violations.append((path, "must be an object"))
            return kind()
        values: dict[str, Any] = {}
        prefix = f"{path}." if path else ""
        chosen: dict[str, str] = {}
        for key, value in data.items():
            entry = fields.get(key)
            if entry is None:
                continue
            name, json_name, decode_value, repeated, one_of = entry
            # null stands for "unset"; only where any JSON value may be given can it be the value, if nothing else is.
            if value is None and (name not in nullable or _gives_another(data, key, fields)):
                continue
            if one_of is not None and chosen.setdefault(one_of, name) != name:
                violations.append((prefix + json_name, f"excludes {chosen[one_of]}: give exactly one"))
                continue
            if not repeated:
                values[name] = decode_value(value, prefix + json_name, violations)
            elif isinstance(value, list):
                values[name] = [
                    decode_value(each, f"{prefix}{json_name}[{index}]", violations) for index, each in enumerate(value)
                ]
            else:
                violations.append((prefix + json_name, "must be an array"))
        for name, json_name in required:
            if name not in values or values[name] in ("", 0, []):
                violations.append((prefix + json_name, "is required"))
        return None if violations else kind(**values)

    return decode_message


def _gives_another(
    data: dict[str, Any], key: str, fields: Mapping[str, tuple[str, str, Decode, bool, str | None]]
) -> bool:
    one_of = fields[key][4]
    return any(value is not None and name in fields and fields[name][4] == one_of for name, value in data.items())


def _field(field: FieldDescriptor) -> Decode:
    if field.message_type is not None:
        message_type = field.message_type
        # Resolved on the first value: messages may contain themselves.
        return lambda value, path, violations: _decoder(message_type)(value, path, violations)
    if field.enum_type is not None:
        return _enum({each.name: each.number for each in field.enum_type.values})
    return {
        FieldDescriptor.TYPE_STRING: _string,
        FieldDescriptor.TYPE_BOOL: _bool,
        FieldDescriptor.TYPE_INT32: _int32,
        FieldDescriptor.TYPE_BYTES: _bytes,
    }[field.type]


def _string(value: Any, path: str, violations: Violations) -> str:
    if isinstance(value, str):
        return value
    violations.append((path, "must be a string"))
    return ""


def _bool(value: Any, path: str, violations: Violations) -> bool:
    if isinstance(value, bool):
        return value
    violations.append((path, "must be true or false"))
    return False


def _int32(value: Any, path: str, violations: Violations) -> int:
    number: Any = value
    if isinstance(value, str) and value.removeprefix("-").isascii() and value.removeprefix("-").isdigit():
        number = int(value[:12])
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if isinstance(number, int) and not isinstance(number, bool) and -_INT32 <= number < _INT32:
        return number
    violations.append((path, "must be a 32-bit integer"))
    return 0


def _bytes(value: Any, path: str, violations: Violations) -> bytes:
    if isinstance(value, str):
        padded = value.rstrip("=")
        padded += "=" * (-len(padded) % 4)
        try:
            return base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            pass
    violations.append((path, "must be base64"))
    return b""


def _enum(numbers: Mapping[str, int]) -> Decode:
    known = frozenset(numbers.values())
    offered = ", ".join(name for name, number in numbers.items() if number)

    def decode_enum(value: Any, path: str, violations: Violations) -> int:
        if isinstance(value, str) and value in numbers:
            return numbers[value]
        if isinstance(value, int) and not isinstance(value, bool) and value in known:
            return value
        violations.append((path, f"must be one of {offered}"))
        return 0

    return decode_enum


def _struct(value: Any, path: str, violations: Violations) -> Struct:
    struct = Struct()
    if isinstance(value, dict):
        try:
            struct.update(value)
        except (ValueError, TypeError, RecursionError):
            violations.append((path, "is nested too deeply"))
    else:
        violations.append((path, "must be an object"))
    return struct


def _value(value: Any, path: str, violations: Violations) -> Value:
    try:
        return ParseDict(value, Value())
    except (ParseError, ValueError, RecursionError):
        violations.append((path, "is nested too deeply"))
        return Value()


def _timestamp(value: Any, path: str, violations: Violations) -> Timestamp:
    timestamp = Timestamp()
    try:
        timestamp.FromJsonString(value)
    except (ValueError, TypeError, AttributeError):
        violations.append((path, "must be an RFC 3339 timestamp, for example 2026-01-31T12:00:00Z"))
    return timestamp

"""Plain YAML scalars, read only where YAML 1.1 and the YAML 1.2 core schema agree; the rest is refused by name.

Sources: https://yaml.org/type/ (1.1) and https://yaml.org/spec/1.2.2/#103-core-schema.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

Value = str | int | float | bool | None

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    word: value for value, base in ((True, "true"), (False, "false")) for word in (base, base.title(), base.upper())
}
_YAML_11_BOOLEANS = frozenset(
    word for base in ("yes", "no", "on", "off", "y", "n") for word in (base, base.title(), base.upper())
)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z|0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?\Z|\.[0-9]+(?:[eE][-+][0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_ONLY_ONE = re.compile(
    r"""[-+]?0b[01_]+\Z | [-+]?0[0-9_]+\Z | [-+]?0x[0-9a-fA-F_]+\Z | [-+]?0o[0-7]+\Z   # octal, binary, hex
      | [-+]?[0-9][0-9_]*\Z                                                            # 1_000
      | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?\Z                             # 22:22, base 60
      | [-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z                    # 1e3, -.5
      | [-+]?(?:[0-9][0-9_]*)?\.[0-9_]*(?:[eE][-+][0-9]+)?\Z                           # 1_0.5
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:[Tt]|[ \t]++)[0-9:.].*)?\Z                  # dates
      | =\Z | <<\Z""",
    re.VERBOSE | re.DOTALL,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]")
_MAYBE = frozenset("0123456789+-.~=<yYnNtTfFoO")
_LARGEST = 2**63 - 1
_LONGEST_FLOAT = 1000
_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class ScalarProblem:
    """Why a scalar is refused."""

    rule: str
    message: str
    hint: str


def resolve_plain(text: str) -> tuple[Value, ScalarProblem | None]:
    """The value of a plain scalar; with a problem the value is the text itself."""
    if text and text[0] not in _MAYBE:
        return text, None
    if text in _NULLS:
        return None, None
    if text in _BOOLEANS:
        return _BOOLEANS[text], None
    if _INTEGER.match(text):
        return _integer(text)
    if _FLOAT.match(text):
        return _float(text)
    if _NOT_FINITE.match(text):
        hint = f'write a number, or quote it if text is meant: "{text}"'
        return text, ScalarProblem("number-range", f"{text} is no number in JSON", hint)
    if text in _YAML_11_BOOLEANS or _ONLY_ONE.match(text):
        shown = text[:_LONGEST_SHOWN]
        message = f"{shown} is read differently by YAML 1.1 and YAML 1.2"
        hint = f'quote it: "{shown}"'
        if text in _YAML_11_BOOLEANS:
            hint += ", or write true or false"
        elif not _DATE.match(text):
            hint += ", or write the number in decimal"
        return text, ScalarProblem("ambiguous-scalar", message, hint)
    return text, None


def resolve_tagged(tag: str, text: str) -> tuple[Value, ScalarProblem | None]:
    """The value of a scalar with an explicit `!!str`, `!!int`, `!!float`, `!!bool` or `!!null`."""
    if tag == "str":
        return text, None
    value, problem = resolve_plain(text)
    if tag == "float" and type(value) is int:
        value = float(value)
    expected = {"int": int, "float": float, "bool": bool, "null": type(None)}[tag]
    if problem is None and type(value) is not expected:
        return text, ScalarProblem(
            "yaml-tag", f"{text[:_LONGEST_SHOWN]!r} is not a !!{tag}", "remove the tag or correct the value"
        )
    return value, problem


def _integer(text: str) -> tuple[Value, ScalarProblem | None]:
    if len(text) > 40 or abs(value := int(text, 16 if text.startswith("0x") else 10)) > _LARGEST:
        hint = f'quote it if text is meant: "{text[:_LONGEST_SHOWN]}"'
        return text, ScalarProblem("number-range", "the number does not fit into 64 bits", hint)
    return value, None


def _float(text: str) -> tuple[Value, ScalarProblem | None]:
    if len(text) > _LONGEST_FLOAT or math.isinf(value := float(text)):
        return text, ScalarProblem(
            "number-range",
            "the number is too large or too long",
            f'quote it if text is meant: "{text[:_LONGEST_SHOWN]}"',
        )
    return value, None

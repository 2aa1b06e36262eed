"""YAML that every reader takes for the same data, whether it follows YAML 1.1 (kubectl) or 1.2 (Compose)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from a2a_claude.targets import Unrenderable

_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

# A letter first, and none of the words that some version of YAML reads as something else than text. No plain scalar of
# this form is a number, a date or a time in any of them.
_PLAIN = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null|nan|inf)\Z)[a-z][a-z0-9_./-]*", re.IGNORECASE)
# Lines that a literal block holds as they are: of ASCII, none of them blank, ended by one line feed.
_LINES = re.compile(r"([!-~]([ -~]*[!-~])?\n( *[!-~]([ -~]*[!-~])?\n)*)")
# Half a surrogate pair, NUL, and the controls above ASCII: kustomize reads the escapes of these, and cannot read what
# it then writes.
_NO_TEXT = re.compile("[\0\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NEVER_FOLDED = 2**31 - 1


class _Text(_Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent(dumper: Any, text: str) -> Any:
    style = None if _PLAIN.fullmatch(text) else "|" if _LINES.fullmatch(text) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style=style)


_Text.add_representer(str, _represent)
_Text.add_multi_representer(str, _represent)


def document(value: Mapping[str, Any], comment: str = "") -> str:
    """`value` as one YAML document in block style, behind lines of `comment`, which must hold nothing of a config.

    Text is in double quotes unless it cannot be read as anything but text, or has lines; keys keep their order.
    """
    dumped: str = yaml.dump(value, Dumper=_Text, sort_keys=False, width=_NEVER_FOLDED, default_flow_style=False)
    return "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines()) + dumped


def check(text: str, origin: str) -> str:
    """`text` when every reader of YAML can read it; Unrenderable names the config path `origin` otherwise."""
    if found := _NO_TEXT.search(text):
        raise Unrenderable(origin, f"has U+{ord(found[0]):04X}, which not all that reads YAML can read", "remove it")
    return text

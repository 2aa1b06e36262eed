"""Credentials written into a config: found by their form or by the name they stand under, and never printed.

Every pattern is linear in its text, however hostile: a run of characters is entered at its first character only (the
lookbehinds) and never read twice (the possessive quantifiers).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from a2a_claude.config.references import BadReference, parse

if TYPE_CHECKING:
    from a2a_claude.config.node import Path

_FORMS = re.compile(
    r"""
      (?<![A-Za-z0-9])(?:
        sk-(?=[A-Za-z_-]{0,40}[0-9])[A-Za-z0-9_-]{16,} | [rs]k_(?:live|test)_[A-Za-z0-9]{16,}
      | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | gl(?:pat|ptt|dt|rt|cbt)-[A-Za-z0-9_-]{16,}
      | xox[abeoprs]-[A-Za-z0-9-]{10,} | xapp-[0-9]-[A-Za-z0-9-]{10,} | hooks\.slack\.com/services/[A-Za-z0-9/]{20,}
      | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z]) | AIza[A-Za-z0-9_-]{35} | GOCSPX-[A-Za-z0-9_-]{20,}
      | ya29\.[A-Za-z0-9_-]{20,} | npm_[A-Za-z0-9]{30,} | hf_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,}
      | lin_api_[A-Za-z0-9]{16,} | dop_v1_[a-f0-9]{40,} | hvs\.[A-Za-z0-9_-]{20,} | shp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}
      | SG\.[A-Za-z0-9_-]{16,40}\.[A-Za-z0-9_-]{16,} | ATATT3[A-Za-z0-9_=-]{20,} | tskey-[a-z]{2,10}-[A-Za-z0-9-]{10,}
      | AGE-SECRET-KEY-1[0-9A-Z]{30,}
      | (?<![_-])eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]* )
    | -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)
# Words may follow "Bearer" or "basic" in a sentence; a credential has a digit.
_AUTHORIZATION = re.compile(
    r"(?i)\b(?:bearer|basic)[ \t]++(?=[A-Za-z+/=._~-]{0,200}[0-9])([A-Za-z0-9+/=._~-]{8,})"
    r"|\bauthorization[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:(?:bearer|basic|token)[ \t]++)?+([^\s$\0\"']{8,})"
)
# A user as long as this is a token.
_URL_PASSWORD = re.compile(
    r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://(?:[^\s/:@?#]*+:(?![\0{<])([^\s/@?#]+)@|([^\s/:@?#\0]{20,})@)"
)
_QUERY = re.compile(r"[?&]([A-Za-z0-9_.-]{1,64})=(?![\0{<])([^\s&#\0]{4,})")
_FLAG = re.compile(r"(?i)^--?[a-z-]*(?:api-?key|token|password|passwd|secret)(?:=(.+))?$")
_ASSIGNMENT = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]{0,63})(?:=|:[ \t]{0,8})[\"']?(?:(?i:bearer|basic|token)[ \t]++)?+([^\s\0\"']{4,})"
)
_SECRET_NAME = re.compile(
    r"(?:^|[_.-])(?:(?:api|access|private|secret|auth|account|admin|master|encryption|signing|license|subscription)"
    r"[_.-]?key|token|secret|credentials?|authorization|cookie|passphrase|pwd|pass)$|passw(?:or)?d$|apikey$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_FIELDS = frozenset({"token", "clientSecret"})
_FREE_KEYS = frozenset({"env", "headers", "httpHeaders"})
_COMMANDS = frozenset({"args", "command"})
_SHORTEST = len("pwd=0000")  # anything shorter is a credential by its place alone
_NO_SECRETS = frozenset({"", "true", "false", "null", "none"})
_FILE = re.compile(r"[~.]{0,2}/[^\s$]*\Z")
# A line that no reader understood: what stands behind a name of a secret, to the end of its quotes or of the word.
_NAME = re.compile(
    r"(?<![\w.-])([\w.-]++)[\"']?[ \t]{0,8}[:=][ \t]{0,8}(?:[!&][^\s\[]{0,64}[ \t]{1,8})?+(?:\[[ \t]{0,8})?+"
)
_VALUE = re.compile(r"\"((?:[^\"\\]|\\.)++)(?:\"|\\?\Z)|'((?:[^']|'')++)(?:'|\Z)|(?:'')?+(?![{\[])(\S*[^\s\"',;)\]])")
_KEY = re.compile(r"[ \t\"'+-]{0,200}")
_COLON = re.compile(r"[\"']?:[ \t]")
_YAML = re.compile(r"(?:[&*][\w-]++|[|>][0-9+-]{0,2})\s*+\Z")  # an anchor or alias, or what a block begins with
# systemd.exec(5), podman-systemd.unit(5): which secret, and where; never its value.
_PLACE = re.compile(r"\A\s*+(?:LoadCredential(?:Encrypted)?=[^\s:]++(?::\S++)?|Secret=[\w.-]++(?=,type=))")
_KEPT = re.compile(r"(\A(?i:bearer|basic|token)[ \t]++|\A\$\w++\Z|\$\{\w++(?:\}|:?-))|.", re.DOTALL)
_REFERENCE = re.compile(r"(\$\{\w++\})|.", re.DOTALL)
_OPTION = re.compile(
    r"(?i)(?<![\w-])--?[a-z-]*(?:api-?key|token|password|passwd|secret)[\"']?,?[ \t]{1,8}[\"']?(?![-$])([^\s\"',}\]]+)"
)
# The user of a web address is a token more often than a name.
_WEB_USER = re.compile(r"(?i)(?<![a-z0-9])(?:https?|wss?)://([^\s/?#\0\"']+)@")
_PARAMETER = re.compile(r"[?&;#]([^\s=&;?#\0\"']{1,64}+)=")
_PARAMETER_VALUE = re.compile(r"(?![\0{<])([^\s&#\0]*[^\s&#\0\"',;)\]])")
_PARAMETER_NAME = re.compile(r"(?:^|[_.-])(?:key|sig|signature|auth|jwt|hmac|sid|session|ticket|otp)$")
_LONG_PARAMETER = re.compile(
    r"[?&;#][^\s=&;?#\0\"']{1,64}+=((?=[^\s&;?#\0\"']{0,200}[0-9])(?=[^\s&;?#\0\"']{0,200}[A-Za-z])[\w%+/.~=-]{20,}+)"
)
_ENCODED_LINE = re.compile(r"^\s*[\"']?([A-Za-z0-9+/]{48,}={0,2})(?:\\n)?[\"']?,?\s*$")


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or key of this name usually carries a credential."""
    return _SECRET_NAME.search(_CAMEL.sub("_", name[-80:]).lower()) is not None


def holds_secret(path: Path) -> bool:
    """Whether the value at this config path is a credential by its place."""
    if not path or not isinstance(path[-1], str):
        return False
    if path[-1] in _SECRET_FIELDS and path[0] == "subAgents":
        return True
    return len(path) > 1 and path[-2] in _FREE_KEYS and is_secret_name(path[-1])


def literal(value: str, path: Path, prose: bool) -> str | None:
    """What makes `value` a literal credential, None when it is none. In `prose` only unmistakable forms count.

    References are no credentials; their defaults are read as if they stood in the value.
    """
    if len(value) < _SHORTEST and not holds_secret(path):
        return None
    if _FORMS.search(value):
        return "looks like a credential"
    if prose and not holds_secret(path):
        return None
    if "$" not in value:
        return _in_line(value, path)
    try:
        pieces = parse(value)
    except BadReference:
        return _in_line(value, path)
    text = "".join(each if isinstance(each, str) else each.default or "\0" for each in pieces)
    return "looks like a credential" if _FORMS.search(text) else _in_line(text, path)


def _in_line(text: str, path: Path) -> str | None:
    """`text` has a NUL for each reference without a default."""
    if _AUTHORIZATION.search(text):
        return "holds a credential after Bearer or Basic"
    if "://" in text and _URL_PASSWORD.search(text):
        return "holds a password in a URL"
    if "=" in text and any(is_secret_name(match[1]) for match in _QUERY.finditer(text)):
        return "holds a credential in the query of a URL"
    if (match := _FLAG.match(text)) and match[1] and "\0" not in match[1]:
        return "holds a credential in an option"
    if any(step in _COMMANDS for step in path) and any(map(_is_assigned, _ASSIGNMENT.finditer(text))):
        return "holds a credential behind its name"
    if holds_secret(path) and "\0" not in text and not _is_harmless(text, str(path[-1])):
        return f"is the value of {path[-1]}"
    return None


def _is_assigned(match: re.Match[str]) -> bool:
    return is_secret_name(match[1]) and not _is_harmless(match[2], match[1])


def _is_harmless(text: str, name: str) -> bool:
    """Whether a value under the name of a secret is none: a switch, or the file that holds the credentials."""
    text = text.strip()
    return text.lower() in _NO_SECRETS or (name.lower().endswith(("credential", "credentials")) and _is_file(text))


def _is_file(text: str) -> bool:
    return _FILE.match(text) is not None


def is_secret_flag(argument: str) -> bool:
    """Whether the argument after this one is a credential: `--token`, `--api-key`."""
    match = _FLAG.match(argument)
    return match is not None and match[1] is None


def mask(text: str) -> str:
    """`text` with every credential in it replaced by asterisks of the same length."""
    for pattern in (_FORMS, _AUTHORIZATION):
        text = pattern.sub(_masked, text)
    if "://" in text:
        text = _URL_PASSWORD.sub(_masked, text)
    return _behind(text, _PARAMETER, _is_parameter, _parameter_value) if "=" in text else text


def mask_line(text: str) -> str:
    """A line of a file with every credential in it replaced by asterisks, also one that only its name or its place in a
    URL gives away."""
    text = _OPTION.sub(_masked, mask(text))
    if "://" in text:
        text = _WEB_USER.sub(_masked, text)
    if "=" in text:
        text = _LONG_PARAMETER.sub(_masked, text)
    text = _behind(text, _NAME, is_secret_name, _named_value, skipped=_PLACE)
    return _ENCODED_LINE.sub(_masked, text)


def _behind(
    text: str,
    names: re.Pattern[str],
    is_secret: Callable[[str], bool],
    value: Callable[[re.Match[str]], tuple[int, int]],
    skipped: re.Pattern[str] | None = None,
) -> str:
    """`text` without the values behind those `names` (group 1) that belong to secrets. A name is not looked for within
    such a value, but within any other: one may hold the next."""
    pieces, end = [], 0
    if skipped is not None and (place := skipped.match(text)):
        pieces, end = [place[0]], place.end()
    for name in names.finditer(text):
        if name.start() < end or not is_secret(name[1]):
            continue
        start, stop = value(name)
        hidden = text[start:stop]
        if hidden and hidden.lower() not in _NO_SECRETS and hidden != name[1]:
            pieces += [text[end:start], _hidden(hidden)]
            end = stop
    return "".join([*pieces, text[end:]])


def _is_parameter(name: str) -> bool:
    return is_secret_name(name) or _PARAMETER_NAME.search(_CAMEL.sub("_", name).lower()) is not None


def _parameter_value(name: re.Match[str]) -> tuple[int, int]:
    found = _PARAMETER_VALUE.match(name.string, name.end())
    return found.span(1) if found else (name.end(), name.end())


def _named_value(name: re.Match[str]) -> tuple[int, int]:
    """Where the value behind a name is, as if the line were YAML, JSON, an assignment or an option of systemd."""
    text, start = name.string, name.end()
    if name[1] == "SetCredential":  # ID:VALUE
        return max(start, text.find(":", start) + 1), len(text.rstrip())
    if (found := _VALUE.match(text, start)) is None:
        return start, start
    start, stop = found.span(found.lastindex or 0)
    if found.lastindex == 3 and _COLON.match(text, name.end(1)):
        if _YAML.match(text, start):
            return start, start
        if text[start - 1] != "[" and _KEY.fullmatch(text, 0, name.start()):  # a plain scalar, which may have spaces
            comment = text.find(" #", start)
            stop = max(stop, len(text[: comment if comment >= 0 else None].rstrip("\"', \t\r\n")))
    return start, stop


def _hidden(value: str) -> str:
    """Asterisks, as many as there are characters; references stay, but not their defaults."""
    return _KEPT.sub(lambda match: match[1] or "*", value)


def _masked(match: re.Match[str]) -> str:
    groups = [index for index, group in enumerate(match.groups(), 1) if group is not None]
    start, end = match.span(groups[0]) if groups else match.span()
    hidden = _REFERENCE.sub(lambda each: each[1] or "*", match.string[start:end])
    return match.string[match.start() : start] + hidden + match.string[end : match.end()]


def words(text: str) -> Iterator[str]:
    """The words of a name, in capitals."""
    yield from (each.upper() for each in re.split(r"[^A-Za-z0-9]+", _CAMEL.sub("_", text)) if each)


def suggestion(path: Path, value: str) -> str:
    """The reference to write instead of a literal credential at `path`."""
    steps = [step for step in path if isinstance(step, str)]
    if path[0] == "mcp" and len(steps) > 1:
        name = f"{steps[1]}_TOKEN" if not is_secret_name(steps[-1]) or steps[-1] == "Authorization" else steps[-1]
    else:
        name = steps[-1] if steps else ""
    name = "_".join(words(mask(name)))
    name = name if name and not name[0].isdigit() else "SECRET"
    scheme = re.match(r"(?i)\s*(bearer|basic)\s", value)
    return f"{scheme[1]} ${{{name}}}" if scheme else f"${{{name}}}"

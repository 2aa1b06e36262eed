"""Credentials written into a config: found by their form or by the name they stand under, and never printed."""

from __future__ import annotations

import re

from a2a_claude.config.node import Path

_FORMS = re.compile(
    r"""
      (?<![A-Za-z0-9])(?:
        sk-[A-Za-z0-9_-]{16,} | gh[pousr]_[A-Za-z0-9]{20,} | github_pat_[A-Za-z0-9_]{20,} | glpat-[A-Za-z0-9_-]{16,}
      | xox[abeoprs]-[A-Za-z0-9-]{10,} | (?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z]) | AIza[A-Za-z0-9_-]{35}
      | npm_[A-Za-z0-9]{30,} | hf_[A-Za-z0-9]{30,} | pypi-[A-Za-z0-9_-]{30,} | lin_api_[A-Za-z0-9]{16,}
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]* )
    | -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----
    """,
    re.VERBOSE,
)
_AUTHORIZATION = re.compile(r"(?i)\b(?:bearer|basic)\s+(?![$])([A-Za-z0-9+/=._~-]{8,})")
_URL_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@$]*:(?![$])([^\s/@${]+)@")
_FLAG = re.compile(r"(?i)^--?[a-z-]*(?:api-?key|token|password|passwd|secret)(?:=(?![$])(.+))?$")
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.-])(?:api[_-]?key|apikey|access[_-]?key|private[_-]?key|secret[_-]?key|token|secret|password|passwd|pwd"
    r"|credentials?|authorization)$"
)
_SECRET_FIELDS = frozenset({"token", "clientSecret"})
_FREE_KEYS = frozenset({"env", "headers", "httpHeaders"})


def is_secret_name(name: str) -> bool:
    """Whether a variable, header or key of this name usually carries a credential."""
    return _SECRET_NAME.search(name) is not None


def holds_secret(path: Path) -> bool:
    """Whether the value at this config path is a credential by its place."""
    if not path or not isinstance(path[-1], str):
        return False
    if path[-1] in _SECRET_FIELDS and path[0] == "subAgents":
        return True
    return len(path) > 1 and path[-2] in _FREE_KEYS and is_secret_name(path[-1])


def literal(value: str, path: Path, prose: bool) -> str | None:
    """What makes `value` a literal credential, None when it is none. In `prose` only unmistakable forms count."""
    if _FORMS.search(value):
        return "looks like a credential"
    if prose:
        return None
    if _AUTHORIZATION.search(value):
        return "holds a credential after Bearer or Basic"
    if _URL_PASSWORD.search(value):
        return "holds a password in a URL"
    if (match := _FLAG.match(value)) and match[1]:
        return "holds a credential in an option"
    if holds_secret(path) and value.strip() and "$" not in value:
        return f"is the value of {path[-1]}"
    return None


def is_secret_flag(argument: str) -> bool:
    """Whether the argument after this one is a credential: `--token`, `--api-key`."""
    match = _FLAG.match(argument)
    return match is not None and match[1] is None


def mask(text: str) -> str:
    """`text` with every credential in it replaced by asterisks of the same length."""
    text = _FORMS.sub(lambda match: "*" * len(match[0]), text)
    for pattern in (_AUTHORIZATION, _URL_PASSWORD):
        text = pattern.sub(_masked, text)
    return text


def _masked(match: re.Match[str]) -> str:
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + "*" * (end - start) + match[0][end:]


def suggestion(path: Path, value: str) -> str:
    """The reference to write instead of a literal credential at `path`."""
    words = [step for step in path if isinstance(step, str)]
    if path[0] == "mcp" and len(words) > 1:
        name = f"{words[1]}_TOKEN" if not is_secret_name(words[-1]) or words[-1] == "Authorization" else words[-1]
    else:
        name = words[-1]
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    name = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    name = name if name and not name[0].isdigit() else "SECRET"
    scheme = re.match(r"(?i)\s*(bearer|basic)\s", value)
    return f"{scheme[1]} ${{{name}}}" if scheme else f"${{{name}}}"

"""The rules of `claude.approvalPolicy`: what they decide of a permission request, before anybody is asked.

A pattern is the whole of a value: `*` is any run of characters, `?` any one. What a rule allows is narrower than what
it denies or asks about, because the value comes from the model, and a value that surprises a rule must not be allowed:

- in a shell's command (an argument named `command`) no wildcard stands for what would begin another command, or write
  somewhere else: `git status*` does not allow `git status; rm -rf /`;
- a value with a path segment `..` is allowed by patterns alone that have one;
- a command that wants to run outside the sandbox is allowed by rules alone that name this argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from a2a_claude.config.model import ApprovalRule, Claude

QUESTION: Final = "AskUserQuestion"

_ANY: Final = r"[\s\S]"
# https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html (operators, expansions, redirections)
_INERT: Final = r"[^;&|<>`$(){}\r\n\x00\\]"
# Of the tool Bash: without it the sandbox of claude.sandbox holds.
_UNFENCED: Final = "dangerouslyDisableSandbox"
_UPWARDS: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)")


def asks(claude: Claude) -> bool:
    """Whether the CLI has to ask this server: its caller may be asked, or a policy decides."""
    return claude.approvals == "inputRequired" or bool(claude.approval_policy)


def hidden_tools(claude: Claude) -> tuple[str, ...]:
    """Tools that ask a person, of an agent that has nobody to ask."""
    return (QUESTION,) if asks(claude) and claude.approvals != "inputRequired" else ()


def decide(rules: Sequence[ApprovalRule], tool: str, arguments: Mapping[str, Any]) -> tuple[int, ApprovalRule] | None:
    """The first rule that matches, with its index; None when none does, which is to ask."""
    return next(((index, rule) for index, rule in enumerate(rules) if _matches(rule, tool, arguments)), None)


def restricts(rules: Sequence[ApprovalRule], *tools: str) -> bool:
    """Whether some use of one of the tools may be denied or asked about: the CLI must go on asking for each."""
    return any(
        rule.decision != "allow" and _pattern(rule.tool, _ANY).fullmatch(tool) for rule in rules for tool in tools
    )


def may_restrict(rules: Sequence[ApprovalRule], prefix: str) -> bool:
    """Whether some use of a tool whose name begins with `prefix` may be denied or asked about."""
    begins = [re.split(r"[*?]", rule.tool)[0] for rule in rules if rule.decision != "allow"]
    return any(each.startswith(prefix) or prefix.startswith(each) for each in begins)


def _matches(rule: ApprovalRule, tool: str, arguments: Mapping[str, Any]) -> bool:
    if rule.decision == "allow" and arguments.get(_UNFENCED) and _UNFENCED not in rule.argument:
        return False
    return _pattern(rule.tool, _ANY).fullmatch(tool) is not None and all(
        name in arguments and _fits(rule, name, pattern, arguments[name]) for name, pattern in rule.argument.items()
    )


def _fits(rule: ApprovalRule, name: str, pattern: str, value: Any) -> bool:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    allows = rule.decision == "allow"
    if allows and _UPWARDS.search(text) and not _UPWARDS.search(pattern):
        return False
    return _pattern(pattern, _INERT if allows and name == "command" else _ANY).fullmatch(text) is not None


@lru_cache(maxsize=1024)
def _pattern(glob: str, one: str) -> re.Pattern[str]:
    """A glob as an expression whose time is bounded by the product of the lengths: no wildcard is tried twice."""
    first, *rest = (re.escape(each).replace(r"\?", one) for each in glob.split("*"))
    if not rest:
        return re.compile(first)
    middle = "".join(f"(?>{one}*?{each})" for each in rest[:-1])
    return re.compile(f"{first}{middle}{one}*{rest[-1]}")

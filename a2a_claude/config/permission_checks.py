"""Rules about who decides what Claude may do."""

from __future__ import annotations

from collections.abc import Iterator

from a2a_claude.config.diagnostics import Diagnostic, error, warning
from a2a_claude.config.view import View

Found = Iterator[Diagnostic]
_NEVER_ASKS = {
    "dontAsk": "permissionMode dontAsk denies without asking",
    "bypassPermissions": "permissionMode bypassPermissions allows without asking",
}


def asks_caller(view: View) -> bool:
    """Whether the caller of a task is asked."""
    return view.get(str, "claude", "approvals") == "inputRequired"


def asks(view: View) -> bool:
    """Whether a permission request can be allowed: by the caller, or by a policy."""
    return asks_caller(view) or bool(view.get(list, "claude", "approvalPolicy"))


def permission_mode(view: View) -> Found:
    """Modes that need consent, or somebody to ask."""
    where = ("claude", "permissionMode")
    mode = view.get(str, *where)
    if mode == "bypassPermissions" and not view.get(bool, "claude", "dangerouslyAllowBypassPermissions"):
        message = "bypassPermissions gives Claude every tool without asking"
        hint = "set claude.dangerouslyAllowBypassPermissions: true to consent, or use acceptEdits, dontAsk or plan"
        yield error("bypass-consent", message, view.span(*where), hint)
    if mode == "default" and not asks(view):
        message = "permissionMode default asks before each tool, and there is nobody to ask"
        hint = "use acceptEdits, dontAsk or plan, or set claude.approvals: inputRequired to ask the caller"
        yield error("nobody-to-ask", message, view.span(*where), hint)


def approvals(view: View) -> Found:
    """Approvals and rules of the policy that are never asked for."""
    why = _NEVER_ASKS.get(view.get(str, "claude", "permissionMode") or "")
    hint = "use permissionMode default, acceptEdits or plan, or remove it"
    if why and asks_caller(view):
        yield warning(
            "never-asked", f"{why}, so no approval reaches the caller", view.span("claude", "approvals"), hint
        )
    rules = view.get(list, "claude", "approvalPolicy") or []
    if why and rules:
        message = f"{why}, so the policy decides nothing"
        yield warning("never-asked", message, view.key("claude", "approvalPolicy"), hint)
        return
    for index in range(len(rules)):
        where = ("claude", "approvalPolicy", index, "decision")
        if view.get(str, *where) == "ask" and not asks_caller(view):
            message = "this rule asks the caller, and claude.approvals is deny, so it denies"
            yield warning(
                "never-asked", message, view.span(*where), "set claude.approvals: inputRequired, or write deny"
            )

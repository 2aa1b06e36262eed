"""Who decides what Claude may do: what of it has no effect, or would never be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_claude.config.loader import load_fleet

RULE: dict[str, Any] = {"tool": "Bash", "decision": "allow"}


@pytest.mark.parametrize(
    ("claude", "found"),
    [
        ({"permissionMode": "default", "approvals": "inputRequired"}, []),
        ({"permissionMode": "default"}, [("nobody-to-ask", "permissionMode default")]),
        ({"permissionMode": "default", "approvalPolicy": [RULE]}, []),
        ({"approvals": "inputRequired", "approvalPolicy": [RULE | {"decision": "ask"}]}, []),
        ({"approvalPolicy": [RULE, RULE | {"decision": "ask"}]}, [("never-asked", "so it denies")]),
        ({"permissionMode": "dontAsk", "approvals": "inputRequired"}, [("never-asked", "no approval reaches")]),
        ({"permissionMode": "dontAsk", "approvalPolicy": [RULE]}, [("never-asked", "the policy decides nothing")]),
        (
            {
                "permissionMode": "bypassPermissions",
                "dangerouslyAllowBypassPermissions": True,
                "approvals": "inputRequired",
                "approvalPolicy": [RULE],
            },
            [("never-asked", "no approval reaches"), ("never-asked", "the policy decides nothing")],
        ),
        ({"permissionMode": "plan", "allowedTools": ["Write"]}, [("plan-writes", "never writes")]),
        ({"permissionMode": "plan", "allowedTools": ["Write"], "approvals": "inputRequired"}, []),
    ],
)
def test_what_is_told(claude: dict[str, Any], found: list[tuple[str, str]], tmp_path: Path) -> None:
    path = tmp_path / "agents" / "reviewer" / "agent.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump({"claude": {"workingDirectory": "/w", **claude}}))
    told = [(each.rule, each.message) for each in load_fleet([path]).diagnostics if each.severity != "note"]
    assert [rule for rule, _ in told] == [rule for rule, _ in found]
    assert all(words in message for (_, message), (_, words) in zip(told, found, strict=True))

"""Configs with the right verdict: wrong ones told at their place, right ones compiled and read back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from a2a_claude.cli import main
from a2a_claude.config.schema import Shape, every_shape
from a2a_claude.targets import TARGETS

CASES = Path(__file__).parent / "cases" / "configs"
EXPECTED: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text("utf-8"))
WRONG = [name for name, case in EXPECTED.items() if "line" in case]
RIGHT = [name for name, case in EXPECTED.items() if "line" not in case]


def place(folder: Path, case: str) -> Path:
    """An agent's folder whose config is that of the case."""
    source = CASES / EXPECTED[case]["file"]
    agent = folder / "agents" / "reviewer"
    agent.mkdir(parents=True)
    shutil.copy(source, agent / f"agent{source.suffix}")
    return agent


def diagnostics(*arguments: str | Path) -> tuple[int, list[dict[str, Any]]]:
    done = CliRunner().invoke(main, ["validate", *map(str, arguments), "--format", "json"])
    return done.exit_code, json.loads(done.output)


def compiled(folder: Path) -> dict[str, Any]:
    """The `agent.json` of the agent in `folder`, compiled for every target."""
    out = folder.parent.parent / "deploy"
    done = CliRunner().invoke(main, ["compile", str(folder), "-o", str(out)])
    assert done.exit_code == 0, done.output
    document: dict[str, Any] = json.loads((out / folder.name / "agent.json").read_text("utf-8"))
    outputs = json.loads((out / "manifest.json").read_text("utf-8"))["outputs"]
    assert {each["target"] for each in outputs.values()} == set(TARGETS)
    return document


def lost(source: Any, document: Any, path: str = "") -> Iterator[str]:
    """What of `source` is not in `document` with the same value; `document` may have more keys."""
    if isinstance(source, dict) and isinstance(document, dict):
        for key, value in source.items():
            yield from lost(value, document.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(source, list) and isinstance(document, list) and len(source) == len(document):
        for index, (one, other) in enumerate(zip(source, document, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif type(source) is not type(document) or source != document:
        yield f"{path}: {source!r} became {document!r}"


def test_the_table_names_every_case() -> None:
    files = {str(path.relative_to(CASES)) for path in CASES.glob("*/*")}
    assert {case["file"] for case in EXPECTED.values()} == files


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_config_has_one_error_at_its_place_in_words_that_help(case: str, tmp_path: Path) -> None:
    code, found = diagnostics(place(tmp_path, case))
    (problem,) = (each for each in found if each["severity"] == "error")
    assert code == 1
    assert (problem["line"], problem["column"]) == (EXPECTED[case]["line"], EXPECTED[case]["column"])
    for word in EXPECTED[case]["mentions"]:
        assert word in f"{problem['message']} {problem['hint']}"


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_config_compiles_for_every_target_and_reads_back(case: str, tmp_path: Path) -> None:
    folder = place(tmp_path, case)
    # An independent reader: the text as PyYAML sees it.
    source = yaml.safe_load((CASES / EXPECTED[case]["file"]).read_text("utf-8-sig"))
    assert list(lost(source, compiled(folder))) == []


def test_the_comparison_sees_what_is_lost() -> None:
    source = {"a": {"b": 1, "c": [{"d": True}]}, "e": "x"}
    assert list(lost(source, {"a": {"b": 1, "c": [{"d": True, "n": 0}], "m": 0}, "e": "x"})) == []
    assert list(lost(source, {"a": {"b": True, "c": [{}]}, "e": "x "})) == [
        ".a.b: 1 became True",
        ".a.c[0].d: True became 'nothing'",
        ".e: 'x' became 'x '",
    ]


# --- Configs of the TypeScript a2a-claude, unchanged ------------------------------------------------------------------

# Its full configuration reference.
REFERENCE: dict[str, Any] = {
    "agentCard": {
        "name": "Claude Workspace Engineer",
        "description": "...",
        "version": "1.0.0",
        "protocolVersion": "0.3.0",
        "streaming": True,
        "defaultInputModes": ["text"],
        "defaultOutputModes": ["text"],
        "skills": [
            {
                "id": "workspace-engineering",
                "name": "Workspace Engineering",
                "description": "Inspect, modify, and validate code within the configured workspace.",
                "tags": ["code", "repository", "tests", "refactoring"],
            }
        ],
    },
    "server": {"port": 3030, "hostname": "0.0.0.0", "advertiseHost": "localhost", "advertiseProtocol": "http"},
    "claude": {
        "workingDirectory": "${WORKSPACE_DIR}",
        "model": "${CLAUDE_MODEL}",
        "effort": "high",
        "thinking": {"type": "adaptive"},
        "permissionMode": "acceptEdits",
        "settingSources": [],
        "additionalDirectories": [],
        "systemPromptAppend": "Operate only within the configured workspace.",
    },
    "session": {"reuseByContext": True, "ttl": 0},
    "features": {
        "streamArtifactChunks": False,
        "emitThinkingEvents": True,
        "emitToolEvents": True,
        "emitFileChangeEvents": True,
        "emitTodoEvents": True,
        "emitRateLimitEvents": True,
        "holdTaskForBackgroundWork": True,
        "emitBackgroundTaskEvents": True,
    },
    "timeouts": {"prompt": 600000},
    "logging": {"level": "info"},
}

# Every key that it reads, in one config.
EVERYTHING: dict[str, Any] = {
    "$comment": "kept",
    "configDir": ".",
    "agentCard": {
        **REFERENCE["agentCard"],
        "skills": [{**REFERENCE["agentCard"]["skills"][0], "examples": ["Mend the failing test."]}],
        "pushNotifications": True,
        "stateTransitionHistory": False,
        "provider": {"organization": "Example Ltd", "url": "https://example.com"},
        "signing": {
            "enabled": True,
            "privateKeyJwkEnvVar": "CARD_SIGNING_KEY",
            "keyId": "card-2026",
            "algorithm": "ES256",
        },
    },
    "server": {**REFERENCE["server"], "advertiseHost": "agents.example.com", "advertiseProtocol": "https"},
    "claude": {
        **REFERENCE["claude"],
        "fallbackModel": "claude-sonnet-5",
        "thinking": {"type": "enabled", "budgetTokens": 4096, "display": "summarized"},
        "outputFormat": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {"verdict": {"type": ["string", "null"], "default": None}},
                "required": ["verdict"],
            },
        },
        "permissionMode": "bypassPermissions",
        "dangerouslyAllowBypassPermissions": True,
        "allowedTools": ["Read", "Bash(git log:*)", "mcp__filesystem__*"],
        "disallowedTools": ["WebFetch"],
        "settingSources": ["project"],
        "marketplaces": {
            "superpowers-marketplace": {
                "source": {"source": "github", "repo": "obra/superpowers-marketplace", "ref": "v6.1.1"},
                "installLocation": "${PLUGIN_DIR}",
            },
            "monorepo": {
                "source": {"source": "git-subdir", "url": "https://git.example.com/p.git", "path": "p", "sha": "0" * 40}
            },
            "packages": {"source": {"source": "npm", "package": "@example/plugins"}},
        },
        "enabledPlugins": {"superpowers@superpowers-marketplace": True, "@example/lint@packages": False},
        "maxTurns": 40,
        "maxBudgetUsd": 2.5,
        "additionalDirectories": ["/srv/docs", "${SHARED_DIR}"],
        "sandbox": {"enabled": True, "network": {"allowedDomains": ["example.com"], "proxy": None}},
        "executablePathOverride": "/opt/claude/claude",
        "contextFile": "context.md",
        "contextPrompt": "Describe\nthis repository.",
    },
    "session": {**REFERENCE["session"], "titlePrefix": "a2a", "ttl": 3600000, "cleanupInterval": 300000},
    "features": {**REFERENCE["features"], "trackUsage": True},
    "timeouts": {"prompt": 0, "pollingInterval": 2000, "healthCheck": 30000},
    "logging": {"level": "debug"},
    "mcp": {
        "filesystem": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "@modelcontextprotocol/server-filesystem", "${WORKSPACE_DIR}"],
            "env": {"NODE_ENV": "production"},
            "enabled": True,
            "startupTimeoutSec": 20,
            "toolTimeoutSec": 60,
            "enabledTools": ["read_file"],
            "disabledTools": ["write_file"],
        },
        "linear": {
            "type": "http",
            "url": "https://mcp.linear.app/mcp",
            "headers": {"Authorization": "Bearer ${LINEAR_API_KEY}"},
            "enabled": False,
            "toolTimeoutSec": 0.5,
            "enabledTools": [],
            "disabledTools": [],
        },
    },
    "events": {
        "enabled": True,
        "transport": "http",
        "httpUrl": "https://events.example.com/in",
        "httpTimeout": 10000,
        "httpHeaders": {"Authorization": "Bearer ${EVENTS_TOKEN}"},
    },
    "memory": {"instructions": "/etc/agent/CLAUDE.md", "skills": ["/etc/agent/skills/review"]},
    "subAgents": {
        "agents": [
            {"name": "open", "agentCardUrl": "http://localhost:3031", "auth": {"mode": "none"}},
            {
                "name": "reviewer",
                "agentCardUrl": "https://agents.example.com/reviewer/.well-known/agent-card.json",
                "endpointUrlOverride": "https://agents.example.com/reviewer/a2a/jsonrpc",
                "auth": {"mode": "bearer", "token": "${REVIEWER_TOKEN}"},
            },
            {
                "name": "auditor",
                "agentCardUrl": "https://agents.example.com/auditor",
                "auth": {"mode": "api_key", "token": "${AUDITOR_KEY}", "headerName": "X-API-Key"},
            },
        ],
        "options": {"responseMode": "artifact", "probeTimeoutMs": 5000, "syncBudgetMs": 30000},
    },
}


def older(folder: Path, config: dict[str, Any]) -> Path:
    """An agent's folder with a `config.json`, as the TypeScript a2a-claude has it."""
    agent = folder / "agents" / "example"
    agent.mkdir(parents=True)
    (agent / "config.json").write_text(json.dumps(config, indent=2), "utf-8")
    return agent


@pytest.mark.parametrize(
    "config",
    [
        REFERENCE,
        EVERYTHING,
        {**REFERENCE, "claude": {"customSystemPrompt": "You review code.", "thinking": {"type": "disabled"}}},
        {**REFERENCE, "events": {"enabled": False, "transport": "http"}, "logging": {"level": "warning"}},
        {**REFERENCE, "session": {"ttl": -1, "cleanupInterval": -1}, "timeouts": {"prompt": -1}},
    ],
    ids=["reference", "everything", "custom prompt", "events off", "disabled bounds"],
)
def test_an_older_config_works_unchanged(config: dict[str, Any], tmp_path: Path) -> None:
    folder = older(tmp_path, config)
    code, found = diagnostics(folder)
    assert (code, [each for each in found if each["severity"] == "error"]) == (0, [])
    assert list(lost(config, compiled(folder))) == []


# Each key that the TypeScript a2a-claude reads, with the default of its last release; None where it has none. Left out:
# what only forks of it read, and its OpenTelemetry block, whose place is `observability`.
KEYS: dict[str, Any] = {
    "configDir": None,
    "agentCard.name": "Claude A2A Agent",
    "agentCard.description": "A Claude agent served over A2A.",
    "agentCard.protocolVersion": None,  # read and ignored there as well
    "agentCard.version": "1.0.0",
    "agentCard.skills": [],
    "agentCard.skills[].id": None,
    "agentCard.skills[].name": None,
    "agentCard.skills[].description": None,
    "agentCard.skills[].tags": [],
    "agentCard.skills[].examples": [],
    "agentCard.defaultInputModes": ["text"],
    "agentCard.defaultOutputModes": ["text"],
    "agentCard.streaming": True,
    "agentCard.pushNotifications": False,
    "agentCard.stateTransitionHistory": False,
    "agentCard.provider.organization": None,
    "agentCard.provider.url": None,
    "agentCard.signing.enabled": False,
    "agentCard.signing.privateKeyJwkEnvVar": None,
    "agentCard.signing.keyId": None,
    "agentCard.signing.algorithm": "ES256",
    "server.port": 3030,
    "server.hostname": "127.0.0.1",  # 0.0.0.0 there: an agent is not open to the network unless its config says so
    "server.advertiseHost": "localhost",
    "server.advertiseProtocol": "http",
    "claude.workingDirectory": "",
    "claude.model": None,
    "claude.fallbackModel": None,
    "claude.effort": None,
    "claude.thinking": None,
    "claude.thinking.type": None,
    "claude.thinking.budgetTokens": None,
    "claude.thinking.display": None,
    "claude.outputFormat.type": None,
    "claude.outputFormat.schema": None,
    "claude.permissionMode": "acceptEdits",
    "claude.dangerouslyAllowBypassPermissions": False,
    "claude.allowedTools": [],
    "claude.disallowedTools": [],
    "claude.systemPromptAppend": None,
    "claude.customSystemPrompt": None,
    "claude.settingSources": [],
    "claude.marketplaces": {},
    "claude.marketplaces.<name>.source": None,
    "claude.marketplaces.<name>.source.source": None,
    "claude.marketplaces.<name>.source.ref": None,
    "claude.marketplaces.<name>.source.sha": None,
    "claude.marketplaces.<name>.source.repo": None,
    "claude.marketplaces.<name>.source.url": None,
    "claude.marketplaces.<name>.source.path": None,
    "claude.marketplaces.<name>.source.package": None,
    "claude.marketplaces.<name>.installLocation": None,
    "claude.enabledPlugins": {},
    "claude.maxTurns": None,
    "claude.maxBudgetUsd": None,
    "claude.additionalDirectories": [],
    "claude.sandbox": None,
    "claude.executablePathOverride": None,
    "claude.contextFile": "context.md",
    "claude.contextPrompt": None,  # a default of the runtime, not of the config
    "session.titlePrefix": None,
    "session.reuseByContext": True,
    "session.ttl": 0,
    "session.cleanupInterval": 0,
    "features.streamArtifactChunks": False,
    "features.emitThinkingEvents": True,
    "features.emitToolEvents": True,
    "features.emitFileChangeEvents": True,
    "features.emitTodoEvents": True,
    "features.emitRateLimitEvents": True,
    "features.holdTaskForBackgroundWork": True,
    "features.emitBackgroundTaskEvents": True,
    "features.trackUsage": None,
    "timeouts.prompt": 600000,
    "timeouts.pollingInterval": None,
    "timeouts.healthCheck": None,
    "logging.level": "info",
    "mcp": {},
    "mcp.<name>.type": None,
    "mcp.<name>.command": None,
    "mcp.<name>.args": [],
    "mcp.<name>.env": {},
    "mcp.<name>.url": None,
    "mcp.<name>.headers": {},
    "mcp.<name>.enabled": True,
    "mcp.<name>.startupTimeoutSec": None,
    "mcp.<name>.toolTimeoutSec": None,
    "mcp.<name>.enabledTools": None,
    "mcp.<name>.disabledTools": None,
    "events.enabled": True,
    "events.transport": "a2a",
    "events.httpUrl": None,
    "events.httpTimeout": 10000,
    "events.httpHeaders": {},
    "memory.instructions": None,
    "memory.skills": [],
    "subAgents.agents": [],
    "subAgents.agents[].name": None,
    "subAgents.agents[].agentCardUrl": None,
    "subAgents.agents[].endpointUrlOverride": None,
    "subAgents.agents[].auth.mode": None,
    "subAgents.agents[].auth.token": None,
    "subAgents.agents[].auth.headerName": "X-API-Key",
    "subAgents.options.responseMode": "artifact",
    "subAgents.options.probeTimeoutMs": 5000,
    "subAgents.options.syncBudgetMs": 30000,
}
SHAPES: dict[str, list[Shape]] = {}
for _path, _shape in every_shape():
    SHAPES.setdefault(_path, []).append(_shape)


@pytest.mark.parametrize("path", KEYS)
def test_the_schema_has_every_older_key_with_its_default(path: str) -> None:
    assert [shape.node.get("default") for shape in SHAPES[path]] == [KEYS[path]] * len(SHAPES[path])


def paths(value: Any, path: str = "") -> Iterator[str]:
    """The paths in a config as the schema names them: `[]` for items, `<name>` for free keys."""
    if isinstance(value, dict):
        for key, each in value.items():
            below = f"{path}.{key}".lstrip(".")
            below = below if below in SHAPES else f"{path}.<name>"
            yield below
            yield from paths(each, below)
    elif isinstance(value, list):
        for each in value:
            yield from paths(each, f"{path}[]")


def test_the_config_with_everything_has_every_older_key() -> None:
    exclusive = {"claude.customSystemPrompt"}  # beside systemPromptAppend
    assert KEYS.keys() - exclusive - set(paths(EVERYTHING)) == set()

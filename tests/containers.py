"""Agents with what the container targets have to express."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from a2a_claude.config.agent import Agent
from tests.support import make_agent

CARD = {"name": "Reviewer", "description": "Reads code.\n\nNever writes.", "version": "1.0.0"}
FULL: dict[str, Any] = {
    "agentCard": CARD,
    "server": {
        "port": 3031,
        "auth": {"bearer": {"tokensFile": "/etc/a2a/tokens"}, "jwt": {"issuer": "https://id.example", "audience": "a"}},
        "tls": {
            "certificateFile": "/etc/a2a/tls.crt", "keyFile": "/etc/a2a/tls.key", "clientCaFile": "/etc/a2a/ca.crt",
        },
    },
    "claude": {"permissionMode": "plan", "workingDirectory": "${REPO}", "env": {"HTTPS_PROXY": "http://proxy:3128"}},
    "secrets": {
        "OPTIONAL": {"optional": True, "kubernetes": {"name": "shared", "key": "opt"}},
        "SEALED": {"encrypted": True, "file": "/etc/credstore.encrypted/sealed"},
        "PLAIN": {"file": "/srv/plain"},
    },
    "store": {"type": "postgresql", "url": "postgresql://a2a:${PGPASSWORD}@db:6432/a2a"},
    "timeouts": {"shutdown": 60_500},
    "subAgents": {"agents": [{"name": "clerk", "agentCardUrl": "http://clerk:3040/.well-known/agent-card.json"}]},
    "mcp": {"issues": {"type": "http", "url": "${ISSUES:-https://mcp.example:8443/mcp}"}},
    "deploy": {
        "docker": {"image": "registry.example/agents/reviewer:7", "uid": 20000, "workspace": "/work"},
        "compose": {
            "publish": "0.0.0.0:80", "workspace": "/srv/repo", "memory": "1073741824", "cpus": 1.5, "pidsLimit": 300,
        },
        "quadlet": {"publish": "80", "workspace": "/srv/repo", "memory": "512Mi", "autoUpdate": True},
        "kubernetes": {
            "namespace": "agents", "storage": "10Gi", "storageClass": "fast", "workspaceClaim": "repos", "cpu": "1",
            "memory": "2Gi", "imagePullSecret": "registry",
            "autoscale": {"minReplicas": 2, "maxReplicas": 5, "cpuPercent": 60},
        },
    },
}  # fmt: skip


def plain() -> Agent:
    """What an agent is that says next to nothing, with a variable and a secret."""
    document = {"agentCard": CARD, "server": {"port": 3031}}
    return make_agent(document, variables=("CLAUDE_MODEL", "GITHUB_TOKEN", "WORKSPACE_DIR"))


def full() -> Agent:
    """An agent that uses whatever the targets have a key for."""
    agent = make_agent(FULL, name="full", variables=("CLAUDE_MODEL", "REPO"))
    model, repo = agent.variables
    return replace(
        agent, variables=(model, replace(repo, uses=(replace(repo.uses[0], path="claude.workingDirectory"),)))
    )


SPECIAL = "%$\"'\\:;#{}[]*?~!|&<>()=,-+@^` é😀\u00a0\ufeff\u2028\u200b\u0085"
TRAPS = [
    *("no", "on", "y", "null", "~", "1e3", "1_000", "0755", "0o17", "12:30:45", "1.5", ".inf", "2026-01-01", "=", "<<"),
    *("$", "$$", "$HOME", "${HOME}", "${X:-y}", "a$", "%H", "%", "%%", "'", '"', "\\", "a\\", "\\n", "a b", " a", "a "),
    *("- a", "a: b", "a #b", "#", "? a", "&a", "*a", "!a", "|", ">", "{{ x }}", "''${x}", "[a]", "{a}", "@a", "`a`"),
    *("a\nb", "a\n", "\n", "a\n b\n", " a\nb\n", "a\n\nb\n", "a \nb\n", "\t"),
    *("é😀", "\u2028", "\ufeff", "a,b", "a:b", "x" * 200),
]  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(TRAPS),
    st.text(st.sampled_from(SPECIAL + "abH1\n ") | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=24),
)

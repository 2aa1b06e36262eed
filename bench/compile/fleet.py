"""A fleet of any size to compile: agents as people write them, that share their defaults and one of two layers."""

from __future__ import annotations

from pathlib import Path

DEFAULTS = """\
# What every agent of the fleet has in common.
server:
  hostname: 127.0.0.1
claude:
  workingDirectory: ${WORKSPACE_DIR}
  model: ${CLAUDE_MODEL:-claude-sonnet-4-5}
  settingSources: [project]
timeouts:
  prompt: 1800000
mcp:
  tickets:
    type: http
    url: ${TICKETS_URL:?set it to the ticket system}
    headers:
      Authorization: Bearer ${TICKETS_TOKEN}
"""

LAYERS = {
    "read-only": """\
claude:
  permissionMode: plan
  disallowedTools: [Write, Edit, NotebookEdit, Bash]
""",
    "engineer": """\
claude:
  permissionMode: acceptEdits
  maxTurns: 60
""",
}

AGENT = """\
# The {team} agent number {number}: kept by the {team} team.
extends: [../_layers/{layer}.yaml]

agentCard:
  name: {title} {number}
  description: Works on the {team} service, one of {count}, and answers questions about it.
  version: "1.{number}.0"
  skills:
    - id: {team}-{number}
      name: {title} work
      description: >-
        Reads the code of the {team} service, explains it,
        and proposes changes with the reasons for them.
      tags: [{team}, code, tests]
      examples:
        - "Why does the {team} job fail at 100 % of quota?"
        - Explain the last release.

server:
  port: {port}

claude:
  systemPromptAppend: |
    You look after the {team} service.
    Cite the file and line of everything you report.
  allowedTools: [Read, Grep, Glob, mcp__tickets__*, mcp__search{number}__find]

mcp:
  search{number}:
    type: stdio
    command: search-server
    args: [--index, "${{INDEX_DIR:-/var/lib/search}}/{team}", --limit, "20"]
    env:
      SEARCH_TOKEN: ${{SEARCH_TOKEN_{number}}}

deploy:
  docker:
    labels:
      com.example.team: {team}
"""

TEAMS = ("billing", "search", "ledger", "identity", "shipping", "reports", "pricing", "catalogue")
FIRST_PORT = 10000


def write_fleet(folder: Path, count: int) -> list[Path]:
    """Writes `folder/agents` with `count` agents, the same ones each time; gives their config files."""
    agents = folder / "agents"
    (agents / "_layers").mkdir(parents=True)
    (agents / "defaults.yaml").write_text(DEFAULTS)
    for name, text in LAYERS.items():
        (agents / "_layers" / f"{name}.yaml").write_text(text)
    files = []
    for number in range(1, count + 1):
        team = TEAMS[number % len(TEAMS)]
        file = agents / f"{team}-{number:04d}" / "agent.yaml"
        file.parent.mkdir()
        file.write_text(
            AGENT.format(
                team=team,
                title=team.title(),
                number=number,
                count=count,
                layer=list(LAYERS)[number % len(LAYERS)],
                port=FIRST_PORT + number,
            )
        )
        files.append(file)
    return files

"""One server of the comparison, as a process: `python -m bench.turn.contender live|per-turn FOLDER IDLE_MS PORT`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import a2a_claude


def main(kind: str, folder: str, idle: str, port: str) -> int:
    """Serves until SIGTERM. `idle` is the time in ms after which an idle process of Claude is closed."""
    workspace = Path(folder) / "workspace"
    agent = a2a_claude.load_agent(
        Path(folder) / "agent",
        settings=[f"claude.workingDirectory={workspace}", f"session.clientIdleTimeout={idle}"],
    )
    executor = None
    if kind == "per-turn":
        from bench.turn.per_turn import PerTurn

        executor = PerTurn(str(workspace))
    return asyncio.run(a2a_claude.serve(agent, executor, state=Path(folder) / "state", port=int(port)))


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

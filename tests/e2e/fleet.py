"""The agents of this checkout with what the tests lay over them, compiled and installed like docs/systemd.md says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.installed import ROOT
from tests.e2e.machine import Machine
from tests.serving import environment

KEY = "sk-ant-api03-the-key-of-the-server"
# What a shell greps for without finding itself.
KEY_PATTERN = "sk-ant-api03-the-key-of[-]the-server"


def compiled(folder: Path, layers: Mapping[str, Mapping[str, Any]], *options: str) -> Path:
    """The folder deploy/ of the agents with `layers` (path in agents/ -> content), named `*.e2e.yaml`, over them."""
    shutil.copytree(ROOT / "agents", folder / "agents", dirs_exist_ok=True)
    for name, layer in layers.items():
        path = folder / "agents" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(layer))
    compile_again(folder, *options).check_returncode()
    return folder / "deploy"


def compile_again(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Compiles a folder as it is."""
    command = [sys.executable, "-m", "a2a_claude", "compile", "agents", "--profile", "e2e", *options]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def install(machine: Machine, deploy: Path, agent: str, variables: Mapping[str, str]) -> None:
    """Puts an agent's compiled files where its unit looks for them, its key beside them, and tells systemd."""
    home = f"/etc/a2a-claude/{agent}"
    machine.put(f"{home}/agent.json", (deploy / agent / "agent.json").read_text())
    machine.put(f"{home}/secrets/ANTHROPIC_API_KEY", KEY + "\n", 0o600)
    machine.put(f"{home}/env", "".join(f"{name}={value}\n" for name, value in variables.items()))
    for unit in (deploy / agent).glob("a2a-claude-*"):
        machine.put(f"/etc/systemd/system/{unit.name}", unit.read_text())
    machine.run("systemctl daemon-reload")

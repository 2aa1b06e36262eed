"""What the images are made of, and how one is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2a_claude import __version__
from tests.docker_engine import Engine

WHEEL = f"a2a_claude-{__version__}-py3-none-any.whl"
DEBIAN = "a2a-claude-test/debian:bookworm"
PYTHON = "a2a-claude-test/python:bookworm"
HARDENED = (
    "--rm",
    "--network=none",
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp:size=1g",
)
WORKSPACE = '/srv/it\'s "the" $HOME'
PROFILE: dict[str, dict[str, Any]] = {
    "defaults.e2e.yaml": {"deploy": {"package": WHEEL, "docker": {"baseImage": DEBIAN}}},
    "reviewer/agent.e2e.yaml": {
        "memory": {"instructions": "memory/CLAUDE.md"},
        "server": {"auth": {"bearer": {"tokensVariable": "CALLER_TOKENS"}}},
        "claude": {
            "settingSources": ["project"],
            "permissionMode": "dontAsk",
            "allowedTools": ["Bash"],
            "disallowedTools": [],
        },
        "deploy": {"docker": {"workspace": WORKSPACE, "labels": {"com.example.team": "$it's"}}},
    },
}


def build_image(engine: Engine, index: str, context: Path, tag: str, *options: str, buildkit: bool = False) -> str:
    """Builds a context with packages from `index`; gives the image's name."""
    image = f"a2a-claude-test/{tag}"
    arguments: tuple[str | Path, ...] = (
        "--network=host",
        f"--build-arg=PIP_INDEX_URL={index}",
        *options,
        "--tag",
        image,
        context,
    )
    engine.docker("build", *arguments, buildkit=buildkit)
    return image

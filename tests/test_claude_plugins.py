"""Marketplaces and plugins: installed and checked at start by the real CLI, without a question to the model."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from a2a_claude.claude.plugins import check_plugins
from a2a_claude.claude.session import OptionsError
from a2a_claude.claude.sessions import Pool
from a2a_claude.observe.redaction import Redactor
from tests.claude_support import KEY, make_processes, require_cli, turn
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.serving import environment, start, write_agent
from tests.tools import require

TEXT = (
    "Configured plugin(s) did not load: nope@own. Check that each marketplace source and ref/sha is correct and that "
    "the plugin name exists in that marketplace's manifest."
)


def marketplace(folder: Path) -> Path:
    """A marketplace `own` with the plugin `greet`, which has the skill `hello`."""
    files: dict[str, Any] = {
        ".claude-plugin/marketplace.json": {
            "name": "own",
            "owner": {"name": "us"},
            "plugins": [{"name": "greet", "source": "./greet", "description": "Greets."}],
        },
        "greet/.claude-plugin/plugin.json": {"name": "greet", "version": "1.0.0", "description": "Greets."},
        "greet/skills/hello/SKILL.md": "---\nname: hello\ndescription: Says hello to the world.\n---\nSay hello.\n",
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def directory(folder: Path) -> dict[str, str]:
    return {"source": "directory", "path": str(marketplace(folder / "own"))}


def repository(folder: Path) -> dict[str, str]:
    git = require("git", "apt-get install git")
    made = marketplace(folder / "own")
    author = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "one"], ["tag", "v1"]):
        subprocess.run([git, *command], cwd=made, check=True)
    return {"source": "git", "url": f"file://{made}", "ref": "v1"}


def enabling(source: dict[str, str], **plugins: bool) -> dict[str, Any]:
    return {
        "marketplaces": {"own": {"source": source}},
        "enabledPlugins": {f"{name}@own": enabled for name, enabled in plugins.items()},
    }


@pytest.mark.parametrize("made", [directory, repository])
def test_plugins_load_before_the_first_turn(tmp_path: Path, made: Any) -> None:
    require_cli()

    @asynchronous
    async def run() -> None:
        api = FakeAPI().start()
        processes = make_processes(tmp_path, api, claude=enabling(made(tmp_path), greet=True, nope=False))
        pool = Pool(processes)
        try:
            await check_plugins(processes, Redactor())
            assert api.messages == []
            await turn(pool, directive({"text": "ok"}))
            assert "Says hello to the world." in json.dumps(api.messages[-1]["body"])
        finally:
            await pool.shutdown(5)
            api.shutdown()

    run()


def test_a_plugin_that_the_marketplace_lacks_stops_the_start(tmp_path: Path) -> None:
    require_cli()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    config: dict[str, Any] = {
        "claude": {"workingDirectory": str(workspace), **enabling(directory(tmp_path), greet=True, nope=True)}
    }
    api = FakeAPI().start()
    try:
        environ = environment(ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY=KEY)
        served = start(
            tmp_path, write_agent(tmp_path, **config), "--port", "0", "--executor", "claude", environ=environ
        )
        assert served.wait() != 0
        said = "".join(served.raw)
        assert TEXT in said
        assert "Traceback" not in said
        assert api.messages == []
    finally:
        api.shutdown()


@asynchronous
async def test_a_marketplace_that_cannot_be_fetched_stops_the_start_and_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    require_cli()
    source = {"source": "git", "url": f"file://{tmp_path}/absent.git", "ref": "v1"}
    api = FakeAPI().start()
    try:
        processes = make_processes(tmp_path, api, claude=enabling(source, greet=True))
        with pytest.raises(OptionsError, match=r"did not load: greet@own\.") as caught:
            await check_plugins(processes, Redactor())
    finally:
        api.shutdown()
    assert caught.value.passes  # its host may be back later
    assert "Marketplace own could not be installed" in caplog.text


@asynchronous
async def test_a_claude_that_does_not_start_stops_the_start(tmp_path: Path) -> None:
    fake = str(Path(__file__).with_name("fake_claude.py"))
    claude = {
        **enabling(directory(tmp_path), greet=True),
        "executablePathOverride": fake,
        "env": {"FAKE_CLAUDE": "broken"},
    }
    processes = make_processes(tmp_path, None, claude=claude)
    with pytest.raises(OptionsError, match="could not be checked") as caught:
        await check_plugins(processes, Redactor())
    assert caught.value.passes
    nothing = make_processes(tmp_path, None, claude={**claude, **enabling(directory(tmp_path), greet=False)})
    await check_plugins(nothing, Redactor())

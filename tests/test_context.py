"""`/context` and `/context/build`: over HTTP with a stand-in, by the real CLI, and by a whole server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import falcon.asgi
import falcon.testing
import httpx
import pytest

from a2a_claude.a2a.context_resource import BUILD, CONTEXT, Context, ContextBuild
from a2a_claude.claude import context_file
from a2a_claude.claude.context import Built, ContextBuilder
from a2a_claude.claude.sessions import Pool
from a2a_claude.claude.usage import Usage
from a2a_claude.observe.redaction import Redactor
from tests.claude_support import make_processes, require_cli, turn
from tests.fake_anthropic_api import FakeAPI, directive
from tests.lifecycle import asynchronous
from tests.serving import PATIENCE
from tests.support import make_agent
from tests.test_claude_serve import claude


class Contexts:
    def __init__(self, text: bytes | None = None, built: Built | None = None) -> None:
        self.text, self.built = text, built or Built("# It\n")
        self.asked: list[str] = []

    async def read(self) -> bytes | None:
        return self.text

    async def build(self, prompt: str = "") -> Built:
        self.asked.append(prompt)
        return self.built


def client(contexts: Contexts) -> Any:
    app = falcon.asgi.App()
    app.add_route(CONTEXT, Context(contexts))
    app.add_route(BUILD, ContextBuild(contexts, 1000))
    return falcon.testing.TestClient(app)


def test_the_context_is_markdown_or_not_found() -> None:
    found = client(Contexts("# Ü\n".encode())).simulate_get(CONTEXT)
    assert (found.status_code, found.text, found.headers["content-type"]) == (
        200,
        "# Ü\n",
        "text/markdown; charset=utf-8",
    )
    missing = client(Contexts()).simulate_get(CONTEXT)
    assert missing.status_code == 404
    assert "/context/build" in missing.json["error"]


@pytest.mark.parametrize(
    ("body", "status", "asked"),
    [
        (b"", 200, [""]),
        (b"{}", 200, [""]),
        (b'{"prompt": "Say it."}', 200, ["Say it."]),
        (b'{"prompt": 1}', 400, []),
        (b"[]", 400, []),
        (b"{", 400, []),
        (b'{"prompt": "' + b"x" * 1000 + b'"}', 413, []),
    ],
)
def test_a_build_takes_a_prompt_or_nothing(body: bytes, status: int, asked: list[str]) -> None:
    contexts = Contexts()
    answer = client(contexts).simulate_post(BUILD, body=body)
    assert (answer.status_code, contexts.asked) == (status, asked)
    if status == 200:
        assert answer.json == {
            "status": "completed",
            "message": "Context file built",
            "response": "# It\n",
            "context": "# It\n",
        }


@pytest.mark.parametrize(
    ("reason", "status"), [("busy", 409), ("timeout", 504), ("rate_limit", 503), ("canceled", 503), ("max_turns", 500)]
)
def test_a_build_that_fails_says_why(reason: str, status: int) -> None:
    answer = client(Contexts(built=Built(reason=reason, problem="It did not."))).simulate_post(BUILD)
    assert answer.status_code == status
    assert answer.json == {"error": "It did not.", "reason": reason}


# By the real CLI


class Room:
    def __init__(self, folder: Path, document: dict[str, Any] | None = None, **settings: Any) -> None:
        require_cli()
        self.api = FakeAPI().start()
        self.processes = make_processes(folder, self.api, document, claude=settings)
        self.spent: list[Usage] = []
        self.builder = ContextBuilder(self.processes, Redactor(), self.spent.append)
        self.file = folder / "workspace" / "context.md"

    async def __aenter__(self) -> Room:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.builder.close()
        self.api.shutdown()


WRITES = {"tools": [{"name": "Bash", "input": {"command": "touch made", "description": "d"}}]}


@asynchronous
async def test_claude_reads_and_the_server_writes(tmp_path: Path) -> None:
    features = {"features": {"streamArtifactChunks": True}}
    async with Room(tmp_path, features, contextPrompt="Which colours are used?") as room:
        assert await room.builder.read() is None
        built = await room.builder.build(directive(WRITES, {"text": "# Overview"}))
        assert built == Built("# Overview\n")
        assert room.file.read_text() == "# Overview\n"
        assert await room.builder.read() == b"# Overview\n"
        assert not (tmp_path / "workspace" / "made").exists()
        assert room.spent[0].tokens["outputTokens"] > 0
        asked = room.api.messages[0]["body"]
        assert not {"Bash", "Write", "Edit", "NotebookEdit"} & {each["name"] for each in asked["tools"]}
        assert "Which colours" not in json.dumps(asked["messages"])
        await room.builder.build()
        assert "Which colours" in json.dumps(room.api.messages[-1]["body"]["messages"])
        pool = Pool(room.processes)
        try:
            await turn(pool, "hello")
        finally:
            await pool.shutdown(5)
        assert "is in the file context.md" in json.dumps(room.api.messages[-1]["body"]["system"])
        assert "context.md" not in json.dumps(asked["system"])


@asynchronous
async def test_a_failure_is_that_of_a_turn_and_leaves_the_file(tmp_path: Path) -> None:
    async with Room(tmp_path) as room:
        room.file.write_text("before")
        built = await room.builder.build(directive({"status": 401}))
        assert (built.reason, built.text) == ("authentication_failed", "")
        assert built.problem
        assert room.file.read_text() == "before"


@asynchronous
async def test_a_build_has_the_time_of_a_turn(tmp_path: Path) -> None:
    async with Room(tmp_path, {"timeouts": {"prompt": 3000}}) as room:
        built = await room.builder.build(directive({"pre_delay": 60, "text": "late"}))
        assert built.reason == "timeout"


@asynchronous
async def test_one_build_at_a_time_and_none_after_the_stop(tmp_path: Path) -> None:
    async with Room(tmp_path) as room:
        first = asyncio.create_task(room.builder.build(directive({"pre_delay": 60, "text": "late"})))
        while not room.api.messages:
            await asyncio.sleep(0.02)
        assert (await room.builder.build()).reason == "busy"
        await room.builder.close()
        assert (await first).reason == "canceled"
        assert not room.file.exists()


def test_a_link_in_the_place_of_the_file_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "workspace" / "docs" / "context.md"
    file.parent.mkdir(parents=True)
    secret.write_text("s3cret")
    file.symlink_to(secret)
    folder = str(tmp_path / "workspace")
    settings = make_agent({"claude": {"workingDirectory": folder, "contextFile": "docs/context.md"}}).config.claude
    assert context_file.read(settings) is None
    context_file.write(settings, "# Overview")
    assert secret.read_text() == "s3cret"
    assert context_file.read(settings) == b"# Overview"
    file.parent.rename(tmp_path / "moved")
    file.parent.symlink_to(tmp_path / "moved")
    assert context_file.read(settings) is None
    with pytest.raises(OSError, match="directory"):
        context_file.write(settings, "# Again")


# A whole server


def test_a_server_offers_the_context_behind_its_auth(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("alice:a-token-of-alice-32-characters-x\n")
    server = {"auth": {"bearer": {"tokensFile": str(tokens)}}}
    with claude(tmp_path, server=server) as (served, _):
        assert httpx.get(f"{served.url}/context").status_code == 401
        assert httpx.post(f"{served.url}/context/build").status_code == 401
        known = httpx.Client(headers={"Authorization": "Bearer a-token-of-alice-32-characters-x"}, timeout=PATIENCE)
        with known:
            assert known.get(f"{served.url}/context").status_code == 404
            body = {"prompt": directive({"text": "# Overview"})}
            assert known.post(f"{served.url}/context/build", json=body).json()["context"] == "# Overview\n"
            assert known.get(f"{served.url}/context").text == "# Overview\n"

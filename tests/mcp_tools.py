"""An MCP server on the `mcp` package: `python tests/mcp_tools.py [how]` on standard streams, `http` on a free port.

| how | what |
|---|---|
| `tools` | its tools work, each in the way of its name |
| `fails` | ends at once with code 3 |
| `hangs` | never answers |
| `http` | Streamable HTTP at `/mcp`, for who sends `TOKEN`; its port is written to the file named next |
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("tools")
TOKEN = "let-me-in"


@server.tool()
def echo(text: str) -> str:
    """Answers the text."""
    return text


@server.tool()
def mark(path: str) -> str:
    """Makes a file, so that whoever looks knows that it was called."""
    Path(path).touch()
    return "made"


@server.tool()
async def stall() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def die() -> str:
    """Ends the server in the middle of the call."""
    os._exit(7)


@server.tool()
def huge(length: int) -> str:
    """Answers so many characters."""
    return "x" * length


@server.tool()
async def grow(context: Context) -> str:
    """Adds the tool `late`, and tells that the list of tools has changed."""
    server.add_tool(mark, name="late")
    await context.notify_tools_changed()
    return "grown"


async def _guarded(scope: Any, receive: Any, send: Any) -> None:
    headers = dict(scope.get("headers", ()))
    if scope["type"] == "http" and headers.get(b"authorization") != f"Bearer {TOKEN}".encode():
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})
        return
    await _app(scope, receive, send)


def _serve_http(port_file: str) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    Path(port_file).write_text(str(listener.getsockname()[1]))
    print("listening", flush=True)
    uvicorn.Server(uvicorn.Config(_guarded, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fails"]:
            sys.exit(3)
        case ["hangs"]:
            time.sleep(3600)
        case ["http", port_file]:
            _app = server.streamable_http_app()
            _serve_http(port_file)
        case _:
            server.run()

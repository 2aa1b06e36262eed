"""A stdio MCP server with one tool, `environment`, that answers the variable it is asked for.

Its protocol is https://modelcontextprotocol.io/specification/2025-06-18/server/tools.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            version = request["params"]["protocolVersion"]
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "t", "version": "1"},
            }
        case "tools/list":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            return {"tools": [{"name": "environment", "description": "Reads a variable.", "inputSchema": schema}]}
        case "tools/call":
            text = os.environ.get(request["params"]["arguments"]["name"], "unset")
            return {"content": [{"type": "text", "text": text}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)

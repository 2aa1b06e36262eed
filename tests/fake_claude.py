#!/usr/bin/env python3
"""A program for `claude.executablePathOverride`: real process, streams, signals and exit codes, without the real CLI.

It answers each prompt with the prompt's text, or does what the first word says:

| word | what |
|---|---|
| `exit` | writes `giving up` to standard error and exits with code 3 |
| `child` | starts `sleep` in a session of its own, answers its pid |
| `env` | answers its environment as JSON |
| `hang` | says nothing more, and ignores SIGTERM |

With `FAKE_CLAUDE=silent` it never answers initialize; with `FAKE_CLAUDE=broken` it exits with code 4 at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from typing import Any

SESSION = next((each.partition("=")[2] for each in sys.argv if each.startswith("--resume=")), str(uuid.uuid4()))


def say(**frame: Any) -> None:
    print(json.dumps({**frame, "session_id": SESSION, "uuid": str(uuid.uuid4())}), flush=True)


def answer(prompt: dict[str, Any]) -> str:
    content = prompt["message"]["content"]
    text = content if isinstance(content, str) else "".join(each.get("text", "") for each in content)
    match text.partition(" ")[0]:
        case "exit":
            print("giving up", file=sys.stderr, flush=True)
            os._exit(3)
        case "child":
            child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
            return str(child.pid)
        case "env":
            return json.dumps(dict(os.environ))
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
    return text


def main() -> None:
    mode = os.environ.get("FAKE_CLAUDE")
    if mode == "broken":
        print("cannot start", file=sys.stderr, flush=True)
        sys.exit(4)
    for line in sys.stdin:
        frame = json.loads(line)
        if frame["type"] == "control_request" and mode != "silent":
            response = {"subtype": "success", "request_id": frame["request_id"], "response": {"commands": []}}
            print(json.dumps({"type": "control_response", "response": response}), flush=True)
        elif frame["type"] == "user":
            say(type="system", subtype="init", tools=[], model="claude-fake")
            text = answer(frame)
            say(
                type="result",
                subtype="success",
                is_error=False,
                result=text,
                duration_ms=1,
                duration_api_ms=1,
                num_turns=1,
                total_cost_usd=0.001,
                terminal_reason="completed",
                user_message_uuids=[frame["uuid"]],
            )


main()

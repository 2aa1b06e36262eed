"""Runs the command in its arguments in this process's place, a level below whoever started it: see `landlock.py`.

Claude Code's shell prefix puts it before what the agent runs. The first argument is a file of JSON with the arguments
of `landlock.hide`, for where Claude Code itself is under no Landlock; or empty, for where it is, and only its
environment and memory must be kept from its programs (`landlock.nest`).
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `-I` leaves it out

import landlock  # type: ignore[import-not-found]

try:
    hidden, kept = [], []
    if sys.argv[1]:
        with open(sys.argv[1], encoding="utf-8") as file:
            hidden, kept = json.load(file)
    if hidden or kept:
        landlock.hide(hidden, kept)
    else:
        landlock.nest()
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
except (OSError, ValueError) as error:
    sys.exit(f"{sys.argv[2]} cannot be run apart from what the server keeps for itself: {error}")

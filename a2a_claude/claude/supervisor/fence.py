"""Runs the command in its arguments in this process's place, a level below whoever started it: see `landlock.nest`.

Claude Code's shell prefix puts it before what the agent runs when a credential is in Claude Code's own environment,
where a program of the same user could read it in `/proc`.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # `-I` leaves it out

import landlock  # type: ignore[import-not-found]

try:
    landlock.nest()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606
except OSError as error:
    sys.exit(f"{sys.argv[1]} cannot be run apart from Claude's credentials: {error}")

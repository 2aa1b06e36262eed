"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# Machines here are shared: no deadlines. CI draws the same examples each time; a developer's machine draws new ones.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

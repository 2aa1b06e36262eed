"""The A2A protocol on Falcon: v1.0 and v0.3, JSON-RPC and REST, over any a2a-sdk `RequestHandler`."""

from __future__ import annotations

import os

# The SDK wraps its classes in spans at import time; ours are traced where the work is.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

from a2a_claude.a2a.deferred import PACKAGES, defer

for _package in PACKAGES:
    defer(_package)

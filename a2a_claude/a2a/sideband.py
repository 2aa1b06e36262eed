"""`Sideband`: who gets the artifacts of the trace extension, and whether the task keeps them.

An artifact that names the extension in its `extensions` (A2A v1.0 section 4.6) is telemetry. A stream gets it when its
request activated the extension, or `always`. Unless it is `stored` it is told to the streams that are open and is gone:
neither in the task nor among its changes, and no webhook hears of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from a2a.server.events.event_queue import Event
from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent

from a2a_claude.a2a.versions import TRACE_EXTENSION


@dataclass(frozen=True, slots=True)
class Sideband:
    """The config's `events.delivery` and `events.stored`."""

    always: bool = False
    stored: bool = False

    def takes(self, event: Event) -> bool:
        """Whether an executor's event is telemetry."""
        return isinstance(event, TaskArtifactUpdateEvent) and TRACE_EXTENSION in event.artifact.extensions

    @property
    def extension(self) -> str:
        """What a stream's request has to activate to get it; empty: nothing."""
        return "" if self.always else TRACE_EXTENSION

"""a2a-claude: a declarative agent config becomes a hardened Claude agent that other agents call over A2A.

What is in `__all__` is the public surface, told in docs/library.md; it is imported when it is first used, so that the
compiler does without the packages of the runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from a2a_claude.config.agent import Agent
    from a2a_claude.library import Application, ConfigError, load_agent, open_app, serve
    from a2a_claude.observe.events import Event, TryAgain
    from a2a_claude.observe.events import Transport as EventTransport
    from a2a_claude.runtime import StartError

__all__ = [
    "Agent",
    "Application",
    "ConfigError",
    "Event",
    "EventTransport",
    "StartError",
    "TryAgain",
    "__version__",
    "load_agent",
    "open_app",
    "serve",
]

_ELSEWHERE = {
    "Agent": "config.agent:Agent",
    "Event": "observe.events:Event",
    "EventTransport": "observe.events:Transport",
    "StartError": "runtime:StartError",
    "TryAgain": "observe.events:TryAgain",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _ELSEWHERE.get(name, f"library:{name}").partition(":")
    return getattr(import_module(f"{__name__}.{module}"), there)


def __dir__() -> list[str]:
    return __all__

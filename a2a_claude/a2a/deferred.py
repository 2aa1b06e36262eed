"""Packages of a2a-sdk whose `__init__` runs when somebody asks it for a name, and not before.

Each of them imports all of its modules: an HTTP client, the v0.3 models, senders and handlers that this server does
not use. They cost a third of a second of CPU at the start and 8 MB for good. Their submodules are imported as ever,
and `from a2a.server.events import EventQueue` still works: it runs the `__init__` then.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Any, Final

PACKAGES: Final = (
    "a2a.helpers",
    "a2a.utils",
    "a2a.server.events",
    "a2a.server.agent_execution",
    "a2a.server.request_handlers",
)


class Deferred(ModuleType):
    """A package that has its place and its path, and no content yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        # Before it runs: what it imports may ask for a name in turn, as in any import.
        self.__class__ = ModuleType  # type: ignore[assignment]
        loader: Any = self.__spec__ and self.__spec__.loader  # `defer` has seen to it that there is one
        loader.exec_module(self)
        return getattr(self, name)


def defer(package: str) -> None:
    """Has an installed package run its `__init__` later; one that has run is left alone."""
    parent, _, child = package.rpartition(".")
    if package in sys.modules or find_spec(parent.partition(".")[0]) is None:
        return
    spec = find_spec(package)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    module.__class__ = Deferred
    sys.modules[package] = module
    setattr(sys.modules[parent], child, module)

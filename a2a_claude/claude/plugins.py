"""The plugins of `claude.enabledPlugins` are there before anybody is served.

Claude Code says nothing of an enabled plugin that its marketplace does not have, and its events of the installation
tell of marketplaces only. So one process installs them at start, and what it has loaded is held against the config.
The command that it is given is Claude Code's own and asks no model.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol
from uuid import uuid4

from a2a_claude.claude.client import Client
from a2a_claude.claude.session import ClaudeError, Frame, OptionsError
from a2a_claude.config.model import Config
from a2a_claude.observe.redaction import Redactor

logger = logging.getLogger(__name__)

INSTALL_SECONDS: Final = 80.0
"""For all marketplaces; Claude Code gives up an unreachable host after about 75 s."""
_COMMAND: Final = "/reload-plugins"


class Apart(Protocol):
    """What starts the process; `Processes` does."""

    config: Config

    async def start_apart(self, config: Config, *, commands: bool = False) -> Client: ...


async def check_plugins(processes: Apart, redactor: Redactor, bound: float = INSTALL_SECONDS) -> None:
    """Installs what the config enables, within `bound` seconds.

    Raises:
        OptionsError: a plugin did not load, or it could not be found out.
    """
    wanted = [name for name, enabled in processes.config.claude.enabled_plugins.items() if enabled]
    if not wanted:
        return
    try:
        async with asyncio.timeout(bound):
            loaded = await _loaded(processes, redactor)
    except TimeoutError:
        told = f"The configured plugins could not be installed within {bound:g} s"
        raise OptionsError(told, passes=True) from None
    except ClaudeError as error:
        logger.error("%s", redactor.text(error.detail))
        told = f"The configured plugins could not be checked: {redactor.text(str(error))}"
        raise OptionsError(told, passes=True) from error
    if missing := [name for name in wanted if name not in loaded]:
        raise OptionsError(
            f"Configured plugin(s) did not load: {', '.join(missing)}. Check that each marketplace source and ref/sha "
            "is correct and that the plugin name exists in that marketplace's manifest.",
            passes=True,  # a marketplace may have been out of reach
        )
    logger.info("Plugins: %s", ", ".join(wanted), extra={"plugins": wanted})


async def _loaded(processes: Apart, redactor: Redactor) -> set[str]:
    client = await processes.start_apart(processes.config, commands=True)
    try:
        async for received in client.turn([{"type": "text", "text": _COMMAND}], str(uuid4())):
            match received.frame:
                case {"subtype": "plugin_install", "status": "failed", **failed}:
                    why = redactor.text(str(failed.get("error")))
                    logger.warning("Marketplace %s could not be installed: %s", failed.get("name"), why)
                case {"subtype": "init"}:
                    return _sources(received.frame)
    finally:
        await client.close()
    raise ClaudeError("Claude ended before it had loaded them")


def _sources(frame: Frame) -> set[str]:
    plugins = [each for each in frame.get("plugins") or () if isinstance(each, Mapping)]
    return {_text(each, "source") for each in plugins}


def _text(mapping: Mapping[str, Any], key: str) -> str:
    return str(mapping.get(key) or "")

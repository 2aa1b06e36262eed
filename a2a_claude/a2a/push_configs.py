"""Webhooks of tasks: registered, read, listed and deleted. Sending is the business of `push.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import PushNotificationNotSupportedError, TaskNotFoundError

from a2a_claude.a2a.engine import Engine
from a2a_claude.a2a.errors import invalid_params
from a2a_claude.a2a.ids import new_id
from a2a_claude.a2a.live import LiveTask
from a2a_claude.store import PushConfig, changes, codec
from a2a_claude.store.sqlite import milliseconds


class PushConfigs:
    """The webhooks of an engine's tasks. `limit` is per task; `check_url` raises InvalidParamsError for a bad URL."""

    def __init__(
        self, engine: Engine, *, supported: bool, limit: int, check_url: Callable[[str], Awaitable[None]] | None
    ) -> None:
        self._engine = engine
        self._supported = supported
        self._limit = limit
        self._check_url = check_url
        self._registration = asyncio.Lock()  # the limit counts what is committed

    def require(self) -> None:
        """PushNotificationNotSupportedError when the card does not offer it."""
        if not self._supported:
            raise PushNotificationNotSupportedError

    async def vet(self, config: TaskPushNotificationConfig, context: ServerCallContext) -> PushConfig:
        """A config that may be stored, with an id when it had none, and the protocol version that it came in."""
        self.require()
        if not config.url:
            raise invalid_params(("url", "is missing"))
        if self._limit == 0:
            raise invalid_params(("taskPushNotificationConfig", "this agent takes no webhooks"))
        if self._check_url:
            await self._check_url(config.url)
        stored = TaskPushNotificationConfig()
        stored.CopyFrom(config)
        stored.id = config.id or new_id()
        version = str(context.state.get("version") or "1.0")
        return PushConfig(config.task_id, stored.id, version, codec.encode_push_config(stored))

    async def create(
        self, config: TaskPushNotificationConfig, owner: str, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Registers a webhook, or replaces the one of the same id; returns it with its id."""
        self.require()
        self._engine.tasks.find(config.task_id, owner)
        vetted = await self.vet(config, context)
        async with self._registration:
            live = self._engine.tasks.find(config.task_id, owner)
            self._check_room(self._engine.store.push_configs(live.key), vetted.id)
            await self._engine.store.write([changes.put_push_config(live.key, owner, milliseconds(), vetted)])
            self._count(live)
        return codec.decode_push_config(vetted.json)

    def check_room(self, task_id: str, owner: str, config: PushConfig) -> None:
        """InvalidParamsError when a task has as many webhooks as it may."""
        self._check_room(self._engine.store.push_configs(self._engine.tasks.find(task_id, owner).key), config.id)

    def _check_room(self, known: list[PushConfig], config_id: str) -> None:
        if len(known) >= self._limit and config_id not in {each.id for each in known}:
            raise invalid_params(("taskId", f"this task has {len(known)} webhooks already, the most it may have"))

    def get(self, task_id: str, config_id: str, owner: str) -> TaskPushNotificationConfig:
        """One webhook; without an id the only one or the oldest (v0.3). TaskNotFoundError when there is none."""
        for config in self.list(task_id, owner):
            if config_id in ("", config.id):
                return config
        raise TaskNotFoundError(f"Task {task_id} has no push notification config {config_id}".rstrip())

    def list(self, task_id: str, owner: str) -> list[TaskPushNotificationConfig]:
        """The webhooks of a task, oldest first."""
        self.require()
        live = self._engine.tasks.find(task_id, owner)
        return [codec.decode_push_config(each.json) for each in self._engine.store.push_configs(live.key)]

    async def delete(self, task_id: str, config_id: str, owner: str) -> None:
        """Forgets a webhook; no error when there is none of this id."""
        self.require()
        live = self._engine.tasks.find(task_id, owner)
        await self._engine.store.write([changes.delete_push_config(live.key, config_id)])
        self._count(live)

    def _count(self, live: LiveTask) -> None:
        # Another LiveTask may have come into memory while the change was committed.
        for each in (live, self._engine.tasks.kept(live.id)):
            if each is not None:
                each.pushes = len(self._engine.store.push_configs(live.key))

"""Entity configs in ZooKeeper: reading, writing, and following the changes of others.

Job: `ConfigStore` reads and writes /config/<entity> nodes and notifies the other brokers through
/config/changes; `follow` watches those and calls back with each changed entity. A config is
written only while the cluster has a ZooKeeper controller (checked in the same transaction), as
Kafka does against a migration to KRaft in between.

Mirrors kafka.zk.AdminZkClient (changeConfigs).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

import trio

from ...protocol.sanitized_names import sanitize
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Check,
    Create,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SessionExpired,
    SetData,
    create_recursive,
    expect,
    run_one,
)
from ...replication.controller import znodes
from .change_notifications import ChangeNotifications

if TYPE_CHECKING:
    from .zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.configs")

MAX_WRITE_ATTEMPTS = 10
MAX_APPLIED_SECONDS = 1.0
DEFAULT_BROKER = "<default>"
CLIENT_METRICS = "client-metrics"
GROUPS = "groups"

T = TypeVar("T")
OnChange = Callable[[str, dict[str, str]], Awaitable[None]]


class NoController(Exception):
    """There is no controller at the moment, so configs cannot be written."""


def topic_entity(topic: str) -> str:
    return f"topics/{topic}"


def broker_entity(broker: str) -> str:
    """`broker` is an id, or empty for the default of all brokers."""
    return f"brokers/{broker or DEFAULT_BROKER}"


def client_metrics_entity(name: str) -> str:
    """The subscription to metrics of clients: /config/client-metrics/<name>, as Kafka's other
    entities. Kafka has it only without ZooKeeper."""
    return f"{CLIENT_METRICS}/{sanitize(name)}"


def group_entity(group_id: str) -> str:
    """The configs of a group, likewise."""
    return f"{GROUPS}/{sanitize(group_id)}"


def read_all_of(kind: str) -> Flow[dict[str, dict[str, str]]]:
    """The configs of all subscriptions to metrics, or of all groups, by their entities."""
    listing = yield from run_one(GetChildren(znodes.config_path(kind)))
    names = expect(listing, kind, ZkCode.NO_NODE).children
    return (yield from read_configs(f"{kind}/{name}" for name in names))


def read_configs(entities: Iterable[str]) -> Flow[dict[str, dict[str, str]]]:
    names = list(entities)
    results = yield [GetData(znodes.config_path(name)) for name in names]
    configs = {}
    for name, result in zip(names, results, strict=True):
        data = expect(result, name, ZkCode.NO_NODE).data
        try:
            configs[name] = znodes.decode_config(data)
        except znodes.MalformedZnode as error:
            logger.error("The configs of %s are left out: %s", name, error)
            configs[name] = {}
    return configs


def write_config(entity: str, config: Mapping[str, str]) -> Flow[int]:
    """Replace the config of an entity and notify all brokers; returns the notification's number."""
    path, data = znodes.config_path(entity), znodes.encode_config(config)
    for _ in range(MAX_WRITE_ATTEMPTS):
        controller = yield from run_one(GetData(znodes.CONTROLLER))
        if not controller.ok or controller.stat is None:
            raise NoController
        check = Check(znodes.CONTROLLER, controller.stat.version)
        written = yield from run_one(Multi((check, SetData(path, data))))
        if written.code is ZkCode.NO_NODE:
            yield from create_recursive(path.rpartition("/")[0])
            written = yield from run_one(Multi((check, Create(path, data))))
        if written.ok:
            break
        # The controller changed, or the node came or went meanwhile.
        expect(written, path, ZkCode.BAD_VERSION, ZkCode.NO_NODE, ZkCode.NODE_EXISTS)
    else:
        raise NoController
    return (yield from notify(entity))


def notify(entity: str) -> Flow[int]:
    """Tell all brokers that an entity's config has changed; returns the notification's number."""
    change = Create(
        znodes.CONFIG_CHANGE_PREFIX, znodes.encode_config_change(entity), sequential=True
    )
    created = expect((yield from run_one(change)), znodes.CONFIG_CHANGES)
    return znodes.sequence_number(created.path or "")


class ConfigStore:
    """The configs of all entities, as ZooKeeper has them now."""

    __slots__ = ("_changes", "_client")

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._changes: ChangeNotifications | None = None  # that are followed

    async def read(self, entity: str) -> dict[str, str]:
        return (await self.read_many([entity]))[entity]

    async def read_many(self, entities: Iterable[str]) -> dict[str, dict[str, str]]:
        return await self._client.run(read_configs(entities))

    async def write(self, entity: str, config: Mapping[str, str]) -> None:
        await self._client.run(write_config(entity, config))

    async def run(self, flow: Flow[T]) -> T:
        """Run any other flow that reads or writes configs."""
        return await self._client.run(flow)

    async def until_applied(self, number: int) -> None:
        """Wait until this broker has applied the change of this number, but not for long: other
        brokers apply it without being waited for.
        """
        if self._changes is not None:
            with trio.move_on_after(MAX_APPLIED_SECONDS):
                await self._changes.until_applied(number)

    async def follow(
        self,
        on_change: OnChange,
        clock: Callable[[], int],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `on_change(entity, config)` for every change, until cancelled.

        Changes announced before the start count as seen: the caller reads the entities it needs
        first.
        """

        async def notify(changes: Iterable[bytes | None]) -> None:
            for entity in dict.fromkeys(map(znodes.decode_config_change, changes)):
                if entity is not None:
                    await self._notify(entity, on_change)

        changes = self._changes = ChangeNotifications(self._client, znodes.CONFIG_CHANGES)
        await changes.follow(notify, clock, task_status=task_status)

    async def _notify(self, entity: str, on_change: OnChange) -> None:
        """Call back for one entity; a bad config must not keep others from being applied."""
        try:
            await on_change(entity, await self.read(entity))
        except SessionExpired:
            raise
        except Exception:
            logger.exception("Applying the changed config of %s failed", entity)

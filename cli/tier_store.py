"""The store of a command about the remote tier, and the metadata that the cluster has of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from .addresses import read_properties
from .options import UserError, run_client

if TYPE_CHECKING:
    from ..client.admin.admin import Admin
    from ..storage.remote.segments import RemoteLogSegmentMetadata
    from ..storage.remote.storage_manager import RemoteStorageManager
    from .target import Target

READERS: Final = 4
POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0  # without any record of the metadata topic


class StoreOptions(NamedTuple):
    where: str | None
    settings: tuple[str, ...]
    broker_config: Path | None

    def open(self) -> RemoteStorageManager:
        """Raises UserError."""
        from ..storage.remote.loading import InvalidStorageManager, load, manager_at

        if (self.where is None) == (self.broker_config is None):
            raise UserError("name the store: --tier DIR|URL, or --broker-config FILE")
        if self.where is not None:
            class_name, configs = manager_at(self.where)
        else:
            assert self.broker_config is not None
            file = self.broker_config
            properties = read_properties(file)
            prefix = properties.get("remote.log.storage.manager.impl.prefix", "rsm.config.")
            class_name = properties.get("remote.log.storage.manager.class.name", "")
            if not class_name:
                raise UserError(
                    f"{self.broker_config} has no remote.log.storage.manager.class.name"
                )
            configs = {
                key.removeprefix(prefix): value
                for key, value in properties.items()
                if key.startswith(prefix)
            }
        for setting in self.settings:
            key, separator, value = setting.partition("=")
            if not separator:
                raise UserError(f"{key!r} is not KEY=VALUE")
            configs[key] = value
        try:
            return load(class_name, {"broker.id": "-1", **configs})
        except InvalidStorageManager as error:
            raise UserError(str(error)) from error


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--tier, --tier-config and --broker-config, as `store`."""

    @click.option("--tier", "where", metavar="DIR|URL", help="The store: a directory, or s3://...")
    @click.option(
        "--tier-config",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="A config of the storage manager, without the prefix. May be repeated.",
    )
    @click.option(
        "--broker-config",
        type=click.Path(path_type=Path, exists=True, dir_okay=False, readable=True),
        metavar="FILE",
        help="The server.properties of a broker, which names the store.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: object,
        where: str | None,
        settings: tuple[str, ...],
        broker_config: Path | None,
        **rest: object,
    ) -> object:
        return command(*args, store=StoreOptions(where, settings, broker_config), **rest)

    return wrapped


def metadata_of(target: Target, topics: Sequence[str]) -> list[RemoteLogSegmentMetadata]:
    """The segments that the metadata topic knows, in the order of partitions and offsets."""
    from ..protocol.errors import ErrorCode, ProtocolError
    from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC
    from ..storage.remote.metadata_cache import RemoteLogMetadataCache
    from ..storage.remote.metadata_records import read
    from ..storage.remote.segments import RemotePartitionDeleteMetadata, TopicIdPartition

    caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}

    def take(value: bytes | memoryview | None) -> None:
        try:
            record = None if value is None else read(value)
        except ProtocolError:
            return
        if record is None or isinstance(record, RemotePartitionDeleteMetadata):
            return
        if not topics or record.topic_id_partition.topic in topics:
            caches.setdefault(record.topic_id_partition, RemoteLogMetadataCache()).apply(record)

    async def work(admin: Admin) -> None:
        answer = (await admin.client.metadata([REMOTE_LOG_METADATA_TOPIC])).topics[0]
        if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
        places = [(REMOTE_LOG_METADATA_TOPIC, one.partition_index) for one in answer.partitions]
        async with target.consumer(
            auto_offset_reset="earliest", allow_auto_create_topics=False
        ) as consumer:
            starts = await consumer.beginning_offsets(places)
            ends = await consumer.end_offsets(places)
            left = {place for place in places if starts[place] < ends[place]}
            await consumer.assign(left)
            waited_seconds = 0.0
            while left:
                records = await consumer.poll(POLL_SECONDS)
                waited_seconds = 0.0 if records else waited_seconds + POLL_SECONDS
                if waited_seconds >= PATIENCE_SECONDS:
                    raise UserError(f"{REMOTE_LOG_METADATA_TOPIC} cannot be read to its end")
                for one in records:
                    take(one.value)
                    if one.offset + 1 >= ends[one.topic, one.partition]:
                        left.discard((one.topic, one.partition))

    async def run() -> None:
        async with target.opened() as admin:
            await work(admin)

    run_client(run)
    ordered = sorted(caches, key=lambda one: (one.topic, one.partition, one.topic_id))
    return [segment for partition in ordered for segment in caches[partition].segments()]

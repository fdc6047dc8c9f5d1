"""The store of a command about the remote tier, and the metadata that the cluster has of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from .addresses import read_properties
from .options import UserError

if TYPE_CHECKING:
    from ..client.consumer.consumer import Consumer
    from ..storage.remote.segments import RemoteLogSegmentMetadata
    from ..storage.remote.storage_manager import RemoteStorageManager
    from .target import Target

READERS: Final = 4


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
    from ..local.tiered_topics import read_segments

    def consumer() -> Consumer:
        return target.consumer(auto_offset_reset="earliest", allow_auto_create_topics=False)

    return target.ask(lambda admin: read_segments(admin, consumer, topics))

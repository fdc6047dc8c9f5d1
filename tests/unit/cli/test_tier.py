"""`pybroker tier`, with segments that were copied to folders and their metadata in a broker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import trio
from click.testing import CliRunner

from pybroker_kafka.broker.remote.metadata_config import MetadataTopicConfig
from pybroker_kafka.broker.remote.topic_metadata_manager import TopicRemoteLogMetadataManager
from pybroker_kafka.cli.main import main
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.support.in_process import broker, zookeeper
from tests.support.patience import eventually

from ..storage.remote.test_audit import Tier, flipped
from ..storage.remote.tiers import PARTITION

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


class Place(NamedTuple):
    port: int
    manager: TopicRemoteLogMetadataManager
    tier: Tier

    async def run(self, *words: str, status: int = 0) -> str:
        """The standard output of a command."""

        def invoke() -> Any:
            where = ["--bootstrap-server", f"127.0.0.1:{self.port}"]
            return CliRunner().invoke(main, ["tier", *words, *where])

        done = await trio.to_thread.run_sync(invoke)
        assert done.exit_code == status, done.output
        return str(done.stdout)

    async def verify(self, *words: str, status: int = 0) -> list[dict[str, Any]]:
        where = ["--tier", str(self.tier.directory / "tier")]
        found = await self.run("verify", "--json", *where, *words, status=status)
        rows: list[dict[str, Any]] = json.loads(found)
        return rows

    async def update(self, number: int, state: RemoteLogSegmentState) -> None:
        segment = self.tier.segments[number].segment_id
        await self.manager.update(RemoteLogSegmentMetadataUpdate(segment, 1, None, state, 1))


def is_ready(manager: TopicRemoteLogMetadataManager) -> bool:
    try:
        manager.segments(PARTITION)
    except RemoteStorageError:
        return False
    return True


@asynccontextmanager
async def tiered(directory: Path) -> AsyncIterator[Place]:
    """A broker whose metadata topic knows three segments of folders."""
    tier = Tier(directory)
    config = MetadataTopicConfig(replication_factor=1, partitions=2)
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, directory / "broker") as one,
        trio.open_nursery() as nursery,
    ):
        manager = TopicRemoteLogMetadataManager(config, lambda: Cluster(f"127.0.0.1:{one.port}"))
        place = Place(one.port, manager, tier)
        assert "no segments" in await place.run("list")
        await nursery.start(manager.run)
        manager.on_leadership([PARTITION], [])
        await eventually(lambda: is_ready(manager))
        for number, segment in enumerate(tier.segments):
            await manager.add(replace(segment, state=STARTED))
            await place.update(number, FINISHED)
        yield place
        nursery.cancel_scope.cancel()


async def test_segments_are_listed_and_verified(tmp_path: Path) -> None:
    async with tiered(tmp_path) as place:
        (row,) = json.loads(await place.run("list", "--json"))
        size = place.tier.segments[0].segment_size_bytes
        assert row == {
            "partition": "history-3", "segments": 3, "bytes": 3 * size,
            "first_offset": 0, "last_offset": 59, "copying": 0, "deleting": 0,
        }  # fmt: skip
        segments = json.loads(await place.run("list", "history", "--segments", "--json"))
        assert [one["first_offset"] for one in segments] == [0, 20, 40]
        assert "COPY_SEGMENT_FINISHED" in await place.run("list", "--segments")
        assert json.loads(await place.run("list", "other", "--json")) == []
        assert await place.verify() == []
        assert await place.verify("history", "--names-only") == []

        log = place.tier.path(1, ".log")
        log.write_bytes(flipped(log.read_bytes(), 100))
        (fault,) = await place.verify(status=1)
        assert fault["fault"] == "damaged"
        assert "another CRC" in fault["text"]
        assert await place.verify("--names-only") == []
        await place.update(2, DELETING)
        assert {one["fault"] for one in await place.verify(status=1)} == {"damaged", "unfinished"}
        await place.update(2, DELETED)
        assert {one["fault"] for one in await place.verify(status=1)} == {"damaged", "orphan"}
        assert await place.verify("other") == []

        properties = tmp_path / "server.properties"
        properties.write_text(
            "remote.log.storage.manager.class.name="
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage\n"
            f"rsm.config.dir={place.tier.directory / 'tier'}\n"
        )
        said = await place.run("verify", "--broker-config", str(properties), status=1)
        assert "orphan" in said

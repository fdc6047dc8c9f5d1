"""The metadata topic in running brokers: written by one, read by both, ready after a restart."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.config import ConfigError
from pybroker_kafka.broker.remote.metadata_config import MetadataTopicConfig, metadata_topic_config
from pybroker_kafka.broker.remote.topic_metadata_manager import TopicRemoteLogMetadataManager
from pybroker_kafka.client.admin.config_types import ConfigResource, ResourceKind
from pybroker_kafka.client.admin.configs import Configs
from pybroker_kafka.client.admin.topics import create_topic
from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from pybroker_kafka.storage.remote.metadata_topic import RemoteLogNotReadyError
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.support.in_process import broker, zookeeper
from tests.support.patience import eventually

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
ONE = TopicIdPartition(bytes([1] * 16), "one", 0)
TWO = TopicIdPartition(bytes([2] * 16), "two", 1)
CONFIG = MetadataTopicConfig(replication_factor=1, partitions=3)


def started(partition: TopicIdPartition, number: int) -> RemoteLogSegmentMetadata:
    start = number * 10
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(partition, number.to_bytes(16)),
        start, start + 9, 0, 1, 0, 100, ((0, start),),
    )  # fmt: skip


def finished(partition: TopicIdPartition, number: int) -> RemoteLogSegmentMetadataUpdate:
    segment_id = RemoteLogSegmentId(partition, number.to_bytes(16))
    return RemoteLogSegmentMetadataUpdate(segment_id, 1, b"where", FINISHED, 1)


@asynccontextmanager
async def managing(
    port: int, config: MetadataTopicConfig = CONFIG
) -> AsyncIterator[TopicRemoteLogMetadataManager]:
    manager = TopicRemoteLogMetadataManager(config, lambda: Cluster(f"127.0.0.1:{port}"))
    async with trio.open_nursery() as nursery:
        await nursery.start(manager.run)
        yield manager
        nursery.cancel_scope.cancel()


def is_ready(manager: TopicRemoteLogMetadataManager, partition: TopicIdPartition) -> bool:
    try:
        manager.segments(partition)
    except RemoteLogNotReadyError:
        return False
    return True


async def until_ready(manager: TopicRemoteLogMetadataManager, partition: TopicIdPartition) -> None:
    await eventually(lambda: is_ready(manager, partition))


async def test_records_are_written_read_back_and_read_again(tmp_path: Path) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as one:
        async with managing(one.port) as manager, managing(one.port) as other:
            with pytest.raises(RemoteLogNotReadyError, match="cannot be written yet"):
                await manager.add(started(ONE, 0))
            with pytest.raises(RemoteStorageError, match="is not read here"):
                manager.segments(ONE)
            manager.on_leadership([ONE], [])
            await until_ready(manager, ONE)
            for number in range(3):
                await manager.add(started(ONE, number))
                await manager.update(finished(ONE, number))
                assert manager.highest_offset(ONE, 0) == number * 10 + 9
            manager.on_leadership([TWO], [])
            await until_ready(manager, TWO)
            await manager.add(started(TWO, 7))
            assert [one.start_offset for one in manager.segments(TWO)] == [70]
            assert manager.segment(TWO, 0, 75) is None
            found = manager.segment(ONE, 0, 15)
            assert found is not None
            assert (found.start_offset, found.custom_metadata) == (10, b"where")
            with pytest.raises(RemoteStorageError, match="is unknown"):
                await manager.update(finished(ONE, 9))
            # Another broker, and this one after a restart.
            other.on_leadership([], [ONE])
            await until_ready(other, ONE)
            assert other.segments(ONE) == manager.segments(ONE)
            manager.on_stopped([ONE])
            with pytest.raises(RemoteStorageError, match="is not read here"):
                manager.segments(ONE)
        async with managing(one.port) as manager:
            manager.on_leadership([TWO], [ONE])
            await until_ready(manager, ONE)
            assert len(manager.segments(ONE, 0)) == 3
        async with Cluster(f"127.0.0.1:{one.port}") as cluster:
            topic = ConfigResource(ResourceKind.TOPIC, REMOTE_LOG_METADATA_TOPIC)
            configs = (await Configs(cluster).describe([topic]))[topic]
            values = {config.name: config.value for config in configs}
            assert values["retention.ms"] == "-1"
            assert values["cleanup.policy"] == "delete"
            assert values["remote.storage.enable"] == "false"


async def test_a_topic_with_other_partitions_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with zookeeper() as zookeeper_port, broker(zookeeper_port, tmp_path) as one:
        async with Cluster(f"127.0.0.1:{one.port}") as cluster:
            await create_topic(
                cluster, REMOTE_LOG_METADATA_TOPIC, partitions=2, replication_factor=1
            )
        async with managing(one.port) as manager:
            await eventually(lambda: "has 2 partitions" in caplog.text)
            with pytest.raises(RemoteStorageError, match=r"num\.partitions is 3"):
                await manager.add(started(ONE, 0))


async def test_a_topic_that_cannot_be_made_is_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = MetadataTopicConfig(
        replication_factor=2, partitions=1, retry_timeout_ms=0, retry_interval_ms=10
    )
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, tmp_path / "one") as one,
        managing(one.port, config) as manager,
    ):
        await eventually(lambda: "is tried again" in caplog.text)
        assert caplog.text.count("is tried again") == 1
        manager.on_leadership([ONE], [])
        async with broker(zookeeper_port, tmp_path / "two", broker_id="4"):
            await until_ready(manager, ONE)


async def test_another_producer_begins_when_one_has_ended(tmp_path: Path) -> None:
    async with (
        zookeeper() as zookeeper_port,
        broker(zookeeper_port, tmp_path) as one,
        managing(one.port) as manager,
    ):
        manager.on_leadership([ONE], [])
        await until_ready(manager, ONE)
        await manager.add(started(ONE, 0))
        first = manager._producer
        manager._producer_ended.set()
        await eventually(lambda: manager._producer not in (None, first))
        await manager.add(started(ONE, 1))
        manager.on_leadership([TWO], [])
        await until_ready(manager, TWO)
        assert [one.start_offset for one in manager.segments(ONE)] == [0, 10]


async def test_wrong_settings_of_its_clients_are_told(caplog: pytest.LogCaptureFixture) -> None:
    manager = TopicRemoteLogMetadataManager(
        CONFIG, lambda: Cluster("nowhere:1", security={"security.protocol": "SECRET"})
    )
    await manager.run()
    assert "Tiered storage cannot work: security.protocol=SECRET" in caplog.text
    with pytest.raises(RemoteStorageError, match=r"security\.protocol"):
        await manager.add(started(ONE, 0))


def test_configs_are_those_of_kafka() -> None:
    assert metadata_topic_config({}, "rlmm.config.") == MetadataTopicConfig()
    found = metadata_topic_config(
        {
            "remote.log.metadata.topic.num.partitions": "5",
            "remote.log.metadata.topic.retention.ms": "-1",
            "remote.log.metadata.common.client.bootstrap.servers": "b:9092",
            "unknown": "x",
        },
        "rlmm.config.",
    )
    assert (found.partitions, found.client) == (5, {"bootstrap.servers": "b:9092"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topic.num.partitions", "0"),
        ("topic.replication.factor", "many"),
        ("topic.retention.ms", "0"),
        ("consume.wait.ms", "-1"),
    ],
)
def test_bad_configs_are_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"rlmm\.config\.remote\.log\.metadata\.{key}={value} "):
        metadata_topic_config({f"remote.log.metadata.{key}": value}, "rlmm.config.")

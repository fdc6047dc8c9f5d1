"""A broker with tiered storage on folders: copy, local deletion, reads through both tiers, restart,
deletion."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from pathlib import Path

import trio

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.storage.remote.loading import LOCAL_TIERED_STORAGE
from tests.support.in_process import RunningBroker, broker, zookeeper
from tests.support.patience import until
from tests.support.processes import free_port
from tests.support.wire import Topic, WireClient, unique
from tests.wire.test_offsets import list_offsets

EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -4, -5
COUNT = 40
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "600",
    "local.retention.bytes": "1",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}


def configs_of(directory: Path, **more: str) -> dict[str, str]:
    return {
        "remote_log_storage_system_enable": "true",
        "remote_log_storage_manager_class_name": LOCAL_TIERED_STORAGE,
        "rsm_config_dir": str(directory),
        "rlmm_config_remote_log_metadata_topic_num_partitions": "1",
        "rlmm_config_remote_log_metadata_topic_replication_factor": "1",
        "remote_log_manager_task_interval_ms": "50",
        "log_retention_check_interval_ms": "100",
        "log_initial_task_delay_ms": "0",
        "offsets_topic_num_partitions": "1",
        "transaction_state_log_num_partitions": "1",
        **more,
    }


async def in_thread(running: RunningBroker, work: Callable[[WireClient], None]) -> None:
    def run() -> None:
        with WireClient(f"127.0.0.1:{running.port}") as kafka:
            work(kafka)

    await trio.to_thread.run_sync(run)


def assigned_topic(kafka: WireClient, replicas: list[int]) -> Topic:
    """A tiered topic of one partition."""
    topic = CreatableTopic(
        name=unique(),
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in TIERED.items()],
    )
    (made,) = kafka.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
    assert made.error_code == ErrorCode.NONE, made
    return Topic(topic.name, made.topic_id)


def fill(kafka: WireClient, topic: Topic, first: int = 0) -> None:
    for number in range(first, first + COUNT):
        kafka.append(topic.name, b"x" * 50 + b"%d" % number, timestamp=1000 + number)


def read_all(kafka: WireClient, topic: Topic, offset: int = 0, count: int = COUNT) -> None:
    """Fetch from an offset to the end, and compare every record."""
    while offset < count:
        records = kafka.read(topic, offset)
        for record in records:
            if record.offset < offset:
                continue
            assert record.offset == offset
            assert record.value == b"x" * 50 + b"%d" % offset
            offset += 1


def offset_of(kafka: WireClient, topic: Topic, timestamp: int) -> int:
    answer = list_offsets(kafka, 9, topic.name, timestamp)
    assert answer.error_code == ErrorCode.NONE
    offset: int = answer.offset
    return offset


def tier_gauge(port: int, name: str, topic: Topic) -> float:
    return gauge(port, f'kafka_server_brokertopicmetrics_{name}{{topic="{topic.name}"}}')


def gauge(port: int, label: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    (value,) = (float(line.split()[1]) for line in lines if line.startswith(label))
    return value


def test_the_life_of_a_tiered_topic(tmp_path: Path) -> None:
    tier, logs = tmp_path / "tier", tmp_path / "logs"
    topics: list[Topic] = []
    metrics_port = free_port()

    def before_restart(kafka: WireClient) -> None:
        topic = kafka.configured_topic(TIERED)
        topics.append(topic)
        fill(kafka, topic)
        until(lambda: offset_of(kafka, topic, EARLIEST_LOCAL) > COUNT - 10)
        check(kafka)
        until(lambda: tier_gauge(metrics_port, "remotecopylagsegments", topic) == 0)
        stored = sum(path.stat().st_size for path in tier.rglob("*.log"))
        until(lambda: tier_gauge(metrics_port, "remotelogsizebytes", topic) == stored)
        # Kafka's class of this pool is in another package than the rest.
        pool = "org_apache_kafka_storage_internals_log_remotestoragethreadpool_"
        assert gauge(metrics_port, pool + "remotelogreadertaskqueuesize") == 0
        until(lambda: gauge(metrics_port, pool + "remotelogreaderavgidlepercent") == 1)
        times = "kafka_log_remote_remotelogmanager_remotelogreaderfetchrateandtimems"
        assert gauge(metrics_port, times + "_count") > 0
        assert gauge(metrics_port, times + '{quantile="0.99"}') > 0

    def check(kafka: WireClient) -> None:
        (topic,) = topics
        local = offset_of(kafka, topic, EARLIEST_LOCAL)
        assert offset_of(kafka, topic, EARLIEST) == 0
        assert offset_of(kafka, topic, LATEST_TIERED) >= local - 1
        read_all(kafka, topic)
        for number in (0, 7, local - 1, local, COUNT - 1):
            assert offset_of(kafka, topic, 1000 + number) == number
        assert offset_of(kafka, topic, 5000) == -1

    def after_restart(kafka: WireClient) -> None:
        (topic,) = topics
        until(lambda: offset_of(kafka, topic, LATEST_TIERED) > 0)
        check(kafka)
        kafka.call(DeleteTopicsRequest(topic_names=[topic.name], timeout_ms=30_000), 3)
        until(lambda: [name for _, _, names in os.walk(tier) for name in names] == [])

    async def scenario() -> None:
        async with zookeeper() as port:
            async with broker(port, logs, metrics_port, **configs_of(tier)) as running:
                await in_thread(running, before_restart)
                await running.stop()
            async with broker(port, logs, None, **configs_of(tier)) as running:
                await in_thread(running, after_restart)
                await running.stop()

    trio.run(scenario)


def test_a_new_replica_begins_behind_the_tier_and_leads(tmp_path: Path) -> None:
    """Broker 4 joins a partition that broker 3 has mostly in the tier, and takes it over; then it
    copies on, and consumers read everything from it."""
    tier = tmp_path / "tier"
    topics: list[Topic] = []

    def fill_first(kafka: WireClient) -> None:
        topics.append(assigned_topic(kafka, [3]))
        fill(kafka, topics[0])
        until(lambda: offset_of(kafka, topics[0], EARLIEST_LOCAL) > COUNT - 10)

    def move(kafka: WireClient, replicas: list[int]) -> None:
        partition = ReassignablePartition(partition_index=0, replicas=replicas)
        topic = ReassignableTopic(name=topics[0].name, partitions=[partition])
        request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=[topic])
        assert kafka.call(request, 0).error_code == ErrorCode.NONE

    def leader(kafka: WireClient) -> tuple[int, list[int]]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topics[0].name)])
        ((found,),) = (topic.partitions for topic in kafka.call(request, 9).topics)
        return found.leader_id, sorted(found.isr_nodes)

    def join(kafka: WireClient) -> None:
        move(kafka, [3, 4])
        until(lambda: leader(kafka) == (3, [3, 4]))
        move(kafka, [4])
        until(lambda: leader(kafka) == (4, [4]))

    def read(kafka: WireClient) -> None:
        (topic,) = topics
        assert offset_of(kafka, topic, EARLIEST) == 0
        assert offset_of(kafka, topic, EARLIEST_LOCAL) > COUNT - 10
        read_all(kafka, topic)
        fill(kafka, topic, COUNT)
        until(lambda: offset_of(kafka, topic, EARLIEST_LOCAL) > 2 * COUNT - 10)
        read_all(kafka, topic, count=2 * COUNT)
        assert offset_of(kafka, topic, 1000 + COUNT + 3) == COUNT + 3

    async def scenario() -> None:
        async with (
            zookeeper() as port,
            broker(port, tmp_path / "3", None, **configs_of(tier)) as one,
            broker(port, tmp_path / "4", None, broker_id="4", **configs_of(tier)) as other,
        ):
            await in_thread(one, fill_first)
            await in_thread(one, join)  # the controller
            await in_thread(other, read)
            await one.stop()
            await other.stop()

    trio.run(scenario)

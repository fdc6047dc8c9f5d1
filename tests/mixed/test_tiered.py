"""A broker of ours and one of Apache Kafka share a tier: each reads the segments that the other
copied, by the metadata that the other wrote; killed in turn, no acknowledged record is lost.

Partition 0 is led by ours at first, partition 1 by Apache Kafka, whose storage manager is its own
LocalTieredStorage.
"""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker_kafka.storage.remote.loading import LOCAL_TIERED_STORAGE
from tests.support.apache_kafka import ApacheKafkaProcess, java_of, kafka_jars, tiered_storage_jar
from tests.support.patience import until
from tests.support.processes import PYBROKER, BrokerProcess, zookeeper_process

pytestmark = pytest.mark.timeout(900)

TOPIC = "history"
OURS, THEIRS = 1, 2
CONFIG = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "remote.log.manager.task.interval.ms": "500",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.storage.manager.class.name": LOCAL_TIERED_STORAGE,
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "10000",
}
TOPIC_CONFIG = {
    "remote.storage.enable": "true",
    "segment.bytes": "20000",
    "local.retention.bytes": "20000",
    "file.delete.delay.ms": "100",
}
RECORDS = 400  # of 500 bytes each: about ten segments a partition
VALUE_BYTES = 500
VERIFY_SECONDS = 120


class Ledger:
    """What was acknowledged, by partition and offset."""

    def __init__(self) -> None:
        self.acknowledged: defaultdict[int, dict[int, bytes]] = defaultdict(dict)

    def produce(self, bootstrap: str) -> None:
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})

        def note(error: object, message: confluent_kafka.Message) -> None:
            assert error is None, error
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert value is not None
            self.acknowledged[partition][offset] = bytes(value)

        for number in range(RECORDS):
            for partition in (0, 1):
                value = b"%d-%d-" % (partition, number)
                producer.produce(
                    TOPIC, value.ljust(VALUE_BYTES, b"."), partition=partition, on_delivery=note
                )
                if number % 10 == 9:
                    producer.flush()
        assert producer.flush(120) == 0

    def check_at(self, bootstrap: str) -> None:
        """All of it is read from the beginning."""
        for partition, expected in self.acknowledged.items():
            assert read_all(bootstrap, partition, max(expected)) == expected


def read_all(bootstrap: str, partition: int, last: int) -> dict[int, bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0)])
    found: dict[int, bytes] = {}

    def more() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            offset, value = message.offset(), message.value()
            assert offset is not None
            found[offset] = bytes(value or b"")
        return last in found

    try:
        until(more, lambda: f"partition {partition} to {last}: {len(found)} read")
    finally:
        consumer.close()
    return found


def first_local_offset(broker: BrokerProcess, partition: int) -> int:
    logs = (broker.log_dir / f"{TOPIC}-{partition}").glob("*.log")
    return min((int(path.stem) for path in logs), default=-1)


def leaders(admin: AdminClient) -> dict[int, int]:
    partitions = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
    return {number: one.leader for number, one in partitions.items()}


def has_leader(admin: AdminClient, node: int) -> bool:
    return set(leaders(admin).values()) == {node}


def is_mostly_remote(broker: BrokerProcess) -> bool:
    """Whether it has removed the older half of both partitions, which are in the tier."""
    return all(first_local_offset(broker, one) > RECORDS // 2 for one in (0, 1))


def in_sync(admin: AdminClient) -> bool:
    partitions = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions
    return all(len(one.isrs) == 2 for one in partitions.values())


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    jars = kafka_jars()
    config = {**CONFIG, "rsm.config.dir": str(tmp_path / "tier")}
    java = [*java_of(jars), "-cp", f"{jars}/*:{tiered_storage_jar()}"]
    with zookeeper_process(tmp_path) as connect:
        ours = BrokerProcess(tmp_path / "ours", connect, config, OURS)
        theirs = ApacheKafkaProcess(tmp_path / "theirs", connect, config, THEIRS, java=java)
        try:
            ours.start()
            theirs.start()
            yield ours, theirs
        finally:
            ours.kill()
            theirs.kill()


def test_each_kind_reads_the_tier_of_the_other(
    tmp_path: Path, brokers: tuple[BrokerProcess, BrokerProcess]
) -> None:
    ours, theirs = brokers
    both = f"{ours.bootstrap},{theirs.bootstrap}"
    admin = AdminClient({"bootstrap.servers": both})
    placement = [[OURS, THEIRS], [THEIRS, OURS]]
    topic = NewTopic(TOPIC, 2, replica_assignment=placement, config=TOPIC_CONFIG)
    until(lambda: len(admin.list_topics(timeout=30).brokers) == 2)
    admin.create_topics([topic])[TOPIC].result(60)
    until(lambda: leaders(admin) == {0: OURS, 1: THEIRS})
    ledger = Ledger()
    ledger.produce(both)
    for broker in brokers:
        until(partial(is_mostly_remote, broker), lambda: f"{ours.log_text}\n{theirs.log_text}")
    ledger.check_at(both)
    for victim, survivor in ((theirs, ours), (ours, theirs)):
        until(lambda: in_sync(admin))
        victim.kill()
        alive = OURS if survivor is ours else THEIRS
        until(partial(has_leader, admin, alive))
        ledger.check_at(survivor.bootstrap)
        ledger.produce(survivor.bootstrap)
        ledger.check_at(survivor.bootstrap)
        victim.start()
    until(lambda: in_sync(admin))
    ledger.check_at(both)
    command = [*PYBROKER, "tier", "verify", "--json", "--tier", str(tmp_path / "tier")]
    done = subprocess.run(
        [*command, "--bootstrap-server", ours.bootstrap],
        capture_output=True, encoding="utf-8", timeout=VERIFY_SECONDS, check=False,
    )  # fmt: skip
    faults = [one for one in json.loads(done.stdout) if one["fault"] != "unfinished"]
    assert (done.returncode, faults) == (0, [])

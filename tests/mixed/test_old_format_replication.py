"""Formats v0 and v1 between an Apache Kafka and ours: each leads, each follows, each dies once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.records.batch import Compression, SimpleRecord, iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.conversions import build_message_set
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient

CONFIG = {
    "inter.broker.protocol.version": "2.8",
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "5000",
}
# Topic -> its format, and whose leader it begins with.
TOPICS = {"v0-theirs": ("0.9.0", 1), "v0-ours": ("0.9.0", 2), "v1-ours": ("0.10.2", 2)}
WAIT_SECONDS = 120.0
LEADER_GONE = (3, 5, 6)

pytestmark = pytest.mark.timeout(300)


class Pair:
    def __init__(self, directory: Path, connect: str) -> None:
        self.brokers: dict[int, BrokerProcess] = {
            1: ApacheKafkaProcess(directory / "theirs", connect, CONFIG, 1),
            2: BrokerProcess(directory / "ours", connect, CONFIG, 2),
        }

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                if condition():
                    return
            except (OSError, AssertionError, ValueError):
                pass  # a broker that is not up to it yet
            assert time.monotonic() < deadline, what
            time.sleep(0.1)

    def client(self) -> WireClient:
        running = [broker for broker in self.brokers.values() if broker.is_running]
        return WireClient(running[0].bootstrap)

    def partition(self, topic: str) -> tuple[int, set[int]]:
        """Leader and ISR."""
        with self.client() as client:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
            ((found,),) = (t.partitions for t in client.call(request, 9).topics)
        return found.leader_id, set(found.isr_nodes)

    def create(self, topic: str) -> None:
        version, leader = TOPICS[topic]
        creation = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic, num_partitions=-1, replication_factor=-1,
                    assignments=[
                        CreatableReplicaAssignment(
                            partition_index=0, broker_ids=[leader, 3 - leader]
                        )
                    ],
                    configs=[CreatableTopicConfig(name="message.format.version", value=version)],
                )
            ]
        )  # fmt: skip

        def created() -> bool:
            for broker in self.brokers.values():
                with WireClient(broker.bootstrap) as client:
                    (result,) = client.call(creation, 5).topics
                    if result.error_code in (0, 36):
                        return True
            return False

        self.wait(created, f"{topic} is created")
        self.wait(lambda: self.partition(topic)[1] == {1, 2}, f"{topic} is in sync")

    def produce(self, topic: str, number: int) -> None:
        for codec in (Compression.NONE, Compression.LZ4):
            for magic in (0, 1, 2):
                records = [SimpleRecord(NOW + n, b"k%d" % n, b"%d" % number) for n in range(9)]
                data = bytes(
                    build_batch(records, compression=codec)
                    if magic == 2
                    else build_message_set(records, magic=magic, compression=codec)
                )

                def taken(data: bytes = data) -> bool:
                    leader, _ = self.partition(topic)
                    with WireClient(self.brokers[leader].bootstrap) as client:
                        code = client.produce(topic, data, version=2).error_code
                    assert code in (0, *LEADER_GONE)
                    return bool(code == 0)

                self.wait(taken, f"{topic} takes records")


NOW = int(time.time() * 1000)


def test_each_replicates_the_other_s_old_formats(tmp_path: Path) -> None:
    with zookeeper_process(tmp_path) as connect:
        pair = Pair(tmp_path, connect)
        try:
            for broker in pair.brokers.values():
                broker.start()
            for topic in TOPICS:
                pair.create(topic)
                pair.produce(topic, 1)
            for number, victim in enumerate((2, 1), 2):
                pair.brokers[victim].kill()
                for topic in TOPICS:
                    pair.wait(
                        lambda t=topic, v=victim: pair.partition(t)[0] == 3 - v,  # type: ignore[misc]
                        f"{topic} has another leader",
                    )
                    pair.produce(topic, number)
                pair.brokers[victim].start()
                for topic in TOPICS:
                    pair.wait(
                        lambda t=topic: pair.partition(t)[1] == {1, 2},  # type: ignore[misc]
                        f"{topic} is in sync again",
                    )
            for topic, (version, _) in TOPICS.items():
                theirs, ours = (
                    (broker.log_dir / f"{topic}-0" / "00000000000000000000.log").read_bytes()
                    for broker in pair.brokers.values()
                )
                assert theirs == ours
                headers = [header for _, header in iter_batch_headers(ours)]
                assert {header.magic for header in headers} == {0 if version == "0.9.0" else 1}
                assert headers[-1].last_offset == 3 * 6 * 9 - 1
        finally:
            for broker in pair.brokers.values():
                broker.kill()

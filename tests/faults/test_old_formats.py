"""Three brokers whose topics, internal ones included, are stored in formats v0 and v1.

Without leader epochs in the batches, followers go by the high watermark; SIGKILL of leader after
leader must not cost an acknowledged record, an offset, or leave replicas that differ.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    iter_batch_headers,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from tests.support.cluster import Cluster, cluster
from tests.support.conversions import build_message_set
from tests.support.wire import Topic, WireClient

CONFIG = {
    "inter.broker.protocol.version": "2.8",
    "log.message.format.version": "0.10.2",
    "log.segment.bytes": "20000",
    "offsets.topic.num.partitions": "1",
}
MAGICS = {"first": 0, "second": 1}
GROUP = "old"
ROUNDS = 2
NO_LEADER = (3, 5, 6, 19, 20)  # the cluster has not settled yet

pytestmark = pytest.mark.timeout(300)


def produce(brokers: Cluster, topic: str, number: int) -> list[bytes]:
    """A set of each format to the leader; the values, once all in-sync replicas have them."""
    written: list[bytes] = []
    for codec in (Compression.NONE, Compression.GZIP):
        for magic in (0, 1, 2):
            values = [b"%d %d %d %d" % (number, codec, magic, n) for n in range(20)]
            records = [SimpleRecord(1_700_000_000_000 + n, b"k", v) for n, v in enumerate(values)]
            data = bytes(
                build_batch(records, compression=codec)
                if magic == 2
                else build_message_set(records, magic=magic, compression=codec)
            )

            def appended(data: bytes = data) -> bool:
                with WireClient(brokers.nodes[brokers.leader(topic)].bootstrap) as client:
                    code = client.produce(topic, data, version=2).error_code
                assert code == 0 or code in NO_LEADER, code
                return bool(code == 0)

            brokers.wait_for(appended, f"{topic} takes records")
            written += values
    return written


def commit(brokers: Cluster, offset: int) -> None:
    entry = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name="first", partitions=[entry])]
    )

    def committed() -> bool:
        answer = brokers.ask(brokers.coordinator(GROUP), request, 5)
        ((result,),) = (t.partitions for t in answer.topics)
        return bool(result.error_code == 0)

    brokers.wait_for(committed, "an offset is committed")


def committed_offset(brokers: Cluster) -> int | None:
    topics = [OffsetFetchRequestTopics(name="first", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
    answer = brokers.ask(brokers.coordinator(GROUP), request, 8)
    (group,) = answer.groups
    if group.error_code:
        return None
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


@pytest.mark.nightly
def test_leaders_die_over_old_formats(tmp_path: Path) -> None:
    with cluster(tmp_path, config=CONFIG) as brokers:
        brokers.create_topic("first", 1, config={"message.format.version": "0.9.0"})
        brokers.create_topic("second", 1)
        written: dict[str, list[bytes]] = {topic: [] for topic in MAGICS}
        for number in range(ROUNDS):
            for topic in MAGICS:
                written[topic] += produce(brokers, topic, 2 * number)
            commit(brokers, 10 + number)
            victim = brokers.leader("first")
            brokers.kill(victim)
            for topic in MAGICS:
                written[topic] += produce(brokers, topic, 2 * number + 1)
            found = brokers.wait_for(lambda: committed_offset(brokers), "the offset is loaded")
            assert found == 10 + number
            brokers.start(victim)
            for topic in (*MAGICS, "__consumer_offsets"):
                brokers.wait_for_isr(topic)
        for topic, magic in MAGICS.items():
            check_records(brokers, topic, written[topic])
            check_replicas(brokers, topic, magic)
        check_replicas(brokers, "__consumer_offsets", 1)


def check_records(brokers: Cluster, topic: str, written: list[bytes]) -> None:
    """In order, each once, save where an answer was lost with its broker."""
    values: list[bytes] = []
    with WireClient(brokers.nodes[brokers.leader(topic)].bootstrap) as client:
        end = client.fetch(Topic(topic, b""), version=4).high_watermark
        offset = 0
        while offset < end:
            records = list(read_records(client.fetch(Topic(topic, b""), offset, version=4).records))
            values += [r.value for r in records if r.value is not None and r.offset >= offset]
            offset = records[-1].offset + 1
    assert len(values) == end
    assert list(dict.fromkeys(values)) == written


def check_replicas(brokers: Cluster, topic: str, magic: int) -> None:
    logs = [
        b"".join(path.read_bytes() for path in sorted((node.log_dir / f"{topic}-0").glob("*.log")))
        for node in brokers.nodes.values()
    ]
    assert len(logs[0]) > 100
    assert logs[0] == logs[1] == logs[2]
    assert {header.magic for _, header in iter_batch_headers(logs[0])} == {magic}

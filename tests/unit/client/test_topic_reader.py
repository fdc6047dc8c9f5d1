"""Where the consumer goes on reading, whatever the batches of an answer hold."""

from __future__ import annotations

from typing import Any

from pybroker.client.topic_reader import TopicReader
from pybroker.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from pybroker.protocol.messages.metadata import (
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker.protocol.records.batch import read_batch_header
from pybroker.protocol.records.builder import build_batch, build_empty_batch, build_end_txn_marker
from pybroker.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker.protocol.records.record import SimpleRecord

LEADER = 1


class OneLeader:
    """A cluster of one broker, and its connection: answers with batches, one a fetch."""

    def __init__(self, *batches: bytearray) -> None:
        self._batches = batches
        self.asked: list[int] = []

    async def led_topic(self, name: str, **_options: object) -> MetadataResponseTopic:
        part = MetadataResponsePartition(partition_index=0, leader_id=LEADER)
        return MetadataResponseTopic(name=name, partitions=[part])

    async def connection(self, _broker_id: int) -> OneLeader:
        return self

    async def request(self, _key: object, request: Any, _answer_class: object) -> FetchResponse:
        offset = request.topics[0].partitions[0].fetch_offset
        self.asked.append(offset)
        behind = (b for b in self._batches if read_batch_header(b).next_offset > offset)
        part = FetchResponsePartitionData(partition_index=0, records=bytes(next(behind, b"")))
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[part])])


def batch(base_offset: int, count: int) -> bytearray:
    records = [SimpleRecord(0, None, b"%d" % (base_offset + n)) for n in range(count)]
    return build_batch(records, base_offset=base_offset)


async def test_batches_without_records_are_passed_by() -> None:
    """Compaction empties the batches of idempotent producers, and keeps the last one of each."""
    commit = EndTxnMarker(ControlRecordType.COMMIT, 0)
    marker = build_end_txn_marker(
        commit, timestamp=0, producer_id=7, producer_epoch=0, base_offset=6
    )
    cluster = OneLeader(
        build_empty_batch(read_batch_header(batch(0, 3))),
        build_empty_batch(read_batch_header(batch(3, 3))),
        marker,
        batch(7, 3),
    )
    consumer = TopicReader(cluster, "emptied")  # type: ignore[arg-type]
    await consumer.start()
    consumer.seek_partition(0, 0)
    received = [await consumer.poll() for _ in range(5)]
    assert [[r.record.value for r in each] for each in received] == [
        [], [], [], [b"7", b"8", b"9"], [],
    ]  # fmt: skip
    assert cluster.asked == [0, 3, 6, 7, 10]


async def test_records_before_the_position_are_left_out() -> None:
    consumer = TopicReader(OneLeader(batch(0, 4)), "middle")  # type: ignore[arg-type]
    await consumer.start()
    consumer.seek_partition(0, 2)
    assert [r.record.value for r in await consumer.poll()] == [b"2", b"3"]

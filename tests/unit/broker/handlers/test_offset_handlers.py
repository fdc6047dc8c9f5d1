"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords through real codecs, at all versions."""

from typing import Any

import pytest
import trio

from pybroker_kafka.broker.handlers.list_offsets import ListOffsetsHandler
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    TimestampType,
    set_max_timestamp,
    update_crc,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.layout import HEADER_SIZE
from tests.support.handlers import Call
from tests.support.replication import ME, NOW, TOPIC, batch
from tests.support.replication_handlers import HandlerBroker, versions


def _ask(broker: HandlerBroker, version: int, *timestamps: int, **options: Any) -> Call:
    topics = [
        ListOffsetsTopic(
            name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        )
        for timestamp in timestamps
    ]
    message = ListOffsetsRequest(replica_id=-1, topics=topics, **options)
    return Call(broker.offsets, ApiKey.LIST_OFFSETS, version, message)


def _list(broker: HandlerBroker, version: int, timestamp: int, **options: Any) -> Any:
    return _ask(broker, version, timestamp, **options).answer.topics[0].partitions[0]


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
def test_list_offsets(broker: HandlerBroker, version: int) -> None:
    broker.lead(leader_epoch=3)
    broker.produced(9, batch(b"a", timestamp=NOW + 5))
    broker.produced(9, batch(b"b", timestamp=NOW + 1))
    latest, earliest = _list(broker, version, -1), _list(broker, version, -2)
    if version == 0:
        assert (latest.old_style_offsets, earliest.old_style_offsets) == ([2], [0])
        return
    assert (latest.error_code, latest.offset, latest.timestamp) == (0, 2, -1)
    assert latest.leader_epoch == (3 if version >= 4 else -1)
    assert earliest.offset == 0
    for timestamp, first, offset in ((-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)):
        found = _list(broker, version, timestamp)
        if version < first:
            assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
        else:
            assert (found.error_code, found.offset) == (0, offset)
    assert _list(broker, version, -7).error_code == ErrorCode.UNSUPPORTED_VERSION
    found = _list(broker, version, NOW + 2)
    assert (found.offset, found.timestamp) == (0, NOW + 5)


@pytest.mark.parametrize("version", versions(ApiKey.LIST_OFFSETS))
async def test_a_search_elsewhere_finds_the_same(broker: HandlerBroker, version: int) -> None:
    broker.lead(leader_epoch=3)
    broker.produced(9, batch(b"a", b"b", timestamp=NOW + 5))
    # Its header promises more than its records hold: the search goes on behind it.
    header = bytearray(batch(b"c", timestamp=NOW + 1))
    set_max_timestamp(header, 0, TimestampType.CREATE_TIME, NOW + 9)
    broker.produced(9, header)
    broker.produced(9, batch(b"d", timestamp=NOW + 8))
    damaged = bytearray(build_batch([SimpleRecord(NOW + 50, None, b"e")]))
    damaged[HEADER_SIZE] ^= 0x7E
    update_crc(damaged, 0)
    broker.produced(9, damaged)
    timestamps = (-3, 0, NOW, NOW + 5, NOW + 6, NOW + 10, NOW + 51)
    expected = [_list(broker, version, timestamp) for timestamp in timestamps]
    if version > 0:
        offsets = [answer.offset for answer in expected[1:]]
        assert offsets == [0, 0, 0, 3, -1, -1]
        errors = [answer.error_code for answer in expected[1:]]
        assert errors == [0, 0, 0, 0, ErrorCode.CORRUPT_MESSAGE, 0]
    async with trio.open_nursery() as nursery:
        broker.offsets = ListOffsetsHandler(broker.replica_runtime, nursery.start_soon)
        calls = [_ask(broker, version, timestamp) for timestamp in timestamps]
        twice = _ask(broker, version, NOW, NOW)
        assert all((call.answer is None) == (version > 0) for call in calls)
    assert [call.answer.topics[0].partitions[0] for call in calls] == expected
    if version > 0:
        errors = [topic.partitions[0].error_code for topic in twice.answer.topics]
        assert errors == [ErrorCode.INVALID_REQUEST] * 2


async def test_others_are_answered_while_a_large_batch_is_searched(broker: HandlerBroker) -> None:
    """50 000 records, of which the last one is late enough."""
    broker.lead()
    times = [NOW] * 50_000 + [NOW + 1]
    large = build_batch(
        [SimpleRecord(at, None, b"v") for at in times], compression=Compression.GZIP
    )
    broker.produced(9, large)
    count = 0
    async with trio.open_nursery() as nursery:
        broker.offsets = ListOffsetsHandler(broker.replica_runtime, nursery.start_soon)
        slow = _ask(broker, 9, NOW + 1)
        while slow.answer is None:
            count += _list(broker, 9, -1).offset == 50_001
            await trio.lowlevel.checkpoint()
    assert slow.answer.topics[0].partitions[0].offset == 50_000
    assert count > 10


async def test_a_partition_that_goes_away_during_the_search(broker: HandlerBroker) -> None:
    broker.lead()
    broker.produced(9, batch(b"a", timestamp=NOW))
    async with trio.open_nursery() as nursery:
        broker.offsets = ListOffsetsHandler(broker.replica_runtime, nursery.start_soon)
        call = _ask(broker, 9, NOW)
        broker.cluster.role(2, leader_epoch=1)
    error = call.answer.topics[0].partitions[0].error_code
    assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_list_offsets_codes_by_version(broker: HandlerBroker) -> None:
    broker.lead(replicas=(ME, 2), leader_epoch=1)
    broker.produced(9, batch())
    broker.cluster.role(replicas=(ME, 2), leader_epoch=2)
    assert _list(broker, 4, -1).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert _list(broker, 5, -1).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    twice = [ListOffsetsPartition(partition_index=0, timestamp=-1)] * 2
    message = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=twice)]
    )
    answer = Call(broker.offsets, ApiKey.LIST_OFFSETS, 9, message).answer
    errors = [partition.error_code for partition in answer.topics[0].partitions]
    assert errors == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
def test_offset_for_leader_epoch(broker: HandlerBroker, version: int) -> None:
    broker.lead(leader_epoch=1)
    broker.produced(9, batch(b"a", b"b"))
    broker.cluster.role(leader_epoch=4)
    partitions = [
        OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
        for index, epoch in ((0, 2), (0, 9), (7, 1))
    ]
    message = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=partitions)]
    )
    answer = Call(broker.leader_epochs, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, message).answer
    found = [(p.error_code, p.leader_epoch, p.end_offset) for p in answer.topics[0].partitions]
    epoch = 1 if version >= 1 else -1
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [(0, epoch, 2), (0, -1, -1), (unknown, -1, -1)]


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_RECORDS))
def test_delete_records(broker: HandlerBroker, version: int) -> None:
    broker.lead()
    broker.produced(9, batch(b"a", b"b"))

    def topic(name: str, offset: int) -> DeleteRecordsTopic:
        return DeleteRecordsTopic(
            name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
        )

    message = DeleteRecordsRequest(topics=[topic(TOPIC, 1), topic("nobody", 1)], timeout_ms=10)
    answer = Call(broker.deletions, ApiKey.DELETE_RECORDS, version, message).answer
    found = [(t.partitions[0].error_code, t.partitions[0].low_watermark) for t in answer.topics]
    assert found == [(0, 1), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert broker.fetched(12, 0, session_epoch=-1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

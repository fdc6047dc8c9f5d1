"""Transactions where their data is: verification, markers, read_committed, offsets, who is active.

What follows is true of Apache Kafka 3.9.1 as well (KIP-98, KIP-447, KIP-664, KIP-890 part 1).
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from tests.support.patience import until
from tests.support.wire import Topic, WireClient, batch, covers, unique
from tests.wire.group_steps import stable
from tests.wire.test_group_offsets import fetch as fetch_offsets
from tests.wire.transaction_steps import RETRIED, Producer, add, add_offsets, end, start

READ_COMMITTED = 1
NOW_MS = int(time.time() * 1000)
LATEST = -1
NOT_ADDED = ErrorCode.INVALID_TXN_STATE
UNSTABLE = (-1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


def send(
    kafka: WireClient,
    producer: Producer,
    topic: Topic,
    sequence: int,
    *values: bytes,
    version: int | None = None,
    partition: int = 0,
) -> Any:
    records = batch(
        *(values or (b"value",)),
        timestamp=NOW_MS,  # as the marker's, or that would begin another segment
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        is_transactional=True,
    )
    return kafka.produce(
        topic.name,
        records,
        partition=partition,
        version=version,
        transactional_id=producer.name,
        topic_id=topic.id,
    )


def began(kafka: WireClient, topic: Topic, *values: bytes) -> Producer:
    """A producer with an open transaction on the topic."""
    producer = start(kafka)
    assert set(add(kafka, producer, (topic.name, 0)).values()) == {0}
    assert send(kafka, producer, topic, 0, *values).error_code == 0
    return producer


def ended(kafka: WireClient, producer: Producer, topic: Topic, *, committed: bool) -> None:
    """End the transaction and wait for its marker: it comes after the answer."""
    end_offset = kafka.fetch(topic).high_watermark
    assert end(kafka, producer, committed=committed) == 0
    until(lambda: kafka.fetch(topic).last_stable_offset > end_offset)


def mark(
    kafka: WireClient,
    producer: Producer,
    topic: str,
    *partitions: int,
    version: int | None = None,
    committed: bool = False,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> dict[tuple[str, int], int]:
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(partitions))],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    (result,) = kafka.call(WriteTxnMarkersRequest(markers=[marker]), version).markers
    assert result.producer_id == producer.id
    return {
        (answered.name, entry.partition_index): entry.error_code
        for answered in result.topics
        for entry in answered.partitions
    }


# Produce


def test_a_partition_that_was_not_added(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        topic, producer = kafka.create_topic(partitions=2), start(kafka)
        error = ErrorCode.TRANSACTION_ABORTABLE if version >= 11 else NOT_ADDED
        assert send(kafka, producer, topic, 0, version=version).error_code == error
        add(kafka, producer, (topic.name, 1))
        assert send(kafka, producer, topic, 0, version=version).error_code == error
        assert send(kafka, producer, topic, 0, version=version, partition=1).error_code == 0
        add(kafka, producer, (topic.name, 0))
        answer = send(kafka, producer, topic, 0, version=version)
        assert (answer.error_code, answer.base_offset) == (0, 0)


def test_nothing_is_appended_after_the_end(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer = began(kafka, topic)
    ended(kafka, producer, topic, committed=True)
    assert send(kafka, producer, topic, 1, version=10).error_code == NOT_ADDED
    assert kafka.fetch(topic).high_watermark == 2


def test_an_earlier_incarnation_is_fenced(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    old = began(kafka, topic)
    new = start(kafka, old.name)
    assert new.epoch > old.epoch
    until(lambda: kafka.fetch(topic).last_stable_offset == 2)  # the transaction was aborted
    assert send(kafka, old, topic, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    add(kafka, new, (topic.name, 0))
    assert send(kafka, new, topic, 0).error_code == 0


# WriteTxnMarkers


@covers(ApiKey.WRITE_TXN_MARKERS)
def test_markers_end_a_hanging_transaction_in_every_version(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.WRITE_TXN_MARKERS):
        for committed in (False, True):
            topic = kafka.create_topic()
            producer = began(kafka, topic, b"a", b"b")
            assert kafka.fetch(topic).last_stable_offset == 0
            errors = mark(kafka, producer, topic.name, 0, 5, version=version, committed=committed)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert errors == {(topic.name, 0): 0, (topic.name, 5): unknown}
            answer = kafka.fetch(topic, isolation_level=READ_COMMITTED)
            assert answer.last_stable_offset == 3
            aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions]
            assert aborted == ([] if committed else [(producer.id, 0)])
            header = [h for _, h in iter_batch_headers(answer.records)][-1]
            assert header.is_control
            assert header.is_transactional
            assert (header.base_offset, header.producer_id) == (2, producer.id)


def test_stale_markers_are_fenced(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer = start(kafka)
    key = (topic.name, 0)
    for version in kafka.versions(ApiKey.WRITE_TXN_MARKERS):
        base = 10 * version
        assert mark(
            kafka, producer, topic.name, 0, version=version, epoch=base + 3, coordinator_epoch=base
        ) == {key: 0}
        old = mark(
            kafka, producer, topic.name, 0, version=version, epoch=base + 2, coordinator_epoch=base
        )
        assert old == {key: ErrorCode.INVALID_PRODUCER_EPOCH}
        if base:
            zombie = mark(
                kafka, producer, topic.name, 0, epoch=base + 3, coordinator_epoch=base - 1
            )
            assert zombie == {key: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
        assert kafka.fetch(topic).high_watermark == version + 1


# read_committed


def list_offset(kafka: WireClient, topic: str, timestamp: int, isolation: int, version: int) -> int:
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)],
            )
        ],
    )
    ((answer,),) = (t.partitions for t in kafka.call(request, version).topics)
    assert answer.error_code == 0
    offset: int = answer.offset
    return offset


@pytest.mark.parametrize("committed", [True, False])
def test_read_committed_stops_at_an_open_transaction(kafka: WireClient, committed: bool) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"before", timestamp=NOW_MS)
    producer = began(kafka, topic, b"within")
    kafka.append(topic.name, b"behind", timestamp=NOW_MS + 5_000)
    for version in kafka.versions(ApiKey.FETCH, first=4):
        answer = kafka.fetch(topic, version=version, isolation_level=READ_COMMITTED)
        assert (answer.high_watermark, answer.last_stable_offset) == (3, 1)
        assert answer.aborted_transactions == []
        assert [h.base_offset for _, h in iter_batch_headers(answer.records)] == [0]
        plain = kafka.fetch(topic, version=version)
        assert plain.aborted_transactions is None
        assert [h.base_offset for _, h in iter_batch_headers(plain.records)] == [0, 1, 2]
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=2):
        for isolation, latest, late in ((0, 3, 2), (READ_COMMITTED, 1, -1)):
            assert list_offset(kafka, topic.name, LATEST, isolation, version) == latest
            assert list_offset(kafka, topic.name, NOW_MS + 4_000, isolation, version) == late
    ended(kafka, producer, topic, committed=committed)
    for version in kafka.versions(ApiKey.FETCH, first=4):
        answer = kafka.fetch(topic, version=version, isolation_level=READ_COMMITTED)
        assert answer.last_stable_offset == 4
        aborted = [(a.producer_id, a.first_offset) for a in answer.aborted_transactions]
        assert aborted == ([] if committed else [(producer.id, 1)])


def test_a_waiting_reader_is_woken_by_the_marker(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer = began(kafka, topic)
    with kafka.another() as other:
        assert end(other, producer) == 0
    answer = kafka.fetch(topic, max_wait_ms=10_000, min_bytes=1, isolation_level=READ_COMMITTED)
    assert len(answer.records) > 0


# TxnOffsetCommit


def commit(
    kafka: WireClient,
    producer: Producer,
    group: str,
    offsets: dict[tuple[str, int], int],
    *,
    version: int | None = None,
    member: tuple[str, int] = ("", -1),
    instance: str | None = None,
    metadata: str = "note",
) -> dict[tuple[str, int], int]:
    newest = kafka.versions(ApiKey.TXN_OFFSET_COMMIT)[-1]
    version = newest if version is None else version
    request = TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=group,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=0 if version >= 2 else -1,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )
    if version >= 3:
        request.member_id, request.generation_id = member
        request.group_instance_id = instance
    answer = kafka.call(request, version)
    return {
        (topic.name, entry.partition_index): entry.error_code
        for topic in answer.topics
        for entry in topic.partitions
    }


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("group")
    kafka.coordinator(name)
    return name


@covers(ApiKey.TXN_OFFSET_COMMIT)
def test_offsets_become_visible_with_the_commit_in_every_version(
    kafka: WireClient, group: str
) -> None:
    topic = kafka.create_topic(partitions=2).name
    key = (topic, 0)
    for version in kafka.versions(ApiKey.TXN_OFFSET_COMMIT):
        before = fetch_offsets(kafka, 9, group, {topic: [0]})[1][key]
        for committed in (False, True):
            producer = start(kafka)
            assert add_offsets(kafka, producer, group) == 0
            offset = 10 * version + committed
            assert commit(kafka, producer, group, {key: offset}, version=version) == {key: 0}
            seen = fetch_offsets(kafka, 9, group, {topic: [0]})[1]
            assert seen[key] == before
            for reading in kafka.versions(ApiKey.OFFSET_FETCH, first=7):
                stable_only = fetch_offsets(
                    kafka, reading, group, {topic: [0, 1]}, require_stable=True
                )[1]
                assert stable_only[key] == UNSTABLE
                assert stable_only[topic, 1][3] == 0
            assert end(kafka, producer, committed=committed) == 0

            def is_stable() -> bool:
                answer = fetch_offsets(kafka, 9, group, {topic: [0]}, require_stable=True)
                return answer[1][key][3] == 0

            until(is_stable)
            after = fetch_offsets(kafka, 9, group, {topic: [0]})[1][key]
            epoch = 0 if version >= 2 else -1
            assert after == ((offset, epoch, "note", 0) if committed else before)


def test_offsets_need_the_group_in_the_transaction(kafka: WireClient, group: str) -> None:
    key = (kafka.create_topic().name, 0)
    for version in kafka.versions(ApiKey.TXN_OFFSET_COMMIT):
        producer = start(kafka)
        error = ErrorCode.TRANSACTION_ABORTABLE if version >= 4 else NOT_ADDED
        assert commit(kafka, producer, group, {key: 1}, version=version) == {key: error}


def test_partitions_that_do_not_exist(kafka: WireClient, group: str) -> None:
    key, missing = (kafka.create_topic().name, 0), (unique("missing"), 0)
    producer = start(kafka)
    assert add_offsets(kafka, producer, group) == 0
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in kafka.versions(ApiKey.TXN_OFFSET_COMMIT):
        both = commit(kafka, producer, group, {key: 1, missing: 1}, version=version)
        assert both == {key: 0, missing: unknown}
        assert commit(kafka, producer, group, {missing: 1}, version=version) == {missing: unknown}
    too_long = commit(kafka, producer, group, {key: 1}, metadata="x" * 5_000)
    assert too_long == {key: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert commit(kafka, producer, "", {key: 1}) == {key: ErrorCode.INVALID_GROUP_ID}
    assert end(kafka, producer, committed=False) == 0


def test_members_are_fenced_by_generation(kafka: WireClient, group: str) -> None:
    key = (kafka.create_topic().name, 0)
    member, generation = stable(kafka, group)
    producer = start(kafka)
    assert add_offsets(kafka, producer, group) == 0
    for version in kafka.versions(ApiKey.TXN_OFFSET_COMMIT):
        assert commit(kafka, producer, group, {key: 1}, version=version) == {key: 0}
        if version < 3:
            continue
        cases = [
            ((member, generation), ErrorCode.NONE),
            ((member, generation + 1), ErrorCode.ILLEGAL_GENERATION),
            (("nobody", generation), ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        for claimed, error in cases:
            answer = commit(kafka, producer, group, {key: 1}, version=version, member=claimed)
            assert answer == {key: error}
    assert end(kafka, producer, committed=False) == 0


def test_offsets_of_an_old_incarnation_are_fenced(kafka: WireClient, group: str) -> None:
    key = (kafka.create_topic().name, 0)
    old = start(kafka)
    assert add_offsets(kafka, old, group) == 0
    assert commit(kafka, old, group, {key: 1}) == {key: 0}
    start(kafka, old.name)
    errors: dict[tuple[str, int], int] = {}

    def is_decided() -> bool:
        errors.update(commit(kafka, old, group, {key: 2}))
        return errors[key] not in RETRIED

    until(is_decided)
    assert errors == {key: ErrorCode.INVALID_PRODUCER_EPOCH}


# DescribeProducers


@covers(ApiKey.DESCRIBE_PRODUCERS)
def test_active_producers(kafka: WireClient) -> None:
    topic = kafka.create_topic()

    def describe(name: str, partition: int = 0) -> Any:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=name, partition_indexes=[partition])]
        )
        ((answer,),) = (t.partitions for t in kafka.call(request, 0).topics)
        return answer

    assert describe(topic.name).active_producers == []
    kafka.append(topic.name, b"plain")
    producer = began(kafka, topic, b"a", b"b")
    (state,) = describe(topic.name).active_producers
    assert (state.producer_id, state.producer_epoch) == (producer.id, producer.epoch)
    assert (state.last_sequence, state.current_txn_start_offset) == (1, 1)
    assert state.coordinator_epoch == -1
    ended(kafka, producer, topic, committed=True)
    (state,) = describe(topic.name).active_producers
    assert state.current_txn_start_offset == -1
    assert state.coordinator_epoch >= 0
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(topic.name, 7).error_code == missing
    assert describe(unique("missing")).error_code == missing
    assert describe("no topic").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

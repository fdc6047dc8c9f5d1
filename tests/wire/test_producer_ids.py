"""Idempotent producers: their ids, sequences, duplicates and epochs (KIP-98, KIP-360)."""

from __future__ import annotations

import time

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import WireClient, batch, covers

WAIT_SECONDS = 120.0


def new_producer_id(kafka: WireClient, version: int = 5) -> int:
    """Asks again while the broker waits for its first block of ids."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = kafka.call(request, version)
        if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    producer_id: int = answer.producer_id
    return producer_id


def sequenced(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(
        *(values or (b"value",)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


@covers(ApiKey.INIT_PRODUCER_ID)
def test_every_version_gives_a_new_producer_id(kafka: WireClient) -> None:
    given = [new_producer_id(kafka, v) for v in kafka.versions(ApiKey.INIT_PRODUCER_ID)]
    assert given == sorted(set(given))
    assert given[0] >= 0


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
def test_an_id_and_an_epoch_come_together(kafka: WireClient, producer_id: int, epoch: int) -> None:
    for version in kafka.versions(ApiKey.INIT_PRODUCER_ID, first=3):
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = kafka.call(request, version)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_an_empty_transactional_id_is_refused(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.INIT_PRODUCER_ID):
        request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
        assert kafka.call(request, version).error_code == ErrorCode.INVALID_REQUEST


def test_the_last_five_batches_are_recognised(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        topic = kafka.create_topic()
        producer_id = new_producer_id(kafka)
        for sequence in range(0, 12, 2):
            records = sequenced(producer_id, sequence, b"a", b"b")
            answer = kafka.produce(topic.name, records, version=version)
            assert (answer.error_code, answer.base_offset) == (0, sequence)
        for sequence in (2, 10, 6):
            records = sequenced(producer_id, sequence, b"a", b"b")
            answer = kafka.produce(topic.name, records, version=version)
            assert (answer.error_code, answer.base_offset) == (0, sequence)
        old = kafka.produce(topic.name, sequenced(producer_id, 0, b"a", b"b"), version=version)
        assert old.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert len(kafka.read(topic)) == 12


def test_a_gap_in_the_sequence_is_refused(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer_id = new_producer_id(kafka)
    versions = kafka.versions(ApiKey.PRODUCE, first=3)
    for step, version in enumerate(versions):
        early = kafka.produce(topic.name, sequenced(producer_id, step + 1), version=version)
        if step == 0:  # Nothing is known of this producer yet: its first sequence may be any.
            assert (early.error_code, early.base_offset) == (0, 0)
            continue
        assert (early.error_code, early.base_offset) == (0, step)
        gap = kafka.produce(topic.name, sequenced(producer_id, step + 3), version=version)
        assert (gap.error_code, gap.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert len(kafka.read(topic)) == len(versions)


def test_an_old_epoch_is_fenced(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer_id = new_producer_id(kafka)
    count = 0
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        epoch = 2 * version
        late_start = sequenced(producer_id, 1, epoch=epoch)
        if count:
            answer = kafka.produce(topic.name, late_start, version=version)
            assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        start = sequenced(producer_id, 0, epoch=epoch)
        answer = kafka.produce(topic.name, start, version=version)
        assert (answer.error_code, answer.base_offset) == (0, count)
        count += 1
        fenced = sequenced(producer_id, 1, epoch=epoch - 1)
        answer = kafka.produce(topic.name, fenced, version=version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert len(kafka.read(topic)) == count


def test_a_sequence_may_wrap(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    producer_id = new_producer_id(kafka)
    start = 2**31 - 2
    assert kafka.produce(topic.name, sequenced(producer_id, start)).error_code == 0
    across = sequenced(producer_id, start + 1, b"last", b"first")
    assert kafka.produce(topic.name, across).error_code == 0
    assert kafka.produce(topic.name, sequenced(producer_id, 1)).base_offset == 3
    assert kafka.produce(topic.name, across).base_offset == 1
    assert len(kafka.read(topic)) == 4

"""Transactions of version 2 (KIP-890, part 2) on the wire, and those of before beside them.

One broker with transaction.version 2: it leads the partitions, and coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.patience import until
from tests.support.processes import BrokerProcess
from tests.support.wire import Topic, WireClient, unique
from tests.wire.feature_steps import SAFE_DOWNGRADE, finalize
from tests.wire.test_group_offsets import Committed
from tests.wire.test_group_offsets import fetch as fetch_offsets
from tests.wire.test_transactional_data import (
    READ_COMMITTED,
    UNSTABLE,
    commit,
    mark,
    send,
)
from tests.wire.transaction_steps import (
    Producer,
    add,
    again,
    end,
    ended_with,
    start,
    wait_for_state,
)

ADDING_PRODUCES = (12, 13)
RAISING_END = 5
ADDING_OFFSETS = 5
MARKERS_OF_A_VERSION = 2


@pytest.fixture
def kafka(raised_broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(raised_broker.bootstrap) as client:
        finalize(client, {Feature.TRANSACTION: 2})
        yield client
    with WireClient(raised_broker.bootstrap) as client:
        finalize(client, {Feature.TRANSACTION: 0}, SAFE_DOWNGRADE)


def wrote(
    kafka: WireClient, producer: Producer, topic: Topic, sequence: int = 0, *, version: int = 12
) -> None:
    answer = again(lambda: send(kafka, producer, topic, sequence, version=version))
    assert answer.error_code == 0


def ended(
    kafka: WireClient, producer: Producer, *, committed: bool = True, waits: bool = True
) -> Producer:
    """The producer after the end, and when that is complete."""
    answer = ended_with(kafka, producer, committed=committed, version=RAISING_END)
    assert answer.error_code == 0
    if waits:
        wait_for_state(kafka, producer.name, "CompleteCommit", "CompleteAbort")
    return Producer(producer.name, answer.producer_id, answer.producer_epoch)


@pytest.mark.parametrize("version", ADDING_PRODUCES)
def test_a_produce_adds_its_partition_and_the_end_raises_the_epoch(
    kafka: WireClient, version: int
) -> None:
    topic, producer = kafka.create_topic(), start(kafka)
    for round_number in range(3):
        wrote(kafka, producer, topic, version=version)
        wrote(kafka, producer, topic, 1, version=version)
        assert kafka.fetch(topic, isolation_level=READ_COMMITTED).high_watermark > 0
        # Not waited for: the next produce finds the coordinator busy, and is patient.
        after = ended(kafka, producer, committed=round_number != 1, waits=False)
        assert (after.id, after.epoch) == (producer.id, producer.epoch + 1)
        producer = after
    wait_for_state(kafka, producer.name, "CompleteCommit")
    until(lambda: kafka.fetch(topic).last_stable_offset == 9)
    fetched = kafka.fetch(topic, isolation_level=READ_COMMITTED)
    assert [one.first_offset for one in fetched.aborted_transactions] == [3]


def test_what_is_late_belongs_to_no_transaction(kafka: WireClient) -> None:
    topic, producer = kafka.create_topic(), start(kafka)
    wrote(kafka, producer, topic)
    after = ended(kafka, producer)
    late = send(kafka, producer, topic, 1, version=12)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    other = kafka.create_topic()
    late = send(kafka, producer, other, 0, version=12)
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH  # so says the coordinator
    wrote(kafka, after, topic)
    for committed in (False, True):
        answer = ended_with(kafka, producer, committed=committed, version=RAISING_END)
        assert (answer.error_code, answer.producer_id) == (ErrorCode.PRODUCER_FENCED, -1)
    # A marker of the transaction before has the epoch of this one.
    errors = mark(
        kafka, producer, topic.name, 0, epoch=after.epoch, version=MARKERS_OF_A_VERSION,
        transaction_version=2,
    )  # fmt: skip
    assert errors == {(topic.name, 0): ErrorCode.INVALID_PRODUCER_EPOCH}
    assert ended(kafka, after).epoch == after.epoch + 1


def test_sequences_begin_at_0(kafka: WireClient) -> None:
    topic, producer = kafka.create_topic(), start(kafka)
    assert send(kafka, producer, topic, 7, version=12).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    wrote(kafka, producer, topic)
    after = ended(kafka, producer)
    assert send(kafka, after, topic, 1, version=12).error_code == (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    wrote(kafka, after, topic)
    ended(kafka, after)


def test_ends_again(kafka: WireClient) -> None:
    topic, producer = kafka.create_topic(), start(kafka)
    wrote(kafka, producer, topic)
    after = ended(kafka, producer)
    assert ended(kafka, producer) == after
    for asked, committed in ((producer, False), (after, True)):
        answer = ended_with(kafka, asked, committed=committed, version=RAISING_END)
        assert answer.error_code == ErrorCode.INVALID_TXN_STATE
    assert ended(kafka, after, committed=False).epoch == after.epoch + 1


def test_offsets_are_added_with_their_commit(kafka: WireClient) -> None:
    group, key = unique("group"), (kafka.create_topic().name, 0)
    kafka.coordinator(group)
    producer = start(kafka)

    def committed(producer: Producer, offset: int) -> int:
        return commit(kafka, producer, group, {key: offset}, version=ADDING_OFFSETS)[key]

    def stable() -> Committed:
        return fetch_offsets(kafka, 9, group, {key[0]: [0]}, require_stable=True)[1][key]

    assert committed(producer, 3) == 0
    assert stable() == UNSTABLE
    after = ended(kafka, producer)
    assert stable()[0] == 3
    assert committed(producer, 9) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed(after, 4) == 0
    assert committed(after, 5) == 0
    ended(kafka, after, committed=False)
    assert stable()[0] == 3


def test_an_old_producer_beside_it(kafka: WireClient) -> None:
    topic, old, new = kafka.create_topic(), start(kafka), start(kafka)
    wrote(kafka, new, topic)
    assert send(kafka, old, topic, 0, version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert add(kafka, old, (topic.name, 0)) == {(topic.name, 0): 0}
    assert send(kafka, old, topic, 0, version=11).error_code == 0
    for version in (4, 3):
        assert end(kafka, old, version=version) == 0
        wait_for_state(kafka, old.name, "CompleteCommit")
    ended(kafka, new)
    assert add(kafka, old, (topic.name, 0)) == {(topic.name, 0): 0}
    assert send(kafka, old, topic, 1, version=11).error_code == 0
    assert end(kafka, old, version=4) == 0


def test_a_producer_changes_to_version_2_and_back(raised_broker: BrokerProcess) -> None:
    with WireClient(raised_broker.bootstrap) as client:
        topic, producer = client.create_topic(), start(client)
        add(client, producer, (topic.name, 0))
        assert send(client, producer, topic, 0, version=11).error_code == 0
        finalize(client, {Feature.TRANSACTION: 1})
        assert end(client, producer, version=4) == 0
        wait_for_state(client, producer.name, "CompleteCommit")
        finalize(client, {Feature.TRANSACTION: 2})
        producer = start(client, producer.name)  # as clients do
        wrote(client, producer, topic)
        finalize(client, {Feature.TRANSACTION: 1}, SAFE_DOWNGRADE)
        producer = ended(client, producer)
        finalize(client, {Feature.TRANSACTION: 0}, SAFE_DOWNGRADE)
        client.versions(ApiKey.END_TXN)
        add(client, producer, (topic.name, 0))
        assert send(client, producer, topic, 0, version=11).error_code == 0
        assert end(client, producer, version=4) == 0
        wait_for_state(client, producer.name, "CompleteCommit")


def test_a_new_incarnation_aborts_and_raises(kafka: WireClient) -> None:
    topic, old = kafka.create_topic(), start(kafka)
    wrote(kafka, old, topic)
    new = start(kafka, old.name)
    assert (new.id, new.epoch) == (old.id, old.epoch + 2)
    assert send(kafka, old, topic, 1, version=12).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    wrote(kafka, new, topic)
    ended(kafka, new)

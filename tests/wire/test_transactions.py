"""Transactional producers and their coordinator: every API and version (KIP-98, KIP-360, KIP-890).

What follows is true of Apache Kafka 3.9.1 as well, except where a test says otherwise.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.describe_transactions import DescribeTransactionsRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers, iter_records
from pybroker_kafka.protocol.records.control import ControlRecordType, parse_control_record_type
from tests.support.wire import TRANSACTION, WireClient, batch, covers, unique
from tests.wire.transaction_steps import (
    add,
    add_offsets,
    again,
    describe,
    end,
    errors_of,
    init,
    new_name,
    start,
    transaction,
    wait_for_state,
)

FENCED_INIT_VERSION = 4
FENCED_VERSION = 2


def fenced(version: int, first: int = FENCED_VERSION) -> ErrorCode:
    """How a version says that the producer is fenced."""
    return ErrorCode.PRODUCER_FENCED if version >= first else ErrorCode.INVALID_PRODUCER_EPOCH


def test_find_the_coordinator_in_every_version(kafka: WireClient) -> None:
    name = new_name(kafka)
    expected = kafka.coordinator(name, TRANSACTION)
    for version in kafka.versions(ApiKey.FIND_COORDINATOR, first=1):
        request = FindCoordinatorRequest(key_type=TRANSACTION)
        if version < 4:
            request.key = name
        else:
            request.coordinator_keys = [name]
        answer = kafka.call(request, version)
        found = answer if version < 4 else answer.coordinators[0]
        assert (found.error_code, found.node_id, found.host, found.port) == (0, *expected)


# InitProducerId


def test_each_start_bumps_the_epoch(kafka: WireClient) -> None:
    name = new_name(kafka)
    for epoch, version in enumerate(kafka.versions(ApiKey.INIT_PRODUCER_ID)):
        producer = start(kafka, name, version=version)
        assert producer.epoch == epoch
    assert start(kafka).id != producer.id


def test_a_producer_that_goes_on_names_itself(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.INIT_PRODUCER_ID, first=3):
        name = new_name(kafka)
        first = start(kafka, name)
        bumped = init(kafka, name, version, producer=(first.id, first.epoch))
        assert (bumped.error_code, bumped.producer_id, bumped.producer_epoch) == (0, first.id, 1)
        retried = init(kafka, name, version, producer=(first.id, first.epoch))
        assert (retried.error_code, retried.producer_epoch) == (0, 1)
        other = start(kafka, name)
        assert other.epoch == 2
        late = init(kafka, name, version, producer=(first.id, 1))
        assert late.error_code == fenced(version, FENCED_INIT_VERSION)
        assert (late.producer_id, late.producer_epoch) == (-1, -1)
        stranger = init(kafka, name, version, producer=(first.id + 999_999, 2))
        assert stranger.error_code == fenced(version, FENCED_INIT_VERSION)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds(kafka: WireClient, timeout_ms: int) -> None:
    name = new_name(kafka)
    for version in kafka.versions(ApiKey.INIT_PRODUCER_ID):
        answer = init(kafka, name, version, timeout_ms=timeout_ms)
        assert answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT


# AddPartitionsToTxn


@covers(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_add_partitions(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=3).name
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        producer = start(kafka)
        both = {(topic, 0): 0, (topic, 1): 0}
        assert add(kafka, producer, *both, version=version) == both
        assert add(kafka, producer, *both, version=version) == both
        assert add(kafka, producer, (topic, 2), version=version) == {(topic, 2): 0}
        state = describe(kafka, producer.name)
        assert (state.error_code, state.transaction_state) == (0, "Ongoing")
        assert [(t.topic, sorted(t.partitions)) for t in state.topics] == [(topic, [0, 1, 2])]
        assert (state.producer_id, state.producer_epoch) == (producer.id, 0)
        assert state.transaction_timeout_ms == 60_000
        assert state.transaction_start_time_ms > 0


def test_add_partitions_of_a_wrong_producer(kafka: WireClient) -> None:
    at = (kafka.create_topic().name, 0)
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        producer = start(kafka)
        unknown = producer._replace(name=unique("nobody"))
        assert add(kafka, unknown, at, version=version) == {
            at: ErrorCode.INVALID_PRODUCER_ID_MAPPING
        }
        other_id = producer._replace(id=producer.id + 999_999)
        assert add(kafka, other_id, at, version=version) == {
            at: ErrorCode.INVALID_PRODUCER_ID_MAPPING
        }
        for epoch in (-1, 1):
            zombie = producer._replace(epoch=epoch)
            assert add(kafka, zombie, at, version=version) == {at: fenced(version)}
        nameless = producer._replace(name="")
        assert add(kafka, nameless, at, version=version) == {at: ErrorCode.INVALID_REQUEST}


def test_one_bad_partition_fails_the_transaction(kafka: WireClient) -> None:
    good, missing = (kafka.create_topic().name, 0), (unique("missing"), 0)
    beyond = (good[0], 7)
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        producer = start(kafka)
        expected = {
            good: ErrorCode.OPERATION_NOT_ATTEMPTED,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            beyond: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert add(kafka, producer, good, missing, beyond, version=version) == expected
        assert describe(kafka, producer.name).transaction_state == "Empty"


def test_clients_may_not_name_internal_topics(kafka: WireClient) -> None:
    internal = ("__transaction_state", 0)
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN):
        error = add(kafka, start(kafka), internal, version=version)[internal]
        assert error == (ErrorCode.TOPIC_AUTHORIZATION_FAILED if version < 4 else 0)


def test_a_batch_of_transactions(kafka: WireClient) -> None:
    """Some add, one asks, one is fenced: each has its own result."""
    at = (kafka.create_topic().name, 0)
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN, first=4):
        producers = [start(kafka) for _ in range(4)]
        request = AddPartitionsToTxnRequest(
            transactions=[
                transaction(producers[0], [at]),
                transaction(producers[1], [at], verify_only=True),
                transaction(producers[2]._replace(epoch=7), [at]),
                transaction(producers[3], [at, (at[0], 9)]),
            ]
        )
        answer = kafka.call(request, version)
        assert answer.error_code == 0
        results = {
            result.transactional_id: errors_of(result.topic_results)
            for result in answer.results_by_transaction
        }
        assert results == {
            producers[0].name: {at: 0},
            producers[1].name: {at: ErrorCode.TRANSACTION_ABORTABLE},
            producers[2].name: {at: ErrorCode.PRODUCER_FENCED},
            producers[3].name: {
                at: ErrorCode.OPERATION_NOT_ATTEMPTED,
                (at[0], 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            },
        }
        assert describe(kafka, producers[1].name).transaction_state == "Empty"


def test_verification(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2).name
    for version in kafka.versions(ApiKey.ADD_PARTITIONS_TO_TXN, first=4):
        producer = start(kafka)
        assert add(kafka, producer, (topic, 0)) == {(topic, 0): 0}
        for asking, expected in (
            (producer, {(topic, 0): 0, (topic, 1): ErrorCode.TRANSACTION_ABORTABLE}),
            (producer._replace(epoch=1), dict.fromkeys([(topic, 0), (topic, 1)], 90)),
            (producer._replace(id=987_654), dict.fromkeys([(topic, 0), (topic, 1)], 49)),
        ):
            ask = transaction(asking, [(topic, 0), (topic, 1)], verify_only=True)
            request = AddPartitionsToTxnRequest(transactions=[ask])
            (result,) = kafka.call(request, version).results_by_transaction
            assert errors_of(result.topic_results) == expected


# AddOffsetsToTxn


@covers(ApiKey.ADD_OFFSETS_TO_TXN)
def test_add_offsets(kafka: WireClient) -> None:
    group = unique("group")
    kafka.coordinator(group)
    for version in kafka.versions(ApiKey.ADD_OFFSETS_TO_TXN):
        producer = start(kafka)
        assert add_offsets(kafka, producer, group, version) == 0
        state = describe(kafka, producer.name)
        assert [t.topic for t in state.topics] == ["__consumer_offsets"]
        assert len(state.topics[0].partitions) == 1
        mapping = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert add_offsets(kafka, producer._replace(id=5_555_555), group, version) == mapping
        assert add_offsets(kafka, producer._replace(epoch=1), group, version) == fenced(version)
        nameless = producer._replace(name="")
        assert add_offsets(kafka, nameless, group, version) == ErrorCode.INVALID_REQUEST


# EndTxn


@covers(ApiKey.END_TXN)
def test_end_of_a_wrong_producer(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.END_TXN):
        producer = start(kafka)
        for committed in (True, False):
            for wrong, error in (
                (producer, ErrorCode.INVALID_TXN_STATE),
                (producer._replace(epoch=1), fenced(version)),
                (producer._replace(epoch=-1), fenced(version)),
                (producer._replace(id=5_555_555), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                (producer._replace(name=unique("x")), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
                (producer._replace(name=""), ErrorCode.INVALID_REQUEST),
            ):
                assert end(kafka, wrong, committed=committed, version=version) == error


def test_end_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2).name
    for version in kafka.versions(ApiKey.END_TXN):
        for committed, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
            producer = start(kafka)
            both = {(topic, 0): 0, (topic, 1): 0}
            assert add(kafka, producer, *both) == both
            assert end(kafka, producer, committed=committed, version=version) == 0
            view = wait_for_state(kafka, producer.name, state)
            assert (view.topics, view.producer_epoch) == ([], producer.epoch)
            assert end(kafka, producer, committed=committed, version=version) == 0
            other = end(kafka, producer, committed=not committed, version=version)
            assert other == ErrorCode.INVALID_TXN_STATE
            # The next transaction goes on with the same producer.
            assert add(kafka, producer, *both) == both
            assert describe(kafka, producer.name).transaction_state == "Ongoing"


@pytest.mark.parametrize("committed", [True, False])
def test_each_partition_gets_its_marker(kafka: WireClient, committed: bool) -> None:
    topic = kafka.create_topic(partitions=3)
    producer = start(kafka)
    for partition in (0, 2):
        at = (topic.name, partition)
        assert add(kafka, producer, at) == {at: 0}
        records = batch(
            b"value",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            is_transactional=True,
            timestamp=int(time.time() * 1000),  # an old one would make the marker roll the log
        )
        answer = kafka.produce(
            topic.name, records, partition=partition, transactional_id=producer.name
        )
        assert (answer.error_code, answer.base_offset) == (0, 0)
    assert end(kafka, producer, committed=committed) == 0
    wait_for_state(kafka, producer.name, "CompleteCommit" if committed else "CompleteAbort")
    for partition, expected in ((0, 2), (1, 0), (2, 2)):
        seen = kafka.fetch(topic, partition=partition, isolation_level=1)
        assert (seen.high_watermark, seen.last_stable_offset) == (expected, expected)
        batches = list(iter_batch_headers(seen.records or b""))
        headers = [header for _, header in batches]
        assert [header.is_control for header in headers] == [False, True][:expected]
        for header in headers:
            assert (header.producer_id, header.producer_epoch) == producer[1:]
            assert header.is_transactional
        if headers:
            (marker,) = iter_records(seen.records, batches[-1][0])
            kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
            assert parse_control_record_type(marker.key) is kind
        aborted = [(a.producer_id, a.first_offset) for a in seen.aborted_transactions or ()]
        assert aborted == ([(producer.id, 0)] if expected and not committed else [])


def test_a_transaction_of_offsets_only(kafka: WireClient) -> None:
    group = unique("group")
    kafka.coordinator(group)
    producer = start(kafka)
    assert add_offsets(kafka, producer, group) == 0
    assert end(kafka, producer) == 0
    wait_for_state(kafka, producer.name, "CompleteCommit")


def test_a_topic_deleted_within_a_transaction(kafka: WireClient) -> None:
    """Its partitions get no marker, and nobody waits for them."""
    kept, deleted = kafka.create_topic().name, kafka.create_topic().name
    producer = start(kafka)
    both = {(kept, 0): 0, (deleted, 0): 0}
    assert add(kafka, producer, *both) == both
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=deleted)], timeout_ms=15_000)
    (result,) = kafka.call(request).responses
    assert result.error_code == 0
    assert end(kafka, producer) == 0
    wait_for_state(kafka, producer.name, "CompleteCommit")


def test_a_second_producer_aborts_the_transaction_of_the_first(kafka: WireClient) -> None:
    at = (kafka.create_topic().name, 0)
    for version in kafka.versions(ApiKey.INIT_PRODUCER_ID):
        first = start(kafka)
        assert add(kafka, first, at) == {at: 0}
        answer = init(kafka, first.name, version)
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
        second = start(kafka, first.name, version=version)
        # The epoch between the two is nobody's: it is that of the abort.
        assert (second.id, second.epoch) == (first.id, first.epoch + 2)
        assert describe(kafka, first.name).transaction_state == "Empty"
        assert add(kafka, first, at) == {at: ErrorCode.PRODUCER_FENCED}
        assert end(kafka, first) == ErrorCode.PRODUCER_FENCED
        assert add(kafka, second, at) == {at: 0}
        assert end(kafka, second) == 0


def test_requests_while_a_transaction_ends(kafka: WireClient) -> None:
    """They may come early or late, but are never taken for a part of what ends."""
    at = (kafka.create_topic().name, 0)
    producer = start(kafka)
    for _ in range(10):
        assert again(lambda: add(kafka, producer, at)[at], int) == 0
        assert end(kafka, producer) == 0
        assert end(kafka, producer) in (0, ErrorCode.CONCURRENT_TRANSACTIONS)
        assert end(kafka, producer, committed=False) in (
            ErrorCode.CONCURRENT_TRANSACTIONS,
            ErrorCode.INVALID_TXN_STATE,
        )
    wait_for_state(kafka, producer.name, "CompleteCommit")


# DescribeTransactions and ListTransactions


@covers(ApiKey.DESCRIBE_TRANSACTIONS)
def test_describe(kafka: WireClient) -> None:
    empty, unknown = start(kafka), unique("unknown")
    request = DescribeTransactionsRequest(transactional_ids=[empty.name, unknown, ""])
    for version in kafka.versions(ApiKey.DESCRIBE_TRANSACTIONS):
        states = kafka.call(request, version).transaction_states
        assert [s.transactional_id for s in states] == [empty.name, unknown, ""]
        assert (states[0].transaction_state, states[0].topics) == ("Empty", [])
        assert (states[0].producer_id, states[0].transaction_start_time_ms) == (empty.id, -1)
        assert [s.error_code for s in states] == [
            0,
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            ErrorCode.INVALID_REQUEST,
        ]


@covers(ApiKey.LIST_TRANSACTIONS)
def test_list(kafka: WireClient) -> None:
    at = (kafka.create_topic().name, 0)
    empty, ongoing = start(kafka), start(kafka)
    assert add(kafka, ongoing, at) == {at: 0}
    ours = {empty.name: (empty.id, "Empty"), ongoing.name: (ongoing.id, "Ongoing")}

    def ask(version: int, **filters: Any) -> dict[str, tuple[int, str]]:
        answer = kafka.call(ListTransactionsRequest(**filters), version)
        assert answer.error_code == 0
        return {
            state.transactional_id: (state.producer_id, state.transaction_state)
            for state in answer.transaction_states
            if state.transactional_id in ours
        }

    for version in kafka.versions(ApiKey.LIST_TRANSACTIONS):
        assert ask(version) == ours
        assert ask(version, state_filters=["Ongoing"]).keys() == {ongoing.name}
        assert ask(version, state_filters=["Ongoing", "Empty"]) == ours
        assert ask(version, state_filters=["ongoing"]) == {}
        assert ask(version, producer_id_filters=[empty.id]).keys() == {empty.name}
        both = ask(version, producer_id_filters=[empty.id], state_filters=["Ongoing"])
        assert both == {}
        answer = kafka.call(ListTransactionsRequest(state_filters=["Odd", "Empty"]), version)
        assert answer.unknown_state_filters == ["Odd"]
        if version >= 1:
            assert ask(version, duration_filter=3_600_000).keys() == {empty.name}
            assert ask(version, duration_filter=-1) == ours

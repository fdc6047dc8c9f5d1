"""AddPartitionsToTxn, its verification, DescribeTransactions and ListTransactions."""

from typing import Any

import pytest

from pybroker_kafka.coordinator.transaction.core import Append, SendMarkers, TransactionConfig
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.transaction.harness import NAME, START_MS, A, B, C, Harness

E = ErrorCode


def test_partitions_are_added() -> None:
    harness = Harness()
    producer = harness.start()
    assert harness.add(producer, A).error is E.NONE
    assert (harness.state, harness.metadata.start_ms) == (TransactionState.ONGOING, START_MS)
    harness.pass_time(5)
    assert harness.add(producer, A, B).error is E.NONE
    assert harness.metadata.partitions == {A, B}
    assert (harness.metadata.start_ms, harness.metadata.update_ms) == (START_MS, START_MS + 5)


def test_known_partitions_are_answered_when_the_isr_has_heard_of_it() -> None:
    harness = Harness()
    producer = harness.begin(A, B)
    known = (harness.metadata.partitions, harness.metadata.update_ms)
    harness.pass_time(5)
    harness.holds = {Append}
    for partitions in ((B,), ()):
        call = harness.add(producer, *partitions)
        assert not call.answers
        harness.acknowledge()
        assert call.error is E.NONE
    call = harness.add(producer, A)
    harness.acknowledge(E.NOT_LEADER_OR_FOLLOWER)
    assert call.error is E.NOT_COORDINATOR
    harness.holds = set()
    harness.fail_over()
    assert (harness.metadata.partitions, harness.metadata.update_ms) == known


def test_a_new_transaction_has_a_new_start() -> None:
    harness = Harness()
    producer = harness.begin(A)
    harness.end(producer)
    harness.pass_time(1000)
    assert harness.add(producer, B).error is E.NONE
    assert harness.metadata.start_ms == START_MS + 1000
    assert harness.metadata.partitions == {B}


def test_wrong_producers() -> None:
    harness = Harness()
    producer_id, epoch = harness.start()
    assert harness.add((producer_id, epoch), A, name="").error is E.INVALID_REQUEST
    assert harness.add((producer_id, 0), A, name="x").error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id + 1, 0), A).error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id, 1), A).error is E.PRODUCER_FENCED
    assert harness.add((producer_id, -1), A).error is E.PRODUCER_FENCED
    assert harness.state is TransactionState.EMPTY


def test_while_something_is_under_way() -> None:
    harness = Harness()
    producer = harness.start()
    harness.holds = {Append, SendMarkers}
    first = harness.add(producer, A)
    assert harness.add(producer, B).error is E.CONCURRENT_TRANSACTIONS
    harness.acknowledge()
    assert first.error is E.NONE
    harness.end(producer)
    assert harness.add(producer, A).error is E.CONCURRENT_TRANSACTIONS
    harness.acknowledge()
    assert harness.add(producer, A).error is E.CONCURRENT_TRANSACTIONS


def test_what_the_log_refuses_is_not_added() -> None:
    harness = Harness()
    producer = harness.begin(A)
    harness.holds = {Append}
    call = harness.add(producer, B)
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    assert call.error is E.COORDINATOR_NOT_AVAILABLE
    assert harness.metadata.partitions == {A}


def test_the_coordinator_moves_before_the_log_answers() -> None:
    for is_back, error in ((False, E.NOT_COORDINATOR), (True, E.NOT_COORDINATOR)):
        harness = Harness()
        producer = harness.begin(A)
        harness.holds = {Append}
        call = harness.add(producer, B)
        harness.unload()
        if is_back:
            harness.load()
        harness.acknowledge()
        assert call.error is error
        if is_back:
            assert harness.metadata.partitions == {A}


def test_while_the_partition_is_loaded() -> None:
    harness = Harness()
    producer = harness.begin(A)
    harness.holds = {Append}
    call = harness.add(producer, B)
    harness.unload()
    load = harness.machine.begin_load(0, harness.epoch)
    assert load is not None
    harness.acknowledge()
    loading = E.COORDINATOR_LOAD_IN_PROGRESS
    assert call.error is loading
    assert harness.add(producer, A).error is loading
    assert harness.end(producer).error is loading
    assert harness.init().error is loading
    assert harness.machine.verify_partitions(NAME, *producer, [A]) == {A: loading}
    assert harness.machine.describe(NAME).error_code == loading
    assert harness.machine.list_transactions((), (), -1, START_MS).error_code == loading


def test_not_the_coordinator() -> None:
    harness = Harness()
    producer = harness.begin(A)
    harness.unload()
    assert harness.add(producer, A).error is E.NOT_COORDINATOR
    assert harness.end(producer).error is E.NOT_COORDINATOR
    assert harness.init().error is E.NOT_COORDINATOR
    assert harness.machine.describe(NAME).error_code == E.NOT_COORDINATOR
    listed = harness.machine.list_transactions((), (), -1, START_MS)
    assert (listed.error_code, listed.transaction_states) == (0, [])


def test_before_the_start() -> None:
    machine = TransactionCoordinator(TransactionConfig())
    listed = machine.list_transactions((), (), -1, START_MS)
    assert listed.error_code == E.COORDINATOR_NOT_AVAILABLE
    assert machine.describe(NAME).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert machine.describe("").error_code == E.COORDINATOR_NOT_AVAILABLE
    assert machine.next_deadline_ms() is None


# Verification


def test_verification() -> None:
    harness = Harness()
    verify = harness.machine.verify_partitions
    producer_id, epoch = harness.begin(A, B)
    assert verify(NAME, producer_id, epoch, [A, C]) == {A: E.NONE, C: E.TRANSACTION_ABORTABLE}
    assert verify(NAME, producer_id, epoch + 1, [A, C]) == dict.fromkeys((A, C), E.PRODUCER_FENCED)
    assert verify(NAME, 5, epoch, [A]) == {A: E.INVALID_PRODUCER_ID_MAPPING}
    assert verify("x", producer_id, epoch, [A]) == {A: E.INVALID_PRODUCER_ID_MAPPING}
    assert verify("", producer_id, epoch, [A]) == {A: E.INVALID_REQUEST}


def test_verification_goes_by_what_the_log_has() -> None:
    harness = Harness()
    producer = harness.begin(A)
    verify = harness.machine.verify_partitions
    harness.holds = {Append, SendMarkers}
    harness.add(producer, B)
    assert verify(NAME, *producer, [A, B]) == {A: E.NONE, B: E.TRANSACTION_ABORTABLE}
    harness.acknowledge()
    assert verify(NAME, *producer, [A, B]) == {A: E.NONE, B: E.NONE}
    harness.end(producer)
    assert verify(NAME, *producer, [A]) == {A: E.NONE}
    harness.acknowledge()
    assert verify(NAME, *producer, [A]) == {A: E.CONCURRENT_TRANSACTIONS}
    harness.write_markers()
    harness.acknowledge()
    assert verify(NAME, *producer, [A]) == {A: E.TRANSACTION_ABORTABLE}


# Descriptions


def test_describe() -> None:
    harness = Harness()
    producer_id, epoch = harness.begin(C, B, A)
    view = harness.machine.describe(NAME)
    assert (view.error_code, view.transactional_id) == (0, NAME)
    assert (view.producer_id, view.producer_epoch) == (producer_id, epoch)
    assert (view.transaction_state, view.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert view.transaction_start_time_ms == START_MS
    assert [(t.topic, t.partitions) for t in view.topics] == [("a", [0, 1]), ("b", [0])]
    harness.holds = {SendMarkers}
    harness.end((producer_id, epoch))
    # Only those that have no marker yet.
    harness.write_markers({A: E.NONE, C: E.NONE, B: E.NOT_LEADER_OR_FOLLOWER})
    view = harness.machine.describe(NAME)
    assert view.transaction_state == "PrepareCommit"
    assert [(t.topic, t.partitions) for t in view.topics] == [("a", [1])]
    assert harness.machine.describe("x").error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert harness.machine.describe("").error_code == E.INVALID_REQUEST


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, {"empty", "old", "young"}),
        ({"state_filters": ["Ongoing"]}, {"old", "young"}),
        ({"state_filters": ["Empty", "Ongoing"]}, {"empty", "old", "young"}),
        ({"state_filters": ["empty"]}, set()),
        ({"producer_id_filters": [1000]}, {"empty"}),
        ({"producer_id_filters": [1000, 1002]}, {"empty", "young"}),
        ({"producer_id_filters": [1000], "state_filters": ["Ongoing"]}, set()),
        ({"duration_ms": 0}, {"empty", "old", "young"}),
        ({"duration_ms": 50}, {"empty", "old"}),
        ({"duration_ms": 99}, {"empty", "old"}),
        ({"duration_ms": 100}, {"empty"}),
    ],
)
def test_list(filters: dict[str, Any], names: set[str]) -> None:
    harness = Harness(partition_count=4)
    harness.start("empty")
    harness.begin(A, name="old")
    harness.now_ms += 50
    harness.begin(A, name="young")
    harness.now_ms += 50
    wanted: dict[str, Any] = {
        "state_filters": [],
        "producer_id_filters": [],
        "duration_ms": -1,
    } | filters
    answer = harness.machine.list_transactions(now_ms=harness.now_ms, **wanted)
    assert {state.transactional_id for state in answer.transaction_states} == names
    odd = {"empty"} & set(wanted["state_filters"])
    assert set(answer.unknown_state_filters) == odd

"""InitProducerId, case by case (the list in producers.py)."""

import pytest

from pybroker_kafka.coordinator.transaction.core import AllocateProducerId, Append, InitResult
from pybroker_kafka.coordinator.transaction.metadata import MAX_PRODUCER_EPOCH
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.transaction.harness import FIRST_PRODUCER_ID, NAME, A, Harness

E = ErrorCode
FIRST = (FIRST_PRODUCER_ID, 0)


def exhausted(epoch: int = MAX_PRODUCER_EPOCH - 1) -> Harness:
    """An id whose producer has the last epoch that producers get."""
    harness = Harness()
    harness.start()
    harness.metadata.producer_epoch = harness.metadata.logged_epoch = epoch
    return harness


def test_a_new_id() -> None:
    harness = Harness()
    assert harness.start() == FIRST
    assert harness.state is TransactionState.EMPTY
    assert harness.metadata.timeout_ms == 60_000
    assert harness.start("another") == (FIRST_PRODUCER_ID + 1, 0)


def test_a_new_id_with_an_expected_producer() -> None:
    """After UNKNOWN_PRODUCER_ID of an expired id: any producer may have it."""
    assert Harness().start(expected=(77, 5)) == FIRST


def test_the_same_producer_again_and_again() -> None:
    harness = Harness()
    assert [harness.start() for _ in range(3)] == [(FIRST_PRODUCER_ID, e) for e in range(3)]
    harness.start(timeout_ms=99)
    assert harness.metadata.timeout_ms == 99


def test_no_producer_id_to_be_had() -> None:
    harness = Harness()
    harness.holds = {AllocateProducerId}
    call = harness.init()
    assert call.is_waiting
    harness.give_producer_id(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert call.result == InitResult(E.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert harness.find() is None


def test_two_that_wait_for_an_id() -> None:
    """The second finds what the first has made; its own producer id is wasted."""
    harness = Harness()
    harness.holds = {AllocateProducerId}
    first, second = harness.init(), harness.init()
    harness.give_producer_id()
    harness.give_producer_id()
    assert first.result == InitResult(E.NONE, *FIRST)
    assert second.result == InitResult(E.NONE, FIRST_PRODUCER_ID, 1)


def test_the_coordinator_moves_while_an_id_is_allocated() -> None:
    harness = Harness()
    harness.holds = {AllocateProducerId}
    call = harness.init()
    harness.unload()
    harness.give_producer_id()
    assert call.result == InitResult(E.NOT_COORDINATOR)


def test_a_pending_transition() -> None:
    harness = Harness()
    harness.holds = {Append}
    first = harness.init()
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    harness.acknowledge()
    assert first.result == InitResult(E.NONE, *FIRST)


def test_going_on_with_the_epoch_that_one_has() -> None:
    harness = Harness()
    harness.start()
    assert harness.start(expected=FIRST) == (FIRST_PRODUCER_ID, 1)
    # The same once more: it has missed the answer.
    assert harness.start(expected=FIRST) == (FIRST_PRODUCER_ID, 1)
    # Somebody else starts: now it is a zombie.
    assert harness.start() == (FIRST_PRODUCER_ID, 2)
    assert harness.init(expected=FIRST).error is E.PRODUCER_FENCED
    assert harness.init(expected=(FIRST_PRODUCER_ID, 1)).error is E.PRODUCER_FENCED
    assert harness.init(expected=(4711, 2)).error is E.PRODUCER_FENCED
    assert harness.start(expected=(FIRST_PRODUCER_ID, 2)) == (FIRST_PRODUCER_ID, 3)


def test_a_retry_over_a_failover_is_fenced() -> None:
    """The last epoch is not in the log (value version 0)."""
    harness = Harness()
    harness.start()
    harness.start(expected=FIRST)
    harness.fail_over()
    assert harness.init(expected=FIRST).error is E.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
def test_while_markers_are_under_way(committed: bool) -> None:
    harness = Harness()
    harness.decide(committed=committed)
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    harness.write_markers()
    assert harness.start() == (FIRST_PRODUCER_ID, 1)


def test_an_open_transaction_is_aborted_and_its_producer_fenced() -> None:
    harness = Harness()
    old = harness.begin(A)
    harness.holds = {Append}
    call = harness.init()
    assert call.is_waiting
    # Nobody but this broker knows the new epoch, so nobody is told of it.
    assert harness.end(old).error is E.CONCURRENT_TRANSACTIONS
    harness.holds = set()
    harness.acknowledge()
    assert call.result == InitResult(E.CONCURRENT_TRANSACTIONS)
    assert harness.markers == [(A, False, 1, harness.epoch)]
    assert harness.state is TransactionState.COMPLETE_ABORT
    assert harness.add(old, A).error is E.PRODUCER_FENCED
    assert harness.end(old, committed=False).error is E.PRODUCER_FENCED
    # Nobody has got epoch 1.
    assert harness.start() == (FIRST_PRODUCER_ID, 2)


def test_a_fence_that_is_not_logged_bumps_once() -> None:
    harness = Harness()
    old = harness.begin()
    harness.holds = {Append}
    for _ in range(3):
        call = harness.init()
        harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
        assert call.error is E.COORDINATOR_NOT_AVAILABLE
        assert (harness.metadata.producer_epoch, harness.state) == (1, TransactionState.ONGOING)
    # A coordinator that is none any more is in this state for good, while the real one may have
    # given this epoch to a producer.
    assert harness.end(old).error is E.CONCURRENT_TRANSACTIONS
    for epoch in (0, 1):
        producer = (FIRST_PRODUCER_ID, epoch)
        assert harness.add(producer, A).error is E.CONCURRENT_TRANSACTIONS
        verified = harness.machine.verify_partitions(NAME, *producer, [A])
        assert verified == {A: E.CONCURRENT_TRANSACTIONS}
    harness.holds = set()
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    assert harness.metadata.producer_epoch == 1
    assert not harness.metadata.is_fencing
    assert harness.add(old, A).error is E.PRODUCER_FENCED
    assert harness.start()[1] == 2


def test_a_fence_at_the_last_epoch_can_be_tried_again() -> None:
    harness = exhausted()
    assert harness.add((FIRST_PRODUCER_ID, MAX_PRODUCER_EPOCH - 1), A).error is E.NONE
    harness.holds = {Append}
    harness.init()
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    harness.holds = set()
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    assert harness.markers == [(A, False, MAX_PRODUCER_EPOCH, harness.epoch)]
    assert harness.start() == (FIRST_PRODUCER_ID + 1, 0)


def test_exhausted_epochs() -> None:
    last = MAX_PRODUCER_EPOCH - 1
    assert exhausted(last - 1).start() == (FIRST_PRODUCER_ID, last)
    harness = exhausted()
    assert harness.start() == (FIRST_PRODUCER_ID + 1, 0)
    assert harness.metadata.last_producer_epoch == -1
    # One that names its epoch may miss the answer and ask again.
    harness = exhausted()
    old = (FIRST_PRODUCER_ID, last)
    assert harness.start(expected=old) == (FIRST_PRODUCER_ID + 1, 0)
    assert harness.start(expected=old) == (FIRST_PRODUCER_ID + 1, 0)
    assert harness.init(expected=(FIRST_PRODUCER_ID, 5)).error is E.PRODUCER_FENCED


def test_an_exhausted_epoch_that_is_not_the_one_named() -> None:
    harness = exhausted()
    assert harness.init(expected=(FIRST_PRODUCER_ID, 3)).error is E.PRODUCER_FENCED
    harness.holds = {AllocateProducerId}
    call = harness.init()
    harness.give_producer_id(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert call.error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.metadata.pending_state is None


@pytest.mark.parametrize(
    ("name", "timeout_ms", "error"),
    [
        ("", 1000, E.INVALID_REQUEST),
        ("", 0, E.INVALID_REQUEST),
        (NAME, 0, E.INVALID_TRANSACTION_TIMEOUT),
        (NAME, -1, E.INVALID_TRANSACTION_TIMEOUT),
        (NAME, 900_001, E.INVALID_TRANSACTION_TIMEOUT),
        (NAME, 900_000, E.NONE),
    ],
)
def test_bad_requests(name: str, timeout_ms: int, error: ErrorCode) -> None:
    assert Harness().init(name, timeout_ms=timeout_ms).error is error


@pytest.mark.parametrize(
    ("log_error", "error"),
    [
        (E.UNKNOWN_TOPIC_OR_PARTITION, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.COORDINATOR_NOT_AVAILABLE),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.KAFKA_STORAGE_ERROR, E.NOT_COORDINATOR),
        (E.MESSAGE_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.RECORD_LIST_TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (E.CORRUPT_MESSAGE, E.CORRUPT_MESSAGE),
    ],
)
def test_errors_of_the_log(log_error: ErrorCode, error: ErrorCode) -> None:
    harness = Harness()
    harness.start()
    harness.holds = {Append}
    call = harness.init()
    harness.acknowledge(log_error)
    assert call.result == InitResult(error, -1, -1)
    harness.holds = set()
    # Nothing has changed: the epoch is free still.
    assert harness.start() == (FIRST_PRODUCER_ID, 1)

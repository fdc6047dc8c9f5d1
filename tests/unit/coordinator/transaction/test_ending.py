"""EndTxn, markers and completion, case by case (the lists in ending.py)."""

import pytest

from pybroker_kafka.coordinator.transaction.core import (
    RETRY_DELAY_MS,
    Append,
    SendMarkers,
    TransactionConfig,
)
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_records
from tests.unit.coordinator.transaction.harness import NAME, A, B, Harness

E, S = ErrorCode, TransactionState


@pytest.mark.parametrize("committed", [True, False])
def test_the_way_of_a_transaction(committed: bool) -> None:
    harness = Harness()
    producer = harness.begin(A, B)
    harness.holds = {Append, SendMarkers}
    call = harness.end(producer, committed=committed)
    assert call.is_waiting
    assert harness.state is S.ONGOING
    assert not harness.held_markers
    harness.acknowledge()
    # The client is told as soon as the decision is replicated.
    assert call.error is E.NONE
    assert harness.state is (S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
    (job,) = harness.held_markers
    assert (job.partitions, job.committed) == ({A, B}, committed)
    assert (job.producer_id, job.producer_epoch) == producer
    assert (job.log_partition, job.coordinator_epoch) == (0, harness.epoch)
    harness.write_markers()
    harness.acknowledge()
    assert harness.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    assert (harness.metadata.partitions, harness.machine.pending_markers) == (set(), 0)


def test_a_transaction_without_partitions() -> None:
    harness = Harness()
    producer = harness.start()
    assert harness.add(producer).error is E.NONE
    assert harness.end(producer).error is E.NONE
    assert (harness.state, harness.markers) == (S.COMPLETE_COMMIT, [])


@pytest.mark.parametrize("committed", [True, False])
def test_again_when_it_is_over(committed: bool) -> None:
    harness = Harness()
    producer = harness.begin()
    harness.end(producer, committed=committed)
    assert harness.end(producer, committed=committed).error is E.NONE
    assert harness.end(producer, committed=not committed).error is E.INVALID_TXN_STATE
    assert len(harness.markers) == 2


def test_without_a_transaction() -> None:
    harness = Harness()
    producer = harness.start()
    assert harness.end(producer).error is E.INVALID_TXN_STATE
    assert harness.end(producer, committed=False).error is E.INVALID_TXN_STATE


def test_while_something_is_under_way() -> None:
    harness = Harness()
    producer = harness.begin()
    harness.holds = {Append, SendMarkers}
    harness.end(producer)
    for _ in range(3):  # decision, markers, completion
        for committed in (True, False):
            call = harness.end(producer, committed=committed)
            assert call.error is E.CONCURRENT_TRANSACTIONS
        if harness.held_markers:
            harness.write_markers()
        else:
            harness.acknowledge()
    harness.holds = set()
    assert harness.end(producer).error is E.NONE


@pytest.mark.parametrize(
    ("log_error", "answer"),
    [
        (E.NONE, E.NONE),
        (E.NOT_LEADER_OR_FOLLOWER, E.NOT_COORDINATOR),
        (E.REQUEST_TIMED_OUT, E.COORDINATOR_NOT_AVAILABLE),
        (E.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_retry_is_answered_when_the_isr_has_heard_of_it(
    log_error: ErrorCode, answer: ErrorCode
) -> None:
    harness = Harness()
    producer = harness.begin()
    harness.end(producer)
    before = harness.logs[0][-1]
    harness.holds = {Append}
    call = harness.end(producer)
    assert not call.answers
    harness.acknowledge(log_error, is_logged=True)
    assert call.error is answer
    (again,), (known,) = (list(iter_records(b)) for b in (harness.logs[0][-1], before))
    assert (again.key, again.value) == (known.key, known.value)


def test_without_proof_the_answer_comes_from_memory() -> None:
    """pybroker.coordinator.proof=false: as Apache Kafka 3.9."""
    harness = Harness(TransactionConfig(proves=False))
    producer = harness.begin()
    harness.end(producer)
    harness.holds = {Append}
    assert harness.end(producer).error is E.NONE
    assert harness.end((producer[0], producer[1] + 1)).error is E.PRODUCER_FENCED
    assert not harness.held_appends


def test_a_coordinator_that_is_none_any_more_proves_nothing() -> None:
    harness = Harness()
    producer = harness.begin()
    harness.end(producer)
    harness.holds = {Append}
    calls = [harness.end(producer), harness.end((producer[0], producer[1] + 1))]
    harness.unload()
    for call in calls:
        harness.acknowledge()
        assert call.error is E.NOT_COORDINATOR


def test_wrong_producers() -> None:
    harness = Harness()
    producer_id, epoch = harness.begin()
    assert harness.end((producer_id, epoch), name="").error is E.INVALID_REQUEST
    assert harness.end((producer_id, 0), name="x").error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id + 1, 0)).error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id, epoch + 1)).error is E.PRODUCER_FENCED
    assert harness.end((producer_id, epoch - 1)).error is E.PRODUCER_FENCED
    assert harness.state is S.ONGOING


def test_a_decision_that_is_not_logged() -> None:
    harness = Harness()
    producer = harness.begin()
    harness.holds = {Append}
    call = harness.end(producer)
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    assert call.error is E.COORDINATOR_NOT_AVAILABLE
    assert (harness.state, harness.markers) == (S.ONGOING, [])
    harness.holds = set()
    assert harness.end(producer, committed=False).error is E.NONE
    assert harness.state is S.COMPLETE_ABORT


def test_a_decision_of_an_earlier_leadership_sends_nothing() -> None:
    harness = Harness()
    producer = harness.begin()
    harness.holds = {Append}
    call = harness.end(producer)
    harness.fail_over()
    harness.acknowledge()
    assert call.error is E.NOT_COORDINATOR
    assert (harness.state, harness.markers) == (S.ONGOING, [])


# Markers


@pytest.mark.parametrize(
    "error",
    [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.NOT_LEADER_OR_FOLLOWER,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.REQUEST_TIMED_OUT,
        E.KAFKA_STORAGE_ERROR,
        E.UNKNOWN_SERVER_ERROR,
        E.CLUSTER_AUTHORIZATION_FAILED,
        None,
    ],
)
def test_a_marker_that_fails_is_sent_again(error: ErrorCode | None) -> None:
    harness = Harness()
    harness.decide(A, B)
    harness.write_markers({A: E.NONE} if error is None else {A: E.NONE, B: error})
    assert not harness.held_markers
    assert harness.machine.marker_retries == 1
    harness.pass_time(RETRY_DELAY_MS)
    (job,) = harness.held_markers
    assert (job.partitions, harness.machine.marker_retries) == ({B}, 0)
    harness.write_markers()
    assert harness.state is S.COMPLETE_COMMIT


def test_a_job_in_parts() -> None:
    """Each leader answers for its own partitions; the completion waits for the last."""
    harness = Harness()
    harness.decide(A, B)
    job = harness.held_markers.popleft()
    for partition, state in ((B, S.PREPARE_COMMIT), (A, S.COMPLETE_COMMIT)):
        part = job._replace(partitions=frozenset({partition}))
        results = {partition: E.NONE}
        harness.machine.markers_answered(part, results, harness.now_ms)
        harness.perform()
        assert harness.state is state


@pytest.mark.parametrize("error", [E.UNSUPPORTED_FOR_MESSAGE_FORMAT, E.UNSUPPORTED_VERSION])
def test_a_partition_that_takes_no_markers_is_skipped(error: ErrorCode) -> None:
    harness = Harness()
    harness.decide(A, B)
    harness.write_markers({A: error, B: E.NONE})
    assert harness.state is S.COMPLETE_COMMIT


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_a_fenced_coordinator_gives_up(error: ErrorCode) -> None:
    harness = Harness()
    producer = harness.decide(A, B)
    harness.write_markers({A: error, B: E.NOT_LEADER_OR_FOLLOWER})
    harness.pass_time(10 * RETRY_DELAY_MS)
    assert not harness.held_markers
    assert harness.state is S.PREPARE_COMMIT
    assert harness.end(producer).error is E.CONCURRENT_TRANSACTIONS
    # The next coordinator goes on.
    harness.holds = set()
    harness.fail_over()
    assert harness.state is S.COMPLETE_COMMIT


def test_markers_of_an_earlier_leadership_do_not_count() -> None:
    harness = Harness()
    harness.decide(A)
    harness.fail_over()
    old, new = harness.held_markers
    assert (old.coordinator_epoch, new.coordinator_epoch) == (harness.epoch - 2, harness.epoch)
    harness.write_markers()
    assert harness.state is S.PREPARE_COMMIT
    harness.write_markers()
    assert harness.state is S.COMPLETE_COMMIT


def test_retries_of_an_earlier_leadership_are_dropped() -> None:
    harness = Harness()
    harness.decide(A)
    harness.write_markers({})
    harness.unload()
    harness.pass_time(RETRY_DELAY_MS)
    assert not harness.held_markers
    assert (harness.machine.marker_retries, harness.machine.pending_markers) == (0, 0)


# Completion


@pytest.mark.parametrize(
    "error", [E.NOT_ENOUGH_REPLICAS, E.REQUEST_TIMED_OUT, E.MESSAGE_TOO_LARGE, E.CORRUPT_MESSAGE]
)
def test_a_completion_that_fails_is_logged_again(error: ErrorCode) -> None:
    harness = Harness()
    producer = harness.start_completing()
    for _ in range(3):
        harness.acknowledge(error)
        assert harness.machine.log_append_retries == 1
        assert harness.end(producer).error is E.CONCURRENT_TRANSACTIONS
        harness.pass_time(RETRY_DELAY_MS)
    harness.acknowledge()
    assert (harness.state, harness.machine.log_append_retries) == (S.COMPLETE_COMMIT, 0)
    assert len(harness.markers) == 1


def test_a_completion_that_only_another_coordinator_can_log() -> None:
    harness = Harness()
    producer = harness.start_completing()
    harness.acknowledge(E.NOT_LEADER_OR_FOLLOWER)
    harness.pass_time(10 * RETRY_DELAY_MS)
    assert not harness.held_appends
    assert harness.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert harness.end(producer, committed=False).error is E.INVALID_TXN_STATE
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    harness.holds = set()
    harness.fail_over()
    assert harness.state is S.COMPLETE_COMMIT


def test_an_unloaded_completion_is_not_tried_again() -> None:
    harness = Harness()
    harness.start_completing()
    harness.acknowledge(E.REQUEST_TIMED_OUT)
    harness.unload()
    harness.pass_time(RETRY_DELAY_MS)
    assert not harness.held_appends
    assert harness.machine.log_append_retries == 0


def test_an_end_that_comes_late_does_not_end_the_next_transaction() -> None:
    """It was sent again on a new connection, which has begun the next one meanwhile."""
    harness = Harness()
    producer = harness.begin(A)

    def end(connection: int) -> ErrorCode:
        call = harness.call("EndTxn")
        harness.machine.end_transaction(
            call, NAME, *producer, harness.now_ms, committed=True, connection=connection
        )
        harness.perform()
        return call.error

    def add(connection: int) -> ErrorCode:
        call = harness.call("AddPartitionsToTxn")
        harness.machine.add_partitions(call, NAME, *producer, [B], harness.now_ms, connection)
        harness.perform()
        return call.error

    assert end(5) is E.NONE
    assert add(5) is E.NONE
    assert (end(4), harness.state) == (E.NOT_COORDINATOR, S.ONGOING)
    assert (end(5), harness.state) == (E.NONE, S.COMPLETE_COMMIT)
    assert (add(3), harness.state) == (E.NOT_COORDINATOR, S.COMPLETE_COMMIT)
    # Whoever is refused and asks again is no left-over.
    assert (add(3), harness.state) == (E.NONE, S.ONGOING)
    assert (end(3), harness.state) == (E.NONE, S.COMPLETE_COMMIT)
    # Another producer's connections are its own.
    harness.holds = set()
    assert harness.start()[1] == producer[1] + 1

"""Transactions of version 2 (KIP-890, part 2): the epoch is raised with each end."""

import pytest

from pybroker_kafka.coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    SendMarkers,
    TransactionConfig,
)
from pybroker_kafka.coordinator.transaction.metadata import MAX_PRODUCER_EPOCH, Transition
from pybroker_kafka.coordinator.transaction.records import (
    decode_value,
    transaction_record,
    value_version,
)
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.errors import ErrorCode, ProtocolError
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.protocol.records.batch import iter_records
from pybroker_kafka.protocol.records.builder import build_batch
from tests.unit.coordinator.transaction.harness import NAME, START_MS, A, B, Harness

E, S = ErrorCode, TransactionState
LAST_EPOCH = MAX_PRODUCER_EPOCH - 1


def last_value(harness: Harness) -> bytes:
    (record,) = iter_records(harness.logs[0][-1])
    assert record.value is not None
    return bytes(record.value)


def exhausted(*, version: int = 2, config: TransactionConfig | None = None) -> Harness:
    """An id in the log whose producer has its last epoch."""
    harness = Harness(config, version=version)
    empty = Transition(S.EMPTY, 50, LAST_EPOCH, -1, 60_000, frozenset(), -1, START_MS)
    harness.logs[0].append(build_batch([transaction_record(NAME, empty, START_MS)]))
    harness.fail_over()
    return harness


@pytest.mark.parametrize("committed", [True, False])
def test_the_marker_has_the_next_epoch_and_the_producer_gets_it(committed: bool) -> None:
    harness = Harness(version=2)
    producer_id, epoch = harness.begin(A, B)
    harness.holds = {Append, SendMarkers}
    call = harness.end((producer_id, epoch), committed=committed)
    assert harness.metadata.producer_epoch == epoch  # until the log has it
    harness.acknowledge()
    assert call.result == (E.NONE, producer_id, epoch + 1)
    (job,) = harness.held_markers
    assert (job.producer_epoch, job.transaction_version) == (epoch + 1, 2)
    harness.write_markers()
    harness.acknowledge()
    assert harness.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)
    assert (harness.metadata.producer_epoch, harness.metadata.last_producer_epoch) == (
        epoch + 1,
        epoch,
    )
    harness.holds = set()
    assert harness.add((producer_id, epoch), A).error is E.PRODUCER_FENCED
    assert harness.add((producer_id, epoch + 1), A).error is E.NONE


@pytest.mark.parametrize("fails_over", [False, True])
@pytest.mark.parametrize("committed", [True, False])
def test_retry_and_next_end_are_told_apart(committed: bool, fails_over: bool) -> None:
    """The table at TransactionCoordinator.endTransaction."""
    harness = Harness(version=2)
    producer = harness.begin(A)
    after = harness.ended(producer, committed=committed)
    if fails_over:
        harness.fail_over()
    logged = len(harness.logs[0])
    assert harness.end(producer, committed=committed).result == (E.NONE, *after)
    assert len(harness.logs[0]) == logged  # no proof
    assert harness.end(producer, committed=not committed).error is E.INVALID_TXN_STATE
    assert harness.end(after).error is E.INVALID_TXN_STATE
    raised = harness.ended(after, committed=False)
    assert raised == (after[0], after[1] + 1)
    assert harness.state is S.COMPLETE_ABORT
    assert harness.end(producer).error is E.PRODUCER_FENCED
    assert harness.end((raised[0], raised[1] + 1)).error is E.PRODUCER_FENCED


def test_without_a_transaction() -> None:
    harness = Harness(version=2)
    producer_id, epoch = harness.start()
    assert harness.end((producer_id, epoch)).error is E.INVALID_TXN_STATE
    assert harness.end((producer_id, epoch - 1), committed=False).error is E.PRODUCER_FENCED
    assert harness.ended((producer_id, epoch), committed=False) == (producer_id, epoch + 1)
    assert (harness.metadata.start_ms, harness.markers) == (harness.now_ms, [])
    # An abort again under the current epoch is the next one.
    assert harness.ended((producer_id, epoch + 1), committed=False) == (producer_id, epoch + 2)


def test_while_something_is_under_way() -> None:
    harness = Harness(version=2)
    producer = harness.begin(A)
    harness.holds = {Append, SendMarkers}
    harness.end(producer)
    for _ in range(3):  # decision, markers, completion
        for asked in (producer, (producer[0], producer[1] + 1), (99, 0)):
            assert harness.end(asked).error is E.CONCURRENT_TRANSACTIONS
            assert harness.add(asked, B).error is E.CONCURRENT_TRANSACTIONS
        if harness.held_markers:
            harness.write_markers()
        else:
            harness.acknowledge()
    harness.holds = set()
    assert harness.end(producer).error is E.NONE


def test_prepared_without_a_pending_completion() -> None:
    """The log refused the completion, since this is no coordinator any more."""
    harness = Harness(version=2)
    producer = harness.start_completing()
    harness.acknowledge(E.NOT_LEADER_OR_FOLLOWER)
    harness.holds = set()
    assert harness.state is S.PREPARE_COMMIT
    assert harness.end(producer).error is E.CONCURRENT_TRANSACTIONS
    assert harness.end(producer, committed=False).error is E.INVALID_TXN_STATE
    current = (producer[0], producer[1] + 1)
    assert harness.end(current).error is E.PRODUCER_FENCED
    assert harness.add(current, A).error is E.CONCURRENT_TRANSACTIONS


def test_partitions_that_are_known_are_confirmed_from_memory() -> None:
    harness = Harness(version=2)
    producer = harness.begin(A, B)
    logged = len(harness.logs[0])
    assert harness.add(producer, B).error is E.NONE
    assert len(harness.logs[0]) == logged
    assert harness.metadata.client_version == 2


def test_unknown() -> None:
    harness = Harness(version=2)
    producer_id, epoch = harness.start()
    for name in ("other", ""):
        unknown = E.INVALID_PRODUCER_ID_MAPPING if name else E.INVALID_REQUEST
        assert harness.end((producer_id, epoch), name=name).error is unknown
        assert harness.add((producer_id, epoch), A, name=name).error is unknown
    assert harness.end((producer_id + 1, epoch)).error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.add((producer_id + 1, epoch), A).error is E.INVALID_PRODUCER_ID_MAPPING
    harness.unload()
    assert harness.end((producer_id, epoch)).error is E.NOT_COORDINATOR
    assert harness.add((producer_id, epoch), A).error is E.NOT_COORDINATOR


def test_a_fence_counts_once_it_is_logged() -> None:
    harness = Harness(version=2)
    producer_id, epoch = harness.begin(A)
    harness.holds = {Append}
    call = harness.init()
    assert harness.metadata.producer_epoch == epoch
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    assert call.error is E.COORDINATOR_NOT_AVAILABLE
    assert (harness.state, harness.metadata.is_fencing) == (S.ONGOING, False)
    harness.holds = set()
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    assert harness.markers == [(A, False, epoch + 1, harness.epoch)]
    assert harness.start() == (producer_id, epoch + 2)


def test_a_producer_that_was_too_slow_learns_its_epoch_by_its_abort() -> None:
    harness = Harness(version=2)
    producer_id, epoch = harness.begin(A)
    harness.pass_time(80_000)
    assert harness.state is S.COMPLETE_ABORT
    assert harness.add((producer_id, epoch), B).error is E.PRODUCER_FENCED
    assert harness.end((producer_id, epoch)).error is E.INVALID_TXN_STATE
    assert harness.ended((producer_id, epoch), committed=False) == (producer_id, epoch + 1)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("fails_over", [False, True])
def test_epochs_are_used_up(committed: bool, fails_over: bool) -> None:
    harness = exhausted()
    producer = (50, LAST_EPOCH)
    assert harness.add(producer, A).error is E.NONE
    harness.holds = {SendMarkers}
    call = harness.end(producer, committed=committed)
    after = (harness.next_producer_id - 1, 0)
    assert call.result == (E.NONE, *after)
    (job,) = harness.held_markers
    assert (job.producer_id, job.producer_epoch) == (50, MAX_PRODUCER_EPOCH)
    # The producer knows its next id before the coordinator has it.
    assert harness.add(after, A).error is E.CONCURRENT_TRANSACTIONS
    if fails_over:
        harness.held_markers.clear()
        harness.fail_over()
    harness.write_markers()
    assert (harness.metadata.producer_id, harness.metadata.producer_epoch) == after
    harness.holds = set()
    assert harness.end(producer, committed=committed).result == (E.NONE, *after)
    assert harness.end(producer, committed=not committed).error is E.INVALID_TXN_STATE
    assert harness.add(producer, A).error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.add(after, A).error is E.NONE
    assert harness.end(producer).error is E.INVALID_PRODUCER_ID_MAPPING


def test_no_next_producer_id() -> None:
    harness = exhausted()
    producer = (50, LAST_EPOCH)
    harness.add(producer, A)
    harness.holds = {AllocateProducerId}
    call = harness.end(producer)
    harness.give_producer_id(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert call.error is E.COORDINATOR_LOAD_IN_PROGRESS
    assert harness.state is S.ONGOING
    call = harness.init()
    harness.give_producer_id(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert call.error is E.COORDINATOR_LOAD_IN_PROGRESS
    # Two wait for one: the second finds the transaction ended.
    calls = [harness.end(producer), harness.init(), harness.init()]
    harness.give_producer_id()
    harness.give_producer_id()
    harness.unload()
    harness.give_producer_id()
    assert [call.error for call in calls] == [
        E.NONE,
        E.CONCURRENT_TRANSACTIONS,
        E.NOT_COORDINATOR,
    ]


def test_a_timeout_at_the_last_epoch() -> None:
    harness = exhausted(config=TransactionConfig())
    harness.add((50, LAST_EPOCH), A)
    harness.pass_time(80_000)
    assert harness.state is S.COMPLETE_ABORT
    assert harness.markers == [(A, False, MAX_PRODUCER_EPOCH, harness.epoch)]
    assert (harness.metadata.producer_id, harness.metadata.producer_epoch) == (1000, 0)


def test_an_invented_epoch_is_only_aborted() -> None:
    harness = exhausted(version=0)
    harness.add((50, LAST_EPOCH), A)
    harness.init()  # fenced under the largest epoch, which nobody gets
    invented = (50, MAX_PRODUCER_EPOCH)
    harness.version = 2
    assert harness.add(invented, A).error is E.NONE
    assert harness.end(invented).error is E.UNKNOWN_SERVER_ERROR
    assert harness.ended(invented, committed=False) == (1000, 0)
    assert harness.markers[-1] == (A, False, MAX_PRODUCER_EPOCH, harness.epoch)


def test_a_transaction_of_version_0_under_version_2() -> None:
    """An old client beside new ones: its epoch stays, only a fence raises it."""
    harness = Harness(version=2)
    producer = harness.start()
    harness.version = 0
    assert harness.add(producer, A).error is E.NONE
    harness.version = 2
    call = harness.call("EndTxn")
    harness.machine.end_transaction(call, NAME, *producer, harness.now_ms, committed=True)
    harness.perform()
    assert call.result is E.NONE
    assert harness.markers == [(A, True, producer[1], harness.epoch)]
    assert harness.metadata.producer_epoch == producer[1]
    assert last_value(harness)[:2] == b"\0\1"


@pytest.mark.parametrize("level", [0, 1, 2])
def test_the_version_of_records(level: int) -> None:
    harness = Harness(version=level)
    producer = harness.begin(A)
    harness.end(producer)
    value = last_value(harness)
    assert value[:2] == bytes([0, min(level, 1)])
    found = decode_value(NAME, value)
    assert found.state is S.COMPLETE_COMMIT
    assert (found.last_producer_id, found.client_version) == (
        (-1, 0) if level == 0 else (producer[0], level if level == 2 else 0)
    )


def test_a_transaction_that_was_begun_before_a_downgrade_keeps_its_next_producer() -> None:
    harness = exhausted()
    producer = (50, LAST_EPOCH)
    harness.add(producer, A)
    call = harness.call("EndTxn")
    harness.version = 0
    harness.holds = {SendMarkers}
    harness.machine.end_transaction(
        call, NAME, *producer, harness.now_ms, committed=True, client_version=2
    )
    harness.perform()
    harness.fail_over()
    harness.held_markers.popleft()
    harness.write_markers()
    assert (harness.metadata.producer_id, harness.metadata.producer_epoch) == (1000, 0)


def test_what_no_log_has() -> None:
    harness = Harness(version=2)
    harness.start()
    good = Transition(S.ONGOING, 5, 1, 0, 1, frozenset({A}), 1, 1, 5, -1, 2)
    assert value_version(0, good) == 1
    for bad in (good._replace(client_version=3), good._replace(next_producer_id=-2)):
        record = transaction_record(NAME, bad, 1, 1)
        assert record.value is not None
        with pytest.raises(ProtocolError):
            decode_value(NAME, record.value)


def test_broken_invariants() -> None:
    harness = Harness(version=2)
    harness.begin(A)
    metadata = harness.metadata
    with pytest.raises(BrokenInvariant):
        metadata.prepare_end_and_raise(1, 7, committed=True)
    metadata.producer_epoch = LAST_EPOCH
    with pytest.raises(BrokenInvariant):
        metadata.prepare_end_and_raise(1, None, committed=True)
    metadata.producer_epoch = MAX_PRODUCER_EPOCH
    with pytest.raises(BrokenInvariant):
        metadata.prepare_end_and_raise(1, 7, committed=True)
    metadata.producer_epoch = 3
    transition = metadata.prepare_end_and_raise(1, None, committed=True)
    for wrong in (
        transition._replace(producer_epoch=3),
        transition._replace(producer_epoch=5),
        transition._replace(last_producer_epoch=4),
        transition._replace(producer_id=1),
    ):
        with pytest.raises(BrokenInvariant):
            metadata.complete(wrong, 1)
    metadata.complete(transition, 1)
    completion = metadata.prepare_complete(2)
    with pytest.raises(BrokenInvariant):
        metadata.complete(completion._replace(producer_id=1, producer_epoch=0), 2)
    metadata.complete(completion, 2)

"""Transactions that take too long, ids that nobody uses, and jumps of the wall clock."""

import pytest

from pybroker_kafka.coordinator.transaction.core import Append, SendMarkers, TransactionConfig
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_records
from pybroker_kafka.protocol.wall_clock import REST_MS
from tests.unit.coordinator.transaction.harness import NAME, TIMEOUT_MS, A, B, Harness

E, S = ErrorCode, TransactionState
CONFIG = TransactionConfig(
    transactional_id_expiration_ms=100_000,
    abort_timed_out_interval_ms=1_000,
    remove_expired_interval_ms=10_000,
)


def test_a_transaction_times_out() -> None:
    harness = Harness(CONFIG)
    old = harness.begin(A, B)
    harness.pass_time(TIMEOUT_MS)
    assert harness.state is S.ONGOING  # at its end, not past it
    harness.pass_time(1_000)
    assert harness.state is S.COMPLETE_ABORT
    assert {(p, committed, epoch) for p, committed, epoch, _ in harness.markers} == {
        (A, False, old[1] + 1),
        (B, False, old[1] + 1),
    }
    # Its producer is fenced, and may only go on where the next one starts.
    assert harness.end(old).error is E.PRODUCER_FENCED
    assert harness.add(old, A).error is E.PRODUCER_FENCED
    assert harness.init(expected=old).error is E.PRODUCER_FENCED
    assert harness.start() == (old[0], old[1] + 2)


def test_how_long_the_log_may_take() -> None:
    """As long as the transaction, where a client waits; never less than a request for the rest."""
    harness = Harness(CONFIG)
    harness.holds = {Append}
    timeouts = []

    def acknowledge() -> None:
        timeouts.append(harness.held_appends[0].timeout_ms)
        harness.acknowledge()

    harness.init(timeout_ms=5)
    acknowledge()
    producer = (harness.metadata.producer_id, 0)
    for is_in_time in (True, False):
        harness.add(producer, A)
        acknowledge()
        if is_in_time:
            harness.end(producer)
        else:
            harness.pass_time(1_000)
        acknowledge()  # the decision
        acknowledge()  # the completion
    assert timeouts == [5, 5, 5, 30_000, 5, 30_000, 30_000]
    assert harness.state is S.COMPLETE_ABORT


def test_only_open_transactions_time_out() -> None:
    harness = Harness(CONFIG)
    harness.start("empty")
    producer = harness.begin()
    harness.end(producer)
    stuck = harness.begin(name="stuck")
    harness.holds = {SendMarkers}
    harness.end(stuck, name="stuck")
    harness.pass_time(90_000)
    assert harness.state is S.COMPLETE_COMMIT
    states = {m.transactional_id: m.state for m in harness.machine.transactions()}
    assert states == {"empty": S.EMPTY, NAME: S.COMPLETE_COMMIT, "stuck": S.PREPARE_COMMIT}


def test_one_whose_end_is_being_logged_does_not_time_out() -> None:
    harness = Harness(CONFIG)
    producer = harness.begin(A)
    harness.holds = {Append}
    call = harness.end(producer)
    harness.pass_time(2 * TIMEOUT_MS)
    harness.holds = set()
    harness.acknowledge()
    assert call.error is E.NONE
    assert [committed for _, committed, _, _ in harness.markers] == [True]


def test_an_abort_that_is_not_logged_comes_again() -> None:
    harness = Harness(CONFIG)
    _, epoch = harness.begin(A)
    harness.holds = {Append}
    harness.pass_time(TIMEOUT_MS + 1_000)
    for _ in range(3):
        harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
        harness.pass_time(1_000)
    harness.holds = set()
    harness.acknowledge()
    assert harness.state is S.COMPLETE_ABORT
    assert harness.metadata.producer_epoch == epoch + 1


def test_a_producers_fence_that_is_not_logged_comes_again_without_it() -> None:
    """Whoever had the transaction is told to ask again until then: that must not last until it
    times out."""
    harness = Harness(CONFIG)
    old = harness.begin(A)
    harness.holds = {Append}
    harness.init()
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    harness.holds = set()
    assert harness.end(old).error is E.CONCURRENT_TRANSACTIONS
    harness.pass_time(1_000)
    assert harness.state is S.COMPLETE_ABORT
    assert harness.end(old).error is E.PRODUCER_FENCED
    assert harness.start() == (old[0], old[1] + 2)


def test_a_timeout_goes_on_after_a_failover() -> None:
    harness = Harness(CONFIG)
    harness.begin(A)
    harness.pass_time(TIMEOUT_MS - 10)
    harness.fail_over()
    harness.pass_time(2_000)
    assert harness.state is S.COMPLETE_ABORT


@pytest.mark.parametrize("how", ["empty", "committed", "aborted"])
def test_an_unused_id_expires(how: str) -> None:
    harness = Harness(CONFIG)
    producer = harness.begin() if how != "empty" else harness.start()
    if how != "empty":
        harness.end(producer, committed=how == "committed")
    harness.pass_time(99_000)
    assert harness.find() is not None
    harness.pass_time(11_000)
    assert harness.find() is None
    ((_, _, key, value, *_),) = iter_records(harness.logs[0][-1])
    assert (key, value) == (b"\0\0\0\x05txn-1", None)
    assert harness.add(producer, A).error is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.machine.describe(NAME).error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    harness.fail_over()
    assert harness.find() is None
    assert harness.start()[1] == 0


def test_use_keeps_an_id() -> None:
    harness = Harness(CONFIG)
    for _ in range(5):
        harness.start()
        harness.pass_time(60_000)
    assert harness.metadata.producer_epoch == 4


def test_an_open_transaction_keeps_its_id() -> None:
    harness = Harness(CONFIG._replace(abort_timed_out_interval_ms=10_000_000))
    harness.begin()
    harness.pass_time(500_000)
    assert harness.state is S.ONGOING


def test_an_expiry_that_is_not_logged() -> None:
    harness = Harness(CONFIG)
    harness.start()
    harness.holds = {Append}
    harness.pass_time(100_000)
    (append,) = harness.held_appends
    assert append.timeout_ms == CONFIG.request_timeout_ms
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    assert harness.metadata.pending_state is None
    harness.pass_time(10_000)
    harness.acknowledge()
    assert harness.find() is None


def test_an_expiry_of_an_earlier_leadership() -> None:
    harness = Harness(CONFIG)
    harness.start()
    harness.holds = {Append}
    harness.pass_time(100_000)
    harness.fail_over()
    harness.acknowledge(is_logged=False)
    assert harness.find() is not None


def test_many_ids_expire_in_batches() -> None:
    harness = Harness(CONFIG, partition_count=2)
    names = [f"{'x' * 1000}-{n}" for n in range(50)]
    for name in names:
        harness.start(name)
    before = {p: len(log) for p, log in harness.logs.items()}
    harness.pass_time(100_000)
    assert list(harness.machine.transactions()) == []
    batches = [batch for p, log in harness.logs.items() for batch in log[before[p] :]]
    assert sum(len(list(iter_records(batch))) for batch in batches) == 50
    assert 3 < len(batches) < 8
    assert max(len(batch) for batch in batches) < 20_000


# The wall clock jumps

TEN_DAYS_MS = 10 * 24 * 3_600_000


def jump(harness: Harness, step_ms: int) -> None:
    harness.wall.note(harness.now_ms, harness.wall.at_ms(harness.now_ms) + step_ms)


@pytest.mark.parametrize("step_ms", [TEN_DAYS_MS, -TEN_DAYS_MS])
def test_a_jump_of_the_wall_clock_is_no_time_that_passes(step_ms: int) -> None:
    harness = Harness(CONFIG, partition_count=2)
    harness.start("idle")
    producer = harness.begin(A)
    jump(harness, step_ms)
    harness.pass_time(10_000)
    assert harness.state is S.ONGOING
    assert len(list(harness.machine.transactions())) == 2
    assert harness.end(producer).error is E.NONE
    harness.begin(A)
    harness.pass_time(TIMEOUT_MS + 1_000)
    assert harness.state is S.COMPLETE_ABORT
    harness.pass_time(111_000)
    assert list(harness.machine.transactions()) == []


def test_what_was_loaded_rests_after_a_jump() -> None:
    config = CONFIG._replace(transactional_id_expiration_ms=TEN_DAYS_MS - 1)
    harness = Harness(config)
    harness.start("idle")
    harness.begin(A)
    harness.fail_over()
    jump(harness, TEN_DAYS_MS)
    harness.pass_time(2_000)
    jump(harness, -TEN_DAYS_MS)
    assert harness.state is S.ONGOING
    harness.pass_time(TIMEOUT_MS + 2_000)
    assert harness.state is S.COMPLETE_ABORT  # a minute is over since the jumps
    assert len(list(harness.machine.transactions())) == 2
    harness.fail_over()
    jump(harness, TEN_DAYS_MS)
    harness.pass_time(REST_MS)
    assert len(list(harness.machine.transactions())) == 2
    harness.pass_time(10_000)
    assert list(harness.machine.transactions()) == []  # it has jumped and stays


@pytest.mark.parametrize("step_ms", [TEN_DAYS_MS, -TEN_DAYS_MS])
def test_an_abort_that_is_not_logged_does_not_rest(step_ms: int) -> None:
    """That it is too late is known already, and its producer waits for it."""
    harness = Harness(CONFIG)
    old = harness.begin(A)
    harness.fail_over()
    harness.holds = {Append}
    harness.pass_time(TIMEOUT_MS + 1_000)
    harness.acknowledge(E.NOT_ENOUGH_REPLICAS)
    harness.holds = set()
    jump(harness, step_ms)
    assert harness.end(old).error is E.CONCURRENT_TRANSACTIONS
    harness.pass_time(1_000)
    assert harness.state is S.COMPLETE_ABORT
    assert harness.end(old).error is E.PRODUCER_FENCED


def test_no_stamp_of_a_clock_that_has_just_jumped_back() -> None:
    harness = Harness(CONFIG)
    jump(harness, -TEN_DAYS_MS)
    harness.begin(A)
    assert harness.metadata.start_ms == harness.now_ms
    harness.pass_time(REST_MS)
    harness.start("later")
    jump(harness, 2 * TEN_DAYS_MS)
    harness.start("ahead")
    by_id = {one.transactional_id: one.update_ms for one in harness.machine.transactions()}
    assert by_id["later"] == harness.now_ms - TEN_DAYS_MS
    assert by_id["ahead"] == harness.now_ms + TEN_DAYS_MS


def test_ids_are_removed_with_their_open_transactions() -> None:
    """Not by a client: an open transaction is aborted first, and its producer is fenced."""
    harness = Harness(CONFIG)
    old = harness.begin(A)
    harness.start("idle")
    harness.start("other")
    harness.holds = {SendMarkers}
    names = [NAME, "idle", "unknown"]
    assert harness.machine.remove_ids(names, harness.now_ms) == 2
    harness.perform()
    assert harness.find("idle") is None
    assert harness.machine.remove_ids(names, harness.now_ms) == 1  # its marker is under way
    harness.write_markers()
    assert harness.machine.remove_ids(names, harness.now_ms) == 1
    harness.perform()
    assert harness.machine.remove_ids(names, harness.now_ms) == 0
    assert harness.end(old).error is E.INVALID_PRODUCER_ID_MAPPING
    harness.fail_over()
    assert [one.transactional_id for one in harness.machine.transactions()] == ["other"]

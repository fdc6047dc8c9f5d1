"""The table of transitions, and that metadata follows it."""

import pytest

from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata
from pybroker_kafka.coordinator.transaction.states import (
    EXPIRING,
    STATES_BY_LABEL,
    VALID_PREVIOUS,
    TransactionState,
)

S = TransactionState

# From -> to, as Kafka's documentation of the transaction log has it.
ARROWS = {
    (S.EMPTY, S.EMPTY),
    (S.EMPTY, S.ONGOING),
    (S.EMPTY, S.DEAD),
    (S.EMPTY, S.PREPARE_ABORT),
    (S.ONGOING, S.ONGOING),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.ONGOING, S.PREPARE_EPOCH_FENCE),
    (S.PREPARE_EPOCH_FENCE, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
    (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    (S.COMPLETE_COMMIT, S.EMPTY),
    (S.COMPLETE_COMMIT, S.ONGOING),
    (S.COMPLETE_COMMIT, S.DEAD),
    (S.COMPLETE_COMMIT, S.PREPARE_ABORT),
    (S.COMPLETE_ABORT, S.EMPTY),
    (S.COMPLETE_ABORT, S.ONGOING),
    (S.COMPLETE_ABORT, S.DEAD),
    (S.COMPLETE_ABORT, S.PREPARE_ABORT),
}

PREPARATIONS = {
    S.EMPTY: lambda m: m.prepare_epoch_bump(1000, -1, 5),
    S.ONGOING: lambda m: m.prepare_add_partitions(frozenset({("t", 1)}), 5),
    S.PREPARE_COMMIT: lambda m: m.prepare_end(5, committed=True),
    S.PREPARE_ABORT: lambda m: m.prepare_end_and_raise(5, None, committed=False),
    S.PREPARE_EPOCH_FENCE: lambda m: m.prepare_epoch_fence(),
    S.DEAD: lambda m: m.prepare_dead(),
}


def metadata(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata(
        "id", 7, 3, 1000, 1, state=state, partitions=frozenset({("t", 0)}), start_ms=1
    )


@pytest.mark.parametrize("before", sorted(EXPIRING))
def test_only_version_2_aborts_without_a_transaction(before: TransactionState) -> None:
    with pytest.raises(AssertionError):
        metadata(before).prepare_end(5, committed=False)


def test_the_table() -> None:
    assert {(before, after) for after in S for before in VALID_PREVIOUS[after]} == ARROWS
    assert {before for before, after in ARROWS if after is S.DEAD} == EXPIRING


@pytest.mark.parametrize("after", list(PREPARATIONS))
@pytest.mark.parametrize("before", list(S))
def test_what_is_not_in_the_table_is_refused(
    before: TransactionState, after: TransactionState
) -> None:
    subject = metadata(before)
    if (before, after) in ARROWS:
        PREPARATIONS[after](subject)
        assert subject.pending_state is after
        assert subject.state is before
        with pytest.raises(AssertionError):
            PREPARATIONS[after](subject)  # one is pending
        subject.cancel()
    else:
        with pytest.raises(AssertionError):
            PREPARATIONS[after](subject)
    assert (subject.state, subject.pending_state) == (before, None)


@pytest.mark.parametrize(
    ("before", "after"),
    [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)],
)
def test_completion_keeps_the_decision(before: TransactionState, after: TransactionState) -> None:
    subject = metadata(before)
    subject.complete(subject.prepare_complete(9), 9)
    assert (subject.state, subject.partitions, subject.start_ms) == (after, set(), 1)


def test_numbers_and_labels() -> None:
    assert [state.label for state in sorted(S)] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
    assert STATES_BY_LABEL["CompleteAbort"] == 5

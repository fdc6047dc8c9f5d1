"""The states of a transaction, and which may follow which.

The numbers are those in `__transaction_state`, the labels those of DescribeTransactions. Mirrors
the TransactionState objects beside Kafka's TransactionMetadata.
"""

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    EMPTY = 0  # initialized, no transaction yet
    ONGOING = 1  # partitions or offsets have been added
    PREPARE_COMMIT = 2  # decided and logged; markers are on their way
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4  # all markers are written
    COMPLETE_ABORT = 5
    DEAD = 6  # the id expires; only ever pending
    PREPARE_EPOCH_FENCE = 7  # the epoch is bumped before an abort; only ever pending

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS: Mapping[TransactionState, str] = {
    state: "".join(word.capitalize() for word in state.name.split("_"))
    for state in TransactionState
}
STATES_BY_LABEL: Mapping[str, TransactionState] = {label: state for state, label in _LABELS.items()}

_S = TransactionState

# State -> the states that it may be entered from. Nothing else is ever entered.
VALID_PREVIOUS: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.ONGOING: frozenset({_S.ONGOING, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_COMMIT: frozenset({_S.ONGOING}),
    # From Empty and Complete* only in version 2: an abort that raises the epoch.
    _S.PREPARE_ABORT: frozenset(
        {_S.ONGOING, _S.PREPARE_EPOCH_FENCE, _S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}
    ),
    _S.COMPLETE_COMMIT: frozenset({_S.PREPARE_COMMIT}),
    _S.COMPLETE_ABORT: frozenset({_S.PREPARE_ABORT}),
    _S.DEAD: frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT}),
    _S.PREPARE_EPOCH_FENCE: frozenset({_S.ONGOING}),
}

# Transactional ids in these states expire when they are not used.
EXPIRING = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
PREPARED = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
COMPLETE = frozenset({_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})


def prepare_state(*, committed: bool) -> TransactionState:
    return _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT


def complete_state(*, committed: bool) -> TransactionState:
    return _S.COMPLETE_COMMIT if committed else _S.COMPLETE_ABORT

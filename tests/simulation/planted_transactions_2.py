"""Faults put into transactions of version 2 on purpose, and those of before that do no harm there.

`HARMLESS` names planted faults of transactions up to version 1: what they leave out are our
protections beyond Kafka. Producers of version 2 need none of them.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from pybroker_kafka.broker.coordinators.transaction_verifier import Question, TransactionVerifier
from pybroker_kafka.coordinator.transaction import ending
from pybroker_kafka.coordinator.transaction.core import EndAttempt
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata
from pybroker_kafka.coordinator.transaction.states import COMPLETE
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.storage.producer_state import ProducerState
from tests.simulation import planted_transactions
from tests.simulation.cluster import Result
from tests.simulation.planted_transactions import nastier
from tests.simulation.transactions import simulate_transactions_2

MAX_SEEDS = 500
HARMLESS = (
    "late requests are applied",
    "late markers are written",
    "late offsets are taken",
    "coordinator answers from memory",
)


def _the_coordinator_is_not_waited_for() -> Any:
    """A leader appends before the coordinator has added the partition."""

    def ask(self: TransactionVerifier, question: Question) -> None:
        question.answer({})

    return patch.object(TransactionVerifier, "ask", ask)


def _a_marker_may_have_the_epoch_of_the_transaction() -> Any:
    """The check of version 0: a marker that comes again ends the next transaction."""
    return nastier(
        patch.object(
            ProducerState, "_check_raised_epoch", staticmethod(ProducerState._check_epoch)
        ),
        BROKEN_CONNECTIONS_WEIGHT=400,
        LATE_SHARE=1.0,
    )


def _the_next_end_is_taken_for_a_retry() -> Any:
    """A coordinator looks at the state alone, as in version 0; one that is none any more says that
    the transaction before was this one."""
    real = ending._error_of_end

    def look(metadata: TransactionMetadata, attempt: EndAttempt) -> ErrorCode | None:
        is_current = metadata.producer_epoch == attempt.producer_epoch
        if metadata.pending_state is None and metadata.state in COMPLETE and is_current:
            return ErrorCode.NONE
        return real(metadata, attempt)

    return nastier(patch.object(ending, "_error_of_end", look), ISOLATED_COORDINATORS_WEIGHT=15)


PLANTED: dict[str, Callable[[], Any]] = {
    "coordinator is not waited for": _the_coordinator_is_not_waited_for,
    "marker may have the epoch of the transaction": (
        _a_marker_may_have_the_epoch_of_the_transaction
    ),
    "next end is taken for a retry": _the_next_end_is_taken_for_a_retry,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    planted = {**PLANTED, **{name: planted_transactions.PLANTED[name] for name in HARMLESS}}
    for seed in seeds:
        with planted[name]():
            result = simulate_transactions_2(seed)
        if result.error is not None:
            return result
    return None

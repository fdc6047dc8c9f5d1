"""Faults put into transactions of version 2 on purpose, and those of before that do no harm there.

`HARMLESS` has faults that break what is promised up to version 1: most leave out our protections
beyond Kafka. Producers of version 2 need none of them.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

from pybroker_kafka.broker.cluster.broker_connection import BrokerConnection, ChannelError
from pybroker_kafka.broker.coordinators.marker_sender import MarkerSender
from pybroker_kafka.broker.coordinators.transaction_verifier import Question, TransactionVerifier
from pybroker_kafka.coordinator.transaction import ending
from pybroker_kafka.coordinator.transaction.core import EndAttempt, MarkerJob
from pybroker_kafka.coordinator.transaction.markers import markers_request
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata
from pybroker_kafka.coordinator.transaction.states import COMPLETE
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.storage import producer_checks
from tests.simulation import planted_transactions
from tests.simulation.cluster import Result
from tests.simulation.planted_transactions import nastier, together
from tests.simulation.transactions import simulate_transactions_2

MAX_SEEDS = 500


def _the_coordinator_is_not_waited_for() -> Any:
    """A leader appends before the coordinator has added the partition."""

    def ask(self: TransactionVerifier, question: Question) -> None:
        question.answer({})

    return patch.object(TransactionVerifier, "ask", ask)


def _markers_come_again() -> Any:
    """Before a coordinator sends markers to a broker, the ones before come once more: the marker of
    a producer's transaction arrives in the middle of its next one."""
    before: dict[tuple[MarkerSender, int], list[MarkerJob]] = {}

    async def exchange(
        self: MarkerSender, broker_id: int, connection: BrokerConnection | None
    ) -> None:
        old = before.get((self, broker_id))
        if old and connection is not None:
            with suppress(ChannelError):
                await connection.send(markers_request(old), self._version())
        before[self, broker_id] = list(self.queues._queues[broker_id])
        await real(self, broker_id, connection)

    real = MarkerSender._exchange
    return patch.object(MarkerSender, "_exchange", exchange)


def _a_marker_may_have_the_epoch_of_the_transaction() -> Any:
    """The check of version 0: a marker that comes again ends the next transaction."""
    check = producer_checks.check_epoch
    return together(
        _markers_come_again(), patch.object(producer_checks, "check_raised_epoch", check)
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


HARMLESS: dict[str, Callable[[], Any]] = {
    "markers come again": _markers_come_again,
    **{
        name: planted_transactions.PLANTED[name]
        for name in (
            "late requests are applied",
            "late markers are written",
            "late offsets are taken",
            "coordinator answers from memory",
        )
    },
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    planted = {**PLANTED, **HARMLESS}
    for seed in seeds:
        with planted[name]():
            result = simulate_transactions_2(seed)
        if result.error is not None:
            return result
    return None

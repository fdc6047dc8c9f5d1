"""Faults put into transactions on purpose, to see that the simulation finds them.

As in `planted.py`, each is a small change of one rule, as a bug would make it.
"""

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from coordinator.group.offsets import OffsetAndMetadata, OffsetStore, TopicPartition
from coordinator.transaction.metadata import TransactionMetadata
from storage.log_base import LogState
from tests.simulation.cluster import Result
from tests.simulation.coordinators import TransactionShell
from tests.simulation.transactions import simulate_transactions

MAX_SEEDS = 500
ACKS_LEADER = 1


def _marker_before_the_log_is_durable() -> Any:
    """The coordinator does not wait until its decision is replicated."""
    return patch.object(TransactionShell, "acks", ACKS_LEADER)


def _lso_past_an_open_transaction() -> Any:
    """Readers of committed data read up to the HW."""
    return patch.object(LogState, "last_stable_offset", property(lambda self: self.high_watermark))


def _epoch_not_bumped_on_timeout() -> Any:
    """A transaction that took too long is aborted, and its producer is not fenced."""

    def same_epoch(self: TransactionMetadata) -> int:
        fence(self)
        return self.producer_epoch

    fence = TransactionMetadata.prepare_epoch_fence
    return patch.object(TransactionMetadata, "prepare_epoch_fence", same_epoch)


def _offsets_visible_before_the_commit() -> Any:
    """Offsets of a transaction count as soon as they are appended."""

    def appended(
        self: OffsetStore,
        producer_id: int,
        append_id: int,
        record_offset: int,
        values: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self.transactional_failed(producer_id, append_id, values)
        self.prepare(append_id, values)
        self.complete(append_id, record_offset, values)

    return patch.object(OffsetStore, "transactional_appended", appended)


PLANTED: dict[str, Callable[[], Any]] = {
    "marker before the log is durable": _marker_before_the_log_is_durable,
    "LSO past an open transaction": _lso_past_an_open_transaction,
    "epoch not bumped on timeout": _epoch_not_bumped_on_timeout,
    "offsets visible before the commit": _offsets_visible_before_the_commit,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_transactions(seed)
        if result.error is not None:
            return result
    return None

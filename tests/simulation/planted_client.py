"""Faults put into the client on purpose, to see that the simulation finds them; as `planted`."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from pybroker.client.producer.batch import Batch, Outcome
from pybroker.client.producer.identities import Identities
from pybroker.client.producer.partition_queue import PartitionQueue
from pybroker.protocol.records.record import NO_SEQUENCE
from tests.simulation.client_cluster import simulate_client
from tests.simulation.cluster import Result

MAX_SEEDS = 200


def _retry_under_a_new_number() -> Any:
    """What is sent again after a lost answer is numbered anew."""
    unanswered = PartitionQueue.unanswered

    def renumber(self: PartitionQueue, batch: Batch) -> None:
        unanswered(self, batch)
        batch.sequence = NO_SEQUENCE

    return patch.object(PartitionQueue, "unanswered", renumber)


def _number_given_again() -> Any:
    """A number whose record was given up is given to another record."""
    settle = PartitionQueue.settle

    def forget(self: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        batch.may_be_written = False
        settle(self, batch, outcome)

    return patch.object(PartitionQueue, "settle", forget)


def _epoch_not_raised() -> Any:
    """After a gap the numbers begin anew under the same epoch."""
    return patch.object(Identities, "_raise_epoch", lambda _self: None)


def _others_overtake() -> Any:
    """A batch that waits to be sent again holds nobody up."""

    def candidate(self: PartitionQueue, now_ms: int, max_in_flight: int) -> Batch | None:
        if self.in_flight >= max_in_flight or (self.needs_restart and self.in_flight):
            return None
        for batch in self.batches:
            if not batch.is_in_flight and batch.retry_at_ms <= now_ms:
                return batch
        return None

    return patch.object(PartitionQueue, "candidate", candidate)


PLANTED: dict[str, Callable[[], Any]] = {
    "retry under a new sequence number": _retry_under_a_new_number,
    "sequence number given again after a time-out": _number_given_again,
    "epoch not raised after a gap": _epoch_not_raised,
    "batches overtake one that is sent again": _others_overtake,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_client(seed)
        if result.error is not None:
            return result
    return None

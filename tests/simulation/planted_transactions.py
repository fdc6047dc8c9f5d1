"""Faults put into transactions on purpose, to see that the simulation finds them.

As in `planted.py`, each is a small change of one rule, as a bug would make it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from pybroker_kafka.broker.coordinators.transaction_runtime import TransactionRuntime
from pybroker_kafka.broker.coordinators.transaction_verifier import (
    Question,
    TransactionVerifier,
    _Channel,
)
from pybroker_kafka.broker.handlers.write_txn_markers import WriteTxnMarkersHandler
from pybroker_kafka.coordinator.connection_order import ConnectionOrders, Sender
from pybroker_kafka.coordinator.group import transactions as group_transactions
from pybroker_kafka.coordinator.group.offsets import OffsetAndMetadata, OffsetStore
from pybroker_kafka.coordinator.group.stable_fetch import StableFetches
from pybroker_kafka.coordinator.transaction.core import Append, Core, Found
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata
from pybroker_kafka.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.storage.log import Log
from tests.simulation import faults, transactional_clients, transactions
from tests.simulation.cluster import Result
from tests.simulation.transactions import simulate_transactions

MAX_SEEDS = 500
_KNOBS = (transactions, transactional_clients, faults)
ACKS_LEADER = 1


def _marker_before_the_log_is_durable() -> Any:
    """The coordinator does not wait until its decision is replicated."""

    def append(self: TransactionRuntime, append: Append) -> None:
        self._append_batch(append, ACKS_LEADER, append.timeout_ms)

    return patch.object(TransactionRuntime, "_append", append)


def _lso_past_an_open_transaction() -> Any:
    """Readers of committed data read up to the HW."""
    return patch.object(Log, "last_stable_offset", property(lambda self: self.high_watermark))


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


@contextmanager
def together(*patches: Any) -> Iterator[None]:
    """Some patches as one."""
    with ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


@contextmanager
def nastier(fault: Any, **weights: float) -> Iterator[None]:
    """A fault that few seeds would meet, in clusters to which what shows it happens more often."""
    with ExitStack() as stack:
        stack.enter_context(fault)
        for name, weight in weights.items():
            (place,) = (one for one in _KNOBS if hasattr(one, name))
            stack.enter_context(patch.object(place, name, weight))
        yield


def _late_requests_are_applied() -> Any:
    """A producer's request out of a broken connection counts as one of its next transaction."""
    return nastier(
        patch.object(TransactionMetadata, "is_late", lambda _self, _connection: False),
        BROKEN_ENDS_SHARE=0.3,
        LATE_SHARE=1.0,
    )


def _late_markers_are_written() -> Any:
    """Markers out of a coordinator's broken connection end the producer's next transaction."""
    return nastier(
        patch.object(WriteTxnMarkersHandler, "_is_late", lambda _self, _request: False),
        BROKEN_MARKERS_SHARE=0.3,
        LATE_SHARE=1.0,
    )


def _late_offsets_are_taken() -> Any:
    """Offsets out of a producer's broken connection are those of its next transaction."""

    class NothingIsLate(ConnectionOrders[Sender]):
        def is_late(self, sender: Sender, connection: int) -> bool:
            return False

    return nastier(
        patch.object(group_transactions, "ConnectionOrders", NothingIsLate),
        BROKEN_OFFSETS_SHARE=0.6,
        LATE_SHARE=1.0,
        OFFSETS_SHARE=1.0,
    )


def _coordinator_answers_from_memory() -> Any:
    """What a coordinator remembers is said without asking the ISR, as Kafka does."""

    def say(
        self: Core, found: Found, answer: ErrorCode, now_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        done(answer)

    return nastier(
        patch.object(Core, "prove", say),
        # Of many tellers some had ended a transaction when their coordinator was cut off.
        TELLERS=10,
        LONGEST_PAUSE_MS=800,
        STANDSTILL_SHARE=0,
        ISOLATED_COORDINATORS_WEIGHT=40,
    )


def _unlogged_fences_are_believed() -> Any:
    """The epoch that a coordinator could not log counts as if a producer had got it from here."""

    def say(
        self: Core, found: Found, answer: ErrorCode, now_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        if found.metadata.is_fencing:
            done(answer)
        else:
            prove(self, found, answer, now_ms, done)

    def check(
        self: TransactionCoordinator, name: str, producer_id: int, epoch: int, partitions: Any
    ) -> Any:
        found = self._find_id(name, producer_id)
        if isinstance(found, ErrorCode):
            return verify(self, name, producer_id, epoch, partitions)
        with patch.object(found.metadata, "is_fencing", False):
            return verify(self, name, producer_id, epoch, partitions)

    def ask(self: TransactionVerifier, question: Question) -> None:
        own = self._metadata.broker_id
        channel = self._channels.get(own)
        if channel is None:
            assert self._nursery is not None
            channel = self._channels[own] = _Channel(self, own)
            self._nursery.start_soon(channel.run)
        channel.add(question)

    prove, verify = Core.prove, TransactionCoordinator.verify_partitions
    return nastier(
        together(
            patch.object(Core, "prove", say),
            patch.object(TransactionCoordinator, "verify_partitions", check),
            # Or too few seeds meet it: the own coordinator is asked over the network, as in Kafka.
            patch.object(TransactionVerifier, "_answer_here", ask),
        ),
        ISOLATED_COORDINATORS_WEIGHT=40,
        STANDSTILL_SHARE=0.1,
        CLOCKS_WEIGHT=0,
    )


def _offsets_answered_from_memory() -> Any:
    """Offsets to go on from are told without asking the ISR, as Kafka does."""

    def tell(self: StableFetches, token: object, wanted: Any, now_ms: int) -> None:
        answers = [self._commits.fetch(*one, require_stable=True) for one in wanted]
        self._core.reply(token, answers)

    return patch.object(StableFetches, "fetch", tell)


PLANTED: dict[str, Callable[[], Any]] = {
    "marker before the log is durable": _marker_before_the_log_is_durable,
    "LSO past an open transaction": _lso_past_an_open_transaction,
    "epoch not bumped on timeout": _epoch_not_bumped_on_timeout,
    "offsets visible before the commit": _offsets_visible_before_the_commit,
    "late requests are applied": _late_requests_are_applied,
    "late markers are written": _late_markers_are_written,
    "late offsets are taken": _late_offsets_are_taken,
    "coordinator answers from memory": _coordinator_answers_from_memory,
    "unlogged fences are believed": _unlogged_fences_are_believed,
    "offsets answered from memory": _offsets_answered_from_memory,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_transactions(seed)
        if result.error is not None:
            return result
    return None

"""Faults put into the client on purpose, to see that the simulation finds them; as `planted`."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import trio

from pybroker_kafka.client.consumer import topics_view, unpacking
from pybroker_kafka.client.consumer.deliveries import Ledger
from pybroker_kafka.client.consumer.polling import Polling
from pybroker_kafka.client.consumer.positions import Position
from pybroker_kafka.client.consumer.progress import Progress
from pybroker_kafka.client.consumer.received import batches_of
from pybroker_kafka.client.producer.batch import Batch, Outcome
from pybroker_kafka.client.producer.identities import Identities
from pybroker_kafka.client.producer.partition_queue import GAPS, PartitionQueue, Verdict
from pybroker_kafka.client.producer.transaction import State, Transaction
from pybroker_kafka.client.producer.transactions import Transactions
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.record import NO_SEQUENCE
from pybroker_kafka.protocol.topics import TopicPartition
from tests.simulation import client_apps, client_cluster
from tests.simulation.client_apps import App, PlainSender, Sender
from tests.simulation.client_cluster import simulate_client
from tests.simulation.client_members import Member
from tests.simulation.client_transactions import Teller
from tests.simulation.cluster import Result

MAX_SEEDS = 200


@contextmanager
def among(planted: Any, *kinds: type[App], **constants: Any) -> Iterator[None]:
    """With these users alone, and other constants of theirs: few of the usual seeds meet it."""
    with ExitStack() as stack:
        stack.enter_context(planted)
        stack.enter_context(patch.object(client_cluster, "app_kinds", lambda _cluster: kinds))
        for name, value in constants.items():
            stack.enter_context(patch.object(client_apps, name, value))
        yield


def _retry_under_a_new_number() -> Any:
    """What is sent again after a lost answer is numbered anew."""
    unanswered = PartitionQueue.unanswered

    def renumber(self: PartitionQueue, batch: Batch) -> None:
        unanswered(self, batch)
        batch.sequence = NO_SEQUENCE

    return patch.object(PartitionQueue, "unanswered", renumber)


def _number_given_again() -> Any:
    """A number whose record was given up is given to another record."""
    complete = PartitionQueue.complete

    def forget(self: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        batch.may_be_written = False
        complete(self, batch, outcome)

    planted = patch.object(PartitionQueue, "complete", forget)
    return among(planted, *[Sender] * 4, DELIVERY_TIMEOUTS_MS=(1_000,), CANCELLED_SHARE=0.1)


def _epoch_not_raised() -> Any:
    """After a gap the numbers begin anew under the same epoch."""
    planted = patch.object(Identities, "_raise_epoch", lambda _self: None)
    return among(planted, *[Sender] * 4, DELIVERY_TIMEOUTS_MS=(1_000,), CANCELLED_SHARE=0.1)


def _others_overtake() -> Any:
    """A batch that waits to be sent again holds nobody up."""

    def candidate(self: PartitionQueue, now_ms: int, max_in_flight: int) -> Batch | None:
        if self.in_flight >= max_in_flight or (self.needs_restart and self.in_flight):
            return None
        for batch in self.batches:
            if not batch.is_in_flight and batch.retry_at_ms <= now_ms:
                return batch
        return None

    return among(patch.object(PartitionQueue, "candidate", candidate), *[PlainSender] * 4)


def _replaced_leaders_wrote_nothing() -> Any:
    """A leader that says that it leads no more has not appended."""
    judge = PartitionQueue.judge

    def trust(self: PartitionQueue, batch: Batch, code: ErrorCode, **known: Any) -> Verdict:
        return judge(self, batch, code, **{**known, "base_offset": -1})

    planted = patch.object(PartitionQueue, "judge", trust)
    return among(planted, *[Sender] * 4, DELIVERY_TIMEOUTS_MS=(1_000,), CANCELLED_SHARE=0.1)


def _what_is_forgotten_is_not_written() -> Any:
    """A batch that a broker does not remember is written anew."""
    judge = PartitionQueue.judge

    def trust(self: PartitionQueue, batch: Batch, code: ErrorCode, **known: Any) -> Verdict:
        if code in GAPS:
            batch.may_be_written = False
        return judge(self, batch, code, **known)

    return among(patch.object(PartitionQueue, "judge", trust), *[Sender] * 4)


def _commit_without_flush() -> Any:
    """A transaction is committed while its records are on their way."""

    async def hasty(self: Transactions) -> None:
        self._transaction.check_open("commit")
        self._transaction.move(State.COMMITTING)
        await self._end(is_commit=True)

    return patch.object(Transactions, "commit", hasty)


def _failures_are_committed() -> Any:
    """A record that is not written does not doom its transaction."""
    planted = patch.object(Transaction, "batch_failed", lambda *_args, **_how: None)
    return among(planted, *[Teller] * 4, DELIVERY_TIMEOUTS_MS=(1_000,))


def _aborted_are_handed_out() -> Any:
    """Nothing that a fetch brings is left out."""

    def all_of(partition: Any, columns: Any, position: int, aborted: Any) -> Any:
        return batches_of(partition, columns, position, aborted and ())

    return patch.object(unpacking, "batches_of", all_of)


def _leaders_go_back() -> Any:
    """Whatever a broker says of leaders is believed."""
    return patch.object(topics_view, "_newer", lambda _known, told: told)


def _fetched_is_committed() -> Any:
    """What is in the buffer counts as handed out."""

    def through(self: Progress) -> dict[TopicPartition, Position]:
        found = {tp: state.fetch_position for tp, state in self._positions.items()}
        return {tp: at for tp, at in found.items() if at is not None}

    return patch.object(Progress, "through", through)


def _hand_is_committed() -> Any:
    """Who is cancelled has done what it was given."""
    return patch.object(Progress, "interrupt", lambda _self: None)


def _asking_is_not_done() -> Any:
    """Who is cancelled while it asks for more has not done what it was given before."""
    planted = patch.object(Progress, "ask_for_more", lambda _self: None)
    return among(planted, Sender, Member, Member, Member, CANCELLED_SHARE=0.9)


def _open_records_are_committed() -> Any:
    """In ack mode, up to the newest that is finished."""

    def newest(self: Ledger) -> dict[TopicPartition, int]:
        return {place: mine.next_offset for place, mine in self._partitions.items()}

    return patch.object(Ledger, "committable", newest)


def _polls_lose_records() -> Any:
    """What was taken from the buffer is gone if the call is cancelled."""
    take = Polling.next_batch

    async def slow(self: Polling, *args: Any) -> Any:
        batch = await take(self, *args)
        self._progress.end_batch()
        await trio.sleep(0.01)
        return batch if batch is None else self._progress.hold(batch)

    return patch.object(Polling, "next_batch", slow)


PLANTED: dict[str, Callable[[], Any]] = {
    "retry under a new sequence number": _retry_under_a_new_number,
    "sequence number given again after a time-out": _number_given_again,
    "epoch not raised after a gap": _epoch_not_raised,
    "batches overtake one that is sent again": _others_overtake,
    "replaced leaders have written nothing": _replaced_leaders_wrote_nothing,
    "what a broker has forgotten is not written": _what_is_forgotten_is_not_written,
    "transaction committed before its records are there": _commit_without_flush,
    "transaction committed without a record that failed": _failures_are_committed,
    "aborted records are handed out": _aborted_are_handed_out,
    "leaders of older epochs are believed": _leaders_go_back,
    "what is fetched is committed": _fetched_is_committed,
    "what is in hand is committed by who is cancelled": _hand_is_committed,
    "a cancelled question takes a commit back": _asking_is_not_done,
    "open records are committed": _open_records_are_committed,
    "a cancelled poll loses records": _polls_lose_records,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate_client(seed)
        if result.error is not None:
            return result
    return None

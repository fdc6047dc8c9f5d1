"""Where a transaction stands, and which identity the numbers of a partition have."""

from __future__ import annotations

import pytest

from pybroker_kafka.client.errors import ClientError, TransactionAborted
from pybroker_kafka.client.producer.batch import Batch, Identity, Outcome
from pybroker_kafka.client.producer.identities import MAX_EPOCH, Identities
from pybroker_kafka.client.producer.partition_queue import PartitionQueue
from pybroker_kafka.client.producer.transaction import MOVES, State, Transaction


def ready() -> Transaction:
    transaction = Transaction()
    transaction.move(State.READY)
    return transaction


def test_every_state_has_its_moves_and_an_end() -> None:
    assert MOVES.keys() == set(State)
    for state, following in MOVES.items():
        assert state is State.DEAD or State.DEAD in following


def test_a_partition_may_be_written_once_it_is_added() -> None:
    transaction = ready()
    transaction.begin()
    assert not transaction.is_known_to_coordinator
    assert transaction.use("t", 0)
    assert not transaction.use("t", 0)
    assert not transaction.may_send("t", 0)
    transaction.missing.clear()
    transaction.added.add(("t", 0))
    assert not transaction.use("t", 0)
    assert transaction.may_send("t", 0)
    assert transaction.is_known_to_coordinator
    transaction.move(State.COMMITTING)
    assert transaction.may_send("t", 0)
    transaction.move(State.READY)
    assert not transaction.may_send("t", 0)
    transaction.begin()
    assert not transaction.may_send("t", 0)


def test_in_version_2_brokers_add_what_is_written() -> None:
    transaction = ready()
    transaction.is_version_2 = True
    transaction.begin()
    assert not transaction.use("t", 0)
    assert transaction.may_send("t", 0)
    assert not transaction.is_known_to_coordinator
    transaction.has_sent = True
    assert transaction.is_known_to_coordinator
    # A broker that does not add it.
    assert transaction.must_add("t", 1)
    assert not transaction.must_add("t", 1)
    assert not transaction.may_send("t", 1)
    transaction.missing.clear()
    transaction.added.add(("t", 1))
    assert transaction.may_send("t", 1)
    transaction.move(State.COMMITTING)
    transaction.move(State.READY)
    transaction.begin()
    assert not transaction.is_known_to_coordinator


def test_what_fails_dooms_it() -> None:
    transaction = ready()
    transaction.begin()
    transaction.batch_failed(ClientError("lost"), is_numbered=False)
    assert not transaction.needs_epoch
    assert transaction.is_lost
    with pytest.raises(TransactionAborted, match="lost"):
        transaction.check_open("send")
    transaction.batch_failed(ClientError("more"), is_numbered=True)
    assert transaction.needs_epoch
    assert str(transaction.error) == "lost"
    transaction.move(State.ABORTING)
    transaction.move(State.READY)
    transaction.begin()
    transaction.check_open("send")


def test_misuse_is_told() -> None:
    transaction = Transaction()
    with pytest.raises(ClientError, match="cannot begin: this producer is not initialised"):
        transaction.begin()
    transaction.move(State.READY)
    with pytest.raises(ClientError, match="cannot send: this producer is outside a transaction"):
        transaction.check_open("send")
    transaction.begin()
    with pytest.raises(ClientError, match="is in a transaction"):
        transaction.begin()
    transaction.end(ClientError("fenced"))
    transaction.end(ClientError("again"))
    with pytest.raises(ClientError, match="the producer has ended: fenced"):
        transaction.begin()


def queue_with(*counts: int) -> PartitionQueue:
    queue = PartitionQueue("t", 0)
    for count in counts:
        batch = Batch("t", 0, 0)
        batch.records += [(0, None, b"", ())] * count
        queue.batches.append(batch)
    return queue


def test_an_epoch_is_raised_for_the_partition_with_a_gap_alone() -> None:
    identities = Identities()
    one, other = queue_with(2, 3), queue_with(1)
    assert not identities.prepare(one)
    identities.take(Identity(9, 0))
    for queue in (one, other):
        assert identities.prepare(queue)
        queue.start(queue.batches[0], is_numbered=True)
    one.start(one.batches[1], is_numbered=True)
    first, second = one.batches
    assert (first.sequence, second.sequence) == (0, 2)
    for batch in (first, second):
        one.returned(batch)
    one.complete(first, Outcome(error=ValueError()))
    assert one.needs_restart
    assert identities.prepare(one)
    assert (one.identity, other.identity) == (Identity(9, 1), Identity(9, 0))
    one.start(second, is_numbered=True)
    assert (second.identity, second.sequence) == (Identity(9, 1), 0)


def test_when_epochs_are_used_up_an_id_is_wanted() -> None:
    identities = Identities()
    identities.take(Identity(9, MAX_EPOCH - 1))
    queue = queue_with(1, 1)
    assert identities.prepare(queue)
    queue.needs_restart = True
    assert not identities.prepare(queue)
    assert identities.is_wanted
    identities.take(Identity(10, 0))
    assert identities.prepare(queue)
    assert queue.identity == Identity(10, 0)


def test_with_transactions_the_coordinator_raises_epochs() -> None:
    identities = Identities(is_transactional=True)
    identities.take(Identity(9, 0))
    queue = queue_with(1)
    assert identities.prepare(queue)
    queue.needs_restart = True
    assert not identities.prepare(queue)
    assert identities.current == Identity(9, 0)
    identities.take(Identity(9, 1))
    assert identities.prepare(queue)
    assert queue.identity == Identity(9, 1)

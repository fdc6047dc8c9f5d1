"""States of the client's machines that must not exist, made by hand: each is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker_kafka.client.consumer.deliveries import Delivery, Ledger, RetryPolicy
from pybroker_kafka.client.consumer.membership import Membership
from pybroker_kafka.client.consumer.membership import State as MemberState
from pybroker_kafka.client.consumer.received import Received
from pybroker_kafka.client.producer.accumulator import Accumulator, Limits
from pybroker_kafka.client.producer.batch import Batch, Identity, Outcome
from pybroker_kafka.client.producer.partition_queue import PartitionQueue
from pybroker_kafka.client.producer.transaction import State, Transaction
from pybroker_kafka.protocol.invariants import BrokenInvariant

DONE = Outcome(0, -1, None)


@pytest.fixture
def accumulator() -> Accumulator:
    """Of a partition t-0 there are three batches, the first two on their way and numbered."""
    made = Accumulator(Limits(100, 0, 10_000, 1000, 5))
    (queue,) = made.queues("t", 1)
    queue.identity = Identity(7, 0)
    for _ in range(3):
        batch = made.open_batch(queue, 0)
        batch.records.append((0, None, b"v", ()))
        batch.size = 10
        made.held_bytes += 10
    for batch in list(queue.batches)[:2]:
        queue.start(batch, is_numbered=True)
    return made


def test_the_batches_of_a_partition(accumulator: Accumulator) -> None:
    (queue,) = accumulator.queues("t", 1)
    first, second, third = queue.batches
    steps: list[tuple[Callable[[], None], str]] = [
        (lambda: queue.restart(Identity(8, 0)), "is numbered anew"),
        (lambda: queue.start(first, is_numbered=True), "goes out twice"),
        (lambda: queue.returned(third), "was not on its way"),
        (lambda: queue.complete(second, DONE), "is done, and on its way"),
    ]
    for step, fact in steps:
        with pytest.raises(BrokenInvariant, match=fact):
            step()
    queue.check()


@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (lambda queue: setattr(queue, "in_flight", 1), "counts other batches"),
        (lambda queue: setattr(queue.batches[2], "outcome", DONE), "that has an outcome"),
        (lambda queue: setattr(queue.batches[0], "sequence", 5), "1 follows, 6 is the next"),
    ],
)
def test_the_numbers_of_a_partition(
    accumulator: Accumulator, break_it: Callable[[PartitionQueue], None], fact: str
) -> None:
    (queue,) = accumulator.queues("t", 1)
    break_it(queue)
    with pytest.raises(BrokenInvariant, match=fact):
        queue.check()


def test_a_batch_has_one_outcome() -> None:
    batch = Batch("t", 0, 0)
    batch.complete(DONE)
    with pytest.raises(BrokenInvariant, match="gets another one"):
        batch.complete(DONE)


@pytest.mark.parametrize("wrong_by", [-100, 1])
def test_bytes_that_are_held(accumulator: Accumulator, wrong_by: int) -> None:
    (queue,) = accumulator.queues("t", 1)
    accumulator.held_bytes += wrong_by
    with pytest.raises(BrokenInvariant, match="bytes are counted, the batches have 20"):
        accumulator.complete(queue, queue.batches[2], DONE)


def test_states() -> None:
    with pytest.raises(BrokenInvariant, match="a transaction goes from"):
        Transaction().move(State.OPEN)
    member = Membership(
        "g",
        instance_id=None,
        session_timeout_ms=1000,
        heartbeat_interval_ms=100,
        max_poll_interval_ms=1000,
    )
    with pytest.raises(BrokenInvariant, match="from UNJOINED to STABLE"):
        member._go(MemberState.STABLE)
    with pytest.raises(BrokenInvariant, match="asks for its assignment"):
        member.sync_request({})


def received(offset: int) -> Received:
    return Received("t", 0, offset, 0, b"", b"", ())


@pytest.fixture
def held() -> tuple[Ledger, Delivery]:
    """Two records, of which one is in the application's hands."""
    ledger = Ledger(RetryPolicy(), 10, lambda: None)
    ledger.add([received(3), received(5)], 6)
    delivery = ledger.next(0)
    assert delivery is not None
    return ledger, delivery


def counted_wrong(ledger: Ledger) -> None:
    ledger._open_count += 1


def in_no_place(ledger: Ledger) -> None:
    ledger._fresh.clear()


def out_of_order(ledger: Ledger) -> None:
    ledger._partitions["t", 0].unfinished.reverse()


def behind_the_next(ledger: Ledger) -> None:
    ledger._partitions["t", 0].next_offset = 5


@pytest.mark.parametrize(
    ("break_it", "fact"),
    [
        (counted_wrong, "2 are not finished"),
        (in_no_place, "1 are not finished"),
        (out_of_order, "are before 6"),
        (behind_the_next, "are before 5"),
    ],
)
def test_deliveries(
    held: tuple[Ledger, Delivery], break_it: Callable[[Ledger], None], fact: str
) -> None:
    ledger, delivery = held
    break_it(ledger)
    with pytest.raises(BrokenInvariant, match=fact):
        delivery.ack()


def test_a_delivery_is_settled_once(held: tuple[Ledger, Delivery]) -> None:
    ledger, delivery = held
    delivery.ack()
    ledger._held.add(delivery)
    with pytest.raises(BrokenInvariant, match="is finished twice"):
        delivery.ack()

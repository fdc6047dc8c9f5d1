"""Batches of one partition against a broker that loses answers and refuses: once each, in order.

The broker is Kafka's rule in its shortest form: of a producer id and epoch the next sequence
follows the last; a newer epoch begins at 0; what it has seen is a duplicate, unless it has
recovered since: then it remembers the last batch alone. Whatever happens on the way, its log has
no record twice, no acknowledged record is missing, and records stand in the order in which they
were enqueued.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from pybroker_kafka.client.producer.accumulator import Accumulator, Limits
from pybroker_kafka.client.producer.batch import Batch, Identity, Outcome
from pybroker_kafka.client.producer.identities import MAX_EPOCH, Identities
from pybroker_kafka.client.producer.partition_queue import PartitionQueue, Verdict
from pybroker_kafka.protocol.errors import ErrorCode

RECORD_BYTES = 100
LIMITS = Limits(
    batch_bytes=61 + 3 * RECORD_BYTES, linger_ms=5, buffer_bytes=10**6, delivery_ms=400, in_flight=5
)


class Request(NamedTuple):
    """As it was sent: what the batch is later does not change it."""

    batch: Batch
    identity: Identity
    sequence: int
    values: list[bytes]


class Broker:
    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.log: list[bytes] = []
        self._seen: dict[tuple[Identity, int], tuple[int, int]] = {}  # to count and offset
        self._newest: dict[int, tuple[int, int]] = {}  # by id: epoch and next sequence

    def append(self, request: Request) -> tuple[ErrorCode, int]:
        identity, sequence, values = request.identity, request.sequence, request.values
        if len(values) > 1 and int(values[0]) % 17 == 0:  # always: what is too large stays so
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if self._draw.random() < 0.03:
            return self._draw.choice([ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP]), -1
        if self._draw.random() < 0.1:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        seen = self._seen.get((identity, sequence))
        if seen is not None:
            assert seen[0] == len(values), "numbers that other records have"
            return ErrorCode.NONE, seen[1]
        # Of a producer that is not known, any number is the first one.
        epoch, expected = self._newest.get(identity.producer_id, (identity.epoch, sequence))
        if identity.epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if sequence != (expected if identity.epoch == epoch else 0):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if self._draw.random() < 0.02:
            self._recover()
        offset = len(self.log)
        self.log += values
        self._seen[identity, sequence] = (len(values), offset)
        self._newest[identity.producer_id] = (identity.epoch, sequence + len(values))
        if self._draw.random() < 0.1:
            # The second is what is said of records that were appended when another came to lead.
            return self._draw.choice(
                [
                    (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1),
                    (ErrorCode.NOT_LEADER_OR_FOLLOWER, offset),
                ]
            )
        return ErrorCode.NONE, offset

    def _recover(self) -> None:
        """From a snapshot, which has the last batch of a producer only."""
        last = {identity.producer_id: (identity, at) for identity, at in self._seen}
        self._seen = {key: self._seen[key] for key in last.values()}


class World:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.broker = Broker(self.draw)
        self.accumulator = Accumulator(LIMITS)
        (self.queue,) = self.accumulator.queues("t", 1)
        self.identities = Identities()
        self.next_id = 7
        self.now = 0
        self.enqueued: list[bytes] = []
        self.places: list[tuple[Batch, int, bytes]] = []
        self.on_the_way: list[Request] = []

    def enqueue(self) -> None:
        value = b"%d" % len(self.enqueued)
        self.enqueued.append(value)
        batch = self.queue.open
        if batch is None or batch.size + RECORD_BYTES > self.accumulator.full_bytes:
            batch = self.accumulator.open_batch(self.queue, self.now)
        batch.records.append((0, None, value, ()))
        batch.size += RECORD_BYTES
        self.accumulator.held_bytes += RECORD_BYTES
        self.places.append((batch, len(batch.records) - 1, value))

    def round(self) -> None:
        if self.identities.is_wanted:
            # Late in its epochs, so that they are used up now and then.
            self.identities.take(Identity(self.next_id, self.draw.choice([0, MAX_EPOCH - 3])))
            self.next_id += 1
        for queue, batch in self.accumulator.expired(self.now):
            self.accumulator.complete(queue, batch, Outcome(error=TimeoutError()))
        while self.accumulator.busy and self.identities.prepare(self.queue):
            batch_or_none = self.accumulator.ready(self.queue, self.now)
            if batch_or_none is None:
                return
            self.queue.start(batch_or_none, is_numbered=True)
            self.on_the_way.append(
                Request(
                    batch_or_none,
                    batch_or_none.identity,
                    batch_or_none.sequence,
                    [value or b"" for _, _, value, _ in batch_or_none.records],
                )
            )

    def arrive(self) -> None:
        """The oldest request does, or all are lost, before or after they are written."""
        if not self.on_the_way:
            return
        if self.draw.random() < 0.1:
            lost, self.on_the_way = self.on_the_way, []
            written = self.draw.randrange(len(lost) + 1)
            for request in lost[:written]:
                self.broker.append(request)
            for request in lost:
                self.queue.unanswered(request.batch)
                self.again(request.batch)
            return
        request = self.on_the_way.pop(0)
        code, offset = self.broker.append(request)
        batch = request.batch
        self.queue.returned(batch)
        verdict = self.queue.judge(batch, code, base_offset=offset, is_transactional=False)
        if verdict is Verdict.WRITTEN:
            self.accumulator.complete(self.queue, batch, Outcome(offset))
        elif verdict is Verdict.SPLIT:
            self.queue.split(batch)
        elif verdict is Verdict.FAILED:
            self.accumulator.complete(self.queue, batch, Outcome(error=ValueError(code.name)))
        else:
            self.again(batch)

    def again(self, batch: Batch) -> None:
        if self.now - batch.created_ms >= LIMITS.delivery_ms:
            self.accumulator.complete(self.queue, batch, Outcome(error=TimeoutError()))
        else:
            batch.retry_at_ms = self.now + self.draw.choice([0, 10])

    def check(self) -> None:
        log = self.broker.log
        assert len(set(log)) == len(log), "twice"
        numbers = [int(value) for value in log]
        assert numbers == sorted(numbers), "out of order"
        for first, place_then, value in self.places:
            batch, place = first.holder(place_then)
            outcome = batch.outcome
            assert outcome is not None, "forgotten"
            if outcome.error is None:
                assert log[outcome.base_offset + place] == value
            elif isinstance(outcome.error, ValueError):
                assert batch.may_be_written or value not in log, "refused and written"
        assert self.accumulator.held_bytes == 0
        assert self.queue.in_flight == 0


@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_once_each_in_order(first_seed: int) -> None:
    written = 0
    for seed in range(first_seed, first_seed + 100):
        world = World(seed)
        steps = [world.enqueue, world.enqueue, world.round, world.round, world.arrive, world.arrive]
        for _ in range(400):
            world.draw.choice(steps)()
            world.now += world.draw.choice([0, 1, 5])
        while world.accumulator.busy:
            world.now += 5
            world.round()
            world.arrive()
        world.check()
        written += len(world.broker.log)
    assert written > 5_000


def test_a_queue_that_stands_still_takes_no_turn() -> None:
    """Only one that is sent again goes, and alone."""
    queue = PartitionQueue("t", 0)
    queue.identity = Identity(1, 0)
    queue.is_known = True
    for number in range(7):
        batch = Batch("t", 0, 0)
        batch.records.append((0, None, b"%d" % number, ()))
        queue.batches.append(batch)
    for _ in range(5):
        candidate = queue.candidate(0, 5)
        assert candidate is not None
        queue.start(candidate, is_numbered=True)
    assert queue.candidate(0, 5) is None
    first, second = list(queue.batches)[:2]
    for batch in (first, second):
        queue.unanswered(batch)
    assert queue.candidate(0, 5) is first
    queue.start(first, is_numbered=True)
    assert queue.candidate(0, 5) is None
    assert [batch.sequence for batch in queue.batches] == [0, 1, 2, 3, 4, -1, -1]

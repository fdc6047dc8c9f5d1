"""What may be committed: no more than was handed out, whatever is left, sought or interrupted."""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.client.consumer.deliveries import Ledger, RetryPolicy
from pybroker_kafka.client.consumer.positions import Position, Positions
from pybroker_kafka.client.consumer.progress import Progress
from pybroker_kafka.client.consumer.received import ReceivedBatch, batches_of
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.record import SimpleRecord

PLACE, OTHER = ("t", 0), ("t", 1)


def batch(first: int, count: int) -> ReceivedBatch:
    records = [SimpleRecord(0, None, b"%d" % (first + n)) for n in range(count)]
    data = bytes(build_batch(records, base_offset=first))
    (found,) = batches_of(PLACE, decode_columns(data), first, None)
    return found


@pytest.fixture
def positions() -> Positions:
    made = Positions()
    made.assign([PLACE, OTHER])
    for place in (PLACE, OTHER):
        made[place].seek(Position(0))
    return made


def taken(positions: Positions, first: int, count: int) -> ReceivedBatch:
    """As the fetcher hands it out."""
    found = batch(first, count)
    positions[PLACE].position = Position(found.next_offset)
    return found


def offset(progress: Progress) -> int:
    return progress.committable()[PLACE].offset


def test_what_is_worked_on_counts_unless_it_is_interrupted(positions: Positions) -> None:
    progress = Progress(positions)
    progress.hold(taken(positions, 0, 10))
    assert offset(progress) == 0
    progress.last_offset = 3
    assert offset(progress) == 4
    progress.interrupt()
    assert offset(progress) == 3


def test_who_is_interrupted_while_it_asks_for_more_has_done_what_it_had(
    positions: Positions,
) -> None:
    """It may be committed by then: what is committed does not go back."""
    progress = Progress(positions)
    progress.hold_all(progress.hold(taken(positions, 5, 10)))
    progress.ask_for_more()
    progress.interrupt()
    assert offset(progress) == 15
    progress.hold_all(progress.hold(taken(positions, 15, 10)))
    assert offset(progress) == 15


def test_of_a_whole_batch_nothing_counts_once_it_is_interrupted(positions: Positions) -> None:
    progress = Progress(positions)
    progress.hold_all(progress.hold(taken(positions, 5, 10)))
    assert offset(progress) == 15
    progress.interrupt()
    assert offset(progress) == 5


def test_a_seek_takes_what_is_in_hand(positions: Positions) -> None:
    progress = Progress(positions)
    progress.hold(taken(positions, 0, 10))
    progress.last_offset = 3
    progress.drop([OTHER])
    rest = progress.rest()
    assert rest is not None
    assert list(rest.offsets) == [4, 5, 6, 7, 8, 9]
    progress.drop([PLACE])
    positions[PLACE].seek(Position(7))
    assert progress.rest() is None
    assert offset(progress) == 7


def test_what_went_and_came_back_is_not_handed_out(positions: Positions) -> None:
    progress = Progress(positions)
    progress.hold(taken(positions, 0, 10))
    positions.drop([PLACE])
    assert PLACE not in progress.committable()
    positions.assign([PLACE, OTHER])
    positions[PLACE].seek(Position(2))
    assert progress.rest() is None


def test_in_ack_mode_what_is_finished(positions: Positions) -> None:
    progress = Progress(positions)
    progress.ledger = ledger = Ledger(RetryPolicy(), 100, lambda: None)
    held = progress.hold(taken(positions, 0, 3))
    progress.end_batch()
    ledger.add(held, held.next_offset)
    first, second = ledger.next(0), ledger.next(0)
    assert first is not None
    assert second is not None
    second.ack()
    assert offset(progress) == 0
    first.ack()
    assert offset(progress) == 2
    progress.forget([PLACE])
    assert PLACE not in progress.committable()


@pytest.mark.parametrize("seed", range(50))
def test_like_a_list_of_what_was_handed_out(positions: Positions, seed: int) -> None:
    """The twin counts: what is next is one behind the last record that the application saw."""
    chance = random.Random(seed)
    progress = Progress(positions)
    expected = fetched = 0
    for _ in range(60):
        rest = progress.rest()
        if rest is None:
            progress.end_batch()
            count = chance.randint(1, 6)
            rest = taken(positions, fetched, count)
            fetched += count
        held = progress.hold(rest)
        assert held.offsets[0] == expected
        if chance.random() < 0.3:
            progress.hold_all(held)
            expected = held.offsets[-1] + 1
        else:
            for record in list(held)[: chance.randint(0, len(held))]:
                progress.last_offset = record.offset
                expected = record.offset + 1
        if chance.random() < 0.1:
            expected = fetched = chance.randint(0, 50)
            progress.drop([PLACE])
            positions[PLACE].seek(Position(expected))
        assert offset(progress) == progress.next_offset(PLACE) == expected
    assert progress.next_offset(("t", 2)) is None

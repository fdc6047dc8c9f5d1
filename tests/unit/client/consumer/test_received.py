"""What of a fetch is handed out: from the position on, and not what was aborted."""

from __future__ import annotations

import random
from array import array

import pytest

from pybroker_kafka.client.consumer.received import Received, ReceivedBatch, batches_of
from pybroker_kafka.protocol.apis.fetch import AbortedTransaction
from pybroker_kafka.protocol.records.batch import read_batch_header
from pybroker_kafka.protocol.records.builder import (
    build_batch,
    build_empty_batch,
    build_end_txn_marker,
)
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.record import SimpleRecord

PLACE = ("t", 3)


def batch(base_offset: int, count: int, producer_id: int = -1) -> bytearray:
    records = [
        SimpleRecord(1000 + n, None if n % 3 else b"k%d" % n, b"%d" % (base_offset + n))
        for n in range(count)
    ]
    if producer_id < 0:
        return build_batch(records, base_offset=base_offset)
    return build_batch(
        records, base_offset=base_offset, producer_id=producer_id, producer_epoch=0,
        base_sequence=0, is_transactional=True,
    )  # fmt: skip


def marker(offset: int, producer_id: int, kind: ControlRecordType) -> bytearray:
    return build_end_txn_marker(
        EndTxnMarker(kind, 0), timestamp=0, producer_id=producer_id, producer_epoch=0,
        base_offset=offset,
    )  # fmt: skip


def read(*parts: bytearray, position: int = 0) -> list[ReceivedBatch]:
    return batches_of(PLACE, decode_columns(b"".join(parts)), position, None)


def offsets(batches: list[ReceivedBatch]) -> list[int]:
    return [record.offset for each in batches for record in each]


def test_records_are_as_they_were_sent() -> None:
    (found,) = read(batch(5, 3))
    assert list(found) == [
        Received("t", 3, 5, 1000, b"k0", b"5"),
        Received("t", 3, 6, 1001, None, b"6"),
        Received("t", 3, 7, 1002, None, b"7"),
    ]
    assert isinstance(next(iter(found)), Received)
    assert (found.next_offset, len(found)) == (8, 3)
    assert found.keys() == [b"k0", None, None]
    assert list(found.offsets) == [5, 6, 7]
    assert found.offsets.format == "q"
    assert array("q", found.timestamps).tolist() == [1000, 1001, 1002]


def test_from_the_position_on() -> None:
    assert offsets(read(batch(0, 4), batch(4, 4), position=2)) == [2, 3, 4, 5, 6, 7]
    assert read(batch(0, 4), position=4) == []


def test_batches_without_records_are_passed_by() -> None:
    """Compaction empties batches of idempotent producers, and keeps the last one of each."""
    empty = build_empty_batch(read_batch_header(batch(0, 3)))
    (found,) = read(empty, marker(3, 7, ControlRecordType.COMMIT))
    assert (len(found), found.next_offset) == (0, 4)


def test_splitting_and_going_on_behind() -> None:
    (found,) = read(batch(0, 5))
    first, rest = found.split(2)
    assert rest is not None
    assert (offsets([first]), first.next_offset) == ([0, 1], 2)
    assert (offsets([rest]), rest.next_offset) == ([2, 3, 4], 5)
    behind = found.behind(3)
    assert behind is not None
    assert offsets([behind]) == [4]
    assert found.behind(4) is None


@pytest.mark.parametrize("seed", range(30))
def test_aborted_transactions_beside_a_twin(seed: int) -> None:
    """The twin looks for each record's marker: the next one of its producer."""
    rng = random.Random(seed)
    parts: list[bytearray] = []
    log: list[tuple[int, int, ControlRecordType | None]] = []  # offset, producer, marker
    firsts: dict[int, int] = {}
    aborted: list[tuple[int, int]] = []
    offset = 0
    for _ in range(rng.randint(5, 25)):
        producer = rng.choice([-1, 1, 2, 3])
        if producer in firsts and rng.random() < 0.4:
            kind = rng.choice([ControlRecordType.COMMIT, ControlRecordType.ABORT])
            if kind is ControlRecordType.ABORT:
                aborted.append((producer, firsts[producer]))
            del firsts[producer]
            parts.append(marker(offset, producer, kind))
            log.append((offset, producer, kind))
            offset += 1
            continue
        count = rng.randint(1, 3)
        if producer > 0:
            firsts.setdefault(producer, offset)
        parts.append(batch(offset, count, producer))
        log += [(offset + n, producer, None) for n in range(count)]
        offset += count

    def is_aborted(at: int, producer: int) -> bool:
        kinds = (kind for o, p, kind in log if o > at and p == producer and kind is not None)
        return producer > 0 and next(kinds, None) is ControlRecordType.ABORT

    position = rng.randint(0, offset - 1)
    visible = [
        at for at, producer, kind in log
        if at >= position and kind is None and not is_aborted(at, producer)
    ]  # fmt: skip
    rng.shuffle(aborted)
    found = batches_of(
        PLACE,
        decode_columns(b"".join(parts)),
        position,
        [AbortedTransaction(producer_id=p, first_offset=o) for p, o in aborted],
    )
    assert offsets(found) == visible
    assert found[-1].next_offset == offset
    plain = batches_of(PLACE, decode_columns(b"".join(parts)), position, None)
    assert offsets(plain) == [at for at, _, kind in log if at >= position and kind is None]

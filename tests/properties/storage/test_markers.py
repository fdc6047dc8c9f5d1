"""Markers as brokers write them are read at a glance, and all else as any record is."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import example, given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.storage.end_markers import end_txn_marker, read_end_txn_marker

KINDS = st.sampled_from([ControlRecordType.ABORT, ControlRecordType.COMMIT])
MARKERS = st.builds(EndTxnMarker, KINDS, st.integers(-1, 2**31 - 1))
SIZE = len(
    build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=0, producer_id=0, producer_epoch=0
    )
)
EDITS = st.lists(st.tuples(st.integers(16, SIZE - 1), st.integers(0, 255)), max_size=3)


def batch_of(marker: EndTxnMarker) -> bytearray:
    return build_end_txn_marker(marker, timestamp=1234, producer_id=77, producer_epoch=5)


def outcome(read: Callable[[bytearray], EndTxnMarker | None], batch: bytearray) -> object:
    try:
        return read(batch)
    except ProtocolError:
        return ProtocolError


@given(MARKERS)
def test_it_is_what_was_built(marker: EndTxnMarker) -> None:
    assert end_txn_marker(batch_of(marker)) == marker == read_end_txn_marker(batch_of(marker))


@given(MARKERS, EDITS)
@example(EndTxnMarker(ControlRecordType.COMMIT, 3), [(60, 0)])
@example(EndTxnMarker(ControlRecordType.COMMIT, 3), [(22, 0x34)])
def test_bytes_that_differ_are_read_alike(
    marker: EndTxnMarker, edits: list[tuple[int, int]]
) -> None:
    batch = batch_of(marker)
    for position, value in edits:
        batch[position] = value
    assert outcome(end_txn_marker, batch) == outcome(read_end_txn_marker, batch)

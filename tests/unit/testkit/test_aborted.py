"""What a committed read leaves out, against a twin that knows how each transaction ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.apis.fetch import AbortedTransaction
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.testkit.aborted import aborted_places

PLAIN = 0
ACTIONS = ("write", "commit", "abort")


@given(st.lists(st.tuples(st.integers(PLAIN, 3), st.sampled_from(ACTIONS)), max_size=20))
def test_batches_of_aborted_transactions(history: list[tuple[int, str]]) -> None:
    data = bytearray()
    open_places: dict[int, list[int]] = {}
    first_offsets: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    expected: set[int] = set()
    for offset, (producer, action) in enumerate(history):
        if producer == PLAIN:
            data += build_batch([SimpleRecord(0, None, b"x")], base_offset=offset)
        elif action == "write":
            open_places.setdefault(producer, []).append(len(data))
            first_offsets.setdefault(producer, offset)
            data += build_batch(
                [SimpleRecord(0, None, b"x")],
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        else:
            is_abort = action == "abort"
            kind = ControlRecordType.ABORT if is_abort else ControlRecordType.COMMIT
            data += build_end_txn_marker(
                EndTxnMarker(kind, 0),
                base_offset=offset,
                timestamp=0,
                producer_id=producer,
                producer_epoch=0,
            )
            places, first = open_places.pop(producer, []), first_offsets.pop(producer, None)
            if is_abort and first is not None:
                expected.update(places)
                aborted.append(AbortedTransaction(producer_id=producer, first_offset=first))
    assert aborted_places(bytes(data), aborted) == expected

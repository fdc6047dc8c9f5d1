"""Rows that a reader sees, against a twin that walks record by record."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.apis.fetch import AbortedTransaction
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.spark_jobs.source.visible import visible_rows

# Who writes (0: outside of a transaction), how many records or which marker, and the gap before it
# that compaction left.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(1, 4) | st.sampled_from(["commit", "abort"]),
        st.integers(0, 2),
    ),
    max_size=14,
)


def log_of(
    steps: list[tuple[int, int | str, int]],
) -> tuple[bytes, list[AbortedTransaction], list[int]]:
    """A log, the aborted transactions of it, and the offsets of what is not aborted."""
    log, offset = bytearray(), 0
    open_since: dict[int, int] = {}
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}
    kept: list[int] = []
    aborted: list[AbortedTransaction] = []
    for producer, what, gap in steps:
        offset += gap
        if isinstance(what, int):
            log += build_batch(
                [SimpleRecord(1, None, b"%d" % n) for n in range(what)],
                base_offset=offset,
                producer_id=producer if producer else -1,
                producer_epoch=0 if producer else -1,
                base_sequence=0 if producer else -1,
                is_transactional=producer > 0,
            )
            if producer:
                open_since.setdefault(producer, offset)
                seen[producer] += range(offset, offset + what)
            else:
                kept += range(offset, offset + what)
            offset += what
        elif producer:
            kind = ControlRecordType.COMMIT if what == "commit" else ControlRecordType.ABORT
            log += build_end_txn_marker(
                EndTxnMarker(kind, 0),
                timestamp=1,
                producer_id=producer,
                producer_epoch=0,
                base_offset=offset,
            )
            if what == "commit":
                kept += seen[producer]
            elif producer in open_since:
                aborted.append(
                    AbortedTransaction(producer_id=producer, first_offset=open_since[producer])
                )
            open_since.pop(producer, None)
            seen[producer] = []
            offset += 1
    for rest in seen.values():
        kept += rest  # what is open still: the caller ends before it, or reads uncommitted
    return bytes(log), aborted, sorted(kept)


@given(STEPS, st.integers(0, 40), st.integers(0, 40))
def test_what_is_seen(steps: list[tuple[int, int | str, int]], start: int, size: int) -> None:
    log, aborted, kept = log_of(steps)
    columns = decode_columns(log)
    rows = visible_rows(columns, aborted, start, start + size)
    seen = [columns.offsets[row] for first, last in rows for row in range(first, last)]
    assert seen == [offset for offset in kept if start <= offset < start + size]
    assert all(first < last for first, last in rows)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(rows))

"""What became of transactions: against a twin that knows all that was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.console.rows import ABORTED, COMMITTED, OPEN, Fetched, OpenRows, Row
from pybroker_kafka.protocol.apis.fetch import AbortedTransaction
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.record import SimpleRecord

PLACE = ("topic", 0)
NOBODY = -1
ENDS = {COMMITTED: ControlRecordType.COMMIT, ABORTED: ControlRecordType.ABORT}


@dataclass
class Written:
    """A partition's log, and of each offset what is to be shown."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    markers: set[int] = field(default_factory=set)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer, first, marker
    begun: dict[int, list[int]] = field(default_factory=dict)

    def write(self, producer: int) -> None:
        offset = len(self.states)
        is_open = producer != NOBODY
        batch = build_batch(
            [SimpleRecord(1, None, b"x"), SimpleRecord(2, None, b"y")],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0 if is_open else -1,
            base_sequence=0 if is_open else -1,
            is_transactional=is_open,
        )
        self.batches.append((offset, bytes(batch)))
        self.states += [OPEN if is_open else ""] * 2
        if is_open:
            self.begun.setdefault(producer, []).extend((offset, offset + 1))

    def end(self, producer: int, state: str) -> None:
        offset = len(self.states)
        marker = build_end_txn_marker(
            EndTxnMarker(ENDS[state], 0),
            timestamp=3,
            producer_id=producer,
            producer_epoch=0,
            base_offset=offset,
        )
        self.batches.append((offset, bytes(marker)))
        self.states.append(state)
        self.markers.add(offset)
        mine = self.begun.pop(producer, [])
        for one in mine:
            self.states[one] = state
        if mine and state == ABORTED:
            self.aborted.append((producer, mine[0], offset))

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((mine[0] for mine in self.begun.values()), default=len(self.states))

    def fetch(self, position: int, end: int, *, is_stable: bool) -> Fetched:
        """As a broker answers, batches below `end`."""
        data = b"".join(
            batch
            for at, (offset, batch) in enumerate(self.batches)
            if offset < end and (at + 1 == len(self.batches) or self.batches[at + 1][0] > position)
        )
        aborted = [
            AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first, marker in self.aborted
            if first < end and marker >= position
        ]
        return Fetched(PLACE, decode_columns(data), position, aborted if is_stable else None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", COMMITTED, ABORTED]), st.integers(NOBODY, 2)),
    max_size=30,
)


@given(STEPS, st.integers(0, 40), st.integers(0, 40))
def test_states_are_those_that_the_log_has(
    steps: list[tuple[str, int]], position: int, turn: int
) -> None:
    log = Written()
    for what, producer in steps:
        if what == "write":
            log.write(producer)
        elif producer != NOBODY:
            log.end(producer, what)
    end, open_rows = len(log.states), OpenRows()
    found: list[Row] = []
    position = min(position, end)
    # In three fetches: two below the last stable offset, one above it.
    stable = max(log.stable, position)
    cuts = sorted({position, min(max(turn, position), stable), stable, end})
    for begin, until in pairwise(cuts):
        fetched = log.fetch(begin, until, is_stable=begin < log.stable)
        for row in fetched.rows():
            if row.record.offset < until:
                open_rows.take(row)
                found.append(row)
    assert [row.record.offset for row in found] == list(range(position, end))
    for row in found:
        assert row.state == log.states[row.record.offset]
        assert row.is_marker == (row.record.offset in log.markers)

"""The rows of a fetch that a reader sees: within its offsets, and not of aborted transactions.

Invariant: no record of an aborted transaction is visible, from its first offset to its marker.
Pure. Mirrors: CompletedFetch.nextFetchedRecord and consumeAbortedTransactionsUpTo.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.records.columns import RecordColumns
from ...protocol.records.control import ControlRecordType


def visible_rows(
    columns: RecordColumns, aborted: Sequence[AbortedTransaction], start: int, end: int
) -> list[tuple[int, int]]:
    """Ranges of row numbers whose offsets lie in [start, end), joined where they touch."""
    waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
    dead: set[int] = set()  # producers in the middle of an aborted transaction
    found: list[tuple[int, int]] = []
    first_row, end_row = columns.first_row(start), columns.first_row(end)
    for batch in columns.batches:
        header = batch.header
        while waiting and waiting[-1].first_offset < header.next_offset:
            dead.add(waiting.pop().producer_id)
        if batch.control is not None:
            if batch.control == ControlRecordType.ABORT:
                dead.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in dead:
            continue
        first, last = max(batch.first, first_row), min(batch.end, end_row)
        if first >= last:
            continue
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found

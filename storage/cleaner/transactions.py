"""Track the transactions that a cleaning pass is in, and decide when their markers may be dropped.

A pass reads batches in the order of their offsets. Aborted transactions are known beforehand, from
the transaction indexes. A marker may be dropped if this pass met no batch of its transaction; the
index entry of an abort marker that stays goes into the new segment's index.

Mirrors: CleanedTransactionMetadata.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ...protocol.primitives import Buffer
from ...protocol.records.batch import BatchHeader, ControlRecordType
from ..end_markers import end_txn_marker
from ..transaction_index import AbortedTransaction, TransactionIndex


class CleanedTransactions:
    __slots__ = ("_aborting", "_committing", "_known", "index")

    def __init__(self) -> None:
        # Aborted transactions that are ahead: (first offset, entry).
        self._known: list[tuple[int, AbortedTransaction]] = []
        # By producer id: the entry, and whether a batch of it was met.
        self._aborting: dict[int, tuple[AbortedTransaction, bool]] = {}
        self._committing: set[int] = set()
        self.index: TransactionIndex | None = None  # of the segment that is written

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        for transaction in transactions:
            heapq.heappush(self._known, (transaction.first_offset, transaction))

    def _begin_up_to(self, offset: int) -> None:
        while self._known and self._known[0][0] <= offset:
            transaction = heapq.heappop(self._known)[1]
            self._aborting.setdefault(transaction.producer_id, (transaction, False))

    def on_control_batch(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether this control batch is needed no longer."""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True
        marker = end_txn_marker(batch)
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.kind is ControlRecordType.COMMIT:
            if producer_id in self._committing:
                self._committing.remove(producer_id)
                return False
            return True
        transaction, has_batches = self._aborting.pop(producer_id, (None, False))
        if transaction is None or not has_batches:
            return True
        if self.index is not None:
            self.index.append(transaction)
        return False

    def on_data_batch(self, header: BatchHeader) -> bool:
        """Whether this batch is of an aborted transaction: its records may go."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        producer_id = header.producer_id
        aborting = self._aborting.get(producer_id)
        if aborting is None:
            self._committing.add(producer_id)
            return False
        self._aborting[producer_id] = aborting[0], True
        return True

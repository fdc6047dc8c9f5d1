"""The transactions of one log that bound its last stable offset.

A transaction is open from its first batch to its marker, and bounds the last stable offset until
the marker is below the high watermark, too.

Invariants: each open transaction is one producer's; transactions begin in the order of their first
offsets; `first_unstable_offset` is the first offset of the first unstable transaction.

Mirrors: TxnMetadata, and the transactions of ProducerStateManager.
"""

from __future__ import annotations

from collections import deque

from ..protocol.invariants import BrokenInvariant
from .producer_entry import NO_OFFSET


class Transaction:
    """Its first offset in this log, and its marker's once it has ended; whether that is stable."""

    __slots__ = ("first_offset", "is_replicated", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = NO_OFFSET
        self.is_replicated = False


class OpenTransactions:
    """The transactions of one log that are open, or have ended and are not stable yet."""

    __slots__ = ("_begun", "_unreplicated", "first_unstable_offset", "ongoing")

    def __init__(self) -> None:
        # Open ones by first offset, in its order; completed ones in the order of their markers.
        self.ongoing: dict[int, Transaction] = {}
        self._unreplicated: deque[Transaction] = deque()
        # Both in the order of first offsets, from the first unstable transaction on.
        self._begun: deque[Transaction] = deque()
        self.first_unstable_offset: int | None = None

    def oldest(self) -> Transaction | None:
        """The open transaction that began first."""
        return next(iter(self.ongoing.values()), None)

    def begin(self, producer_id: int, first_offset: int) -> None:
        if self._begun and self._begun[-1].first_offset >= first_offset:
            raise BrokenInvariant(
                f"producer {producer_id} begins a transaction before others, at {first_offset}"
            )
        transaction = Transaction(producer_id, first_offset)
        self.ongoing[first_offset] = transaction
        self._begun.append(transaction)
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

    def end(self, first_offset: int, marker_offset: int) -> int | None:
        """End the transaction that began at `first_offset`, by the marker at `marker_offset`.

        Returns the last stable offset after that, by which the transaction index finds an aborted
        one; None if there is no such transaction."""
        ongoing = self.ongoing
        transaction = ongoing.get(first_offset)
        if transaction is None:
            return None
        stable = marker_offset + 1
        for other in ongoing.values():
            if other.producer_id != transaction.producer_id:
                stable = other.first_offset
                break
        del ongoing[first_offset]
        transaction.last_offset = marker_offset
        self._unreplicated.append(transaction)
        return stable

    def high_watermark_updated(self, high_watermark: int) -> None:
        """Completed transactions whose marker is replicated bound the LSO no longer."""
        if self._unreplicated:
            self.forget_completed_below(high_watermark)

    def forget_completed_below(self, offset: int) -> None:
        unreplicated, begun = self._unreplicated, self._begun
        while unreplicated and unreplicated[0].last_offset < offset:
            unreplicated.popleft().is_replicated = True
        while begun and begun[0].is_replicated:
            begun.popleft()
        self.first_unstable_offset = begun[0].first_offset if begun else None

    # Transactions that are read again

    def clear(self) -> None:
        self.ongoing.clear()
        self._unreplicated.clear()
        self._find_first_unstable_offset()

    def load(self, producer_id: int, first_offset: int) -> None:
        """An open transaction of a snapshot, in any order; `all_loaded` follows the last."""
        self.ongoing[first_offset] = Transaction(producer_id, first_offset)

    def all_loaded(self) -> None:
        ongoing = self.ongoing
        self.ongoing = {first: ongoing[first] for first in sorted(ongoing)}
        self._find_first_unstable_offset()

    def recall(self, earlier: OpenTransactions, end_offset: int) -> None:
        """Add completed transactions that an earlier state knows, with markers below
        `end_offset`."""
        completed = {transaction.first_offset: transaction for transaction in self._unreplicated}
        for transaction in earlier._unreplicated:
            if transaction.last_offset < end_offset:
                completed[transaction.first_offset] = transaction
        self._unreplicated = deque(sorted(completed.values(), key=_marker_offset))
        self._find_first_unstable_offset()

    def _find_first_unstable_offset(self) -> None:
        begun = sorted([*self.ongoing.values(), *self._unreplicated], key=_first_offset)
        self._begun = deque(begun)
        self.first_unstable_offset = begun[0].first_offset if begun else None

    # Invariants

    def check(self, open_ones: dict[int, int], where: str) -> None:
        """Thorough: the transactions agree with each other, and with those that the producers have
        open (a producer id by first offset)."""
        ongoing = {first: one.producer_id for first, one in self.ongoing.items()}
        if ongoing != open_ones or list(ongoing) != sorted(ongoing):
            raise BrokenInvariant(f"{where}: transactions {ongoing}, of producers {open_ones}")
        begun = [one.first_offset for one in self._begun]
        unstable = begun[0] if begun else None
        if begun != sorted(begun) or unstable != self.first_unstable_offset:
            raise BrokenInvariant(f"{where}: unstable from {self.first_unstable_offset}: {begun}")
        if not ongoing.keys() <= set(begun):
            raise BrokenInvariant(f"{where}: {ongoing} are open, {begun} bound the LSO")


def _first_offset(transaction: Transaction) -> int:
    return transaction.first_offset


def _marker_offset(transaction: Transaction) -> int:
    return transaction.last_offset

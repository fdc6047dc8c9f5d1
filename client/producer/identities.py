"""The producer id and epoch of an idempotent producer, and when partitions take a newer one.

Pure. Without a transactional id the epoch is the client's own to raise (KIP-360); with one, the
coordinator does it. Once epochs are used up, a new id is needed.
Invariant: no two sets of numbers that one partition sees are under the same identity.
Mirrors: TransactionManager.bumpIdempotentEpochAndResetIdIfNeeded.
"""

from __future__ import annotations

from .batch import Identity
from .partition_queue import NOBODY, PartitionQueue

MAX_EPOCH = 2**15 - 1


class Identities:
    """`is_used` False: records are not numbered."""

    def __init__(self, *, is_transactional: bool = False, is_used: bool = True) -> None:
        self._is_transactional = is_transactional
        self.is_used = is_used
        self.current = NOBODY

    @property
    def is_wanted(self) -> bool:
        """Nothing can be sent before there is one."""
        return self.is_used and self.current == NOBODY

    def give_up(self) -> None:
        """The brokers know no producer ids."""
        self.is_used = False

    def take(self, identity: Identity) -> None:
        """What a broker gave."""
        self.current = identity

    def prepare(self, queue: PartitionQueue) -> bool:
        """Whether the queue has numbers to give, after it was given a newer identity if need be."""
        if not self.is_used:
            return True
        if self._is_transactional:
            if queue.identity != self.current:
                if queue.in_flight:
                    return False
                queue.restart(self.current)
            return not queue.needs_restart  # the transaction's end brings a newer one
        if queue.identity != NOBODY and not queue.needs_restart:
            return True
        if queue.needs_restart and not queue.can_restart:
            return not queue.in_flight  # the oldest one goes once more, as it is
        if not self.is_wanted and queue.identity == self.current:
            self._raise_epoch()
        if self.is_wanted:
            return False
        queue.restart(self.current)
        return True

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.current
        self.current = Identity(producer_id, epoch + 1) if epoch < MAX_EPOCH - 1 else NOBODY

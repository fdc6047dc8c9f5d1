"""The producer id and epoch of an idempotent producer, and their renewal for partitions.

Pure. Without a transactional id the client raises the epoch itself (KIP-360); with one, the
coordinator does. Once epochs are used up, a new id is needed.
Invariant: a partition never sees two sequences of numbers under the same identity.
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
        """Whether an identity is needed before anything can be sent."""
        return self.is_used and self.current == NOBODY

    def give_up(self) -> None:
        """Stop numbering: the brokers do not support producer ids."""
        self.is_used = False

    def take(self, identity: Identity) -> None:
        """Set the identity that a broker returned."""
        self.current = identity

    def prepare(self, queue: PartitionQueue) -> bool:
        """Whether the queue may send a batch; it gets a newer identity first if necessary."""
        if not self.is_used:
            return True
        if self._is_transactional:
            if queue.identity != self.current:
                if queue.in_flight:
                    return False
                queue.restart(self.current)
            return not queue.needs_restart  # the transaction's end brings a newer identity
        if queue.identity != NOBODY and not queue.needs_restart:
            return True
        if queue.needs_restart and not queue.can_restart:
            return not queue.in_flight  # the oldest batch is sent once more, unchanged
        if not self.is_wanted and queue.identity == self.current:
            self._raise_epoch()
        if self.is_wanted:
            return False
        queue.restart(self.current)
        return True

    def _raise_epoch(self) -> None:
        producer_id, epoch = self.current
        self.current = Identity(producer_id, epoch + 1) if epoch < MAX_EPOCH - 1 else NOBODY

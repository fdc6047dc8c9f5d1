"""The transactions of a log that are being verified with their coordinator (KIP-890).

A producer's first batch of a transaction is appended only when the transaction coordinator has
confirmed that the partition belongs to an open transaction. Between the question and the append the
transaction may end, by a marker in this log, and even begin anew without this partition. So each
verification gets a guard, which the append after the answer must show. Any transactional append,
data or marker, makes the guard invalid: an outdated answer verifies nothing.

The lowest sequence of the requests is kept: while its batch must be retried, no later one may pass
it. There are at most MAX_VERIFICATIONS: the oldest makes room. Kafka has no limit.

With transaction version 2 (KIP-890, part 2) the coordinator adds the partition instead. The marker
of the transaction before has the epoch of this one: it makes no guard of this epoch invalid.

Mirrors: VerificationGuard, VerificationStateEntry, and their part of ProducerStateManager.
"""

from __future__ import annotations

from typing import Final

# The limit of one log. A verification takes milliseconds; one after which so many others have begun
# is dropped, since its producer may be invented.
MAX_VERIFICATIONS: Final = 10_000


class VerificationGuard:
    """Identifies one verification; compared by identity. With `adds` its producer is of transaction
    version 2: each of its transactions has an epoch of its own."""

    __slots__ = ("adds",)

    def __init__(self, *, adds: bool = False) -> None:
        self.adds = adds


# Shown by an append whose transaction is open, or that must be verified and is not; equal to no
# verification's guard. The second one by producers of version 2.
NOT_VERIFIED = VerificationGuard()
NOT_ADDED = VerificationGuard(adds=True)


class Verification:
    """A producer whose batches wait for the coordinator's word on its transaction."""

    __slots__ = ("epoch", "guard", "lowest_sequence", "since_ms")

    def __init__(self, sequence: int, epoch: int, now_ms: int, adds: bool) -> None:
        self.guard = VerificationGuard(adds=adds)
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.since_ms = now_ms

    def note(self, sequence: int, epoch: int) -> None:
        """Note another batch that needs verification."""
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class Verifications:
    """The verifications of one log, by producer id."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, adds: bool = False
    ) -> VerificationGuard:
        """The guard of a producer's verification, new or under way."""
        verification = self._by_producer.get(producer_id)
        if verification is None or verification.guard.adds is not adds:
            if verification is None and len(self._by_producer) >= MAX_VERIFICATIONS:
                del self._by_producer[next(iter(self._by_producer))]
            verification = Verification(sequence, epoch, now_ms, adds)
            self._by_producer[producer_id] = verification
        verification.note(sequence, epoch)
        return verification.guard

    def get(self, producer_id: int) -> Verification | None:
        return self._by_producer.get(producer_id)

    def end(self, producer_id: int) -> None:
        """Something transactional of this producer was appended: its guard is void."""
        self._by_producer.pop(producer_id, None)

    def clear(self) -> None:
        self._by_producer.clear()

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Remove verifications that were not used in time."""
        for producer_id in [
            producer_id
            for producer_id, verification in self._by_producer.items()
            if now_ms - verification.since_ms >= expiration_ms
        ]:
            del self._by_producer[producer_id]

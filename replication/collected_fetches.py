"""Followers' fetches that have something to tell, kept for a moment so that there is more to tell.

A waiting fetch of a follower is complete at the first append, and one that comes while there are
records is so at once. In a busy cluster that makes an exchange for each record. So such a fetch is
collected here, and answered with all that came until the driver says so
(`broker.replicas.follower_pace`).

Invariants: a collected operation still stands in its purgatory, with its deadline; whatever happens
to its partitions meanwhile is noted in it and read when it is answered; the driver hears of the
first one by an effect, and of `urgent_bytes` of records by one more.

Mirrors nothing in Kafka, which answers at the first append.
"""

from typing import Final

from ..protocol.invariants import BrokenInvariant
from .delayed_operations import DelayedFetch
from .types import Effect, FollowersWait

_TELL_SOON: Final = FollowersWait(is_urgent=False)
_TELL_NOW: Final = FollowersWait(is_urgent=True)


class CollectedFetches:
    __slots__ = ("_byte_count", "append_count", "operations", "paces", "urgent_bytes")

    def __init__(self) -> None:
        self.operations: list[DelayedFetch] = []
        # 0: nothing is collected, because nobody would answer it.
        self.urgent_bytes = 0
        # Whether a fetch that finds records when it comes is collected, too.
        self.paces = False
        self._byte_count = 0
        self.append_count = 0  # while there was something to tell

    def add(self, operation: DelayedFetch, effects: list[Effect]) -> None:
        if operation.is_collected or not operation.is_waiting:
            raise BrokenInvariant(f"{operation.token!r} is collected twice, or after its answer")
        operation.is_collected = True
        if not self.operations:
            effects.append(_TELL_SOON)
        self.operations.append(operation)

    def appended(self, byte_count: int, effects: list[Effect]) -> None:
        self.append_count += 1
        self._byte_count += byte_count
        if self._byte_count >= self.urgent_bytes:
            effects.append(_TELL_NOW)

    def take(self) -> list[DelayedFetch]:
        operations, self.operations = self.operations, []
        self._byte_count = 0
        return operations

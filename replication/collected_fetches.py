"""Complete fetches of followers, held for a moment so that their answers carry more records.

A waiting fetch of a follower is complete at the first append, and a fetch that arrives while there
are records is complete at once. In a busy cluster this costs an exchange for each record. A
complete fetch is therefore collected here; the driver decides when it is answered, with all records
that came until then (`broker.replicas.follower_pace`).

Invariants: a collected operation still stands in its purgatory, with its deadline; it notes every
change of its partitions meanwhile, and the changes are read when it is answered; an effect notifies
the driver of the first collected fetch, another one of `urgent_bytes` of records.

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
        # 0: nothing is collected, because no driver would answer it.
        self.urgent_bytes = 0
        # Whether a fetch that finds records on arrival is collected, too.
        self.paces = False
        self._byte_count = 0
        self.append_count = 0  # while fetches were collected

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

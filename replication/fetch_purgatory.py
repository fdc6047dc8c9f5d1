"""The waiting fetches, ordered so that a change looks only at fetches that it may complete.

Job: hold the waiting fetches of each partition, by the change that may complete them: `whenever`
anything changes (followers, whose answers also carry the high watermark), `each` time that the
readable end of their isolation level moves (one byte is enough for them), or in a `Line`, ordered
by the place in the log that the readable end has to reach. An append looks at the front of a line,
not at the thousands behind it.

A fetch of one partition that lacks n bytes is due n bytes behind the readable end. A fetch of
several partitions is due when one of them has grown by its share, the lacking bytes divided by the
number of partitions: until then the fetch lacks bytes. A look at the fetch covers all its
partitions and computes new shares. If a share is too small for that (below LOOK_BYTES times that
number), the fetch is looked at on each growth, at the grown partition only.

Invariants: `due` returns every fetch that is due by its bytes, and may return others; a place is
(base offset of the segment, position in it), and the line of a partition is in order across a roll.
A readable end that goes back (a truncation) makes all due.

Mirrors the purgatory of Kafka's DelayedFetch, which looks at all fetches that wait for a partition.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import Final

from ..protocol import invariants
from ..protocol.errors import KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..storage.local_log import Place
from .delayed_operations import NOWHERE, DelayedFetch
from .partition import Partition
from .purgatory import Operation, Purgatory
from .types import Isolation

# To look at one more partition of a fetch is worth it once so many bytes have come.
LOOK_BYTES: Final = 1024
# Behind every number of an operation, and every offset.
_LAST: Final = 2**62
_ISOLATIONS: Final = tuple(Isolation)
_NOT_LOOKED_AT: Final = -2

Due = tuple[int, int, int, DelayedFetch]  # segment, position, number of the operation


class Line:
    """Fetches of one isolation level in the order in which they are due."""

    __slots__ = ("_end", "_entries")

    def __init__(self) -> None:
        # No two are alike as far as the number, so that operations are not compared.
        self._entries: list[Due] = []
        self._end: Place = NOWHERE  # the readable end at the last `take`

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, due: Due) -> None:
        insort(self._entries, due)

    def operations(self) -> list[DelayedFetch]:
        return [due[3] for due in self._entries]

    def discard(self, due: Due) -> None:
        """Remove the entry, if it has not been taken."""
        entries = self._entries
        index = bisect_left(entries, due[:3])
        # By number: compiled code does not keep the identity of tuples.
        if index < len(entries) and entries[index][:3] == due[:3]:
            del entries[index]

    def take(self, end: Place) -> list[DelayedFetch]:
        """Remove and return the fetches that are due at this readable end."""
        entries = self._entries
        if invariants.THOROUGH and entries != sorted(entries, key=_place_and_number):
            raise BrokenInvariant(f"a line is out of order: {[due[:3] for due in entries]}")
        went_back = end < self._end
        count = len(entries) if went_back else bisect_right(entries, (*end, _LAST))
        self._end = end
        taken = [due[3] for due in entries[:count]]
        del entries[:count]
        return taken


def _place_and_number(due: Due) -> tuple[int, int, int]:
    return due[:3]


class Watchers:
    """The fetches that wait for one partition."""

    __slots__ = ("each", "ends", "lines", "size", "whenever")

    def __init__(self) -> None:
        self.size = 0
        self.whenever: dict[DelayedFetch, None] = {}
        # By isolation level; `ends` are the readable ends that were last looked at.
        self.each: list[dict[DelayedFetch, None] | None] = [None, None, None]
        self.lines: list[Line | None] = [None, None, None]
        self.ends: list[int] = [_NOT_LOOKED_AT] * len(_ISOLATIONS)


class FetchPurgatory(Purgatory[DelayedFetch]):
    __slots__ = ("_followers", "_next_number", "_partitions", "watched")

    def __init__(self, partitions: Mapping[TopicPartition, Partition], now_ms: int = 0) -> None:
        super().__init__("Fetch", now_ms)
        self._partitions = partitions
        self._next_number = 0
        # By broker: the fetches of followers.
        self._followers: dict[int, dict[DelayedFetch, None]] = {}
        # For others to look up only.
        self.watched: dict[TopicPartition, Watchers] = {}

    def waiting(self) -> Iterator[DelayedFetch]:
        for watchers in self.watched.values():
            yield from _all_of(watchers)

    def watchers(self, key: TopicPartition) -> list[DelayedFetch]:
        """All fetches that wait for this partition."""
        watchers = self.watched.get(key)
        return [] if watchers is None else list(_all_of(watchers))

    def of_follower(self, broker_id: int) -> list[DelayedFetch]:
        """All waiting fetches of one follower (a copy: removing is safe meanwhile)."""
        return list(self._followers.get(broker_id, ()))

    def due(self, watchers: Watchers, partition: Partition) -> list[DelayedFetch]:
        """Of the fetches that wait for this partition, those that its records may complete, and
        those that wait for any change.

        A fetch taken from a line returns by `rearm`, unless it is removed.
        """
        found = list(watchers.whenever) if watchers.whenever else []
        ends = watchers.ends
        for isolation in _ISOLATIONS:
            seen = ends[isolation]
            if seen == _NOT_LOOKED_AT:
                continue
            end = partition.readable_end_offset(isolation)
            if end == seen:
                continue
            ends[isolation] = end
            each = watchers.each[isolation]
            if each:
                found += each
            line = watchers.lines[isolation]
            if line is not None and len(line):
                try:
                    place = partition.log.place_behind(end)
                except KafkaError:  # the disk: they are answered with that
                    place = (_LAST, 0)
                found += line.take(place)
        return found

    def rearm(self, operation: DelayedFetch) -> None:
        """Wait again: the operation was looked at and is not complete."""
        if operation.is_in_lines:
            self._leave_lines(operation)
            self._wait_for_bytes(operation)

    # Entering and leaving

    def _enter(self, operation: DelayedFetch) -> None:
        watched, partitions = self.watched, self._partitions
        params = operation.params
        whenever, isolation = params.is_from_follower, params.isolation
        for key in operation.index_of:
            watchers = watched.get(key)
            if watchers is None:
                watchers = watched[key] = Watchers()
            watchers.size += 1
            if whenever:
                watchers.whenever[operation] = None
            elif watchers.ends[isolation] == _NOT_LOOKED_AT:
                partition = partitions.get(key)
                end = -1 if partition is None else partition.readable_end_offset(isolation)
                watchers.ends[isolation] = end
        if whenever:
            self._followers.setdefault(params.replica_id, {})[operation] = None
        else:
            operation.number = self._next_number
            self._next_number += 1
            self._wait_for_bytes(operation)

    def _wait_for_bytes(self, operation: DelayedFetch) -> None:
        count = len(operation.index_of)
        missing = operation.wanted_bytes - operation.total_bytes
        share = missing // count if missing > 1 else 0
        isolation = operation.params.isolation
        if share > 0 and (count == 1 or share >= count * LOOK_BYTES):
            operation.is_in_lines = True
            number = operation.number
            for key, index in operation.index_of.items():
                segment, position = operation.ends[index]
                due: Due = (segment, position + share, number, operation)
                operation.due[index] = due
                lines = self.watched[key].lines
                line = lines[isolation]
                if line is None:
                    line = lines[isolation] = Line()
                line.add(due)
        else:
            for key in operation.index_of:
                watchers = self.watched[key]
                each = watchers.each[isolation]
                if each is None:
                    watchers.each[isolation] = {operation: None}
                else:
                    each[operation] = None

    def _leave_lines(self, operation: DelayedFetch) -> None:
        isolation = operation.params.isolation
        operation.is_in_lines = False
        for key, index in operation.index_of.items():
            line = self.watched[key].lines[isolation]
            assert line is not None
            line.discard(operation.due.pop(index))

    def _leave(self, operation: Operation) -> None:
        assert isinstance(operation, DelayedFetch)
        params = operation.params
        whenever, isolation = params.is_from_follower, params.isolation
        is_in_lines = operation.is_in_lines
        if is_in_lines:
            self._leave_lines(operation)
        if whenever:
            of_follower = self._followers[params.replica_id]
            del of_follower[operation]
            if not of_follower:
                del self._followers[params.replica_id]
        watched = self.watched
        for key in operation.index_of:
            watchers = watched[key]
            watchers.size -= 1
            if not watchers.size:
                del watched[key]
            elif whenever:
                del watchers.whenever[operation]
            elif not is_in_lines:
                each = watchers.each[isolation]
                assert each is not None
                del each[operation]


def _all_of(watchers: Watchers) -> Iterator[DelayedFetch]:
    yield from watchers.whenever
    for each in watchers.each:
        if each is not None:
            yield from each
    for line in watchers.lines:
        if line is not None:
            yield from line.operations()

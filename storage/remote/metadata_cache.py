"""The remote segments of one partition, as the records of the metadata topic have described them.

Answers: which segment holds an offset of a leader epoch, the highest copied offset of an epoch, and
lists of segments. A segment is *mapped* in each of its epochs from COPY_SEGMENT_FINISHED until
DELETE_SEGMENT_STARTED, and *unreferenced* before and after that, or while another one has its
offsets: it is then only listed, so that it can be deleted, or mapped again when the other one is.

Invariants:
- Within an epoch, mapped segments ascend by the first offset, and never descend by the last.
- An offset of an epoch is found if and only if a finished segment holds it.
- A mapped segment is COPY_SEGMENT_FINISHED. A segment is mapped or unreferenced in each of its
  epochs, and it is gone everywhere after DELETE_SEGMENT_FINISHED.
- The highest offset of an epoch never falls, not even by deletion.
- An illegal transition, or an update of an unknown segment, changes nothing; `apply` returns the
  reason for the log.

Cases, when a segment of an epoch is finished (its offsets of that epoch: S to E):
A. Nothing mapped holds S to E whole and more behind E: it is mapped. Mapped segments within S to E
   become unreferenced.
B. A mapped segment begins at S or before it, and ends after E: this one becomes unreferenced.

Kafka's own cache has A with the exception that mapped segments below an epoch's highest offset stay
(and are lost, if they begin at S), and not B: it maps the shorter segment over the longer one, and
the offsets behind E cannot be found any more. A late copy by a deposed leader is such a segment.
Nor does it map a segment again: when that leader deletes its copy, the other one is never found.

Mirrors: RemoteLogMetadataCache, RemoteLogLeaderEpochState.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from ...protocol.invariants import BrokenInvariant
from .segments import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)

_State = RemoteLogSegmentState


class _Listed:
    """Segments by start offset; a change costs no look at the others."""

    __slots__ = ("_keys", "segments")

    def __init__(self) -> None:
        self._keys: list[tuple[int, RemoteLogSegmentId]] = []
        self.segments: list[RemoteLogSegmentMetadata] = []

    def put(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Add it, or take it in the place of its earlier state."""
        key = metadata.start_offset, metadata.segment_id
        index = bisect_left(self._keys, key)
        if self._keys[index : index + 1] == [key]:
            self.segments[index] = metadata
        else:
            self._keys.insert(index, key)
            self.segments.insert(index, metadata)

    def remove(self, metadata: RemoteLogSegmentMetadata) -> None:
        key = metadata.start_offset, metadata.segment_id
        index = bisect_left(self._keys, key)
        if self._keys[index : index + 1] == [key]:
            del self._keys[index], self.segments[index]


class _Epoch:
    """The segments with records of one leader epoch."""

    __slots__ = ("highest_offset", "listed", "mapped", "start_of", "unreferenced")

    def __init__(self) -> None:
        self.listed = _Listed()  # those that are mapped and those that are not
        # (first offset of the epoch in it, last one, id) ascending: see the invariants.
        self.mapped: list[tuple[int, int, RemoteLogSegmentId]] = []
        self.start_of: dict[RemoteLogSegmentId, int] = {}  # of each mapped one
        self.unreferenced: set[RemoteLogSegmentId] = set()
        # Of all segments that were ever finished; None before the first.
        self.highest_offset: int | None = None

    def floor(self, offset: int) -> tuple[int, int, RemoteLogSegmentId] | None:
        index = bisect_right(self.mapped, offset, key=lambda one: one[0])
        return self.mapped[index - 1] if index else None

    def finish(self, start: int, end: int, segment_id: RemoteLogSegmentId) -> None:
        self.unreference(segment_id)
        before = self.floor(start)
        if before is None or before[1] <= end:  # case A
            first = bisect_left(self.mapped, start, key=lambda one: one[0])
            last = bisect_right(self.mapped, end, lo=first, key=lambda one: one[1])
            for _, _, within in self.mapped[first:last]:
                del self.start_of[within]
                self.unreferenced.add(within)
            self.mapped[first:last] = [(start, end, segment_id)]
            self.start_of[segment_id] = start
            self.unreferenced.discard(segment_id)
        self.highest_offset = max(end, self.highest_offset or 0)

    def unreference(self, segment_id: RemoteLogSegmentId) -> None:
        start = self.start_of.pop(segment_id, None)
        if start is not None:
            del self.mapped[bisect_left(self.mapped, start, key=lambda one: one[0])]
        self.unreferenced.add(segment_id)


class RemoteLogMetadataCache:
    """Applies the records of one partition, in their order."""

    __slots__ = ("_epochs", "_listed", "_segments", "is_initialized")

    def __init__(self) -> None:
        self._segments: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self._listed = _Listed()
        # An epoch stays when its last segment is gone, with its highest offset.
        self._epochs: dict[int, _Epoch] = {}
        # Set by the reader of the topic once, when it has read what was there at the assignment.
        self.is_initialized = False

    def apply(
        self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate
    ) -> str | None:
        """The next record; None, or why it was dropped."""
        known = self._segments.get(record.segment_id)
        if isinstance(record, RemoteLogSegmentMetadata):
            if record.state is not _State.COPY_SEGMENT_STARTED:
                return f"{record.segment_id} begins as {record.state.name}"
        elif record.state is _State.COPY_SEGMENT_STARTED:
            return f"an update of {record.segment_id} to {record.state.name}"
        elif known is None:
            return f"an update of {record.segment_id}, which is unknown, to {record.state.name}"
        old = None if known is None else known.state
        if record.state not in SEGMENT_TRANSITIONS[old]:
            return f"{record.segment_id} cannot go from {old and old.name} to {record.state.name}"
        if isinstance(record, RemoteLogSegmentMetadataUpdate):
            assert known is not None
            self._enter(known.updated(record))
            return None
        if known is not None:  # begun again: perhaps with other epochs
            self._listed.remove(known)
            for number, _ in known.segment_leader_epochs:
                self._epochs[number].unreferenced.discard(known.segment_id)
                self._epochs[number].listed.remove(known)
        self._enter(record)
        return None

    def segment_for(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds the offset, as one of that epoch."""
        epoch = self._epochs.get(leader_epoch)
        found = None if epoch is None else epoch.floor(offset)
        return None if found is None or offset > found[1] else self._segments[found[2]]

    def highest_offset_for_epoch(self, leader_epoch: int) -> int | None:
        epoch = self._epochs.get(leader_epoch)
        return None if epoch is None else epoch.highest_offset

    def segments(self) -> list[RemoteLogSegmentMetadata]:
        """All of them, by start offset."""
        return list(self._listed.segments)

    def segments_of_epoch(self, leader_epoch: int) -> list[RemoteLogSegmentMetadata]:
        """All with records of that epoch, unreferenced ones as well, by start offset."""
        epoch = self._epochs.get(leader_epoch)
        return [] if epoch is None else list(epoch.listed.segments)

    def check(self) -> None:
        """Thorough check of the invariants."""
        for number, epoch in self._epochs.items():
            starts = [one[0] for one in epoch.mapped]
            ends = [one[1] for one in epoch.mapped]
            if starts != sorted(set(starts)) or ends != sorted(ends):
                raise BrokenInvariant(f"epoch {number} maps {epoch.mapped}")
            mapped = {one[2] for one in epoch.mapped}
            if epoch.start_of != {one[2]: one[0] for one in epoch.mapped}:
                raise BrokenInvariant(f"epoch {number} maps {epoch.mapped}, {epoch.start_of}")
            if mapped & epoch.unreferenced or not mapped | epoch.unreferenced <= {*self._segments}:
                raise BrokenInvariant(f"epoch {number}: {mapped}, {epoch.unreferenced}")
            listed = epoch.listed.segments
            if listed != _by_start(self._segments[one] for one in mapped | epoch.unreferenced):
                raise BrokenInvariant(f"epoch {number} lists {listed}")
            if any(self._segments[one].state is not _State.COPY_SEGMENT_FINISHED for one in mapped):
                raise BrokenInvariant(f"epoch {number} maps a segment that is not finished")

        if self._listed.segments != _by_start(self._segments.values()):
            raise BrokenInvariant("the list of all segments is another one")

    def _enter(self, metadata: RemoteLogSegmentMetadata) -> None:
        segment_id = metadata.segment_id
        epochs = metadata.segment_leader_epochs
        ends = [offset - 1 for _, offset in epochs[1:]] + [metadata.end_offset]
        self._segments[segment_id] = metadata
        for (number, start), end in zip(epochs, ends, strict=True):
            epoch = self._epochs.setdefault(number, _Epoch())
            match metadata.state:
                case _State.COPY_SEGMENT_STARTED:
                    epoch.unreference(segment_id)
                case _State.DELETE_SEGMENT_STARTED:
                    was_mapped = segment_id in epoch.start_of
                    epoch.unreference(segment_id)
                    if was_mapped:
                        self._map_again(number, epoch, start, end)
                case _State.COPY_SEGMENT_FINISHED:
                    epoch.finish(start, end, segment_id)
                case _State.DELETE_SEGMENT_FINISHED:
                    epoch.unreferenced.discard(segment_id)
                    epoch.listed.remove(metadata)
                    continue
            epoch.listed.put(metadata)
        if metadata.state is _State.DELETE_SEGMENT_FINISHED:
            del self._segments[segment_id]
            self._listed.remove(metadata)
        else:
            self._listed.put(metadata)

    def _map_again(self, number: int, epoch: _Epoch, start: int, end: int) -> None:
        """Map the finished segments that the one with these offsets has hidden."""
        hidden = []
        for segment_id in epoch.unreferenced:
            metadata = self._segments[segment_id]
            if metadata.state is _State.COPY_SEGMENT_FINISHED:
                first, last = _range_in(metadata, number)
                if start <= first and last <= end:
                    hidden.append((first, last, segment_id))
        for one in sorted(hidden):
            epoch.finish(*one)


def _range_in(metadata: RemoteLogSegmentMetadata, epoch: int) -> tuple[int, int]:
    """The first and the last offset of an epoch that the segment has."""
    epochs = metadata.segment_leader_epochs
    for index, (number, start) in enumerate(epochs):
        if number == epoch:
            behind = epochs[index + 1][1] if index + 1 < len(epochs) else metadata.end_offset + 1
            return start, behind - 1
    raise BrokenInvariant(f"{metadata.segment_id} has nothing of epoch {epoch}")


def _by_start(segments: Iterable[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentMetadata]:
    return sorted(segments, key=lambda one: (one.start_offset, one.segment_id))

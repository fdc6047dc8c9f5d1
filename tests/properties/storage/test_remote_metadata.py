"""The cache of remote segments against a twin that keeps lists and looks through them, over random
records in random order, legal and illegal ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.segments import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

PARTITION = TopicIdPartition(bytes(16), "t", 0)
STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
MOST_OFFSETS = 40
EPOCHS = (0, 1, 2)

Range = tuple[int, int, RemoteLogSegmentId]
Record = RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate


class Twin:
    def __init__(self) -> None:
        self.segments: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self.mapped: dict[int, list[Range]] = {epoch: [] for epoch in EPOCHS}
        self.highest: dict[int, int] = {}

    def apply(self, record: Record) -> bool:
        known = self.segments.get(record.segment_id)
        is_update = isinstance(record, RemoteLogSegmentMetadataUpdate)
        if is_update != (record.state is not STARTED) or (is_update and known is None):
            return False
        if record.state not in SEGMENT_TRANSITIONS[known.state if known else None]:
            return False
        if isinstance(record, RemoteLogSegmentMetadata):
            self.segments[record.segment_id] = record
            return True
        assert known is not None
        metadata = known.updated(record)
        self.segments[record.segment_id] = metadata
        for epoch, start, end in ranges(metadata):
            was_mapped = any(one[2] == record.segment_id for one in self.mapped[epoch])
            self.mapped[epoch] = [one for one in self.mapped[epoch] if one[2] != record.segment_id]
            if record.state is FINISHED:
                self.highest[epoch] = max(end, self.highest.get(epoch, 0))
                is_mapped = self._map(epoch, (start, end, record.segment_id))
                assert is_mapped or not was_mapped, "a mapped segment is within another one"
            elif was_mapped:
                for one in sorted(self._finished(epoch)):
                    if one not in self.mapped[epoch]:
                        self._map(epoch, one)
        if record.state is DELETED:
            del self.segments[record.segment_id]
        return True

    def _map(self, epoch: int, added: Range) -> bool:
        start, end, _ = added
        others = self.mapped[epoch]
        if any(first <= start and last > end for first, last, _ in others):
            return False
        kept = [one for one in others if not (one[0] >= start and one[1] <= end)]
        self.mapped[epoch] = [*kept, added]
        return True

    def _finished(self, epoch: int) -> list[Range]:
        return [
            (start, end, one.segment_id)
            for one in self.segments.values()
            for number, start, end in ranges(one)
            if number == epoch and one.state is FINISHED
        ]

    def held(self, epoch: int) -> set[int]:
        """The offsets of the epoch that any finished segment has."""
        return {
            offset for start, end, _ in self._finished(epoch) for offset in range(start, end + 1)
        }

    def find(self, epoch: int, offset: int) -> RemoteLogSegmentId | None:
        below = [one for one in self.mapped[epoch] if one[0] <= offset]
        if not below:
            return None
        found = max(below)
        return found[2] if offset <= found[1] else None

    def listed(self, epoch: int) -> set[RemoteLogSegmentId]:
        return {
            one.segment_id
            for one in self.segments.values()
            if epoch in dict(one.segment_leader_epochs)
        }


def ranges(metadata: RemoteLogSegmentMetadata) -> list[tuple[int, int, int]]:
    epochs = metadata.segment_leader_epochs
    ends = [offset - 1 for _, offset in epochs[1:]] + [metadata.end_offset]
    return [(epoch, start, end) for (epoch, start), end in zip(epochs, ends, strict=True)]


@st.composite
def segments(draw: st.DrawFn) -> dict[int, RemoteLogSegmentMetadata]:
    """Copies of a log whose epochs began at certain offsets, as any leader may have made them."""
    second = draw(st.integers(1, MOST_OFFSETS - 2))
    third = draw(st.integers(second + 1, MOST_OFFSETS - 1))
    found = {}
    for number in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, MOST_OFFSETS - 1))
        end = draw(st.integers(start, MOST_OFFSETS))
        begins = [(0, 0, second), (1, second, third), (2, third, MOST_OFFSETS + 1)]
        epochs = tuple(
            (epoch, max(first, start))
            for epoch, first, behind in begins
            if first <= end and behind > start
        )
        found[number] = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(PARTITION, number.to_bytes(16)), start, end, 0, 1, 0, 100, epochs
        )
    return found


@given(segments(), st.data())
def test_the_cache_agrees_with_the_twin(
    copies: dict[int, RemoteLogSegmentMetadata], data: st.DataObject
) -> None:
    cache, twin = RemoteLogMetadataCache(), Twin()
    steps = data.draw(
        st.lists(
            st.tuples(st.sampled_from(sorted(copies)), st.sampled_from(list(RemoteLogSegmentState)))
        )
    )
    for number, state in steps:
        record: Record = copies[number]
        if state is not STARTED:
            record = RemoteLogSegmentMetadataUpdate(record.segment_id, 1, None, state, 2)
        assert (cache.apply(record) is None) == twin.apply(record)
        cache.check()
        assert {one.segment_id: one for one in cache.segments()} == twin.segments
        for epoch in EPOCHS:
            assert cache.highest_offset_for_epoch(epoch) == twin.highest.get(epoch)
            listed = cache.segments_of_epoch(epoch)
            assert {one.segment_id for one in listed} == twin.listed(epoch)
            assert [one.start_offset for one in listed] == sorted(
                one.start_offset for one in listed
            )
            held = twin.held(epoch)
            for offset in range(MOST_OFFSETS + 1):
                found = cache.segment_for(epoch, offset)
                assert (found and found.segment_id) == twin.find(epoch, offset)
                assert (found is not None) == (offset in held)
                if found is not None:
                    assert found.state is FINISHED
                    assert found.start_offset <= offset <= found.end_offset

"""Cases of the cache of remote segments; random histories are in properties/storage/."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState

from .tiers import segment_id, started, update

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState


def cache_with(*segments: RemoteLogSegmentMetadata) -> RemoteLogMetadataCache:
    """A cache that these were copied to, in this order."""
    cache = RemoteLogMetadataCache()
    for number, metadata in enumerate(segments):
        assert cache.apply(metadata) is None
        assert cache.apply(update(number, FINISHED)) is None
        cache.check()
    return cache


def at(cache: RemoteLogMetadataCache, epoch: int, offset: int) -> int | None:
    """The number of the segment that holds an offset."""
    found = cache.segment_for(epoch, offset)
    return None if found is None else found.segment_id.id[-1]


def listed(cache: RemoteLogMetadataCache, epoch: int) -> list[int]:
    return [one.segment_id.id[-1] for one in cache.segments_of_epoch(epoch)]


def test_a_segment_can_be_found_from_its_end_to_its_deletion() -> None:
    cache = RemoteLogMetadataCache()
    assert cache.apply(started(1, 0, 99)) is None
    assert (at(cache, 0, 5), cache.highest_offset_for_epoch(0), listed(cache, 0)) == (
        None,
        None,
        [1],
    )
    assert cache.apply(update(1, FINISHED, b"there")) is None
    assert (at(cache, 0, 0), at(cache, 0, 99), at(cache, 0, 100), at(cache, 1, 5)) == (
        1,
        1,
        None,
        None,
    )
    found = cache.segment_for(0, 5)
    assert found is not None
    assert (found.custom_metadata, found.state) == (b"there", FINISHED)
    assert cache.apply(update(1, DELETING)) is None
    assert (at(cache, 0, 5), cache.highest_offset_for_epoch(0), listed(cache, 0)) == (None, 99, [1])
    assert cache.apply(update(1, DELETED)) is None
    assert (cache.segments(), listed(cache, 0), cache.highest_offset_for_epoch(0)) == ([], [], 99)


def test_a_segment_of_several_epochs_has_a_range_in_each() -> None:
    cache = cache_with(started(0, 10, 99, (3, 10), (5, 40), (6, 70)))
    assert [at(cache, 3, one) for one in (9, 10, 39, 40)] == [None, 0, 0, None]
    assert [at(cache, 5, one) for one in (39, 40, 69, 70)] == [None, 0, 0, None]
    assert [at(cache, 6, one) for one in (69, 70, 99, 100)] == [None, 0, 0, None]
    assert [cache.highest_offset_for_epoch(epoch) for epoch in (3, 4, 5, 6)] == [39, None, 69, 99]


def test_case_a_the_larger_copy_replaces_smaller_ones() -> None:
    cache = cache_with(started(0, 0, 49), started(1, 50, 99), started(2, 10, 120))
    assert [at(cache, 0, one) for one in (5, 10, 60, 99, 120)] == [0, 2, 2, 2, 2]
    assert listed(cache, 0) == [0, 2, 1]


def test_case_a_below_the_highest_offset() -> None:
    cache = cache_with(started(0, 0, 49), started(1, 50, 99), started(2, 0, 60))
    assert [at(cache, 0, one) for one in (5, 49, 50, 60, 61, 99)] == [2, 2, 1, 1, 1, 1]
    assert listed(cache, 0) == [0, 2, 1]


@pytest.mark.parametrize("start", [0, 50])
def test_case_b_a_late_smaller_copy_hides_nothing(start: int) -> None:
    cache = cache_with(started(0, 0, 200), started(1, start, 100))
    assert [at(cache, 0, one) for one in (0, 75, 100, 150, 200)] == [0, 0, 0, 0, 0]
    assert listed(cache, 0) == [0, 1]


@pytest.mark.parametrize("start", [0, 50])
def test_what_a_deleted_copy_has_hidden_is_found_again(start: int) -> None:
    cache = cache_with(started(0, start, 100), started(1, 0, 100))
    assert [at(cache, 0, one) for one in (0, 75, 100)] == [1, 1, 1]
    assert cache.apply(update(1, DELETING)) is None
    cache.check()
    assert [at(cache, 0, one) for one in (start, 75, 100)] == [0, 0, 0]
    assert at(cache, 0, start - 1) is None


def test_dropped_records_say_why_and_change_nothing() -> None:
    cache = cache_with(started(0, 0, 99))
    for record, reason in (
        (update(9, FINISHED), "is unknown"),
        (update(0, STARTED), "an update of"),
        (update(0, DELETED), "from COPY_SEGMENT_FINISHED to DELETE_SEGMENT_FINISHED"),
        (started(0, 0, 99), "from COPY_SEGMENT_FINISHED to COPY_SEGMENT_STARTED"),
        (started(5, 0, 9).updated(update(5, FINISHED)), "begins as COPY_SEGMENT_FINISHED"),
    ):
        dropped = cache.apply(record)
        assert dropped is not None
        assert reason in dropped
        assert str(record.segment_id) in dropped
    assert len(cache.segments()) == 1
    assert at(cache, 0, 50) == 0


def test_a_repeated_start_may_change_the_epochs() -> None:
    cache = RemoteLogMetadataCache()
    cache.apply(started(1, 0, 99, (0, 0)))
    cache.apply(started(1, 0, 99, (2, 0)))
    for state in (FINISHED, DELETING, DELETED):
        assert cache.apply(update(1, state)) is None
        cache.check()
    assert listed(cache, 0) == []


def test_check_finds_broken_states() -> None:
    cache = cache_with(started(0, 0, 99), started(1, 100, 199))
    cache._epochs[0].unreferenced.add(segment_id(1))
    with pytest.raises(BrokenInvariant):
        cache.check()
    cache = cache_with(started(0, 0, 99), started(1, 100, 199))
    cache._epochs[0].mapped.reverse()
    with pytest.raises(BrokenInvariant, match="maps"):
        cache.check()
    cache = cache_with(started(0, 0, 99))
    del cache._segments[segment_id(0)]
    with pytest.raises(BrokenInvariant):
        cache.check()
    cache = cache_with(started(0, 0, 99))
    cache._epochs[0].start_of.clear()
    with pytest.raises(BrokenInvariant):
        cache.check()

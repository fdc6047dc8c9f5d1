"""Decisions of one look at the tier, segment by segment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.replication.remote import expiry
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tests.support.appends import append_as_leader
from tests.support.steps import finished
from tests.unit.storage.helpers import TOPIC_ID, batch_of
from tests.unit.storage.tiered import tiered_log

NAME = TopicIdPartition(TOPIC_ID, "t", 0)
BATCH = batch_of(b"v")
SEGMENT_BYTES = 10 * len(BATCH)

STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class Tier:
    """What the metadata topic says: copies of ten records each, by their number."""

    def __init__(self) -> None:
        self._cache = RemoteLogMetadataCache()
        self._count = 0

    def add(
        self,
        first: int,
        *states: RemoteLogSegmentState,
        epochs: tuple[tuple[int, int], ...] | None = None,
    ) -> RemoteLogSegmentId:
        self._count += 1
        name = RemoteLogSegmentId(NAME, self._count.to_bytes(16, "big"))
        begun = RemoteLogSegmentMetadata(
            name, first, first + 9, 1000, 1, 0, SEGMENT_BYTES, epochs or ((0, first),)
        )
        assert self._cache.apply(begun) is None
        self.end(name, *states)
        return name

    def end(self, name: RemoteLogSegmentId, *states: RemoteLogSegmentState) -> None:
        for state in states:
            update = RemoteLogSegmentMetadataUpdate(name, 0, None, state, 1)
            assert self._cache.apply(update) is None

    def segments(
        self, _partition: TopicIdPartition, epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        return self._cache.segments() if epoch is None else self._cache.segments_of_epoch(epoch)

    def highest_offset(self, _partition: TopicIdPartition, epoch: int) -> int | None:
        return self._cache.highest_offset_for_epoch(epoch)


def log_of(directory: Path, **overrides: Any) -> Log:
    """Thirty records, of which twenty are only in the tier or in both."""
    log = tiered_log(directory, retention_ms=-1, **overrides)
    for _ in range(30):
        append_as_leader(log, bytearray(BATCH), leader_epoch=0, now_ms=1000)
    log.update_high_watermark(30)
    log.update_highest_offset_in_remote_storage(19)
    return log


def look(log: Log, tier: Tier) -> expiry.Expiry:
    return finished(expiry.look(log, NAME, tier, (), 2000, by_age=True))


def names(segments: Sequence[RemoteLogSegmentMetadata]) -> list[RemoteLogSegmentId]:
    return [metadata.segment_id for metadata in segments]


@pytest.mark.parametrize("orphan_first", [True, False])
def test_an_orphan_whose_deletion_failed_takes_no_records_along(
    tmp_path: Path, orphan_first: bool
) -> None:
    log, tier = log_of(tmp_path), Tier()
    states = [(DELETING,), (FINISHED,)] if orphan_first else [(FINISHED,), (DELETING,)]
    first, second = (tier.add(0, *each) for each in states)
    tier.add(10, FINISHED)
    found = look(log, tier)
    assert found.log_start_offset is None
    assert names(found.expired) == [first if orphan_first else second]


def test_a_segment_that_is_being_deleted_is_not_counted_for_the_size(tmp_path: Path) -> None:
    """Twenty records in the tier, ten only here: thirty are kept."""
    log, tier = (
        log_of(tmp_path, retention_bytes=30 * len(BATCH), segment_bytes=SEGMENT_BYTES),
        Tier(),
    )
    tier.add(0, FINISHED)
    orphan = tier.add(0, DELETING)
    tier.add(10, FINISHED)
    found = look(log, tier)
    assert found.log_start_offset is None
    assert names(found.expired) == [orphan]


def test_segments_of_lost_epochs_are_deleted_in_the_order_of_offsets(tmp_path: Path) -> None:
    """The start of the log has left epoch 0, of which it knows the last segment alone."""
    log, tier = log_of(tmp_path), Tier()
    first, second = (tier.add(offset, FINISHED) for offset in (0, 10))
    append_as_leader(log, bytearray(BATCH), leader_epoch=1, now_ms=1000)
    log.update_high_watermark(31)
    log.maybe_increment_log_start_offset(31)
    both = tier.add(21, FINISHED, epochs=((0, 21), (1, 30)))
    assert [one[0] for one in log.leader_epochs.entries] == [1]
    assert names(look(log, tier).expired) == [first, second, both]

"""A lost log lined up from its segments against a dumb twin: a list of the epoch of each record.

Leaders copy segments of the log, some of them twice, with other cuts. A leader that was deposed has
copied records behind the fork, of its own epoch, that nobody else has. Copies get lost.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pybroker_kafka.replication.remote.copying import last_segment, start_of
from pybroker_kafka.replication.remote.importing import Described, line_up
from pybroker_kafka.replication.remote.lineage import in_range
from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tests.support import examples

PARTITION = TopicIdPartition(bytes(range(16)), "history", 0)
STARTED, FINISHED, *_ = RemoteLogSegmentState
HISTORIES = examples.of(300)


class World:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.epoch_of: list[int] = []  # the twin: of each record of the log
        epoch = 0
        for _ in range(draw.randrange(1, 5)):
            self.epoch_of += [epoch] * draw.randrange(1, 12)
            epoch += draw.randrange(1, 3)
        self.log_start = draw.choice([0, 0, draw.randrange(len(self.epoch_of))])
        self.described: list[Described] = []
        self.true: set[bytes] = set()  # the ids of copies of the log
        self.copy(self.epoch_of, whole=True)
        for _ in range(draw.randrange(3)):
            self.copy(self.epoch_of)
        for _ in range(draw.randrange(3)):
            fork = draw.randrange(1, len(self.epoch_of) + 1)
            if self.epoch_of[fork - 1] < self.epoch_of[-1]:  # it was deposed
                self.copy(self.epoch_of[:fork] + [self.epoch_of[fork - 1]] * draw.randrange(1, 8))
        kept = [one for one in self.described if draw.random() < 0.85]
        last = max(
            self.described, key=lambda one: one.metadata.end_offset if self.is_true(one) else -1
        )
        self.described = kept if last in kept else [*kept, last]
        draw.shuffle(self.described)

    def is_true(self, one: Described) -> bool:
        return one.metadata.segment_id.id in self.true

    def copy(self, records: list[int], *, whole: bool = False) -> None:
        start = 0
        while start < len(records):
            end = min(start + self.draw.randrange(1, 8), len(records))
            if whole or self.draw.random() < 0.6:
                self.add(records, start, end)
            start = end

    def add(self, records: list[int], start: int, end: int) -> None:
        if end <= self.log_start:
            return
        known = [
            (epoch, offset)
            for offset, epoch in enumerate(records[:end])
            if not offset or epoch != records[offset - 1]
        ]
        known = in_range(known, self.log_start, end)  # as `truncate_from_start` leaves them
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(PARTITION, self.draw.randbytes(16)),
            start, end - 1, 0, -1, 0, 100, tuple(in_range(known, start, end)),
        )  # fmt: skip
        self.described.append(Described(metadata, known))
        if records[start:end] == self.epoch_of[start:end]:
            self.true.add(metadata.segment_id.id)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_each_record_that_the_store_has_is_found(seed: int) -> None:
    world = World(random.Random(seed))
    lineup = line_up(world.described)
    there = {
        offset
        for one in world.described
        if world.is_true(one)
        for offset in range(one.metadata.start_offset, one.metadata.end_offset + 1)
        if offset >= world.log_start
    }
    end = len(world.epoch_of)
    assert lineup.next_offset == end
    assert lineup.last_epoch == world.epoch_of[-1]
    assert lineup.log_start_offset == min(there)
    missing = {at for first, last in lineup.holes for at in range(first, last + 1)}
    assert missing == set(range(min(there), end)) - there

    cache = RemoteLogMetadataCache()
    for one in lineup.segments:
        assert cache.apply(replace(one, state=STARTED)) is None
        assert (
            cache.apply(RemoteLogSegmentMetadataUpdate(one.segment_id, 0, None, FINISHED, -1))
            is None
        )
    cache.check()
    was = {one.metadata.segment_id: one.metadata for one in world.described}
    for offset in range(min(there), end):
        found = cache.segment_for(world.epoch_of[offset], offset)
        assert found is not None, offset
        assert found.segment_id.id in world.true
        # In a hole the segment before it is found, which has nothing, so that one reads on.
        assert (was[found.segment_id].end_offset >= offset) == (offset in there)

    last = last_segment(cache.segments())
    assert last is not None
    assert last.end_offset == end - 1
    (epochs,) = [
        one.epochs for one in world.described if one.metadata.segment_id == last.segment_id
    ]
    assert start_of(cache.segments(), last, epochs) == lineup.log_start_offset

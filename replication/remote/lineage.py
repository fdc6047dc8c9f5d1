"""Leader epochs of remote segments beside those of the partition's leader.

Brokers that led at different times have copied to the tier, some of them after they had lost the
leadership. A segment counts if its records are those of the present leader's log: its epochs begin
at the same offsets, the first one and the last one of the segment aside, which it may have in part.

Epochs are (epoch, first offset) in ascending order. An epoch without records begins where the next
one does; `with_records` leaves it out, since segments do not have it.

Mirrors: RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, buildFilteredLeaderEpochMap,
LeaderEpochFileCache.epochEntriesInRange.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ...storage.remote.segments import RemoteLogSegmentMetadata

Epochs = Sequence[tuple[int, int]]


def with_records(epochs: Epochs) -> list[tuple[int, int]]:
    """The epochs in which there are records."""
    kept = [entry for entry, following in pairwise(epochs) if entry[1] != following[1]]
    return [*kept, *epochs[-1:]]


def in_range(epochs: Epochs, start_offset: int, end_offset: int) -> list[tuple[int, int]]:
    """The epochs of [start, end); the first one begins at `start_offset`, if it began before."""
    found = [entry for entry in epochs if start_offset <= entry[1] < end_offset]
    earlier = [epoch for epoch, first in epochs if first < start_offset]
    if earlier and start_offset < end_offset and (not found or found[0][1] > start_offset):
        found.insert(0, (earlier[-1], start_offset))
    return found


def is_of_this_log(segment: RemoteLogSegmentMetadata, log_end_offset: int, epochs: Epochs) -> bool:
    """Whether the segment's records are those of a log with these `epochs`, all with records."""
    own = with_records(segment.segment_leader_epochs)
    if not epochs or segment.end_offset >= log_end_offset:
        return False
    first_known, last_known = epochs[0][0], epochs[-1][0]
    last = own[-1][0]
    if not first_known <= last <= last_known:
        return False
    starts = dict(epochs)
    # Records were deleted from the log's start on: of earlier epochs nothing is known any more.
    counting = [entry for entry in own if entry[0] >= first_known]
    for index, (epoch, offset) in enumerate(counting):
        if epoch not in starts:
            return False
        following = next((entry for entry in epochs if entry[0] > epoch), None)
        if index == 0 and epoch != first_known and offset < starts[epoch]:
            return False
        if epoch == last:
            if following is not None and segment.end_offset > following[1] - 1:
                return False
        elif following != counting[index + 1]:
            return False
    return True

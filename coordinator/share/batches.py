"""State batches of a share partition: ranges of offsets with their delivery state and count.

Job: merge new batches into the known ones. Of two that overlap the one with the higher delivery
count, then the higher state, holds; neighbours of the same state become one batch. Offsets before
the start offset are left out.

Mirrors PersisterStateBatch and PersisterStateBatchCombiner, with the same batches as result: a
single batch is never looked at, and a piece cut off is not joined with a batch before it.
"""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

NO_OFFSET: Final = -1


class StateBatch(NamedTuple):
    """The order of the fields is the order of batches."""

    first_offset: int
    last_offset: int  # of the batch itself
    delivery_count: int
    delivery_state: int  # 0 available, 2 acknowledged, 4 archived


def combine(
    known: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Batches without overlaps, in order; a start offset of -1 leaves nothing out."""
    batches = list(known)
    batches += new
    if start_offset != NO_OFFSET:
        batches = [
            batch._replace(first_offset=max(batch.first_offset, start_offset))
            for batch in batches
            if batch.last_offset >= start_offset
        ]
    if len(batches) < 2:
        return tuple(batches)
    heapify(batches)
    found = []
    batch = heappop(batches)
    while batches:
        after = batches[0]
        if not _belongs(batch, after):
            found.append(batch)
        else:
            heappop(batches)
            for piece in _merged(batch, after):
                heappush(batches, piece)
        batch = heappop(batches)
    return (*found, batch)


def _belongs(batch: StateBatch, after: StateBatch) -> bool:
    if after.first_offset <= batch.last_offset:
        return True
    return after.first_offset == batch.last_offset + 1 and after[2:] == batch[2:]


def _merged(batch: StateBatch, after: StateBatch) -> Iterator[StateBatch]:
    """The pieces of two batches that overlap, or are neighbours of the same state; `after` does not
    begin before `batch`."""
    if after[2:] == batch[2:]:
        yield batch._replace(last_offset=max(batch.last_offset, after.last_offset))
    elif after[2:] < batch[2:]:
        yield batch
        if after.last_offset > batch.last_offset:
            yield after._replace(first_offset=batch.last_offset + 1)
    else:
        if after.first_offset > batch.first_offset:
            yield batch._replace(last_offset=after.first_offset - 1)
        yield after
        if after.last_offset < batch.last_offset:
            yield batch._replace(first_offset=after.last_offset + 1)

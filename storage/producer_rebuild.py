"""Rebuild the producers of a log: from the newest good snapshot, then from the log behind it.

Job: `rebuild_producer_state` for a log that is loaded, and the same in pieces for one that is cut
while others want their turn: `producer_rebuild`.
Invariants: a snapshot above the end, or below the log start, is gone afterwards; the state is of no
use before the last piece, and the files may not change until then.

Mirrors: UnifiedLog.rebuildProducerState, loadProducersFromRecords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .batch_scan import scan_batches
from .producer_snapshot import SnapshotStore
from .producer_state import ProducerState
from .segment import Segment
from .segments import Segments

# Batches that are read again in one piece; a tenth of a millisecond.
BATCHES_AT_ONCE = 30

Report = Callable[[str], None]


def rebuild_producer_state(
    state: ProducerState,
    snapshots: SnapshotStore,
    segments: Segments,
    log_start_offset: int,
    last_offset: int,
    *,
    reload_from_clean_shutdown: bool = False,
    report: Report | None = None,
) -> None:
    """Bring `state` to `last_offset`: newest snapshot at or below it, then read the log on."""
    if not snapshots.offsets and reload_from_clean_shutdown:
        for offset in sorted({*segments.base_offsets[-2:], last_offset}):
            state.map_end_offset = offset
            snapshots.take_soon(state)
        return
    for _ in producer_rebuild(state, snapshots, segments, log_start_offset, last_offset, report):
        pass


def producer_rebuild(
    state: ProducerState,
    snapshots: SnapshotStore,
    segments: Segments,
    log_start_offset: int,
    last_offset: int,
    report: Report | None = None,
) -> Iterator[None]:
    """Like `rebuild_producer_state` after an unclean stop, in pieces."""
    wanted = {*segments.base_offsets[-2:], last_offset}
    snapshots.delete_outside(log_start_offset, last_offset)
    yield
    problem = yield from snapshots.load_newest(state, log_start_offset)
    if problem is not None and report is not None:
        report(f"dropped producer snapshots: {problem}")
    for segment in segments.covering(state.map_end_offset, last_offset):
        start = max(segment.base_offset, state.map_end_offset, log_start_offset)
        state.map_end_offset = start
        if segment.base_offset in wanted:
            snapshots.take_soon(state)
        yield from _replay(state, segment, start, last_offset)
    state.map_end_offset = last_offset
    snapshots.take_soon(state)


def _replay(state: ProducerState, segment: Segment, start: int, last_offset: int) -> Iterator[None]:
    """Apply the batches of [start, last_offset) of one segment."""
    position = segment.position_of(start)
    if position is None:
        return
    batches = scan_batches(segment.log_file, position, segment.size)
    for number, (_, header, batch) in enumerate(batches, 1):
        if header.base_offset >= last_offset:
            return
        if header.producer_id >= 0 and header.last_offset >= start:
            state.apply(header, header.base_offset, batch, header.max_timestamp)
        state.map_end_offset = header.next_offset
        if number % BATCHES_AT_ONCE == 0:
            yield

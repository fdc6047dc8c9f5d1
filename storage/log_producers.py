"""The producers of one log: their state, its rebuild after a truncation, and their snapshots.

`known` is the state in memory. A log that is cut needs an earlier one, which is built from the
newest good snapshot and the batches behind it, in pieces of a fraction of a millisecond. Meanwhile,
`known` is still the state before the cut: it includes truncated batches, and lacks no transaction
of the log. After the last piece the new state takes its place, and the old one is freed, in pieces
too. To restart a log empty needs no rebuild, and frees the old state likewise. A log that restarts
behind the remote tier loads the tier's snapshot as a rebuild, in pieces; the transactions that are
open in it are known at once, for readers of committed records.

An append of a leader waits for a few pieces, and is refused while more are missing
(`RebuildUnderWay`): clients retry, and others are served meanwhile.

A rebuild that lacks file descriptors begins anew with its next piece. One that meets damaged
batches has failed: each further call raises that error, and `known` stays as it is, until the log
is cut again.

Invariants: `known` has all batches below its `map_end_offset`, which is the log end after each
append and after a rebuild; nothing is appended, and no segment goes, while there is a rebuild: the
log finishes it first. A snapshot is never newer than the log end.

Mirrors: the part of UnifiedLog that holds a ProducerStateManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ..protocol import invariants
from ..protocol.errors import ErrorCode, KafkaError
from .files import is_out_of_descriptors
from .local_log import LocalLog
from .producer_entry import FrozenProducers
from .producer_rebuild import producer_rebuild
from .producer_snapshot import CorruptSnapshot, SnapshotStore, with_open_transactions
from .producer_state import ProducerState

logger: Final = logging.getLogger("pybroker.storage.log_producers")

# Pieces of one rebuild for which appends wait; three milliseconds.
PIECES_FOR_APPENDS: Final = 10


class RebuildUnderWay(KafkaError):
    """The producers are not known yet: every client retries this error, at the same leader."""

    def __init__(self, name: str) -> None:
        super().__init__(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"The producers of {name} are being read from the log again after a truncation",
        )


class LogProducers:
    __slots__ = (
        "_awaited_pieces",
        "_build",
        "_failure",
        "_local",
        "_rebuild",
        "_replaced",
        "known",
        "snapshots",
    )

    def __init__(self, local: LocalLog, state: ProducerState, snapshots: SnapshotStore) -> None:
        self._local = local
        self.known = state
        self.snapshots = snapshots
        # The rebuild under way; what begins it anew; why it cannot go on.
        self._rebuild: Iterator[ProducerState | None] | None = None
        self._build: Callable[[], Iterator[ProducerState | None]] = partial(self._built, 0, 0)
        self._failure: KafkaError | None = None
        # Pieces of it that were done while an append waited.
        self._awaited_pieces = 0
        # The state before a rebuild or a restart, until it is freed.
        self._replaced: ProducerState | None = None

    @property
    def is_being_rebuilt(self) -> bool:
        return self._rebuild is not None

    @property
    def has_failed(self) -> bool:
        """Whether the rebuild cannot be completed."""
        return self._failure is not None

    # Segments

    def begin_segment(self, base_offset: int) -> None:
        """A segment begins with a snapshot, which is written at once or soon."""
        self.known.map_end_offset = base_offset
        self.snapshots.take_soon(self.known)

    def move_log_start(self, offset: int) -> None:
        self.known.log_start_offset_updated(offset)
        self.snapshots.refresh_last(offset)

    def replaced_segment(self, base_offset: int) -> None:
        """A segment was merged into the one before it: no snapshot begins there."""
        if base_offset in self.snapshots.offsets:
            self.snapshots.delete(base_offset)

    # After a truncation

    def truncate_to(self, end_offset: int, log_start_offset: int) -> None:
        """Begin the rebuild for a log that ends at `end_offset` now; snapshots above it are gone
        when this returns."""
        self._begin(partial(self._built, log_start_offset, end_offset))
        self.rebuild_some(log_start_offset, log_start_offset)

    def restart_at(self, offset: int) -> None:
        """The log is empty, and begins at `offset`."""
        self.snapshots.delete_all()
        earlier, self.known = self.known, self.known.successor()
        self._replaced = earlier
        self.known.clear(offset)
        self.snapshots.take(self.known)

    def restore(self, offset: int, snapshot: bytes) -> None:
        """The log is empty and begins at `offset`, where its producers were as in a snapshot. Begin
        to load it: until then, `known` has the producers with open transactions alone."""
        try:
            open_entries = with_open_transactions(snapshot)
        except CorruptSnapshot as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        self.snapshots.put(offset, snapshot)
        self.known.load(open_entries, offset)
        self._begin(partial(self._loaded, offset))
        self.rebuild_some(offset, offset)

    def _begin(self, build: Callable[[], Iterator[ProducerState | None]]) -> None:
        self._build = build
        self._rebuild, self._failure, self._awaited_pieces = build(), None, 0

    def rebuild_some(self, log_start_offset: int, high_watermark: int) -> bool:
        """Do a piece of the rebuild; whether everything is done. The offsets are the log's present
        ones."""
        rebuild, replaced = self._rebuild, self._replaced
        if rebuild is not None:
            if self._failure is not None:
                raise KafkaError(self._failure.code, self._failure.message)
            try:
                built = next(rebuild)
            except OSError as error:
                self._rebuild = self._build()
                self._local.fail("truncating", error)
            except KafkaError as error:
                logger.error("The producers of %s are lost: %s", self._local.name, error.message)
                self._failure = error
                raise
            if built is not None:
                self._replace(built, log_start_offset, high_watermark)
        elif replaced is not None and replaced.release_some():
            self._replaced = None
        return self._rebuild is None and self._replaced is None

    def _built(self, log_start_offset: int, end_offset: int) -> Iterator[ProducerState | None]:
        """Yields None after each piece, and last the state of a log that was cut."""
        earlier = self.known
        state = earlier.successor()
        segments = self._local.segments
        for _ in producer_rebuild(state, self.snapshots, segments, log_start_offset, end_offset):
            yield None
        for _ in state.recall(earlier):
            yield None
        yield state

    def _loaded(self, offset: int) -> Iterator[ProducerState | None]:
        """Yields None after each piece, and last the state of the snapshot at `offset`, where the
        empty log begins. The state before the restart is freed first."""
        while self._replaced is not None:
            if self._replaced.release_some():
                self._replaced = None
            yield None
        state = self.known.successor()
        problem = yield from self.snapshots.load_newest(state, offset)
        if problem is not None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, problem)
        yield state

    def _replace(self, built: ProducerState, log_start_offset: int, high_watermark: int) -> None:
        self._replaced, self.known, self._rebuild = self.known, built, None
        built.log_start_offset_updated(log_start_offset)
        # Of the transactions just read again, most are replicated.
        built.transactions.high_watermark_updated(high_watermark)
        if invariants.THOROUGH:
            built.check_all(self._local.name)

    def rebuild_for_append(self, log_start_offset: int, high_watermark: int) -> None:
        """Complete a short rebuild; RebuildUnderWay if it takes longer."""
        while self._rebuild is not None:
            if self._awaited_pieces >= PIECES_FOR_APPENDS and self._failure is None:
                raise RebuildUnderWay(self._local.name)
            self._awaited_pieces += 1
            self.rebuild_some(log_start_offset, high_watermark)

    def stop_rebuild(self) -> None:
        """The files change again, or are released."""
        self._rebuild = self._failure = None

    def give_away(self) -> list[ProducerState]:
        """The states of a log that is deleted, for the caller to free in pieces."""
        self.stop_rebuild()
        states = [self.known] if self._replaced is None else [self.known, self._replaced]
        self.known, self._replaced = self.known.successor(), None
        return states

    # Snapshots of many producers, see `SnapshotStore`

    def write_snapshot(self, frozen: FrozenProducers) -> None:
        """Blocks, in any thread; an OSError if there is no descriptor for it."""
        try:
            self.snapshots.write(frozen)
        except OSError as error:
            if is_out_of_descriptors(error):
                raise
            if not self._local.is_closed:  # deleted meanwhile
                self._local.health.fail(error)

    def finish_snapshot(self, frozen: FrozenProducers) -> None:
        local = self._local
        if local.is_closed or local.health.error is not None:
            frozen.end()
            return
        try:
            self.snapshots.finish(frozen)
        except OSError as error:
            local.health.fail(error)

    def close(self) -> bool:
        """Have a snapshot of the log end on disk; whether its name may not be there yet. Blocks."""
        snapshots = self.snapshots
        if self._rebuild is None and self.known.map_end_offset > snapshots.last_snapshot_offset:
            snapshots.take(self.known)
        if not snapshots.is_newest_unsynced:
            return False
        snapshots.sync(snapshots.last_snapshot_offset)
        return True

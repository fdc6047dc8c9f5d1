"""The leader epochs of one log: which epoch began at which offset.

Invariants: epochs and start offsets both grow along the list. Every change is written to
`leader-epoch-checkpoint` at once. It is also forced to disk at once if it replaces a file that was
forced. Until a log's first flush no file was: recovery would read all epochs from the batches, and
creating a partition need not wait for a disk.

Mirrors: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache (KIP-101, KIP-279).
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..protocol import invariants
from ..protocol.invariants import BrokenInvariant
from . import checkpoints
from .files import Files

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class LeaderEpochCache:
    __slots__ = (
        "_dirty",
        "_entries",
        "_files",
        "_path",
        "_unsynced",
        "_was_synced",
        "latest_epoch",
        "latest_start_offset",
    )

    def __init__(self, files: Files, directory: str, *, anew: bool = False) -> None:
        """Read the file; with `anew` start empty: the next flush replaces the file."""
        self._files = files
        self._path = os.path.join(directory, checkpoints.LEADER_EPOCH_FILE)
        self._entries: list[tuple[int, int]] = []
        if not anew:
            for epoch, start in checkpoints.read_epochs(files, self._path):
                self._insert(epoch, start)
        self._dirty = anew
        self._unsynced = self._was_synced = bool(self._entries)
        self._update_latest()

    def moved_to(self, directory: str) -> None:
        self._path = os.path.join(directory, checkpoints.LEADER_EPOCH_FILE)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(self._entries)

    def assign(self, epoch: int, start_offset: int, *, flush: bool = True) -> None:
        """Note that `epoch` begins at `start_offset`; a no-op if it is the newest epoch already."""
        if epoch == self.latest_epoch and start_offset >= self.latest_start_offset:
            return
        if epoch < 0 or start_offset < 0:
            return
        self._insert(epoch, start_offset)
        self._changed(flush)

    def _insert(self, epoch: int, start_offset: int) -> None:
        entries = self._entries
        while entries and (entries[-1][0] >= epoch or entries[-1][1] >= start_offset):
            entries.pop()
        entries.append((epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch` and where it ends; (-1, -1) if unknown."""
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        index = bisect_right(self._entries, epoch, key=_epoch_of)
        if index == len(self._entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        end_offset = self._entries[index][1]
        if index == 0:
            return epoch, end_offset
        return self._entries[index - 1][0], end_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch in which `offset` was written."""
        index = bisect_right(self._entries, offset, key=_start_of)
        return self._entries[index - 1][0] if index else None

    def truncate_from_end(self, end_offset: int, *, flush: bool = True) -> None:
        """Forget epochs that begin at or after `end_offset`."""
        if self._entries and self._entries[-1][1] >= end_offset >= 0:
            while self._entries and self._entries[-1][1] >= end_offset:
                self._entries.pop()
            self._changed(flush)

    def truncate_from_start(self, start_offset: int, *, flush: bool = True) -> None:
        """Forget epochs below `start_offset`; the one that covers it now begins there."""
        index = bisect_right(self._entries, start_offset, key=_start_of)
        if index == 0 or self._entries[0][1] == start_offset:
            return
        covering = (self._entries[index - 1][0], start_offset)
        self._entries[:index] = [covering]
        self._changed(flush)

    def prepend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Put earlier epochs, ascending, before those that are known (not flushed). The epochs were
        read from batches: where starts do not grow with epochs, the later epoch counts."""
        if entries:
            later = [entry for entry in self._entries if entry[0] > entries[-1][0]]
            self._entries.clear()
            for epoch, start in (*entries, *later):
                self._insert(epoch, start)
            self._changed(False)

    def restore(self, entries: Sequence[tuple[int, int]]) -> None:
        """Take these epochs, ascending, instead of all that are known."""
        if not entries and not self._entries:
            return
        self._entries.clear()
        for epoch, start in entries:
            self._insert(epoch, start)
        self._changed(True)

    def clear(self, *, flush: bool = True) -> None:
        if self._entries:
            self._entries.clear()
            self._changed(flush)

    def flush(self) -> None:
        """Write the changes that `flush=False` left unwritten."""
        if self._dirty:
            sync = self._was_synced
            checkpoints.write_epochs(self._files, self._path, self._entries, sync=sync)
            self._dirty = False
            self._unsynced = not sync

    def sync(self) -> bool:
        """Force the file to disk; False if it is there already. Blocks; any thread may call."""
        self._was_synced = True
        if not self._unsynced:
            return False
        self._unsynced = False
        try:
            self._files.open(self._path).sync()
        except OSError:
            self._unsynced = True
            raise
        return True

    def sync_from_now_on(self) -> None:
        """The log was flushed before: recovery will not read all epochs from the batches."""
        self._was_synced = True

    def _changed(self, flush: bool) -> None:
        self._dirty = True
        self._update_latest()
        if invariants.THOROUGH:
            self._check()
        if flush:
            self.flush()

    def _check(self) -> None:
        """Thorough: epochs and start offsets grow."""
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(self._entries)):
            raise BrokenInvariant(f"{self._path}: epochs and their starts grow: {self._entries}")

    def _update_latest(self) -> None:
        last = self._entries[-1] if self._entries else (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        self.latest_epoch, self.latest_start_offset = last


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _start_of(entry: tuple[int, int]) -> int:
    return entry[1]

"""The leader epochs of one log: which epoch began at which offset.

Invariants: epochs and start offsets both grow along the list. `sync` alone writes
`leader-epoch-checkpoint`, in a worker thread: no election and no append waits for a disk. It has
written all changes before two numbers get to disk that rely on them: the recovery point, below
which no batches are read again, and the log start; and before segments go whose records are then in
the remote tier only (`storage.retention`).

So a power cut loses only epochs that recovery finds in the batches from the recovery point on, and
those without a record: the epoch in which the replica leads or follows next says the same of them.

A list of entries never changes: a worker takes it while the loop replaces it.

Mirrors: org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache (KIP-101, KIP-279), which
forces a new epoch to disk in the request's thread and a truncation in another one (KAFKA-15046).
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
        "_ahead",
        "_entries",
        "_files",
        "_is_awaited",
        "_is_relied_on",
        "_is_unsynced",
        "_path",
        "_written",
        "latest_epoch",
        "latest_start_offset",
    )

    def __init__(self, files: Files, directory: str, *, anew: bool = False) -> None:
        """Read the file; with `anew` start empty: the next `sync` replaces the file."""
        self._files = files
        self._path = os.path.join(directory, checkpoints.LEADER_EPOCH_FILE)
        self._entries: list[tuple[int, int]] = []
        if not anew:
            for epoch, start in checkpoints.read_epochs(files, self._path):
                self._insert(epoch, start)
        # The list in the file; None: the file has another one.
        self._written: list[tuple[int, int]] | None = None if anew else self._entries
        # Whether the file of an earlier process may not be on disk.
        self._is_unsynced = bool(self._entries)
        # Whether recovery relies on the file; else it will read all epochs from the batches.
        self._is_relied_on = bool(self._entries)
        self._is_awaited = False  # see `ask_for_sync`
        # The list that a restart of the log will need, see `is_on_disk_ahead`.
        self._ahead: list[tuple[int, int]] | None = None
        self._update_latest()

    def moved_to(self, directory: str) -> None:
        self._path = os.path.join(directory, checkpoints.LEADER_EPOCH_FILE)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(self._entries)

    @property
    def needs_sync(self) -> bool:
        """Whether `sync` is due: a change is not on disk, and recovery may not find it; or someone
        waits for all to be on disk."""
        if self._ahead is not None:
            return self._written is not self._ahead
        if self._is_awaited:
            return not self.is_on_disk
        return self._is_relied_on and self._written is not self._entries

    @property
    def is_on_disk(self) -> bool:
        return self._written is self._entries and not self._is_unsynced

    def ask_for_sync(self) -> None:
        """Have the next flush force all to disk, also what recovery would find in the batches."""
        self._is_awaited = True

    def is_on_disk_ahead(self, entries: Sequence[tuple[int, int]]) -> bool:
        """Whether these epochs, ascending, are on disk before the log has them: the log is empty,
        and `restore` is to follow. If they are not, the next flush forces them there; any other
        change has a later flush write what is known by then."""
        if self._ahead != list(entries):
            self._ahead = list(entries)
        return self._written is self._ahead and not self._is_unsynced

    @property
    def checkpointed_start_offset(self) -> int:
        """The start of the first epoch in the file, UNDEFINED_OFFSET if there is none."""
        return self._written[0][1] if self._written else UNDEFINED_OFFSET

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` begins at `start_offset`; a no-op if it is the newest epoch already."""
        if epoch == self.latest_epoch and start_offset >= self.latest_start_offset:
            return
        if epoch < 0 or start_offset < 0:
            return
        self._insert(epoch, start_offset)
        self._changed()

    def _insert(self, epoch: int, start_offset: int) -> None:
        known = self._entries
        kept = len(known)
        while kept and (known[kept - 1][0] >= epoch or known[kept - 1][1] >= start_offset):
            kept -= 1
        self._entries = [*known[:kept], (epoch, start_offset)]

    def confirm(self, epoch: int, first_offset: int, last_offset: int) -> None:
        """Drop what contradicts a batch of `epoch` (-1: it has none), and note its epoch.

        Recovery calls it: the file may have been written before a truncation and the appends after
        it.
        """
        known = self._entries
        index = bisect_right(known, first_offset, key=_start_of)
        following = bisect_right(known, last_offset, key=_start_of)
        if index and index == following and known[index - 1][0] == epoch:
            return
        earlier = [entry for entry in known[:index] if entry[0] <= epoch]
        later = [entry for entry in known[following:] if entry[0] > epoch]
        if epoch >= 0 and (not earlier or earlier[-1][0] < epoch):
            if earlier and earlier[-1][1] == first_offset:
                earlier.pop()
            earlier.append((epoch, first_offset))
        if earlier + later != known:
            self._entries = earlier + later
            self._changed()

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch <= `epoch` and where it ends; `epoch` itself and where the first
        one begins if all known ones are newer; (-1, -1) if unknown."""
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

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after `end_offset`."""
        if self._entries and self._entries[-1][1] >= end_offset >= 0:
            self._entries = [entry for entry in self._entries if entry[1] < end_offset]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs below `start_offset`; the one that covers it now begins there. The file
        must confirm the log start before a checkpoint shows it: `sync` is due."""
        kept = from_start(self._entries, start_offset)
        if kept == self._entries:
            return
        self._entries = kept
        self._is_relied_on = True
        self._changed()

    def prepend(self, entries: Sequence[tuple[int, int]]) -> None:
        """Put earlier epochs, ascending, before those that are known. The epochs were read
        from batches: where starts do not grow with epochs, the later epoch counts."""
        if entries:
            later = [entry for entry in self._entries if entry[0] > entries[-1][0]]
            self._entries = []
            for epoch, start in (*entries, *later):
                self._insert(epoch, start)
            self._changed()

    def restore(self, entries: Sequence[tuple[int, int]]) -> None:
        """Take these epochs, ascending, instead of all that are known."""
        if not entries and not self._entries:
            self._ahead = None
            return
        ahead = self._ahead
        self._entries = []
        for epoch, start in entries:
            self._insert(epoch, start)
        if self._entries == ahead:
            self._entries = ahead
        self._changed()

    def clear(self) -> None:
        if self._entries:
            self._entries = []
            self._changed()

    def sync(self) -> bool:
        """Force all changes to disk; whether the directory must be forced, too. Blocks; any thread
        may call, one at a time."""
        self._is_relied_on = True
        self._is_awaited = False
        ahead = self._ahead
        entries = self._entries if ahead is None else ahead
        if self._written is not entries:
            checkpoints.write_epochs(self._files, self._path, entries)
            self._written = entries
        elif self._is_unsynced:
            self._files.open(self._path).sync()
        else:
            return False
        needed, self._is_unsynced = self._is_unsynced, False
        return needed

    def sync_from_now_on(self) -> None:
        """The log was flushed before: recovery will not read all epochs from the batches."""
        self._is_relied_on = True

    def _changed(self) -> None:
        self._ahead = None
        self._update_latest()
        if invariants.THOROUGH:
            self._check()

    def _check(self) -> None:
        """Thorough: epochs and start offsets grow."""
        if any(a[0] >= b[0] or a[1] >= b[1] for a, b in pairwise(self._entries)):
            raise BrokenInvariant(f"{self._path}: epochs and their starts grow: {self._entries}")

    def _update_latest(self) -> None:
        last = self._entries[-1] if self._entries else (UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        self.latest_epoch, self.latest_start_offset = last


def from_start(entries: Sequence[tuple[int, int]], start_offset: int) -> list[tuple[int, int]]:
    """The epochs of a log that begins at `start_offset`, where the one that covers it begins."""
    index = bisect_right(entries, start_offset, key=_start_of)
    if index == 0:
        return list(entries)
    return [(entries[index - 1][0], start_offset), *entries[index:]]


def _epoch_of(entry: tuple[int, int]) -> int:
    return entry[0]


def _start_of(entry: tuple[int, int]) -> int:
    return entry[1]

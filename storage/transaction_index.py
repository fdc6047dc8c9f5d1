"""The index of aborted transactions of a segment: 34-byte entries, made on first use.

Invariant: entries are in the order of their last offset (the abort marker's). A read_committed
fetch takes from it the aborted transactions that the consumer must drop.

Mirrors: TransactionIndex, AbortedTxn (KIP-98).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ..protocol.invariants import BrokenInvariant
from .files import DataFile, Files
from .kept_open import dispose

_ENTRY = Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_entries", "_file", "_files", "_is_unsynced", "is_listed", "path", "was_used")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self._file: DataFile | None = None
        self._entries: list[AbortedTransaction] | None = None
        self._is_unsynced = False
        self.is_listed = False  # these two are of `storage.kept_open`
        self.was_used = False

    def _open(self, *, create: bool = False) -> DataFile:
        """The file; open from now on if it may be kept so."""
        file = self._file
        if file is None:
            file = self._files.open(self.path, create=create)
            if self._files.keep_open(self, file):
                self._set_file(file)
        self.was_used = True
        return file

    def _set_file(self, file: DataFile | None) -> None:
        before, self._file = self._file, file
        dispose(before)

    def release_file(self) -> None:
        self._set_file(None)

    @property
    def entries(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = []
            if self._files.exists(self.path):
                data = self._files.read(self.path)
                whole = len(data) - len(data) % _ENTRY.size
                self._entries = [
                    AbortedTransaction(*fields[1:])
                    for fields in _ENTRY.iter_unpack(memoryview(data)[:whole])
                ]
        return self._entries

    def append(self, entry: AbortedTransaction) -> None:
        entries = self.entries
        if entries and entries[-1].last_offset >= entry.last_offset:
            raise BrokenInvariant(f"{self.path}: {entry} is to follow {entries[-1]}")
        file = self._open(create=True)
        self._is_unsynced = True
        file.write_at(_ENTRY.pack(_VERSION, *entry), len(entries) * _ENTRY.size)
        entries.append(entry)

    def collect(
        self, fetch_offset: int, upper_bound_offset: int
    ) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap a range, and whether none can follow."""
        found: list[AbortedTransaction] = []
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop entries whose marker is at or above `offset`."""
        entries = self.entries
        keep = len(entries)
        while keep and entries[keep - 1].last_offset >= offset:
            keep -= 1
        if keep == len(entries):
            return
        del entries[keep:]
        self._is_unsynced = True
        self._open().truncate(keep * _ENTRY.size)

    def reset(self) -> None:
        self._entries = []
        if self._files.exists(self.path):
            self._is_unsynced = True
            self._open().truncate(0)

    def is_sane(self, base_offset: int) -> bool:
        if not self._files.exists(self.path):
            return True
        if self._files.size(self.path) % _ENTRY.size:
            return False
        data = self._files.read(self.path)
        if any(fields[0] != _VERSION for fields in _ENTRY.iter_unpack(data)):
            return False
        return all(entry.last_offset >= base_offset for entry in self.entries)

    def sync(self) -> None:
        """Force it to disk, including entries written before the file was released. Blocks."""
        if not self._is_unsynced:
            return
        self._is_unsynced = False
        try:
            self._open().sync()
        except OSError:
            self._is_unsynced = True
            raise

    def release(self) -> None:
        self._set_file(None)

    def remove(self) -> None:
        self._set_file(None)
        self._files.remove(self.path)

"""Bound the number of files that are kept open for later use.

Job: the owner of such a file registers it when it is opened; above a limit, a file that was not
used lately is closed, and opened again when it is needed. So the indexes of all logs, and the data
files of all inactive segments, together take at most a share of this process's descriptors, and a
log takes one, however many segments it has.
Invariants: a file may be released while a thread reads it or while it is being sent to a client,
since it is closed with its last reference (`storage.files`). Released files count until they are
closed: when they alone reach the limit, `add` refuses, and the caller uses its file at once and
does not keep it. Callable from any thread; each step is one operation of a deque or a set.

The order is that of a clock (second chance): a use sets a flag, which costs nothing, and the hand
clears the flag of a file and passes it once.

Mirrors nothing of Kafka, which maps its indexes and keeps the file of each segment open.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import ref


class KeptFile(Protocol):
    is_listed: bool  # whether `KeptOpen` has it in its list; set only there
    was_used: bool  # since the hand came by

    def release_file(self) -> None:
        """Close the file; it is opened again when it is needed. Callable from any thread."""


def dispose(held: object) -> None:
    """Drop the last reference to a file or a mapping that a field had until now.

    To close one lets other threads run. Compiled code drops the old value of a field before it
    assigns the new one, so these threads would find a closed file in the field. So each owner
    takes the old value, assigns, and passes the old value here.
    """


class KeptOpen:
    def __init__(self, most: int) -> None:
        self._most = most
        self._files: deque[KeptFile] = deque()
        self._open: set[ref[object]] = set()  # open, kept or not

    def __len__(self) -> int:
        """The number of open files."""
        return len(self._open)

    def add(self, kept: KeptFile, file: object) -> bool:
        """`file` was opened just now, and is closed when it is collected.

        False: it must not be kept, all that may be open are in use.
        """
        opened, most = self._open, self._most
        opened.add(ref(file, opened.discard))
        while (len(opened) > most or len(self._files) > most) and self._close_one():
            pass
        if len(opened) > most:
            return False
        kept.was_used = True
        if not kept.is_listed:
            kept.is_listed = True
            self._files.append(kept)
        return True

    def _close_one(self) -> bool:
        for _ in range(2 * len(self._files)):
            try:
                kept = self._files.popleft()
            except IndexError:
                break
            if not kept.was_used:
                _let_go(kept)
                return True
            kept.was_used = False
            self._files.append(kept)
        return False

    def close_all(self) -> bool:
        """Release all files, for want of descriptors. False if there was none."""
        found = False
        while self._files:
            try:
                _let_go(self._files.popleft())
            except IndexError:
                break
            found = True
        return found


def _let_go(kept: KeptFile) -> None:
    kept.is_listed = False
    kept.release_file()

"""How many files are kept open only to be found open again.

Job: whoever opens such a file says so; from a number on, one that was not used lately is closed,
and opened anew when it is needed. So the indexes of all logs, and the data files of all segments
that are not written to any more, together take no more than a share of this process's descriptors,
and a log takes one, however many segments it has.
Invariants: to let go of a file that a thread reads, or that is being sent to a client, is harmless,
since it is closed with its last reference (`storage.files`). Those that are let go of and not
closed yet count, too: when they are all that may be open, `add` refuses, and the one who asked uses
its file at once and keeps nothing. From any thread; each step is one operation of a deque or a set.

The order is that of a clock (second chance): a use sets a flag, which costs nothing, and the hand
passes over whoever has it set.

Mirrors nothing of Kafka, which maps its indexes and keeps the file of each segment open.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol
from weakref import ref


class KeptFile(Protocol):
    is_listed: bool  # whether `KeptOpen` has it in its list; nobody else sets this
    was_used: bool  # since the hand came by

    def let_go(self) -> None:
        """Close the file; it is opened again when it is needed. From any thread."""


class KeptOpen:
    def __init__(self, most: int) -> None:
        self._most = most
        self._files: deque[KeptFile] = deque()
        self._open: set[ref[object]] = set()  # in use by somebody, kept or not

    def __len__(self) -> int:
        """How many files are open."""
        return len(self._open)

    def add(self, kept: KeptFile, file: object) -> bool:
        """`file` was opened just now, and is closed when it is collected.

        False: it must not be kept, all that may be open are in use.
        """
        opened, most = self._open, self._most
        opened.add(ref(file, opened.discard))
        while (len(opened) > most or len(self._files) > most) and self._let_go_of_one():
            pass
        if len(opened) > most:
            return False
        kept.was_used = True
        if not kept.is_listed:
            kept.is_listed = True
            self._files.append(kept)
        return True

    def _let_go_of_one(self) -> bool:
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

    def let_go_of_all(self) -> bool:
        """There are too few descriptors. False if there was nothing to let go of."""
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
    kept.let_go()

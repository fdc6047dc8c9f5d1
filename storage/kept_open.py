"""How many files are kept open only to be found open again.

Job: whoever opens such a file says so; from a number on, what was opened first is closed and opened
anew when it is needed. So the indexes of all logs together take no more than a share of this
process's descriptors, and a log takes one.
Invariants: to let go of a file that a thread reads is harmless, since it is closed with its last
reference (`storage.files`); what has been let go of already may be told so again.

Mirrors nothing of Kafka, which maps its indexes and needs no descriptors for that.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class KeptFile(Protocol):
    def let_go(self) -> None:
        """Close the file; it is opened again when it is needed. From any thread."""


class KeptOpen:
    def __init__(self, most: int) -> None:
        self._most = most
        self._files: deque[KeptFile] = deque()  # in the order in which they were opened

    def add(self, file: KeptFile) -> None:
        """It has just been opened, and stays so for a while."""
        self._files.append(file)
        if len(self._files) > self._most:
            self._files.popleft().let_go()

    def let_go_of_all(self) -> bool:
        """There are too few descriptors. False if there was nothing to let go of."""
        found = False
        while self._files:
            self._files.popleft().let_go()
            found = True
        return found

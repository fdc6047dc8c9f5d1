"""The rows of a topic that wait for the next commit of its table; pure.

    intake = Intake(offsets of the table, target lag)
    begin = intake.accept(partition, first, next, size, now_ms)    # of each fetched batch
    if intake.is_due(now_ms): commit(rows, intake.offsets); intake.committed()

Invariants: the offsets of a partition never fall; `accept` refuses records twice: rows below the
partition's offset are cut off. A commit has the offsets of all partitions, also of those without
rows in it. The oldest waiting row waits for at most the target lag, or MAX_WAITING_BYTES are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_WAITING_BYTES: Final = 64 * 1024 * 1024


class Intake:
    __slots__ = ("_size", "_target_lag_ms", "_waits_since_ms", "offsets")

    def __init__(self, offsets: Mapping[int, int], target_lag_ms: int) -> None:
        self.offsets = dict(offsets)  # by partition: of the next record to accept
        self._target_lag_ms = target_lag_ms
        self._waits_since_ms: int | None = None  # None: nothing waits
        self._size = 0

    def accept(
        self, partition: int, first_offset: int, next_offset: int, size: int, now_ms: int
    ) -> int:
        """Records from `first_offset` on, up to before `next_offset`, are here; those to use begin
        at the returned offset, which is `next_offset` if there is none of them."""
        assert first_offset <= next_offset, (partition, first_offset, next_offset)
        begin = max(first_offset, self.offsets.get(partition, 0))
        if begin >= next_offset:
            return next_offset
        self.offsets[partition] = next_offset
        self._size += size
        if self._waits_since_ms is None:
            self._waits_since_ms = now_ms
        return begin

    def is_due(self, now_ms: int) -> bool:
        return self.wait_ms(now_ms) == 0

    def wait_ms(self, now_ms: int) -> int | None:
        """Until a commit is due; None if nothing waits."""
        if self._waits_since_ms is None:
            return None
        if self._size >= MAX_WAITING_BYTES:
            return 0
        return max(0, self._waits_since_ms + self._target_lag_ms - now_ms)

    def committed(self) -> None:
        """All that waited is in the table."""
        self._waits_since_ms = None
        self._size = 0

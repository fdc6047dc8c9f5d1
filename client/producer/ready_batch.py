"""A batch in a broker's format, from another cluster: its records stay packed.

Invariants: only the producer's fields (id, epoch, sequence, transactional or not) and the CRC over
them are changed; it is unpacked only if a broker finds it too large, or is too old for record
batches. Its offsets have no gaps: a leader would refuse it.
"""

from __future__ import annotations

from typing import Final

from ...protocol.records.batch import iter_records, update_crc
from ...protocol.records.compression import Compression
from ...protocol.records.record import NO_SEQUENCE
from .batch import Batch, Fields

_PACKED: Final[Fields] = (0, None, None, ())


class ReadyBatch(Batch):
    """`data` belongs to the batch from now on; its producer fields and CRC need not be valid."""

    __slots__ = ()

    def __init__(
        self, topic: str, partition: int, created_ms: int, data: bytearray, count: int
    ) -> None:
        super().__init__(topic, partition, created_ms)
        self.data = data
        self.size = len(data)
        # Until it is unpacked only their number is used.
        self.records = [_PACKED] * count

    def build(
        self, compression: Compression, level: int | None, *, is_transactional: bool
    ) -> bytearray:
        """The batch's bytes; whether it is transactional is set in `data` already."""
        if self.data is not None and self.sequence == NO_SEQUENCE:
            update_crc(self.data, 0)  # no identity was assigned
        return super().build(compression, level, is_transactional=is_transactional)

    def build_old(self, compression: Compression, level: int | None) -> bytearray:
        self._unpack()
        return super().build_old(compression, level)

    def split(self) -> list[Batch]:
        self._unpack()
        return super().split()

    def _unpack(self) -> None:
        if self.data is not None:
            self.records = [
                (record.timestamp, record.key, record.value, record.headers)
                for record in iter_records(self.data)
            ]

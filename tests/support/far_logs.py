"""Logs that would take hours to fill: a segment of 2 GB, offsets beyond 2^31 and 2^40.

They are written by the real log. Of each large batch, which is one record of zeros, only the
beginning is written; the rest is a hole in the file, which reads as zeros and takes no space.
"""

from __future__ import annotations

import os

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.protocol.records.batch import SimpleRecord
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.storage.files import DataFile, Files
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader

MB = 1 << 20
LARGEST_SEGMENT = 2**31 - 1
WRITTEN = 4096
BEGIN_MS = 1_600_000_000_000


class SparseFile(DataFile):
    __slots__ = ()

    def write_at(self, data: Buffer, position: int) -> None:
        if len(data) < MB:
            super().write_at(data, position)
            return
        super().write_at(memoryview(data)[:WRITTEN], position)
        os.ftruncate(self.fileno(), position + len(data))


class SparseFiles(Files):
    def open(self, path: str, *, create: bool = False) -> DataFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return SparseFile(os.open(path, flags, 0o644), path)


def large_batch(number: int, size: int = MB) -> bytearray:
    """One record of zeros whose timestamp is BEGIN_MS and so many seconds."""
    return build_batch([SimpleRecord(BEGIN_MS + 1000 * number, None, bytes(size))])


def small_batch(number: int, *values: bytes) -> bytearray:
    time_ms = BEGIN_MS + 1000 * number
    return build_batch([SimpleRecord(time_ms, b"key %4d" % number, value) for value in values])


def append(log: Log, batch: bytearray) -> None:
    append_as_leader(log, batch, leader_epoch=0, now_ms=BEGIN_MS)
    log.update_high_watermark(log.log_end_offset)


def append_at(log: Log, batch: bytearray, offset: int) -> None:
    """As a follower, whose leader has nothing between the log end and this offset."""
    batch[:8] = offset.to_bytes(8, "big")
    batch[12:16] = bytes(4)
    log.append_as_follower(bytes(batch), now_ms=BEGIN_MS)
    log.update_high_watermark(log.log_end_offset)


def fill_segment(log: Log) -> int:
    """Append until the first segment is full; the offset of its last batch."""
    number = 0
    batch = large_batch(0)
    while log.segments.active.size + len(batch) <= LARGEST_SEGMENT:
        batch = large_batch(number)
        append(log, batch)
        number += 1
    # What is left to the very last byte.
    left = LARGEST_SEGMENT - log.segments.active.size
    overhead = len(small_batch(number, b"")) + 4
    append(log, small_batch(number, bytes(max(left - overhead, 1))))
    return log.log_end_offset - 1

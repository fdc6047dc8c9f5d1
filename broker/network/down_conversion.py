"""Stored batches for old consumers, converted piece by piece while the response is being sent.

The size of a response is announced before all of it is converted: it is the size of the stored
bytes, or of the first converted batch if that is larger, so that a consumer always makes progress.
Space that the converted batches leave is filled with the head of a message longer than this space,
which consumers take for a truncated message; excess bytes are cut off. At most one stored batch, or
`CHUNK_BYTES` of small ones, is in memory at a time.

The first batch is converted when the object is made, in a worker thread: it may take seconds. The
others are converted by the event loop, as long as each is quick. A slow batch ends the conversion:
the consumer fetches it next, and then it is the first.

Mirrors: LazyDownConversionRecords, LazyDownConversionRecordsSend (KIP-283).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from time import perf_counter
from typing import Final

from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.records.compression import MAX_DECOMPRESSED_BYTES, UnpacksTooLarge
from ...protocol.records.convert import down_convert
from ...protocol.records.layout import HEADER_SIZE, LOG_OVERHEAD
from ...storage.batch_scan import scan_batches
from ...storage.files import FileSlice

CHUNK_BYTES: Final = 64 * 1024
# Nothing is left after the conversion (control batches): still something for the consumer to
# notice, which then asks with more room.
MIN_OVERFLOW_BYTES: Final = LOG_OVERHEAD
# Limits of a quick batch: some tens of milliseconds of work.
QUICK_RECORDS: Final = 2_000
QUICK_UNPACKED_BYTES: Final = 1 << 20

_OVERFLOW_HEAD = Struct(">qi")


class DownConversion:
    """A part of a response that is made while it is sent."""

    __slots__ = ("_batches", "_first", "_left", "_on_taken", "_size", "_start_offset", "_to_magic",
                 "converted_bytes", "converted_count", "seconds")  # fmt: skip

    def __init__(
        self,
        stored: FileSlice,
        to_magic: int,
        start_offset: int,
        on_taken: Callable[[DownConversion], None],
    ) -> None:
        """Converts the first batch; KafkaError if that cannot be.

        `on_taken` is called when the last chunk has been taken, and all has been counted.
        """
        self.converted_count = 0
        self.converted_bytes = 0
        self.seconds = 0.0
        self._to_magic = to_magic
        self._start_offset = start_offset
        self._on_taken = on_taken
        self._batches = scan_batches(stored.file, stored.position, stored.position + stored.size)
        self._first: Buffer = b""
        size = 0
        for _, _, batch in self._batches:
            size = MIN_OVERFLOW_BYTES
            try:
                self._first = self._convert(batch, MAX_DECOMPRESSED_BYTES)
            except UnpacksTooLarge as error:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
            if self._first:
                size = max(len(self._first), stored.size)
                break
        self._size = self._left = size

    def __len__(self) -> int:
        """The announced size, independently of the bytes already taken."""
        return self._size

    @property
    def left(self) -> int:
        """How many of the announced bytes are still to be taken."""
        return self._left

    def next_chunk(self) -> Buffer:
        """The next bytes to send; not to be called when nothing is left."""
        chunk = self._next_converted() or self._overflow()
        if len(chunk) > self._left:
            chunk = memoryview(chunk)[: self._left]
        self._left -= len(chunk)
        if not self._left:
            self._on_taken(self)
        return chunk

    def chunks(self) -> Iterator[Buffer]:
        while self._left:
            yield self.next_chunk()

    def read(self) -> bytes:
        """All chunks in one piece."""
        return b"".join(self.chunks())

    def _next_converted(self) -> Buffer:
        first, self._first = self._first, b""
        if first:
            return first
        out = bytearray()
        try:
            for _, header, batch in self._batches:
                if header.record_count > QUICK_RECORDS:
                    self._batches = iter(())
                    break
                out += self._convert(batch, QUICK_UNPACKED_BYTES)
                if len(out) >= CHUNK_BYTES:
                    break
        except UnpacksTooLarge:
            self._batches = iter(())
        except KafkaError as error:
            # The consumer gets the batches before this one, asks for this one, and then gets the
            # error.
            if error.code is not ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
                raise ConnectionAbortedError(error.message) from error
            self._batches = iter(())
        return out

    def _convert(self, batch: memoryview, max_bytes: int) -> Buffer:
        started_at = perf_counter()
        try:
            converted, count = down_convert(
                batch, self._to_magic, self._start_offset, max_decompressed_bytes=max_bytes
            )
        except UnpacksTooLarge:
            raise
        except ProtocolError as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
        if count:
            self.converted_count += count
            self.converted_bytes += len(converted)
            self.seconds += perf_counter() - started_at
        return converted

    def _overflow(self) -> bytes:
        head = _OVERFLOW_HEAD.pack(-1, max(self._left + 1, HEADER_SIZE))
        return head.ljust(min(self._left, CHUNK_BYTES), b"\0")

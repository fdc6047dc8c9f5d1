"""Walk the batches of a segment file by their headers, without reading the records.

A look-up starts at an index entry and reads on in small chunks until it finds its batch; recovery
and producer state read whole batches through a larger window. For these a truncated batch ends the
walk; in a look-up a truncated batch, like an impossible header, is damage: KafkaError
CORRUPT_MESSAGE.

Mirrors: FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol

from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from ..protocol.records.batch import BatchHeader, read_batch_header
from ..protocol.records.layout import HEADER_SIZE, LENGTH_POSITION, LOG_OVERHEAD
from .files import DataFile

_LENGTH: Final = Struct(">i")
_MIN_MESSAGE_SIZE: Final = 14
_MAGIC_V2: Final = 2
# base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_BATCH_START: Final = Struct(">qiibIhi").unpack_from

LOOK_UP_CHUNK: Final = 4096
SCAN_CHUNK: Final = 1 << 16


class Readable(Protocol):
    """The part of a `DataFile` that a walk needs."""

    path: str

    def read_at(self, size: int, position: int) -> bytes: ...


class LookUp:
    """A file during one look-up, with the last chunk cached: a look-up often reads the same batch
    header, to confirm an index entry, to compare the offset, and for the size."""

    __slots__ = ("_chunk", "_file", "_position", "path")

    def __init__(self, file: DataFile) -> None:
        self.path = file.path
        self._file = file
        self._chunk = b""
        self._position = 0

    def read_at(self, size: int, position: int) -> bytes:
        """Like `DataFile.read_at`, from the chunk read last if that holds the whole range."""
        chunk = self._chunk
        begin = position - self._position
        end = begin + size
        if begin >= 0 and end <= len(chunk):
            return chunk if size == len(chunk) else chunk[begin:end]
        self._position = position
        self._chunk = chunk = self._file.read_at(size, position)
        return chunk


def scan_headers(
    file: Readable, start: int, end: int, chunk_size: int = LOOK_UP_CHUNK
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch in [start, end), where all are complete."""
    position = start
    chunk = b""
    chunk_start = start
    while position + LOG_OVERHEAD <= end:
        relative = position - chunk_start
        if relative < 0 or relative + HEADER_SIZE > len(chunk):
            chunk_start, relative = position, 0
            chunk = file.read_at(min(chunk_size, end - position), position)
            if len(chunk) < LOG_OVERHEAD:
                return
        size = _checked_size(chunk, relative, position, file.path)
        if position + size > end:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"A batch of {size} bytes goes beyond the end of file {file.path} at {position}",
            )
        yield position, _header(chunk, relative, position, file.path)
        position += size


def scan_batches(
    file: Readable, start: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, whole batch) of each complete batch in [start, end)."""
    position = start
    chunk = memoryview(b"")
    chunk_start = start
    while position + LOG_OVERHEAD <= end:
        relative = position - chunk_start
        if relative + HEADER_SIZE > len(chunk):
            chunk_start, relative = position, 0
            chunk = memoryview(file.read_at(min(SCAN_CHUNK, end - position), position))
            if len(chunk) < LOG_OVERHEAD:
                return
        size = _checked_size(chunk, relative, position, file.path)
        if position + size > end:
            return
        if relative + size > len(chunk):
            chunk_start, relative = position, 0
            chunk = memoryview(file.read_at(min(max(size, SCAN_CHUNK), end - position), position))
            if size > len(chunk):
                return
        header = _header(chunk, relative, position, file.path)
        yield position, header, chunk[relative : relative + size]
        position += size


def find_in(chunk: bytes, offset: int, lowest: int, highest: int) -> int:
    """The position in a chunk of the batch that holds `offset`, or of the next batch after it.

    The chunk begins with a batch whose base offset should be from `lowest` to `highest`. Negative
    if it is not, if the chunk is too short to decide, or if a batch is not v2.
    """
    relative = 0
    end = len(chunk) - HEADER_SIZE
    while relative <= end:
        first, length, _, magic, _, _, delta = _BATCH_START(chunk, relative)
        if magic != _MAGIC_V2 or length < HEADER_SIZE - LOG_OVERHEAD:
            return -1
        if not relative and not lowest <= first <= highest:
            return -1
        if first + delta >= offset:
            return relative
        relative += LOG_OVERHEAD + length
    return -1


def batch_size_in(chunk: bytes, relative: int) -> int:
    """The size of the batch that begins there, all of whose header is there."""
    length: int = _LENGTH.unpack_from(chunk, relative + LENGTH_POSITION)[0]
    return length + LOG_OVERHEAD


def batch_size_at(file: Readable, position: int) -> int:
    """The size of the batch at `position` from its length field alone."""
    data = file.read_at(LOG_OVERHEAD, position)
    if len(data) < LOG_OVERHEAD:
        return 0
    return _checked_size(data, 0, position, file.path)


def _checked_size(chunk: bytes | memoryview, relative: int, position: int, path: str) -> int:
    length: int = _LENGTH.unpack_from(chunk, relative + LENGTH_POSITION)[0]
    if length < _MIN_MESSAGE_SIZE:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"Found record size {length} smaller than minimum record overhead "
            f"({_MIN_MESSAGE_SIZE}) in file {path} at position {position}",
        )
    return length + LOG_OVERHEAD


def _header(chunk: bytes | memoryview, relative: int, position: int, path: str) -> BatchHeader:
    try:
        return read_batch_header(chunk, relative)
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{error} in file {path} at position {position}"
        ) from None

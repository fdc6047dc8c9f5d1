"""Compression of record batches: gzip, snappy, lz4, zstd as Kafka frames them.

Mirrors Kafka's ``compress`` package (GzipCompression, SnappyCompression, Lz4BlockInputStream,
Lz4BlockOutputStream, ZstdCompression) and KAFKA-3160 (the lz4 header checksum of v0 messages).

- ``decompress`` raises only ProtocolError and stops before the output exceeds ``max_bytes``: gzip,
  lz4 and zstd are unpacked in slices, a snappy block's declared length is checked before it is
  unpacked. A bomb costs at most ``max_bytes`` and the codec's own window.
- Data that are cut short are damaged; gzip's are InvalidRecord: to Kafka the records end early.
- snappy is written as one xerial stream of 32 KiB blocks; read are xerial streams, several of them
  one after the other, and a bare raw block.
- lz4 frames are written without checksums or content size, in independent 64 KiB blocks. Reading
  ignores a content size and a content checksum and refuses linked blocks, as Kafka does.
- In v0 messages the lz4 header checksum covers the magic too: written so, not checked on reading.
"""

import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Final

import lz4.frame
import snappy
import zstandard

from ..errors import InvalidRecord, ProtocolError
from ..primitives import Buffer

# The default limit of the unpacked size of a batch.
MAX_DECOMPRESSED_BYTES: Final = 128 * 1024 * 1024

GZIP_DEFAULT_LEVEL: Final = -1
LZ4_DEFAULT_LEVEL: Final = 9  # Kafka's default level means "the fast compressor", not level 9
ZSTD_DEFAULT_LEVEL: Final = 3

_SLICE_BYTES: Final = 128 * 1024
_GZIP_WINDOW_BITS: Final = 31  # a gzip header and trailer around a 32 KiB window
_ZSTD_MAX_WINDOW_BYTES: Final = 128 * 1024 * 1024  # zstd's own limit for streaming decoders
# The window of a decoder is a mapping of its own, whose pages cost as much as unpacking a batch:
# decoders without an error are kept in the list and reused.
_ZSTD_MOST_SPARE: Final = 3
_ZSTD_MOST_SPARE_BYTES: Final = 4 * 1024 * 1024
_spare_zstd_decoders: Final[list[zstandard.ZstdDecompressor]] = []
_GZIP_MAGIC: Final = b"\x1f\x8b"
_SNAPPY_BLOCK_BYTES: Final = 32 * 1024
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + bytes([0, 0, 0, 1, 0, 0, 0, 1])
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES: Final = 7
_LZ4_HC_MIN_LEVEL: Final = 3
_LZ4_HC_MAX_LEVEL: Final = 12

_ZSTD_SKIPPABLE_MAGIC: Final = 0x184D2A50
_ZSTD_RUN_BLOCK: Final = 1

_INT32 = Struct(">i")
_ZSTD_SKIPPABLE = Struct("<II")


class DamagedBlock(ProtocolError):
    """Data that its codec cannot have made."""


class UnpacksTooLarge(ProtocolError):
    """More than the caller will take."""


class Compression(IntEnum):
    """Codec ids as in bits 0-2 of the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_BY_ID: Final = tuple(Compression)


def compression_of(attributes: int) -> Compression:
    """The codec named by a batch's or message's attributes."""
    codec = attributes & 7
    if codec > Compression.ZSTD:
        raise ProtocolError(f"unknown compression type {codec}")
    return _BY_ID[codec]


def compress(
    codec: Compression, data: Buffer, level: int | None = None, *, magic: int = 2
) -> bytes:
    """``data`` compressed at ``level`` (None: the codec's default) for a batch of ``magic``."""
    if codec is Compression.GZIP:
        packer = zlib.compressobj(
            GZIP_DEFAULT_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW_BITS
        )
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        return _compress_lz4(data, level, magic)
    if codec is Compression.ZSTD:
        assert magic >= 2, "zstd exists only in v2 batches"
        packed = zstandard.ZstdCompressor(level=ZSTD_DEFAULT_LEVEL if level is None else level)
        return packed.compress(data)
    return bytes(data)


def decompress(codec: Compression, data: Buffer, *, max_bytes: int, magic: int = 2) -> bytes:
    """``data`` unpacked; ProtocolError if it is damaged or unpacks to more than ``max_bytes``."""
    pieces = list(decompress_in_pieces(codec, data, max_bytes=max_bytes, magic=magic))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def decompress_in_pieces(
    codec: Compression, data: Buffer, *, max_bytes: int, magic: int = 2
) -> Iterator[bytes]:
    """Decompress in pieces of at most 128 KiB; those of snappy are its blocks."""
    if codec is Compression.NONE:
        if len(data) > max_bytes:
            raise _too_large(max_bytes)
        yield bytes(data)
        return
    output = _Output(max_bytes)
    try:
        yield from _DECOMPRESSORS[codec](memoryview(data), output, magic)
    except (UnpacksTooLarge, InvalidRecord):
        raise
    except (
        zlib.error, zstandard.ZstdError, snappy.UncompressError, RuntimeError, ProtocolError
    ) as error:  # fmt: skip
        raise DamagedBlock(f"damaged {codec.name.lower()} data: {error}") from error


def _too_large(max_bytes: int) -> UnpacksTooLarge:
    return UnpacksTooLarge(f"compressed data unpacks to more than {max_bytes} bytes")


class _Output:
    """The number of bytes that may still be unpacked."""

    __slots__ = ("max_bytes", "room")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.room = max_bytes

    def next_slice_bytes(self) -> int:
        """The number of bytes to unpack next: one byte more than fits shows that there are too
        many."""
        return min(self.room + 1, _SLICE_BYTES)

    def counted(self, piece: bytes) -> bytes:
        self.room -= len(piece)
        if self.room < 0:
            raise _too_large(self.max_bytes)
        return piece


def _starts_with(data: memoryview, position: int, prefix: bytes) -> bool:
    return bytes(data[position : position + len(prefix)]) == prefix


def _decompress_gzip(data: memoryview, output: _Output, magic: int) -> Iterator[bytes]:
    """One or more gzip members; fed in slices, so that the tail that zlib copies stays small."""
    position = 0
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            pending: Buffer = member.unconsumed_tail
            if not pending:
                pending = data[position : position + _SLICE_BYTES]
                position += len(pending)
            chunk = member.decompress(pending, output.next_slice_bytes())
            yield output.counted(chunk)
            if not pending and not chunk and not member.eof:
                raise InvalidRecord("gzip data ends early")
        position -= len(member.unused_data)
        # Java's GZIPInputStream continues only if another member follows, and ignores other bytes.
        if not _starts_with(data, position, _GZIP_MAGIC):
            return


def _compress_snappy(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _SNAPPY_BLOCK_BYTES):
        block = snappy.compress(bytes(view[start : start + _SNAPPY_BLOCK_BYTES]))
        parts.append(_INT32.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, output: _Output, magic: int) -> Iterator[bytes]:
    if not _starts_with(data, 0, _XERIAL_MAGIC):
        yield _unpack_snappy_block(data, output)
        return
    position, end = 0, len(data)
    while position < end:
        # A header stands at the start, and again where streams were put one after the other.
        # Its version numbers are not checked: some producers write them little-endian.
        if _starts_with(data, position, _XERIAL_MAGIC):
            position += len(_XERIAL_HEADER)
            if position > end:
                raise ProtocolError("a snappy stream header is cut short")
            continue
        if end - position < 4:
            raise ProtocolError("a snappy block length is cut short")
        size: int = _INT32.unpack_from(data, position)[0]
        position += 4
        if not 0 < size <= end - position:
            raise ProtocolError(f"a snappy block of {size} bytes has {end - position} left")
        yield _unpack_snappy_block(data[position : position + size], output)
        position += size


def _unpack_snappy_block(block: memoryview, output: _Output) -> bytes:
    """One raw block, after its declared size (an unsigned varint in front) was found to fit."""
    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ProtocolError("a snappy block has no length")
    if declared > output.room:
        raise _too_large(output.max_bytes)
    chunk: bytes = snappy.uncompress(bytes(block))
    return output.counted(chunk)


def _compress_lz4(data: Buffer, level: int | None, magic: int) -> bytes:
    if level is None or level == LZ4_DEFAULT_LEVEL:
        library_level = 0
    else:
        library_level = min(max(level, _LZ4_HC_MIN_LEVEL), _LZ4_HC_MAX_LEVEL)
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=library_level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    if magic == 0:
        broken = _lz4_header_checksum(frame[: _LZ4_HEADER_BYTES - 1])
        return frame[: _LZ4_HEADER_BYTES - 1] + broken + frame[_LZ4_HEADER_BYTES:]
    return frame


def _decompress_lz4(data: memoryview, output: _Output, magic: int) -> Iterator[bytes]:
    """One frame, its header replaced by one without content size and content checksum."""
    header_end = _LZ4_HEADER_BYTES
    if len(data) < header_end or not _starts_with(data, 0, _LZ4_MAGIC):
        raise ProtocolError("not an lz4 frame")
    flags, block_descriptor = data[4], data[5]
    if flags >> 6 != 1 or flags & 3 or block_descriptor & 0x8F:
        raise ProtocolError("unknown version or reserved bits in an lz4 header")
    if not flags & 0x20:
        raise ProtocolError("lz4 frames with linked blocks are not part of Kafka's format")
    if flags & 0x08:
        header_end += 8
    if len(data) < header_end:
        raise ProtocolError("an lz4 header is cut short")
    expected = _lz4_header_checksum(bytes(data[4 : header_end - 1]))
    if magic != 0 and data[header_end - 1] != expected[0]:
        raise ProtocolError("an lz4 header has a wrong checksum")

    descriptor = bytes([flags & 0x70, block_descriptor])
    context = lz4.frame.create_decompression_context()
    lz4.frame.decompress_chunk(
        context, _LZ4_MAGIC + descriptor + _lz4_header_checksum(descriptor), max_length=0
    )
    position = header_end
    while True:
        chunk, consumed, ended = lz4.frame.decompress_chunk(
            context,
            data[position : position + _SLICE_BYTES],
            max_length=output.next_slice_bytes(),
        )
        yield output.counted(chunk)
        position += consumed
        if ended:
            return
        if not chunk and not consumed:
            raise ProtocolError("lz4 data ends early")


def _lz4_header_checksum(descriptor: bytes) -> bytes:
    return bytes([_xxh32_short(descriptor) >> 8 & 0xFF])


def _xxh32_short(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, which is all that an lz4 header needs."""
    assert len(data) < 16
    prime_1, prime_2, prime_3 = 2654435761, 2246822519, 3266489917
    prime_4, prime_5, mask = 668265263, 374761393, 0xFFFFFFFF
    acc = prime_5 + len(data)
    words = len(data) // 4 * 4
    for start in range(0, words, 4):
        acc = acc + int.from_bytes(data[start : start + 4], "little") * prime_3 & mask
        acc = (acc << 17 | acc >> 15) * prime_4 & mask
    for byte in data[words:]:
        acc = acc + byte * prime_5 & mask
        acc = (acc << 11 | acc >> 21) * prime_1 & mask
    acc = (acc ^ acc >> 15) * prime_2 & mask
    acc = (acc ^ acc >> 13) * prime_3 & mask
    return acc ^ acc >> 16


def _decompress_zstd(data: memoryview, output: _Output, magic: int) -> Iterator[bytes]:
    """One or more frames. zstandard's reader takes a cut frame for an ended one: look first."""
    try:
        decoder = _spare_zstd_decoders.pop()
    except IndexError:
        decoder = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    position = 0
    while position < len(data):
        frame = data[position : _zstd_frame_end(data, position)]
        position += len(frame)
        with decoder.stream_reader(frame) as reader:
            while chunk := reader.read(output.next_slice_bytes()):
                yield output.counted(chunk)
    if (
        len(_spare_zstd_decoders) < _ZSTD_MOST_SPARE
        and decoder.memory_size() <= _ZSTD_MOST_SPARE_BYTES
    ):
        _spare_zstd_decoders.append(decoder)


def _zstd_frame_end(data: memoryview, position: int) -> int:
    """The end of the frame at ``position``, from its header and block headers (RFC 8878)."""
    if len(data) - position >= 8:
        magic, size = _ZSTD_SKIPPABLE.unpack_from(data, position)
        if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
            return _checked_end(data, position + 8 + size)
    # A frame header has at most 18 bytes; the library wants a buffer of its own.
    head = bytes(data[position : position + 18])
    has_checksum = zstandard.get_frame_parameters(head).has_checksum
    position += zstandard.frame_header_size(head)
    last = False
    while not last:
        end = _checked_end(data, position + 3)
        block = int.from_bytes(data[position:end], "little")
        last = bool(block & 1)
        is_run = block >> 1 & 3 == _ZSTD_RUN_BLOCK
        position = _checked_end(data, end + (1 if is_run else block >> 3))
    return _checked_end(data, position + 4 * has_checksum)


def _checked_end(data: memoryview, end: int) -> int:
    if end > len(data):
        raise ProtocolError("zstd data ends early")
    return end


_DECOMPRESSORS: Final[dict[Compression, Callable[[memoryview, _Output, int], Iterator[bytes]]]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}

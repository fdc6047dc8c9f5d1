"""The bytes of a snapshot's file, those of Apache ZooKeeper 3.9.

File `snapshot.<zxid in hex>`, jute:

    int32 magic "ZKSN", int32 version 2, int64 database -1
    sessions, ACLs and nodes, as a SNAP packet has them (`tree_bytes`)
    a seal: int64 Adler-32 of all before it, the string "/"
    int64 zxid, int32 version, int64 digest of the tree; a seal     3.6 and later
    int64 zxid of the last transaction that is in it; a seal        3.9

Each seal counts all bytes before it, earlier seals included, so the last one vouches for the file.
Ours have no digest (zxid 0): who reads none compares none. ZooKeeper writes a snapshot while it
applies transactions, and names it by the zxid at the beginning: what follows may be in it as well
(`fuzzy`), up to the last zxid, or to an unknown one where there is none.

ZooKeeper may compress the whole file: `.gz` or `.snappy` behind the name. Ours are not compressed.

Mirrors: FileSnap, SnapStream, DataTree.serializeZxidDigest and serializeLastProcessedZxid.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.invariants import BrokenInvariant
from ..protocol.primitives import Buffer
from .snapshot import Capture
from .tree import DataTree
from .tree_bytes import TreeReader, encode_tree

GZIP_SUFFIX, SNAPPY_SUFFIX = ".gz", ".snappy"
MAX_SNAPSHOT_BYTES = 1 << 36
MAX_ZXID = 2**63 - 1

_HEADER = Struct(">4siq")
_MAGIC, _VERSION, _DATABASE_ID = b"ZKSN", 2, -1
_SEAL = Struct(">Qi1s")
_DIGEST = Struct(">qiq")
_DIGEST_VERSION = 2  # older ones have a string
_LAST_ZXID = Struct(">q")
_GZIP = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 256 * 1024


class Snapshot(NamedTuple):
    tree: DataTree
    sessions: dict[int, int]
    """Session id to timeout in ms."""
    fuzzy_until: int
    """Transactions up to this one may be in it already."""


def encode_snapshot(captured: Capture) -> Iterator[bytes]:
    """The file in pieces of bounded size."""
    piece = _HEADER.pack(_MAGIC, _VERSION, _DATABASE_ID)
    checksum = zlib.adler32(piece)
    yield piece
    for piece in encode_tree(captured):
        checksum = zlib.adler32(piece, checksum)
        yield piece
    end = _SEAL.pack(checksum, 1, b"/")
    for part in (_DIGEST.pack(0, _DIGEST_VERSION, 0), _LAST_ZXID.pack(captured.zxid)):
        end += part
        end += _SEAL.pack(zlib.adler32(end, checksum), 1, b"/")
    yield end


def decode_snapshot(data: Buffer, zxid: int, suffix: str = "") -> Snapshot:
    """`zxid` and `suffix`: those of its name. Raises ProtocolError if it is damaged or no
    snapshot."""
    if suffix:
        data = _decompressed(data, suffix)
    if len(data) < _HEADER.size + _SEAL.size:
        raise ProtocolError("it is cut short")
    magic, version, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ProtocolError("it is not a snapshot of ZooKeeper")
    if version != _VERSION:
        raise ProtocolError(f"it has format {version}; this version reads {_VERSION}")
    view = memoryview(data)
    if not _is_sealed(view, len(view) - _SEAL.size):
        raise ProtocolError("its checksum is wrong")
    reader = TreeReader(zxid)
    position = _HEADER.size
    try:
        while reader.received is None and position < len(view):
            reader.feed(view[position : position + _PIECE_BYTES])
            position += _PIECE_BYTES
    except (StructError, LookupError, ValueError, BrokenInvariant) as error:
        raise ProtocolError(f"it does not parse: {error}") from error
    if reader.received is None:
        raise ProtocolError("its nodes are cut short")
    position = min(position, len(view)) - len(reader.take_rest())
    if not _is_sealed(view, position):
        raise ProtocolError("the checksum of its nodes is wrong")
    tree, sessions = reader.received
    return Snapshot(tree, sessions, _fuzzy_until(view[position + _SEAL.size :]))


def _is_sealed(view: memoryview, position: int) -> bool:
    """Whether there is a seal of all before `position`."""
    if position + _SEAL.size > len(view):
        return False
    seal: tuple[int, int, bytes] = _SEAL.unpack_from(view, position)
    return seal == (zlib.adler32(view[:position]), 1, b"/")


def _fuzzy_until(rest: memoryview) -> int:
    """`rest`: what is behind the first seal. The last zxid is counted when the nodes are written,
    so that one more transaction may have been applied."""
    last = _LAST_ZXID.size + _SEAL.size
    digest = _DIGEST.size + _SEAL.size
    if len(rest) in (last, digest + last):
        zxid: int = _LAST_ZXID.unpack_from(rest, len(rest) - last)[0]
        return zxid + 1
    return MAX_ZXID


def _decompressed(data: Buffer, suffix: str) -> bytes:
    try:
        if suffix == GZIP_SUFFIX:
            return zlib.decompress(data, _GZIP)
        from ..protocol.records.compression import Compression, decompress  # it is large

        return decompress(Compression.SNAPPY, data, max_bytes=MAX_SNAPSHOT_BYTES)
    except (zlib.error, ProtocolError) as error:
        raise ProtocolError(f"it cannot be decompressed: {error}") from error

"""The file of an epoch: two places of one page each, of which a save overwrites the older.

A member saves an epoch up to twice in an election, and the others wait for it. To overwrite a page
takes one flush of the disk; to write another file, rename it and flush the directory takes several.

Invariants: the larger number counts, for an epoch never falls; the place that has it is not
overwritten; a place that a power cut has left half written fails its checksum.

Mirrors acceptedEpoch and currentEpoch of QuorumPeer, which are files with a plain number, replaced
as a whole. Such a file is read here, and replaced at the next save.
"""

from typing import Final, NamedTuple
from zlib import crc32

PLACE_BYTES: Final = 4096
_PLACES: Final = 2


class EpochFile(NamedTuple):
    """`write_at`: where the next save overwrites the file; None: it must be replaced."""

    epoch: int | None
    write_at: int | None


def read_epoch(data: bytes) -> EpochFile:
    if len(data) != _PLACES * PLACE_BYTES:
        text = data.strip()
        return EpochFile(int(text) if text.isdigit() else None, None)
    first, second = (_read_place(data[at : at + PLACE_BYTES]) for at in (0, PLACE_BYTES))
    if first is None and second is None:
        return EpochFile(None, None)
    is_first = second is None or (first is not None and first >= second)
    return EpochFile(first, PLACE_BYTES) if is_first else EpochFile(second, 0)


def encode_place(epoch: int) -> bytes:
    text = str(epoch).encode()
    return (b"%s %08x" % (text, crc32(text))).ljust(PLACE_BYTES - 1) + b"\n"


def encode_epoch_file(epoch: int) -> bytes:
    return _PLACES * encode_place(epoch)


def _read_place(place: bytes) -> int | None:
    text, _, checksum = place.strip().partition(b" ")
    return int(text) if text.isdigit() and checksum == b"%08x" % crc32(text) else None

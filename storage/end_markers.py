"""The marker that ends a transaction, as a control batch of a log has it.

Brokers write markers in one form, which is read by its bytes; batches of another form are read by
records.

Mirrors: EndTransactionMarker, ControlRecordType.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ..protocol.primitives import Buffer
from ..protocol.records.batch import ControlRecordType, EndTxnMarker, iter_records
from ..protocol.records.layout import HEADER_SIZE, MAGIC_POSITION

# A marker as all brokers write it. From the magic on: attributes, the count of records; of the one
# record all up to the kind (length, attributes, deltas, length and version of the key), the kind,
# length and version of the value, the coordinator's epoch, no headers.
_MARKER: Final = Struct(">b4xh34xi7sh3siB").unpack_from
_MARKER_FORM: Final = (2, 1, b"\x20\0\0\0\x08\0\0", b"\x0c\0\0", 0)
_MARKER_BYTES: Final = HEADER_SIZE + 17
_MARKERS: Final = {int(k): k for k in (ControlRecordType.ABORT, ControlRecordType.COMMIT)}
_CODEC_BITS: Final = 0x07


def end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """The marker in a control batch, None if compaction emptied it or it is of another kind."""
    if len(buffer) == _MARKER_BYTES:
        magic, attributes, count, head, kind, value, epoch, headers = _MARKER(
            buffer, MAGIC_POSITION
        )
        if (
            (magic, count, head, value, headers) == _MARKER_FORM
            and not attributes & _CODEC_BITS
            and kind in _MARKERS
        ):
            return EndTxnMarker(_MARKERS[kind], epoch)
    return read_end_txn_marker(buffer)


def read_end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """Like `end_txn_marker`, for a batch of any form."""
    for record in iter_records(buffer):
        kind = int.from_bytes((record.key or b"")[2:4], "big")
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return EndTxnMarker.parse(record.key, record.value)
        return None
    return None

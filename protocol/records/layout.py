"""The positions of fields in the bytes of record batches and of messages of the older formats.

Job: one place for the byte positions that are read or overwritten without decoding a whole header.
A position counts bytes from the first byte of the batch (or message), its base offset included.
Invariant: `protocol.records.batch.HEADER` unpacks the same fields at the same positions; a test
compares them.

Mirrors the offsets at the head of DefaultRecordBatch and of LegacyRecord.
"""

from typing import Final

# Of all formats: base offset (int64), length of the rest (int32), and the magic byte.
LENGTH_POSITION: Final = 8
LOG_OVERHEAD: Final = 12
MAGIC_POSITION: Final = 16

# Of batches of format 2.
LEADER_EPOCH_POSITION: Final = 12
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21  # int16: compression, timestamp type, transactional, control
LOW_ATTRIBUTES_POSITION: Final = 22  # the one byte of the attributes that has bits
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_POSITION: Final = 43  # producer id (int64), producer epoch (int16), base sequence (int32)
HEADER_SIZE: Final = 61

# Of messages of formats 0 and 1.
OLD_ATTRIBUTES_POSITION: Final = 17
OLD_TIMESTAMP_POSITION: Final = 18  # format 1

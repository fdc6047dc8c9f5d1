"""`record.validation=full`: batches that only a look at their records tells from good ones.

Each of them has a right header and a right CRC, so without the switch it is stored as it is.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import Compression, iter_records, update_crc
from pybroker_kafka.storage.append_info import InvalidRecords
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader
from tests.support.conversions import recompress
from tests.unit.storage.helpers import batch_of, log_of

NOW_MS = 1_000_000
HEADER = 61
LAST_DELTA, COUNT = 23, 57
# Places in a small record with a key of one byte and a value of five.
LENGTH, OFFSET_DELTA, KEY_LENGTH, VALUE_LENGTH, HEADER_COUNT = 0, 3, 4, 6, 12
_INT32 = Struct(">i")


def append(log: Log, batch: bytearray) -> bytes:
    info = append_as_leader(log, batch, leader_epoch=0, now_ms=NOW_MS)
    found = log.read(info.first_offset, 1 << 20, upper_bound_offset=log.log_end_offset)
    return found.records.read()


def patched(position: int, byte: int) -> bytearray:
    """A batch of two records, with one byte of the first one changed."""
    batch = batch_of(b"value", b"other")
    batch[HEADER + position] = byte
    update_crc(batch, 0)
    return batch


def counted(records: int) -> bytearray:
    """A batch of two records whose header speaks of others."""
    batch = batch_of(b"value", b"other")
    _INT32.pack_into(batch, LAST_DELTA, records - 1)
    _INT32.pack_into(batch, COUNT, records)
    update_crc(batch, 0)
    return batch


BROKEN = {
    "a record shorter than its bytes": lambda: patched(LENGTH, 20),
    "a record longer than its bytes": lambda: patched(LENGTH, 26),
    "a record that leaves the batch": lambda: patched(LENGTH, 126),
    "a record of no bytes": lambda: patched(LENGTH, 0),
    "a key that leaves its record": lambda: patched(KEY_LENGTH, 60),
    "a value that leaves its record": lambda: patched(VALUE_LENGTH, 60),
    "headers that are not there": lambda: patched(HEADER_COUNT, 2),
    "fewer records than there are": lambda: counted(1),
    "more records than there are": lambda: counted(3),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_records_are_refused(tmp_path: Path, case: str) -> None:
    log = log_of(tmp_path)
    append(log, BROKEN[case]())
    log.rules.validate_fully = True
    before = log.log_end_offset, log.size_bytes
    with pytest.raises(KafkaError) as caught:
        append(log, BROKEN[case]())
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert (log.log_end_offset, log.size_bytes) == before


@pytest.mark.parametrize("codec", list(Compression))
def test_good_records_are_stored_as_they_are(tmp_path: Path, codec: Compression) -> None:
    log = log_of(tmp_path)
    log.rules.validate_fully = True
    values = [b"value" * 100, b"", None, b"other"]
    batch = batch_of(*values, codec=codec)
    assert append(log, bytearray(batch))[HEADER:] == batch[HEADER:]
    assert [record.value for record in iter_records(append(log, batch))] == values


def test_offsets_that_do_not_count_up_stay_in_an_uncompressed_batch(tmp_path: Path) -> None:
    """As in Kafka, which looks at them in compressed batches only."""
    log = log_of(tmp_path)
    log.rules.validate_fully = True
    stored = append(log, patched(OFFSET_DELTA, 2))
    assert [record.offset for record in iter_records(stored)] == [1, 1]


def test_all_records_without_a_key_are_named(tmp_path: Path) -> None:
    log = log_of(tmp_path, cleanup_policy="compact")
    log.rules.validate_fully = True
    with pytest.raises(InvalidRecords) as caught:
        append(log, batch_of(b"a", b"b", b"c", key=None, codec=Compression.LZ4))
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1, 2]


def test_records_are_checked_before_the_codec_changes(tmp_path: Path) -> None:
    log = log_of(tmp_path, compression_type="zstd")
    log.rules.validate_fully = True
    batch = bytearray(recompress(batch_of(b"value", b"other"), Compression.GZIP))
    _INT32.pack_into(batch, LAST_DELTA, 2)
    _INT32.pack_into(batch, COUNT, 3)
    update_crc(batch, 0)
    with pytest.raises(KafkaError) as caught:
        append(log, batch)
    assert caught.value.code is ErrorCode.INVALID_RECORD

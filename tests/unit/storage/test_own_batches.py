"""A batch that the broker has made itself is stored as if it had been validated."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.plain_batch import build_plain_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.append_info import Append, AppendOrigin, AppendRules
from pybroker_kafka.storage.own_batches import stamp_own_batch
from pybroker_kafka.storage.validation import validate
from tests.unit.storage.helpers import config_of

BATCHES = [
    build_plain_batch(1234, [(b"key", b"value")]),
    build_batch([SimpleRecord(5, b"k", None), SimpleRecord(3, b"l", b"v")]),
    build_batch([SimpleRecord(5, b"k", b"v")], producer_id=7, producer_epoch=1, base_sequence=0),
    build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 3), timestamp=9, producer_id=7, producer_epoch=1
    ),
]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("codec", ["producer", "uncompressed"])
def test_byte_for_byte(batch: bytearray, policy: str, codec: str) -> None:
    config = config_of(cleanup_policy=policy, compression_type=codec)
    ours, theirs = bytearray(batch), bytearray(batch)
    header = stamp_own_batch(ours, config, 77, 5)
    rules = AppendRules(config, "t-0", True, WallClock())
    valid = validate(theirs, rules, Append(0, origin=AppendOrigin.COORDINATOR), 77, 5)
    assert valid is not None
    assert ours == valid[0]
    # One of them was read after the stamp, the other before it.
    assert header is not None
    assert header[3:] == valid[1][3:]


def test_a_compressed_batch_in_a_topic_without_compression_is_validated() -> None:
    batch = build_batch([SimpleRecord(5, b"k", b"v" * 99)], compression=Compression.GZIP)
    assert stamp_own_batch(batch, config_of(compression_type="uncompressed"), 77, 5) is None


@pytest.mark.parametrize(
    "config",
    [
        config_of(compression_type="lz4"),
        config_of(message_timestamp_type="LogAppendTime"),
        config_of(max_message_bytes=60),
    ],
)
def test_a_topic_that_changes_or_refuses_batches_has_them_validated(config: object) -> None:
    batch = bytearray(BATCHES[0])
    assert stamp_own_batch(batch, config, 77, 5) is None  # type: ignore[arg-type]
    assert batch == BATCHES[0]

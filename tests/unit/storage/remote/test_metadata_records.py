"""Values of `__remote_log_metadata` as Apache Kafka 3.9.1 writes them: golden values by
`python -m tests.support.remote_log_metadata`."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.storage.remote.metadata_records import metadata_partition, read, record_value
from pybroker_kafka.storage.remote.segments import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tests.support.remote_log_metadata import VALUES

MASK = (1 << 64) - 1
LINES = [line.split() for line in VALUES.read_text(encoding="utf-8").splitlines()]
GOLDEN = [
    (kind, int(number), bytes.fromhex(value)) for kind, number, value, *more in LINES if not more
]
PARTITIONS = [list(map(int, words[1:])) for words in LINES if words[0] == "partition"]


def partition(number: int) -> TopicIdPartition:
    most = 0x9E3779B97F4A7C15 * (number + 1) & MASK
    least = 0xC2B2AE3D27D4EB4F * (number + 3) & MASK
    return TopicIdPartition(most.to_bytes(8) + least.to_bytes(8), f"thema-ä-{number}", number * 37)


def made(kind: str, number: int) -> RemoteLogMetadata:
    if kind == "delete":
        return RemotePartitionDeleteMetadata(
            partition(number),
            RemotePartitionDeleteState(number % 3),
            1700000003000 + number,
            number,
        )
    segment_id = RemoteLogSegmentId(
        partition(number), number.to_bytes(8) + (-number & MASK).to_bytes(8)
    )
    custom = bytes(number) if number % 3 else None
    state = RemoteLogSegmentState(number % 4)
    if kind == "update":
        return RemoteLogSegmentMetadataUpdate(
            segment_id, 1700000002000 + number, custom, state, number
        )
    return RemoteLogSegmentMetadata(
        segment_id,
        number * 1000,
        number * 1000 + 999,
        1700000000000 + number,
        number,
        1700000001000 + number,
        1048576 * (number + 1),
        tuple(
            (epoch * 300 + number, number * 1000 + epoch * 10) for epoch in range(number % 4 + 1)
        ),
        custom,
        state,
    )


def test_values_are_those_of_kafka() -> None:
    assert len(GOLDEN) == 60
    for kind, number, value in GOLDEN:
        assert record_value(made(kind, number)) == value, f"{kind} {number}"
        assert read(memoryview(value)) == made(kind, number), f"{kind} {number}"


def test_partitions_are_those_of_kafka() -> None:
    assert len(PARTITIONS) == 40
    for number, *expected in PARTITIONS:
        assert [metadata_partition(partition(number), count) for count in (1, 7, 50)] == expected


def test_tags_of_kafka_4_are_ignored() -> None:
    kind, number, value = GOLDEN[0]
    # The tagged fields at the end: TxnIndexEmpty is field 0, of one byte.
    assert value[-1:] == b"\0"
    assert read(value[:-1] + b"\1\0\1\1") == made(kind, number)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"", "without its kind"),
        (b"\1\0", "without its kind"),
        (b"\1\3\0abc", "unknown kind 3"),
        (b"\1\0\1abc", "version 1"),
        (b"\0\0\0abc", "frame=0"),
        (b"\1\0\0abc", "RemoteLogSegmentMetadataRecord"),
        (GOLDEN[0][2][:-2] + b"\x09\0", "9 is not a valid"),
    ],
)
def test_bad_values_are_protocol_errors(value: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        read(value)


@given(st.sampled_from(GOLDEN), st.data())
def test_damaged_values_raise_nothing_else(
    golden: tuple[str, int, bytes], data: st.DataObject
) -> None:
    value = bytearray(golden[2])
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        read(value[: data.draw(st.integers(0, len(value)))])

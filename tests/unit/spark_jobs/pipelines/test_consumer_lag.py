"""Commits in the records of `__consumer_offsets`, decoded from the bytes that a broker writes."""

from __future__ import annotations

import pyarrow as pa

from pybroker_kafka.coordinator.group.offsets import OffsetAndMetadata
from pybroker_kafka.coordinator.group.records import (
    group_metadata_key,
    offset_commit_key,
    offset_commit_value,
)
from pybroker_kafka.spark_jobs.pipelines.consumer_lag import decode_commits


def test_commits_and_what_is_none() -> None:
    key = offset_commit_key("readers", ("flights", 3))
    value = offset_commit_value(OffsetAndMetadata(42, 0, "", 1_000))
    records: list[tuple[bytes | None, bytes | None]] = [
        (key, value),
        (key, None),  # the group has forgotten it
        (group_metadata_key("readers"), b"\x00\x03"),
        (b"\x00\x01broken", value),
        (key, b"\x00\x01"),
        (None, b"x"),
    ]
    batch = pa.record_batch(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "offset": pa.array(range(10, 16), pa.int64()),
        }
    )
    empty = batch.slice(0, 0)
    found = pa.Table.from_batches(list(decode_commits([batch, empty]))).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("readers", "flights", 3, 42, 10),
        ("readers", "flights", 3, None, 11),
    ]

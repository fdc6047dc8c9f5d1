"""What is said of a partition's files is what is on the disk, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.inside.partition_files import MOST_SEGMENTS, partition_files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.retention import delete_old_segments
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of


def filled(directory: Path, *, batches: int = 30, **configs: Any) -> Log:
    log = log_of(directory, segment_bytes=400, index_interval_bytes=1, **configs)
    for number in range(batches):
        batch = batch_of(b"x" * 50, timestamp=1000 * number)
        append_as_leader(log, batch, leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize(
    "configs", [{"retention_ms": 5000}, {"retention_bytes": 900}, {"retention_ms": -1}]
)
def test_what_goes_next_goes_next(tmp_path: Path, configs: dict[str, int]) -> None:
    log = filled(tmp_path, **configs)
    now_ms = 30_000
    told = partition_files(log, now_ms)
    doomed = [s["base_offset"] for s in told["segments"] if s["next"].startswith("deleted at the")]
    before = {segment.base_offset for segment in log.segments}
    delete_old_segments(log, now_ms)
    assert set(doomed) == before - {segment.base_offset for segment in log.segments}
    assert bool(doomed) == (configs != {"retention_ms": -1})


def test_files_and_offsets(tmp_path: Path) -> None:
    log = filled(tmp_path)
    told = partition_files(log, 0)
    names = {file["name"] for segment in told["segments"] for file in segment["files"]}
    there = {path.name for path in Path(log.directory).iterdir()}
    assert names == {name for name in there if "index" in name or name.endswith(".log")}
    first, *_, active = told["segments"]
    assert first["next_offset"] == told["segments"][1]["base_offset"]
    assert active["is_active"]
    assert active["next"].startswith("rolled after ")
    (index,) = [file for file in first["files"] if file["name"].endswith(".index")]
    assert index["bytes"] == 8 * index["entries"] > 0
    assert told["offsets"]["log end"] == told["offsets"]["high watermark"] == 30
    assert told["cleaner"] is None


def test_a_compacted_log(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy="compact", min_cleanable_dirty_ratio=0.5)
    told = partition_files(log, 0)
    assert told["cleaner"]["text"] == "100% of what can be cleaned is dirty: due"
    assert told["cleaner"]["end_offset"] == told["segments"][-1]["base_offset"]
    log.first_dirty_offset = told["cleaner"]["end_offset"]
    assert "not due: it has to be above 0.5" in partition_files(log, 0)["cleaner"]["text"]


def test_of_very_many_segments_the_last_are_told(tmp_path: Path) -> None:
    log = filled(tmp_path, batches=400)
    told = partition_files(log, 0)
    assert told["segment_count"] > MOST_SEGMENTS == len(told["segments"])
    assert told["segments"][-1]["next_offset"] == 400

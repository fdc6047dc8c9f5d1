"""Positions near 2^31 in a segment, and offsets that are further than 2^31 from one another or
from zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.segment import MAX_RELATIVE_OFFSET
from tests.support.far_logs import (
    BEGIN_MS,
    LARGEST_SEGMENT,
    MB,
    SparseFiles,
    append,
    append_at,
    fill_segment,
    large_batch,
    small_batch,
)
from tests.support.log_checkpoints import cut
from tests.unit.storage.compacted import Compacted
from tests.unit.storage.helpers import TOPIC_ID, config_of, log_of, manager_of

LARGE = {"segment_bytes": LARGEST_SEGMENT, "max_message_bytes": 2 * MB, "segment_ms": 2**62}
FAR = [2**31 - 3, 2**31, 2**32 + 1, 2**40 - 3, 2**62]


def base_offsets(log: Log, offset: int, max_bytes: int = 3 * MB) -> list[int]:
    """Of the batches that a read at an offset gives; the last may be cut short."""
    data = log.read(offset, max_bytes, upper_bound_offset=log.log_end_offset).records.read()
    return [header.base_offset for _, header in iter_batch_headers(data)]


@pytest.mark.nightly
def test_a_segment_of_two_gigabytes(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=SparseFiles(), config=config_of(**LARGE))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    last = fill_segment(log)
    assert len(log.segments) == 1
    assert LARGEST_SEGMENT - 100 < log.segments.active.size <= LARGEST_SEGMENT
    append(log, small_batch(last + 1, b"the next segment"))
    assert [segment.base_offset for segment in log.segments] == [0, last + 1]
    look_at(log, last)
    manager.clean_shutdown()
    manager = manager_of(tmp_path, files=SparseFiles(), config=config_of(**LARGE))
    (log,) = manager.logs()
    look_at(log, last)
    append(log, large_batch(last + 2))
    assert cut(log, last)
    assert log.log_end_offset == last
    assert base_offsets(log, last - 1) == [last - 1]
    append(log, small_batch(last, b"again"))
    assert log.segments.active.base_offset == 0
    manager.release()


def look_at(log: Log, last: int) -> None:
    segment = log.segments.first
    offset, position = segment.offset_index.entry(segment.offset_index.entries - 1)
    assert position > LARGEST_SEGMENT - 3 * MB
    assert base_offsets(log, offset)[0] == offset
    assert base_offsets(log, last) == [last]
    assert base_offsets(log, last - 1) == [last - 1, last]
    assert base_offsets(log, last, max_bytes=100) == [last]
    for number in (0, last // 2, last - 1, last):
        found = log.offset_for_timestamp(BEGIN_MS + 1000 * number - 1)
        assert found is not None
        assert found.offset == number
    assert segment.next_offset() == last + 1


@pytest.mark.nightly
def test_recovery_of_a_segment_of_two_gigabytes(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=SparseFiles(), config=config_of(**LARGE))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    last = fill_segment(log)
    manager.release()
    (log,) = manager_of(tmp_path, files=SparseFiles(), config=config_of(**LARGE)).logs()
    assert log.log_end_offset == last + 1
    look_at(log, last)


@pytest.mark.parametrize("begin", FAR)
def test_a_log_that_begins_far_out(tmp_path: Path, begin: int) -> None:
    log = log_of(tmp_path, segment_bytes=500, index_interval_bytes=1)
    log.truncate_fully_and_start_at(begin)
    for number in range(40):
        append(log, small_batch(number, b"%d" % number))
    assert log.segments.first.path.endswith(f"/{begin:020d}.log")
    assert len(log.segments) > 5
    for number in range(40):
        assert base_offsets(log, begin + number, max_bytes=10) == [begin + number]
        found = log.offset_for_timestamp(BEGIN_MS + 1000 * number)
        assert found is not None
        assert found.offset == begin + number
    log.maybe_increment_log_start_offset(begin + 20)
    log.flush()
    log.close()
    (again,) = manager_of(tmp_path).logs()
    assert (again.log_end_offset, again.log_start_offset) == (begin + 40, begin)
    assert base_offsets(again, begin + 39) == [begin + 39]


@pytest.mark.parametrize("begin", [0, 2**31 + 5, 2**40])
def test_relative_offsets_are_ints(tmp_path: Path, begin: int) -> None:
    """The largest one still fits, and is looked up; the next one begins a segment. Only a compacted
    log has such gaps."""
    config = config_of(index_interval_bytes=1, cleanup_policy="compact")
    log = log_of(tmp_path, index_interval_bytes=1, cleanup_policy="compact")
    log.truncate_fully_and_start_at(begin)
    wanted = [begin, begin + 1, begin + MAX_RELATIVE_OFFSET]
    for number, offset in enumerate(wanted):
        append_at(log, small_batch(number, b"x"), offset)
    assert len(log.segments) == 1
    index = log.segments.active.offset_index
    assert index.entry(index.entries - 1)[0] == wanted[-1]
    append(log, small_batch(3, b"x"))
    further = [begin + MAX_RELATIVE_OFFSET + 1, begin + 2**33, begin + 2**34]
    for number, offset in enumerate(further[1:]):
        append_at(log, small_batch(4 + number, b"x"), offset)
    assert [segment.base_offset for segment in log.segments] == [begin, *further]
    every = wanted + further
    for cleanly in (True, False):
        asked = [begin, *(offset + 1 for offset in every)]
        for offset, following in zip(asked, every, strict=False):
            assert base_offsets(log, offset, max_bytes=10) == [following]
        for number, offset in enumerate(every):
            found = log.offset_for_timestamp(BEGIN_MS + 1000 * number)
            assert found is not None
            assert found.offset == offset
        log.flush()
        if cleanly:
            log.close()
        (log,) = manager_of(tmp_path, config=config).logs()
        log.update_high_watermark(log.log_end_offset)


def test_compaction_of_offsets_far_from_one_another(tmp_path: Path) -> None:
    """Neighbours that would fit into one segment by their bytes, and not by their offsets."""
    compacted = Compacted(tmp_path)
    offsets = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**40, 2**40 + 1]
    for number, offset in enumerate(offsets):
        append_at(compacted.log, small_batch(number, b"x"), offset)
        compacted.roll()
    assert compacted.clean()
    assert compacted.offsets == offsets
    assert len(compacted.log.segments) < len(offsets)
    for segment in compacted.log.segments:
        assert segment.next_offset() - 1 - segment.base_offset <= MAX_RELATIVE_OFFSET
    for offset in offsets:
        assert base_offsets(compacted.log, offset, max_bytes=1) == [offset]
    compacted.reopen(cleanly=False)
    assert compacted.offsets == offsets

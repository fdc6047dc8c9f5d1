"""The steps of a look-up end at the batch that the log's own reader finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pybroker_kafka.broker.inside.look_up import look_up_offset, look_up_timestamp
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of


def filled(directory: Path, random: Random) -> Log:
    log = log_of(directory, index_interval_bytes=random.choice([1, 400]), segment_bytes=2000)
    timestamp = 1000
    for _ in range(random.randint(1, 80)):
        timestamp += random.choice([-5, 0, 7, 100])
        values = [bytes(random.choice([0, 10, 100])) for _ in range(random.randint(1, 3))]
        append_as_leader(log, batch_of(*values, timestamp=timestamp), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


@pytest.mark.parametrize("seed", range(5))
def test_offsets(tmp_path: Path, seed: int) -> None:
    log = filled(tmp_path, Random(seed))
    for offset in range(log.log_end_offset):
        *_, last = look_up_offset(log, offset)
        segment = log.segments.floor(offset)
        assert segment is not None
        assert last["position"] == segment.position_of(offset)
        chosen = last["rows"][last["chosen"]]
        assert chosen[0] == last["position"]
        assert chosen[2] <= offset <= chosen[3]


@pytest.mark.parametrize("seed", range(5))
def test_timestamps(tmp_path: Path, seed: int) -> None:
    log = filled(tmp_path, Random(seed))
    for timestamp in range(900, 4000, 61):
        steps = look_up_timestamp(log, timestamp)
        found = log.offset_for_timestamp(timestamp)
        if found is None:
            assert [step["title"] for step in steps] == ["Nowhere"]
        else:
            chosen = steps[-1]["rows"][steps[-1]["chosen"]]
            assert chosen[2] <= found.offset <= chosen[3]


def test_what_is_not_there(tmp_path: Path) -> None:
    log = filled(tmp_path, Random(1))
    (step,) = look_up_offset(log, log.log_end_offset + 1)
    assert step["title"] == "Nowhere"
    assert f"offsets 0 to {log.log_end_offset} (exclusive)" in step["text"]
    *_, last = look_up_offset(log, log.log_end_offset)
    assert last["chosen"] is None
    assert "waits for records to come" in last["text"]

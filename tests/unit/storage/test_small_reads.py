"""What is found and read in one call is what the longer way finds."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.storage import segment_reader
from pybroker_kafka.storage.files import FileSlice
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of


def filled(directory: Path, random: Random) -> Log:
    log = log_of(directory, index_interval_bytes=random.choice([0, 500, 4096]))
    for _ in range(random.randint(1, 120)):
        values = [bytes(random.choice([0, 10, 300, 6000])) for _ in range(random.randint(1, 4))]
        append_as_leader(log, batch_of(*values), leader_epoch=0, now_ms=0)
    if random.random() < 0.5:
        log.segments.active._recent.clear()  # as after a start
    return log


def look(log: Log, offset: int, max_bytes: int, end: int, at_least_one: bool) -> object:
    try:
        found = log.segments.active.read(offset, max_bytes, end, min_one_batch=at_least_one)
    except KafkaError as error:
        return error.code
    return found if found is None else (found.position if found.size else 0, found.read())


@pytest.mark.parametrize("seed", range(12))
def test_as_the_long_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    log = filled(tmp_path, random)
    segment = log.segments.active
    if seed % 3 == 0:  # a damaged byte, of the log or of its index
        path = segment.log_file.path if seed % 2 else segment.offset_index.path
        data = bytearray(Path(path).read_bytes())
        if data:
            data[random.randrange(len(data))] ^= 0x41
            with Path(path).open("r+b") as file:
                file.write(data)
    ends = [segment.size, *segment._recent.values()]
    cases = [
        (
            random.randint(0, log.log_end_offset),
            random.choice([0, 1, 61, 100, 4096, 8192, 8193]),
            random.choice(ends),
            random.random() < 0.5,
        )
        for _ in range(200)
    ]
    quick = [look(log, *case) for case in cases]
    monkeypatch.setattr(segment_reader, "SMALL_READ_BYTES", -1)
    assert quick == [look(log, *case) for case in cases]


def test_one_system_call(tmp_path: Path) -> None:
    log = filled(tmp_path, Random(1))
    segment = log.segments.active
    segment._recent.clear()
    found = segment.read(log.log_end_offset // 2, 4096, segment.size, min_one_batch=True)
    assert isinstance(found, FileSlice)
    assert len(found.held) == found.size

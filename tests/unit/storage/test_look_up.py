"""What a look-up in a segment reads.

| case | what it is about |
|---|---|
| a | `LookUp` gives what the file gives, whatever is asked for |
| b | a small fetch of old records reads the file once to find them |
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.storage.batch_scan import LookUp
from pybroker_kafka.storage.files import DataFile, Files
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of

CONTENT = bytes(range(256)) * 2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> DataFile:
    path = tmp_path_factory.mktemp("files") / "file"
    path.write_bytes(CONTENT)
    return Files().open_to_read(str(path))


@given(asked=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 600)), max_size=8))
def test_a_look_up_reads_what_the_file_has(file: DataFile, asked: list[tuple[int, int]]) -> None:
    look_up = LookUp(file)
    for size, position in asked:
        assert look_up.read_at(size, position) == CONTENT[position : position + size]


def test_b_a_small_fetch_is_found_with_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of(tmp_path)
    for number in range(500):
        append_as_leader(log, batch_of(b"x" * 1024, timestamp=number), leader_epoch=0, now_ms=0)
    reads: list[int] = []
    read_at = DataFile.read_at

    def counting(self: DataFile, size: int, position: int) -> bytes:
        reads.append(size)
        return read_at(self, size, position)

    monkeypatch.setattr(DataFile, "read_at", counting)
    for offset in range(250):
        reads.clear()
        read = log.read(offset, 10, upper_bound_offset=500, min_one_batch=True)
        assert len(read.records) > 1024
        assert len(reads) == 1

"""Files of old segments share a few descriptors with the indexes: what is let go of is opened
again, what is on its way to a client stays open, and without a descriptor an answer is a copy."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.files import CopiedRange, DataFile, Files
from pybroker_kafka.storage.kept_open import KeptOpen
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_lookup import SEGMENTS_PER_TURN
from pybroker_kafka.storage.retention import delete_segments_below_start
from pybroker_kafka.storage.segment import Segment
from pybroker_kafka.storage.segment_reader import SMALL_READ_BYTES
from tests.support.appends import append_as_leader
from tests.support.descriptors import no_descriptors
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

MOST = 6
SEGMENTS = 40
LARGE = 64 * 1024


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What is forgotten closes with its garbage, and that is collected rarely in tests."""
    yield
    gc.collect()


class One:
    """A file that can be opened again."""

    def __init__(self, kept: KeptOpen) -> None:
        self.is_listed = self.was_used = False
        self.file: DataFile | None = None
        self._kept = kept

    def use(self) -> DataFile:
        file = self.file
        if file is None:
            file = DataFile(os.open(os.devnull, os.O_RDONLY), os.devnull)
            if self._kept.add(self, file):
                self.file = file
        self.was_used = True
        return file

    def release_file(self) -> None:
        self.file = None


def test_what_is_used_stays_open() -> None:
    kept = KeptOpen(3)
    often, *others = (One(kept) for _ in range(20))
    first = often.use().fileno()
    for other in others:
        other.use()
        assert often.use().fileno() == first
        assert len(kept) <= 3
    assert sum(one.file is not None for one in others) == 2


def test_what_is_in_use_counts_until_it_is_closed() -> None:
    kept = KeptOpen(3)
    files = [One(kept) for _ in range(8)]
    in_use = [one.use() for one in files[:3]]
    assert files[3].use()
    assert files[3].file is None
    assert len(kept) == 3
    os.fstat(in_use[0].fileno())  # let go of, and open
    in_use.clear()
    for one in files:
        one.use()
        assert one.file is not None
    assert len(kept) == 3


def test_what_was_closed_otherwise_is_not_listed_for_ever() -> None:
    kept = KeptOpen(3)
    for _ in range(100):
        one = One(kept)
        one.use()
        one.release_file()
    assert len(kept._files) <= 4
    assert kept.close_all()
    assert not kept.close_all()


def files_of(most: int) -> Files:
    files = FaultyFiles()
    files._kept = KeptOpen(most)
    return files


def many_segments(directory: Path, files: Files, size: int = 100, **overrides: int) -> Log:
    """A log of SEGMENTS segments, with one batch each."""
    settings = {"segment_bytes": 1, "index_interval_bytes": 0, **overrides}
    settings["segment_bytes"] = max(size + 200, settings["segment_bytes"])
    manager = manager_of(directory, files=files, config=config_of(**settings))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for number in range(SEGMENTS):
        value = b"%04d" % number + bytes(size)
        append_as_leader(log, batch_of(value, timestamp=number), leader_epoch=0, now_ms=0)
    assert len(log.segments) == SEGMENTS
    log.update_high_watermark(log.log_end_offset)
    return log


def open_logs(log: Log) -> int:
    return sum(segment._file is not None for segment in log.segments)


def read(log: Log, offset: int, max_bytes: int = 1 << 20) -> bytes:
    return log.read(offset, max_bytes, upper_bound_offset=log.log_end_offset).records.read()


def test_old_segments_share_a_few_descriptors(tmp_path: Path) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    assert open_logs(log) <= MOST + 1
    for _ in range(2):
        for number in range(SEGMENTS):
            ((_, header),) = iter_batch_headers(read(log, number))
            assert header.base_offset == number
            assert open_logs(log) <= MOST + 1
    assert log.segments.active._file is not None


def test_an_answer_on_its_way_holds_its_file(tmp_path: Path) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    expected = read(log, 3)
    answer = log.read(3, 1 << 20, upper_bound_offset=log.log_end_offset).records
    for number in range(SEGMENTS):
        read(log, number)
    assert log.segments.floor(3)._file is None  # type: ignore[union-attr]
    log.maybe_increment_log_start_offset(20)
    delete_segments_below_start(log, 0)
    for path in log.local.take_deleted_files():
        os.unlink(path)
    assert os.pread(answer.fileno(), answer.size, answer.position) == expected


@pytest.mark.parametrize("size", [100, LARGE])
@pytest.mark.parametrize("max_bytes", [1, 500, SMALL_READ_BYTES, LARGE, 1 << 20])
def test_without_a_descriptor_an_answer_is_a_copy(
    tmp_path: Path, size: int, max_bytes: int
) -> None:
    log = many_segments(tmp_path, files_of(MOST), size)
    whole = [read(log, number) for number in range(SEGMENTS)]
    in_flight = [
        log.read(number, 1 << 20, upper_bound_offset=log.log_end_offset) for number in range(MOST)
    ]
    for number in [*range(MOST, SEGMENTS - 1), *range(MOST)]:
        found = log.read(number, max_bytes, upper_bound_offset=log.log_end_offset).records
        assert isinstance(found.file, CopiedRange)
        assert found.held == whole[number] == found.file.read_at(found.size, found.position)
        few = log.read(
            number, max_bytes, upper_bound_offset=log.log_end_offset, min_one_batch=False
        )
        is_cut = len(whole[number]) > min(max_bytes, SMALL_READ_BYTES)
        if is_cut and max_bytes > SMALL_READ_BYTES:
            assert few.records.read() == b""  # until it is the first of an answer
        else:
            assert few.records.read() == whole[number][:max_bytes]
            assert few.first_batch_incomplete == is_cut
    assert open_logs(log) == 1
    assert [one.records.read() for one in in_flight] == whole[:MOST]


def test_spare_descriptors_are_not_for_answers(tmp_path: Path) -> None:
    files = Files()
    files.keep_spare_descriptors(4, 1 << 20)
    log = many_segments(tmp_path, files)
    with no_descriptors():
        answers = []
        for number in range(SEGMENTS - 1):
            read_log = log.read(number, 1 << 20, upper_bound_offset=log.log_end_offset)
            answers.append(read_log.records)
            assert files.has_spare_descriptors()
    assert [next(iter_batch_headers(one.read()))[1].base_offset for one in answers] == [
        *range(SEGMENTS - 1)
    ]


def test_aborts_in_many_segments_take_no_descriptors(tmp_path: Path) -> None:
    files = files_of(MOST)
    assert isinstance(files, FaultyFiles)
    log = many_segments(tmp_path, files)
    for number in range(SEGMENTS):
        batch = batch_of(b"x" * 200, producer_id=number, epoch=0, sequence=0, transactional=True)
        append_as_leader(log, batch, leader_epoch=0, now_ms=0)
        origin = AppendOrigin.COORDINATOR
        append_as_leader(log, abort_of(number), leader_epoch=0, now_ms=0, origin=origin)
    held = [s for s in log.segments if s.transaction_index._file is not None]
    assert len(held) <= MOST
    indexes = [s.transaction_index for s in log.segments if s.transaction_index.entries]
    assert len(indexes) >= SEGMENTS // 2
    log.flush()
    assert {files.unsynced_bytes(index.path) for index in indexes} == {0}


def abort_of(producer_id: int) -> bytearray:
    marker = EndTxnMarker(ControlRecordType.ABORT, 0)
    return build_end_txn_marker(marker, timestamp=1, producer_id=producer_id, producer_epoch=0)


class CountingFiles(FaultyFiles):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.opened.append(path)
        return super().open(path, create=create)


def test_a_start_and_a_stop_open_the_active_segment_only(tmp_path: Path) -> None:
    many_segments(tmp_path, files := CountingFiles())
    manager_of(tmp_path, files=files).clean_shutdown()
    files.opened.clear()
    again = manager_of(tmp_path, files=files)
    (log,) = again.logs()
    assert len(log.segments) == SEGMENTS
    active = log.segments.active.path
    assert {path for path in files.opened if path.endswith(".log")} == {active}
    files.opened.clear()
    log.close()
    assert {path for path in files.opened if path.endswith(".log")} <= {active}


def test_a_look_up_goes_on_while_segments_are_deleted(tmp_path: Path) -> None:
    """It sees what it would have seen; and no file is made anew in the place of a deleted one."""
    log = many_segments(tmp_path, files_of(MOST))
    looked_up = log.batches_at_or_after(SEGMENTS - 1 - 5)
    turns = [batch for batch in [next(looked_up)] if not batch.data]
    assert turns  # that of the empty batches
    log.maybe_increment_log_start_offset(SEGMENTS - 1)
    delete_segments_below_start(log, 0)
    log.files._kept.close_all()  # type: ignore[union-attr]
    found = [batch for batch in looked_up if batch.data]
    assert [iter_offset(batch.data) for batch in found] == [*range(SEGMENTS - 6, SEGMENTS)]
    for path in log.local.take_deleted_files():
        os.unlink(path)
    directory = Path(log.directory)
    assert not [
        name for name in os.listdir(directory) if "index" in name and name[:20] != f"{39:020}"
    ]


def iter_offset(data: bytes) -> int:
    return next(iter_batch_headers(data))[1].base_offset


def test_a_look_up_after_the_files_are_gone_makes_none(tmp_path: Path) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    looked_up = log.batches_at_or_after(SEGMENTS - 6)
    next(looked_up)
    log.maybe_increment_log_start_offset(SEGMENTS - 1)
    delete_segments_below_start(log, 0)
    for path in log.local.take_deleted_files():
        os.unlink(path)
    before = sorted(os.listdir(log.directory))
    with pytest.raises(FileNotFoundError):
        list(looked_up)
    assert sorted(os.listdir(log.directory)) == before


def test_the_largest_timestamps_of_many_segments_are_asked_in_turns(tmp_path: Path) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    assert sum(not batch.data for batch in log.latest_batches()) == SEGMENTS // SEGMENTS_PER_TURN
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert found.offset == SEGMENTS - 1


def test_a_file_that_somebody_removed_is_missed_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    lost: Segment = log.segments.first
    os.unlink(lost.path)
    log.files._kept.close_all()  # type: ignore[union-attr]
    for _ in range(3):
        with pytest.raises(KafkaError, match=r"Cannot open .*0\.log.* segment of t-0") as refused:
            read(log, 0)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert caplog.text.count("the rest of the partition is served") == 1
    assert log.health.error is None
    assert iter_offset(read(log, 1)) == 1
    append_as_leader(log, batch_of(b"x"), leader_epoch=0, now_ms=0)


def test_a_flush_leaves_out_what_was_deleted_meanwhile(tmp_path: Path) -> None:
    log = many_segments(tmp_path, files_of(MOST))
    first, second = [*log.segments][:2]
    log.files._kept.close_all()  # type: ignore[union-attr]
    first.mark_deleted()
    for name in first.file_names():
        os.unlink(name)
    first.sync()
    os.unlink(second.path)
    with pytest.raises(FileNotFoundError):
        second.sync()

"""Every file of a log directory with every kind of damage: it costs what it holds, not the broker.

Whatever is damaged: the start succeeds or says what to do; the other partition is as it was; the
damaged one loses no record unless its data file itself was hit, or is offline alone and told in a
line that names it; and the next start after a clean stop finds nothing wrong any more.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.errors import KafkaError, ProtocolError
from pybroker_kafka.protocol.records.batch import crc_is_valid, iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.files import DataFile, DirectoryLock
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_directory import StartupError
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.recovery_notes import note_cut, write_gaps
from tests.simulation.disk import Disk, Inode, MemoryFiles
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, config_of

ROOT = "/logs"
HURT, WITNESS = "hurt", "witness"
SEGMENT_BYTES = 1000
CONFIG = config_of(
    segment_bytes=SEGMENT_BYTES,
    segment_index_bytes=1200,
    index_interval_bytes=100,
    cleanup_policy="compact,delete",
)
EPOCHS = 3
BATCHES_PER_EPOCH = 6
LOG_START = 2

Damage = Callable[[bytes], bytes]


def _flip(position: int) -> Damage:
    def damage(data: bytes) -> bytes:
        at = min(position, len(data) - 1)
        return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] if data else data

    return damage


def _negative(data: bytes) -> bytes:
    """Every number of a text file, every byte of another one."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return b"\xff" * len(data)
    return "\n".join([lines[0], *(line.replace(" ", " -") for line in lines[1:])]).encode()


DAMAGES: dict[str, Damage] = {
    "garbage": lambda data: bytes((7 * at + 131) % 256 for at in range(max(len(data), 64))),
    "text": lambda data: b"nobody knows what this is\nor where it comes from\n",
    "not UTF-8": lambda data: b"0\n1\n\xff\xfe \xc3 7\n",
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "half": lambda data: data[: len(data) // 2],
    "last byte": lambda data: data[:-1],
    "longer": lambda data: data + b"0 17\nx" * 3,
    "huge": lambda data: b"0\n" + b"9" * 100_000 + b"\n",
    "negative": _negative,
    "version": lambda data: bytes([data[0] ^ 9]) + data[1:] if data else b"9\n",
    "flip 0": _flip(0),
    "flip 4": _flip(4),
    "flip 9": _flip(9),
    "flip 13": _flip(13),
    "flip 20": _flip(20),
    "flip last": _flip(1 << 30),
}
# A text file's reader must notice these, and say so.
NOTICED = {"garbage", "text", "not UTF-8", "empty", "zeros", "huge", "negative", "version"}
CHECKPOINTS = {
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
}
REFUSED = {
    "meta.properties": ["remove it", "doesn't match stored", "Give it another log.dirs"],
    ".lock": ["Is a directory"],
}
TEXT_FILES = {*CHECKPOINTS, "leader-epoch-checkpoint", "partition.metadata"}


class StrictFiles(MemoryFiles):
    """In memory, for speed; a directory in the place of a file is in the way as on a real disk."""

    def _check(self, path: str) -> None:
        if path in self.disk.directories:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self._check(path)
        return super().open(path, create=create)

    def read(self, path: str) -> bytes:
        self._check(path)
        return super().read(path)

    def size(self, path: str) -> int:
        return 4096 if path in self.disk.directories else super().size(path)

    def rename(self, source: str, target: str) -> None:
        if source not in self.disk.directories:
            self._check(target)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._check(path)
        super().remove(path)

    def lock(self, path: str) -> DirectoryLock | None:
        self._check(path)
        return super().lock(path)


def copied(disk: Disk) -> Disk:
    copy = Disk()
    copy.directories = set(disk.directories)
    for path, inode in disk.inodes.items():
        copy.inodes[path] = Inode()
        copy.inodes[path].data = bytearray(inode.data)
    return copy


class Seen(NamedTuple):
    start: int
    end: int
    high_watermark: int
    epochs: list[tuple[int, int]]
    batches: list[tuple[int, bytes]]
    aborted: int


def see(log: Log) -> Seen:
    """All that a consumer and a follower can see of a log."""
    batches: list[tuple[int, bytes]] = []
    offset, aborted = log.log_start_offset, 0
    while offset < log.log_end_offset:
        read = log.read(offset, 300, upper_bound_offset=log.log_end_offset, include_aborted=True)
        data = read.records.read()
        assert data, f"nothing at {offset} of {log}"
        aborted = max(aborted, len(read.aborted_transactions or ()))
        for position, header in iter_batch_headers(data):
            end = position + header.size_in_bytes
            if end <= len(data):
                batches.append((header.base_offset, data[position:end]))
                offset = header.next_offset
    return Seen(
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.leader_epochs.entries,
        batches,
        aborted,
    )


def manager_of(disk: Disk) -> LogManager:
    files = StrictFiles(disk.revive().disk)
    manager = LogManager([ROOT], files, CONFIG, broker_id=1, cluster_id="cluster")
    manager.load(0)
    return manager


def topic_id_of(topic: str) -> bytes:
    return topic.encode().ljust(16, b"!")


def fill(manager: LogManager, topic: str) -> Log:
    log = manager.get_or_create_log(topic, 0, topic_id_of(topic), None, 0)
    sequence = 0
    for epoch in range(EPOCHS):
        for number in range(BATCHES_PER_EPOCH):
            batch = batch_of(
                b"v" * 40,
                b"w" * 40,
                timestamp=1000 * epoch + number,
                producer_id=5,
                epoch=0,
                sequence=sequence,
                transactional=True,
            )
            append_as_leader(log, batch, leader_epoch=epoch, now_ms=0)
            sequence += 2
        marker = build_end_txn_marker(
            EndTxnMarker(ControlRecordType(epoch % 2), 0),
            timestamp=1000 * epoch,
            producer_id=5,
            producer_epoch=0,
        )
        append_as_leader(log, marker, leader_epoch=epoch, now_ms=0, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(LOG_START)
    log.first_dirty_offset = LOG_START
    return log


class Stopped(NamedTuple):
    """A log directory, its broker stopped cleanly or killed, and what was in it."""

    disk: Disk
    hurt: Seen
    witness: Seen


def make(*, clean: bool) -> Stopped:
    disk = Disk()
    manager = manager_of(disk)
    logs = [fill(manager, topic) for topic in (HURT, WITNESS)]
    for log in logs:
        log.flush()
    seen = [see(log) for log in logs]
    for name in CHECKPOINTS:
        for job in manager.maintenance.checkpoint_jobs(name):
            job.run()
    if clean:
        manager.clean_shutdown()
    else:
        # As after a cut, and after a cleaning.
        note_cut(manager.files, f"{ROOT}/{HURT}-0", 20, [30])
        write_gaps(manager.files, f"{ROOT}/{HURT}-0", 4)
        manager.release()
    return Stopped(disk, seen[0], seen[1])


@pytest.fixture(scope="module")
def made() -> dict[bool, Stopped]:
    return {clean: make(clean=clean) for clean in (True, False)}


def files_of(disk: Disk) -> Iterator[str]:
    """All but the witness's."""
    for path in sorted(disk.inodes):
        if f"/{WITNESS}-0/" not in path:
            yield path


def start(disk: Disk, caplog: pytest.LogCaptureFixture) -> tuple[LogManager, str]:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        manager = manager_of(disk)
    for record in caplog.records:
        assert record.exc_info is None, "a traceback"
    return manager, "\n".join(record.getMessage() for record in caplog.records)


def check_witness(manager: LogManager, stopped: Stopped, damaged: str) -> None:
    log = manager.get_log(WITNESS, 0)
    assert log is not None, "the neighbour is gone"
    seen = see(log)
    assert seen.end == stopped.witness.end
    assert seen.epochs[1:] == stopped.witness.epochs[1:]
    assert seen.batches[-len(stopped.witness.batches) :] == stopped.witness.batches
    if damaged not in CHECKPOINTS:
        assert seen == stopped.witness


def check_hurt(log: Log, stopped: Stopped, damaged: Path) -> None:
    """It lost nothing but what was in the damaged file."""
    before, seen = stopped.hurt, see(log)
    assert seen.batches[-len(before.batches) :] == before.batches
    assert (seen.start, seen.end) in ((before.start, before.end), (0, before.end))
    assert seen.high_watermark <= before.high_watermark
    if damaged.name != "leader-epoch-checkpoint":
        assert [epoch for epoch, _ in seen.epochs] == list(range(EPOCHS))
    if damaged.suffix != ".txnindex":
        assert seen.aborted >= before.aborted


def check_damaged_data(log: Log, stopped: Stopped) -> None:
    """What can be read is what was written, up to where an error says that nothing can be."""
    written = b"".join(
        inode.data for path, inode in stopped.disk.inodes.items() if path.endswith(".log")
    )
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, 300, upper_bound_offset=log.log_end_offset).records.read()
            (_, header), *_ = iter_batch_headers(data)
        except (KafkaError, ProtocolError):
            break  # the consumer is told
        batch = data[: header.size_in_bytes]
        if crc_is_valid(batch, 0, header):
            # Offset and leader epoch are outside of the checksum, as Kafka made it.
            assert batch[17:] in written
        offset = max(header.next_offset, offset + 1)
    append_as_leader(log, batch_of(b"after"), leader_epoch=EPOCHS, now_ms=0)


def damaged_start(
    disk: Disk, stopped: Stopped, path: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    relative = Path(path).relative_to(ROOT)
    refusal = None
    try:
        manager, told = start(disk, caplog)
    except StartupError as error:
        refusal = str(error)
    if refusal is not None:
        assert relative.name in REFUSED
        assert path in refusal
        assert any(advice in refusal for advice in REFUSED[relative.name]), refusal
        return
    check_witness(manager, stopped, relative.name)
    log = manager.get_log(HURT, 0)
    if log is None:
        assert manager.is_offline(HURT, 0)
        assert relative.suffix == ".log" or name == "directory"
        assert f"{HURT}-0 is offline" in told
        assert path in told
        manager.clean_shutdown()
        return
    if name in NOTICED and relative.name in TEXT_FILES:
        assert path in told, told
    if relative.suffix == ".log":
        check_damaged_data(log, stopped)
        manager.clean_shutdown()
        return
    check_hurt(log, stopped, relative)
    log.assign_topic_id(topic_id_of(HURT))
    end = log.log_end_offset
    append_as_leader(log, batch_of(b"after"), leader_epoch=EPOCHS, now_ms=0)
    assert log.log_end_offset == end + 1
    assert see(log).batches[-1][0] == end
    manager.clean_shutdown()
    again, told = start(disk, caplog)
    assert "damaged" not in told
    assert "corrupt" not in told
    found = again.get_log(HURT, 0)
    assert found is not None
    assert found.log_end_offset == end + 1
    check_witness(again, stopped, relative.name)
    again.release()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", [*DAMAGES, "missing", "directory"])
def test_damage_costs_what_the_file_holds(
    made: dict[bool, Stopped],
    caplog: pytest.LogCaptureFixture,
    name: str,
    clean: bool,
) -> None:
    stopped = made[clean]
    found = 0
    failures: list[Exception] = []
    for path in files_of(stopped.disk):
        found += 1
        disk = copied(stopped.disk)
        if name in DAMAGES:
            inode = disk.inodes[path]
            inode.data = bytearray(DAMAGES[name](bytes(inode.data)))
        else:
            del disk.inodes[path]
            if name == "directory":
                disk.directories.add(path)
        try:
            damaged_start(disk, stopped, path, name, caplog)
        except Exception as error:
            error.add_note(f"{path} with {name}")
            failures.append(error)
    if failures:
        raise ExceptionGroup(f"{len(failures)} files", failures)
    assert found > 20

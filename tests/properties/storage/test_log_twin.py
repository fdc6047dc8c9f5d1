"""The log against its dumb twin: any sequence of appends, reads, rolls, truncations, restarts and
crashes leaves both with the same records, epochs and producers.

After a crash the twin is cut to what the log still has; what had been flushed must be there.

Some logs may have only a few files open beside that of the active segment, and answers on their way
to clients hold some of those: each stays what it was, whatever is deleted meanwhile.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.storage.checkpoints import RECOVERY_POINT_FILE
from pybroker_kafka.storage.files import FileSlice
from pybroker_kafka.storage.kept_open import KeptOpen
from pybroker_kafka.storage.local_log import CutNotNoted
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import Job, LogManager
from pybroker_kafka.storage.retention import delete_segments_below_start
from tests.support import examples
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import checkpoint_log_start_offsets, checkpoint_recovery_points
from tests.support.log_twin import TwinBatch, TwinLog

R = TypeVar("R")

CONFIG = LogConfig.from_overrides(
    {
        "segment.bytes": "1200",
        "index.interval.bytes": "100",
        "segment.index.bytes": "96",
        "segment.ms": "5000",
    },
    {},
)
_INT64 = Struct(">q")

values = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=5)
segments_full = st.lists(
    st.lists(st.binary(min_size=40, max_size=60), min_size=2, max_size=5), min_size=6, max_size=12
)
timestamps = st.integers(min_value=0, max_value=20_000)
fractions = st.floats(min_value=0, max_value=1)


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.twin = TwinLog()
        self.epoch = 0
        self.sequences: dict[int, tuple[int, int]] = {}
        self.time = 0
        self.checkpoints: list[Job] = []
        self.start_on_disk = 0

    def teardown(self) -> None:
        self.manager.release()
        shutil.rmtree(self.directory)

    @initialize(most=st.sampled_from([None, 0, 1, 3]))
    def start(self, most: int | None) -> None:
        self.files = FaultyFiles()
        self.files._kept = None if most is None else KeptOpen(most)
        self.in_flight: list[tuple[FileSlice, bytes]] = []
        self.open()

    def open(self) -> None:
        self.manager = LogManager([self.directory], self.files, CONFIG, broker_id=1, cluster_id="c")
        self.manager.load(self.time)
        self.log: Log = self.manager.get_or_create_log("t", 0, b"\x07" * 16, None, self.time)

    def build(
        self,
        payload: list[bytes],
        times: list[int],
        codec: Compression,
        producer: tuple[int, int, int] | None = None,
    ) -> bytearray:
        pairs = zip(times, payload, strict=True)
        producer_id, producer_epoch, sequence = producer or (-1, -1, -1)
        return build_batch(
            [SimpleRecord(t, b"k", v) for t, v in pairs],
            compression=codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )

    # Appending

    @rule(
        payload=values,
        data=st.data(),
        codec=st.sampled_from([Compression.NONE] * 3 + [Compression.GZIP]),
    )
    def append(self, payload: list[bytes], data: st.DataObject, codec: Compression) -> None:
        times = data.draw(st.lists(timestamps, min_size=len(payload), max_size=len(payload)))
        batch = self.build(payload, times, codec)
        info = append_as_leader(self.log, batch, leader_epoch=self.epoch, now_ms=self.time)
        assert (info.first_offset, info.last_offset) == (
            self.twin.end,
            self.twin.end + len(payload) - 1,
        )
        assert info.max_timestamp == max(times)
        self.twin.append(TwinBatch(self.twin.end, times, payload, self.epoch))

    @rule(producer_id=st.integers(1, 3), payload=values, bump=st.booleans())
    def append_idempotent(self, producer_id: int, payload: list[bytes], bump: bool) -> None:
        known = self.twin.last_batches_of(producer_id)
        epoch, sequence = 0, 0
        if known:
            last = known[-1].producer
            assert last is not None
            epoch, sequence = last[1], last[2] + len(known[-1].values)
            if bump:
                epoch, sequence = epoch + 1, 0
        times = [self.time] * len(payload)
        producer = (producer_id, epoch, sequence)
        info = append_as_leader(
            self.log,
            self.build(payload, times, Compression.NONE, producer),
            leader_epoch=self.epoch,
            now_ms=self.time,
        )
        assert not info.duplicate
        self.twin.append(TwinBatch(self.twin.end, times, payload, self.epoch, producer))

    @rule(producer_id=st.integers(1, 3), which=fractions)
    def append_duplicate(self, producer_id: int, which: float) -> None:
        known = self.twin.last_batches_of(producer_id)
        if not known:
            return
        batch = known[int(which * (len(known) - 1))]
        if batch.last_offset < self.twin.start:
            return  # a restart forgets what was deleted
        if producer_id in self.forgotten_batches() and batch is not known[-1]:
            return
        again = self.build(batch.values, batch.timestamps, Compression.NONE, batch.producer)
        info = append_as_leader(self.log, again, leader_epoch=self.epoch, now_ms=self.time)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (batch.base_offset, batch.last_offset)

    def forgotten_batches(self) -> set[int]:
        """Producers of which the log kept only the last batch (it came from a snapshot)."""
        return {
            producer_id
            for producer_id, entry in self.log.producer_state.entries.items()
            if len(entry.batches) < len(self.twin.last_batches_of(producer_id))
        }

    @rule(producer_id=st.integers(1, 3), payload=values, gap=st.integers(1, 5))
    def append_out_of_order(self, producer_id: int, payload: list[bytes], gap: int) -> None:
        known = self.twin.last_batches_of(producer_id)
        if not known or known[-1].last_offset < self.twin.start:
            return
        last = known[-1].producer
        assert last is not None
        sequence = last[2] + len(known[-1].values) + gap
        producer = (producer_id, last[1], sequence)
        batch = self.build(payload, [0] * len(payload), Compression.NONE, producer)
        with pytest.raises(KafkaError) as caught:
            append_as_leader(self.log, batch, leader_epoch=self.epoch, now_ms=self.time)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(payloads=st.lists(values, min_size=1, max_size=4), gap=st.integers(0, 3))
    def append_as_follower(self, payloads: list[list[bytes]], gap: int) -> None:
        data = bytearray()
        offset = self.twin.end + gap
        batches = []
        for payload in payloads:
            times = [self.time] * len(payload)
            batch = self.build(payload, times, Compression.NONE)
            _INT64.pack_into(batch, 0, offset)
            batch[12:16] = self.epoch.to_bytes(4, "big")
            batches.append(TwinBatch(offset, times, payload, self.epoch))
            offset = batches[-1].next_offset
            data += batch
        torn = bytes(data) + bytes(batch[:20])
        info = self.log.append_as_follower(torn, now_ms=self.time)
        assert info.last_offset == offset - 1
        assert info.shallow_count == len(payloads)
        for twin_batch in batches:
            self.twin.append(twin_batch)

    # Moving on

    @rule(step=st.integers(1, 3000))
    def pass_time(self, step: int) -> None:
        self.time += step

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        if self.log.segments.active.size:
            self.log.roll(self.time)

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.log.log_end_offset
        self.twin.flushed = self.twin.end

    @rule(share=fractions)
    def delete_records(self, share: float) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        target = self.twin.start + int(share * (self.twin.end - self.twin.start))
        self.log.maybe_increment_log_start_offset(target)
        delete_segments_below_start(self.log, self.time)
        self.twin.start = max(self.twin.start, target)
        if int(share * 1000) % 2:
            for path in self.log.local.take_deleted_files():
                self.files.remove(path)

    @rule(share=fractions)
    def truncate(self, share: float) -> None:
        self.end_sending()  # what is cut and written anew is no longer what was read
        target = self.twin.start + int(share * (self.twin.end - self.twin.start))
        changed = self.once_noted(lambda: self.log.truncate_to(target, self.time))
        assert changed == (target < self.twin.end)
        if changed:
            self.twin.truncate(target)
            last = self.twin.batches[-1].next_offset if self.twin.batches else 0
            assert last <= self.log.log_end_offset <= target
            self.twin.end_at(self.log.log_end_offset)

    @rule(
        share=fractions,
        payloads=segments_full,
        seed=st.integers(0, 2**32),
        ends_between=st.booleans(),
    )
    def lose_power_after_a_truncation(
        self, share: float, payloads: list[list[bytes]], seed: int, ends_between: bool
    ) -> None:
        """What the checkpoint shows is from before the truncation."""
        for payload in payloads:
            self.append_as_follower([payload], 0)
        self.flush()
        self.begin_checkpoint()
        if seed % 2:
            self.end_checkpoint()
        self.truncate(share)
        self.end_checkpoint()
        for payload in payloads:
            self.append_as_follower([payload], 0)
        self.power_cut(seed, ends_between)

    @rule(offset=st.integers(0, 500))
    def truncate_fully(self, offset: int) -> None:
        self.once_noted(lambda: self.log.truncate_fully_and_start_at(offset, self.time))
        self.twin.restart_at(offset)

    def once_noted(self, cut: Callable[[], R]) -> R:
        """A cut that is refused has changed nothing; the next flush notes it."""
        before = self.log.log_end_offset, self.log.log_start_offset
        try:
            return cut()
        except CutNotNoted:
            assert (self.log.log_end_offset, self.log.log_start_offset) == before
            self.flush()
            return cut()

    # Stopping and starting

    @rule()
    def restart(self) -> None:
        self.end_checkpoint()
        self.manager.clean_shutdown()
        self.start_on_disk = self.log.log_start_offset
        self.open()
        self.twin.flushed = self.twin.end

    @rule()
    def kill(self) -> None:
        """The process dies, the machine lives: nothing written is lost."""
        self.stop()
        self.open()

    def stop(self) -> None:
        """The log start is checkpointed when it has changed, after the recovery point."""
        self.end_sending()
        if self.log.log_start_offset != self.start_on_disk:
            self.log.leader_epochs.sync()  # they confirm it
            checkpoint_recovery_points(self.manager)
            checkpoint_log_start_offsets(self.manager)
            self.start_on_disk = self.log.log_start_offset
        self.checkpoints = []
        self.manager.release()

    @rule()
    def begin_checkpoint(self) -> None:
        """Of the recovery points; it comes to its end whenever it does."""
        self.end_checkpoint()
        self.checkpoints = self.manager.maintenance.checkpoint_jobs(RECOVERY_POINT_FILE)

    @rule()
    def end_checkpoint(self) -> None:
        for job in self.checkpoints:
            job.run()
        self.checkpoints = []

    @rule(seed=st.integers(0, 2**32), between_batches=st.booleans())
    def power_cut(self, seed: int, between_batches: bool) -> None:
        self.stop()
        choose = random.Random(seed)

        def decide(path: str, lost: int) -> tuple[str, int]:
            if between_batches and path.endswith(".log"):
                return "cut", choose.choice(self.tails(path, lost))
            how = choose.choice(["cut", "zero", "hole"])
            if how == "hole" and path.endswith("index"):
                how = "zero"  # a disk does not lose the half of an entry
            return how, choose.randint(0, lost)

        self.files.crash(self.directory, decide)
        self.open()
        end = self.log.log_end_offset
        assert self.twin.flushed <= end
        self.twin.batches = [b for b in self.twin.batches if b.last_offset < end]
        self.twin.start = self.log.log_start_offset
        self.twin.end = end
        self.twin.flushed = min(self.twin.flushed, end)

    @staticmethod
    def tails(path: str, unsynced: int) -> list[int]:
        """So many bytes at the end of a segment are its last batches, or none."""
        data = Path(path).read_bytes()
        ends = [position + header.size_in_bytes for position, header in iter_batch_headers(data)]
        return [len(data) - end for end in [0, *ends] if len(data) - end <= unsynced]

    # Looking

    @rule(
        share=fractions, max_bytes=st.integers(0, 700), upper_share=fractions, min_one=st.booleans()
    )
    def read(self, share: float, max_bytes: int, upper_share: float, min_one: bool) -> None:
        start, end = self.twin.start, self.twin.end
        offset = start + int(share * (end - start))
        bounds = [b.next_offset for b in self.twin.batches] or [end]
        upper = bounds[int(upper_share * (len(bounds) - 1))]
        result = self.log.read(offset, max_bytes, upper_bound_offset=upper, min_one_batch=min_one)
        data = result.records.read()
        assert len(data) == len(result.records)
        found = [(h.base_offset, h.last_offset) for _, h in iter_batch_headers(data)]
        wanted = [
            (b.base_offset, b.last_offset)
            for b in self.twin.batches
            if b.last_offset >= offset and b.base_offset < upper
        ]
        assert found == wanted[: len(found)]
        if wanted and offset < upper and min_one:
            assert found
        if not min_one:
            assert len(data) <= max_bytes

    @rule(share=fractions)
    def begin_to_send(self, share: float) -> None:
        end = self.twin.end
        offset = self.twin.start + int(share * (end - self.twin.start))
        records = self.log.read(offset, 1 << 20, upper_bound_offset=end).records
        if records.size:
            self.in_flight.append((records, records.read()))

    @rule()
    def end_sending(self) -> None:
        for records, data in self.in_flight:
            assert records.file.read_at(records.size, records.position) == data
        self.in_flight.clear()

    @rule(timestamp=timestamps)
    def look_up_time(self, timestamp: int) -> None:
        found = self.log.offset_for_timestamp(timestamp)
        wanted = self.twin.at_time(timestamp)
        assert (None if found is None else found[:2]) == wanted

    @rule(below=st.integers(1, 50))
    def read_out_of_range(self, below: int) -> None:
        for offset in (self.twin.start - below, self.twin.end + below):
            with pytest.raises(KafkaError) as caught:
                self.log.read(offset, 100, upper_bound_offset=self.twin.end)
            assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    @invariant()
    def few_files(self) -> None:
        if not hasattr(self, "log") or self.files._kept is None:
            return
        open_files = sum(segment._file is not None for segment in self.log.segments)
        assert open_files <= self.files._kept._most + 1
        assert len(self.files._kept) <= self.files._kept._most + len(self.in_flight)

    @invariant()
    def same_records(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.twin.start, self.twin.end)
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 400, upper_bound_offset=log.log_end_offset).records.read()
            if not data:
                break
            for position, header in iter_batch_headers(data):
                found += [
                    (r.offset, r.timestamp, r.value)
                    for r in iter_records(data, position)
                    if r.offset >= offset
                ]
                offset = header.next_offset
        assert found == self.twin.records()

    @invariant()
    def same_producers(self) -> None:
        if not hasattr(self, "log"):
            return
        for producer_id, entry in self.log.producer_state.entries.items():
            known = self.twin.last_batches_of(producer_id)
            if known and known[-1].base_offset >= self.twin.start:
                assert entry.last_data_offset == known[-1].last_offset


def test_log_and_twin_agree() -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(max_examples=examples.of(60), stateful_step_count=40, deadline=None),
    )

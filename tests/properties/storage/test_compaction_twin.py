"""Compaction against its dumb twin, a dictionary of last values: any sequence of appends (plain,
idempotent, transactional, compressed, tombstones), cleanings, crashes at any step of a cleaning, of
its swap or of the load after it, and restarts leaves a log that tells the same to a reader.

Offsets never change, nothing is made up, aborted data is never read, and producers go on where they
were, even where only the log itself is left to tell.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.cleaner.manager import CleanerManager, CleanerSettings
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.recovery_notes import KEPT_FILES
from tests.support import examples
from tests.support.appends import append_as_leader
from tests.support.cleaning import run_cleaning, surviving
from tests.support.crashing_files import Crash, CrashingFiles
from tests.support.log_checkpoints import checkpoint_recovery_points, cut

CONFIG = LogConfig.from_overrides(
    {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
        "segment.bytes": "900",
        "index.interval.bytes": "100",
        "segment.index.bytes": "96",
        "delete.retention.ms": "100",
    },
    {},
)
PRODUCERS = (1, 2, 3, 4)
TRANSACTIONAL = (3, 4)

pairs = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"d", b"long" * 20]),
        st.one_of(st.none(), st.binary(min_size=1, max_size=30)),
    ),
    min_size=1,
    max_size=5,
)
codecs = st.sampled_from([Compression.NONE] * 3 + [Compression.GZIP, Compression.ZSTD])


@dataclass(slots=True)
class Written:
    """One record of the twin. `state` is that of its transaction."""

    offset: int
    key: bytes
    value: bytes | None
    timestamp: int
    producer_id: int
    state: str = "committed"
    batch_end: int = 0


@dataclass(slots=True)
class Transaction:
    first_offset: int
    marker: int = -1


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp()
        self.files = CrashingFiles()
        self.written: dict[int, Written] = {}
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.last_batch: dict[int, tuple[int, bytearray]] = {}
        self.transactions: list[Transaction] = []
        self.open_transactions: dict[int, Transaction] = {}
        self.high_watermark = 0
        self.time = 1000

    @initialize()
    def start(self) -> None:
        self.open()

    def open(self) -> None:
        self.manager = LogManager([self.directory], self.files, CONFIG, broker_id=1, cluster_id="c")
        self.manager.load(self.time)
        self.log: Log = self.manager.get_or_create_log("t", 0, b"\x07" * 16, None, self.time)
        self.log.update_high_watermark(self.high_watermark)
        self.cleaners = CleanerManager(self.manager, self.time)

    def teardown(self) -> None:
        self.manager.release()
        shutil.rmtree(self.directory)

    # Appending

    @rule(content=pairs, codec=codecs, producer=st.sampled_from((-1, -1, *PRODUCERS)))
    def append(
        self, content: list[tuple[bytes, bytes | None]], codec: Compression, producer: int
    ) -> None:
        transactional = producer in TRANSACTIONAL
        batch = build_batch(
            [SimpleRecord(self.time + i, k, v) for i, (k, v) in enumerate(content)],
            compression=codec,
            producer_id=producer,
            producer_epoch=0 if producer > 0 else -1,
            base_sequence=self.sequences[producer] if producer > 0 else -1,
            is_transactional=transactional,
        )
        again = bytearray(batch)
        info = append_as_leader(self.log, batch, leader_epoch=0, now_ms=self.time)
        assert not info.duplicate
        first = info.first_offset
        state = "open" if transactional else "committed"
        for i, (key, value) in enumerate(content):
            self.written[first + i] = Written(
                first + i, key, value, self.time + i, producer, state, info.last_offset
            )
        if producer > 0:
            self.sequences[producer] += len(content)
            self.last_batch[producer] = first, again
        if transactional and producer not in self.open_transactions:
            transaction = self.open_transactions[producer] = Transaction(first)
            self.transactions.append(transaction)

    @rule(
        content=pairs, producer=st.sampled_from(TRANSACTIONAL), commit=st.booleans(), codec=codecs
    )
    def transaction(
        self,
        content: list[tuple[bytes, bytes | None]],
        codec: Compression,
        producer: int,
        commit: bool,
    ) -> None:
        self.append(content, codec, producer)
        self.end_transaction(producer, commit)

    @rule(producer=st.sampled_from(TRANSACTIONAL), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        transaction = self.open_transactions.pop(producer, None)
        if transaction is None:
            return
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = build_end_txn_marker(
            EndTxnMarker(kind, 0), timestamp=self.time, producer_id=producer, producer_epoch=0
        )
        info = append_as_leader(
            self.log, marker, leader_epoch=0, now_ms=self.time, origin=AppendOrigin.COORDINATOR
        )
        transaction.marker = info.first_offset
        for record in self.written.values():
            if record.producer_id == producer and record.state == "open":
                record.state = "committed" if commit else "aborted"

    @rule(producer=st.sampled_from(PRODUCERS))
    def append_again(self, producer: int) -> None:
        """A retry is known, whatever became of the records of its batch."""
        if producer in self.last_batch:
            first, batch = self.last_batch[producer]
            info = append_as_leader(self.log, bytearray(batch), leader_epoch=0, now_ms=self.time)
            assert info.duplicate
            assert info.first_offset == first

    # Moving on

    def roll(self) -> None:
        if self.log.segments.active.size:
            self.log.roll(self.time)

    def replicate(self) -> None:
        self.high_watermark = self.log.update_high_watermark(self.log.log_end_offset)

    @precondition(lambda self: not self.open_transactions)
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """Never below the high watermark, nor within what producers are asked about here."""
        newest = max((first for first, _ in self.last_batch.values()), default=0)
        markers = max((t.marker for t in self.transactions), default=0)
        low = max(self.high_watermark, newest, markers)
        if any(r.producer_id > 0 and r.batch_end >= low for r in self.written.values()):
            low = self.log.log_end_offset
        target = low + int(share * (self.log.log_end_offset - low))
        target = min((r.offset for r in self.first_of_batches() if r.offset >= target), default=-1)
        if target >= 0 and cut(self.log, target, self.time):
            self.written = {o: r for o, r in self.written.items() if o < target}

    def first_of_batches(self) -> Iterator[Written]:
        end = -1
        for record in self.written.values():
            if record.offset > end:
                yield record
            end = record.batch_end

    # Cleaning

    def make_due(self) -> None:
        self.roll()
        self.replicate()

    @rule(
        buffer_keys=st.sampled_from([3, 1000, 1000]),
        append_meanwhile=st.booleans(),
        step=st.sampled_from([0, 60, 120]),
    )
    def clean(self, buffer_keys: int, append_meanwhile: bool, step: int) -> None:
        self.make_due()
        self.time += step
        size = CleanerSettings(24 * buffer_keys, 0.9, 256)
        cleaning = self.cleaners.choose(self.time, size)
        if cleaning is None:
            return
        appended: list[bool] = []

        def pace(_: int) -> None:
            if append_meanwhile and not appended:
                appended.append(True)
                self.append([(b"a", b"meanwhile")], Compression.NONE, -1)
                self.log.roll(self.time)

        run_cleaning(self.manager, self.cleaners, cleaning, self.time, pace)
        self.check_cleaned()

    def check_cleaned(self) -> None:
        """Below the first dirty offset a key is there once, and no aborted record."""
        keys = [
            record.key
            for record in surviving(self.log)
            if record.offset < (self.log.first_dirty_offset or 0) and not record.attributes & 0x20
        ]
        assert len(keys) == len(set(keys))

    @rule(steps=st.integers(0, 60), steps_of_load=st.integers(-1, 12), power=st.booleans())
    def crash_while_cleaning(self, steps: int, steps_of_load: int, power: bool) -> None:
        self.make_due()
        self.log.flush()
        checkpoint_recovery_points(self.manager)
        self.files.countdown = steps
        try:
            cleaning = self.cleaners.choose(self.time, CleanerSettings(1 << 16, 0.9, 256))
            if cleaning is not None:
                run_cleaning(self.manager, self.cleaners, cleaning, self.time)
        except Crash:
            pass
        self.manager.release()
        if power:
            self.files.crash(self.directory, lambda path, lost: ("cut", lost))
        self.files.countdown = steps_of_load
        try:
            self.open()
        except Crash:
            self.manager.release()
            self.files.countdown = -1
            self.open()
        self.files.countdown = -1
        leftovers = {".swap", ".cleaned", ".deleted"}
        names = {path.name for path in Path(self.directory, "t-0").iterdir()} - KEPT_FILES
        assert not [name for name in names if Path(name).suffix in leftovers]

    # Stopping and starting

    @rule(keep_snapshots=st.booleans(), cleanly=st.booleans())
    def restart(self, keep_snapshots: bool, cleanly: bool) -> None:
        if cleanly:
            self.manager.clean_shutdown()
        else:
            self.manager.release()
        if not keep_snapshots:
            for path in Path(self.directory, "t-0").glob("*.snapshot"):
                path.unlink()
            Path(self.directory, ".kafka_cleanshutdown").unlink(missing_ok=True)
        self.open()
        for producer in PRODUCERS:
            self.append_again(producer)

    # Looking

    def read_committed(self) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        """As a consumer does: with the aborted transactions that come with what is fetched."""
        log = self.log
        offset, end = log.log_start_offset, log.last_stable_offset
        while offset < end:
            found = log.read(offset, 500, upper_bound_offset=end, include_aborted=True)
            data = found.records.read()
            aborted = sorted(found.aborted_transactions or [], key=lambda t: t.first_offset)
            aborting: set[int] = set()
            if not data:
                return
            for position, header in iter_batch_headers(data):
                while aborted and aborted[0].first_offset <= header.last_offset:
                    aborting.add(aborted.pop(0).producer_id)
                offset = header.next_offset
                if header.is_control:
                    aborting.discard(header.producer_id)
                elif not (header.is_transactional and header.producer_id in aborting):
                    for record in iter_records(data, position):
                        yield record.offset, record.key, record.value

    @invariant()
    def same_to_a_reader(self) -> None:
        if not hasattr(self, "log"):
            return
        stable = self.log.last_stable_offset
        assert self.stable_offset(strict=True) <= stable <= self.stable_offset(strict=False)
        wanted: dict[bytes, bytes] = {}
        for record in self.written.values():
            if record.offset < stable and record.state == "committed":
                wanted[record.key] = record.value  # type: ignore[assignment]
        found: dict[bytes | None, bytes | None] = {}
        last = -1
        for offset, key, value in self.read_committed():
            known = self.written[offset]
            assert (known.key, known.value, known.state) == (key, value, "committed")
            assert offset > last
            last = offset
            found[key] = value
        assert _without_tombstones(found) == _without_tombstones(wanted)

    def stable_offset(self, *, strict: bool) -> int:
        """Transactions with a marker that is not replicated bound it, until the next restart."""
        unstable = [
            t.first_offset
            for t in self.transactions
            if t.marker < 0 or (strict and t.marker >= self.high_watermark)
        ]
        return min([self.high_watermark, *unstable])

    @invariant()
    def nothing_is_made_up(self) -> None:
        if not hasattr(self, "log"):
            return
        for record in surviving(self.log):
            if not record.attributes & 0x20:
                known = self.written[record.offset]
                assert (known.key, known.value, known.timestamp, known.producer_id) == (
                    record.key,
                    record.value,
                    record.timestamp,
                    record.producer_id,
                )
        end = max((record.offset for record in self.written.values()), default=-1)
        assert self.log.log_end_offset > end


def _without_tombstones(values: object) -> dict[bytes, bytes]:
    assert isinstance(values, dict)
    return {key: value for key, value in values.items() if value is not None}


def test_compaction_against_its_twin() -> None:
    run_state_machine_as_test(
        CompactionMachine,
        settings=settings(max_examples=examples.of(60), stateful_step_count=40, deadline=None),
    )


def test_what_recovery_made_anew_outlives_a_power_cut() -> None:
    """Found by the machine above: an index of aborted transactions that was rebuilt, and flushed by
    nobody, since all of the log counted as flushed; a reader saw what had been aborted."""
    machine = CompactionMachine()
    try:
        machine.start()
        machine.transaction(
            content=[(b"a", None)], codec=Compression.NONE, producer=3, commit=False
        )
        machine.append(content=[(b"a", None)], codec=Compression.NONE, producer=3)
        machine.restart(cleanly=True, keep_snapshots=False)
        machine.clean(append_meanwhile=False, buffer_keys=3, step=0)
        machine.restart(cleanly=False, keep_snapshots=False)
        machine.crash_while_cleaning(power=True, steps=0, steps_of_load=0)
        machine.same_to_a_reader()
    finally:
        machine.teardown()

"""States that must not exist, made by hand: each is found by the next change of what it belongs to.

In an append it takes the log's directory offline, anywhere else it is a `BrokenInvariant`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.protocol import invariants
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.storage import log_invariants, producer_checks
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.leader_epochs import LeaderEpochCache
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.offset_index import OffsetIndex
from pybroker_kafka.storage.open_transactions import Transaction
from pybroker_kafka.storage.producer_entry import BatchMetadata, ProducerEntry
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from pybroker_kafka.storage.segment import Segment
from pybroker_kafka.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import TOPIC_ID, batch_of, log_of, manager_of

ROOT = Path(__file__).resolve().parents[3]
PRODUCER = 7


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Offsets 0 to 5 in three segments, HW 4, a transaction is open at 4."""
    log = log_of(tmp_path)
    for sequence in range(2):
        produce(log, sequence)
    log.roll(0)
    for sequence in range(2, 4):
        produce(log, sequence)
    log.roll(0)
    produce(log, 0, producer_id=8, transactional=True)
    produce(log, 4)
    log.update_high_watermark(4)
    return log


def produce(
    log: Log, sequence: int, *, producer_id: int = PRODUCER, transactional: bool = False
) -> None:
    batch = batch_of(
        b"v", producer_id=producer_id, epoch=0, sequence=sequence, transactional=transactional
    )
    append_as_leader(log, batch, leader_epoch=0, now_ms=1)


def append(log: Log) -> None:
    append_as_leader(log, batch_of(b"v"), leader_epoch=0, now_ms=1)


def follow(log: Log) -> None:
    batch = batch_of(b"v")
    batch[0:8] = log.log_end_offset.to_bytes(8, "big")
    log.append_as_follower(batch, now_ms=1)


def move_hw(log: Log) -> None:
    log.update_high_watermark(5)


def move_start(log: Log) -> None:
    log.maybe_increment_log_start_offset(4)


def hw_behind_the_end(log: Log) -> None:
    log.high_watermark = 100


def start_behind_the_end(log: Log) -> None:
    log.log_start_offset = 100


def end_goes_back(log: Log) -> None:
    log.log_end_offset = 3


def producers_end_early(log: Log) -> None:
    log.producer_state.map_end_offset = -(2**62)


def epoch_begins_behind_the_end(log: Log) -> None:
    log.leader_epochs.assign(0, 0)
    log.leader_epochs.latest_start_offset = 100


def segments_out_of_order(log: Log) -> None:
    log.segments._bases[0] = 3


def another_active_segment(log: Log) -> None:
    log.segments.first.is_active = True


def first_segment_gone(log: Log) -> None:
    log.segments.remove(log.segments.first)


def further_than_an_index_reaches(log: Log) -> None:
    log.log_end_offset = 2**31 + 10


def flushed_behind_the_end(log: Log) -> None:
    log.local._recovery_floor = 100


def offsets_of_a_producer_go_back(log: Log) -> None:
    log.producer_state.entries[PRODUCER].batches.append(BatchMetadata(4, 100, 0, 1))


def too_many_batches(log: Log) -> None:
    batches = log.producer_state.entries[PRODUCER].batches
    batches[:0] = [BatchMetadata(0, n - 10, 0, 1) for n in range(5)]


def a_transaction_of_nobody(log: Log) -> None:
    log.producer_state.transactions.ongoing[2] = Transaction(99, 2)


def unstable_elsewhere(log: Log) -> None:
    log.producer_state.transactions.first_unstable_offset = 3


def check_append(log: Log) -> None:
    log_invariants.check_append(log)


def check_all(log: Log) -> None:
    log_invariants.check_all(log)


@pytest.mark.parametrize(
    ("break_it", "change", "fact"),
    [
        (hw_behind_the_end, append, "an append of 6 to 6"),
        (hw_behind_the_end, follow, "an append to 6 at 6"),
        (start_behind_the_end, move_hw, "log start <= LSO <= HW <= log end"),
        (end_goes_back, append, "an append of 3 to 3"),
        (end_goes_back, check_all, "log start <= LSO <= HW <= log end"),
        (epoch_begins_behind_the_end, append, "an epoch begins behind it"),
        (epoch_begins_behind_the_end, check_all, "an epoch begins behind it"),
        (producers_end_early, check_append, "not to the log end"),
        (segments_out_of_order, move_start, "base offsets"),
        (another_active_segment, move_start, "base offsets"),
        (first_segment_gone, check_all, "segments .* of 0 to 6"),
        (further_than_an_index_reaches, check_all, "segments .* of 0 to 2147483658"),
        (flushed_behind_the_end, check_all, "what is on disk ends at 100"),
        (offsets_of_a_producer_go_back, lambda log: produce(log, 5), "behind its last one"),
        (too_many_batches, move_start, "7 is ProducerEntry"),
        (a_transaction_of_nobody, move_start, "transactions"),
        (unstable_elsewhere, check_all, "unstable from 3"),
    ],
)
def test_a_broken_log_goes_no_further(
    log: Log,
    break_it: Callable[[Log], None],
    change: Callable[[Log], None],
    fact: str,
) -> None:
    break_it(log)
    with pytest.raises((BrokenInvariant, KafkaError), match=fact) as caught:
        change(log)
    if isinstance(caught.value, KafkaError):
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert "BrokenInvariant" in caught.value.message
        assert log.health.error is not None


def test_a_sequence_that_does_not_follow_is_found_beside_its_check(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_checks, "check_sequence", lambda *_: None)
    with pytest.raises(BrokenInvariant, match="do not follow"):
        produce(log, 9)


def test_an_early_transaction_of_a_producer(log: Log) -> None:
    with pytest.raises(BrokenInvariant, match="before others, at 2"):
        log.producer_state.transactions.begin(PRODUCER, 2)


def test_segments_that_are_there_twice_or_not_at_all(log: Log, tmp_path: Path) -> None:
    segments, files, config = log.segments, Files(), log.config
    twin = Segment(files, str(tmp_path / "t-0"), 2, config, now_ms=0)
    foreign = Segment(files, str(tmp_path), 100, config, now_ms=0, create=True)
    changes: list[Callable[[], None]] = [
        lambda: segments.add(twin),
        lambda: segments.remove(twin),
        lambda: segments.remove(foreign),
        lambda: segments.replace([foreign], twin),
    ]
    for change in changes:
        with pytest.raises(BrokenInvariant, match=r"Segment\(base_offset="):
            change()


def test_a_replica_that_moves(tmp_path: Path) -> None:
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    old = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    here = manager.directory_of("t", 0)
    assert here is not None
    with pytest.raises(BrokenInvariant, match="is to be moved to where it is"):
        manager.create_future_log("t", 0, here, old.config, 0)
    there = str(tmp_path / ("b" if here.endswith("a") else "a"))
    manager.create_future_log("t", 0, there, old.config, 0)
    append(old)
    with pytest.raises(BrokenInvariant, match="is to replace"):
        manager.replace_with_future("t", 0, 0)


def test_entries_of_indexes_ascend(tmp_path: Path) -> None:
    offsets = OffsetIndex(Files(), str(tmp_path / "0.index"), 0, 1000)
    offsets.open_for_append(1000)
    offsets.append(5, 100)
    with pytest.raises(BrokenInvariant, match="5 is to follow 5"):
        offsets.append(5, 200)
    aborted = TransactionIndex(Files(), str(tmp_path / "0.txnindex"))
    aborted.append(AbortedTransaction(1, 0, 9, 10))
    with pytest.raises(BrokenInvariant, match="is to follow"):
        aborted.append(AbortedTransaction(2, 5, 8, 10))


def test_epochs_ascend(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Files(), str(tmp_path))
    cache.assign(3, 10)
    cache._entries = [(4, 5), *cache._entries]
    with pytest.raises(BrokenInvariant, match="epochs and their starts grow"):
        cache.assign(5, 20)


# What is read is input, and breaks nothing


def test_epochs_that_were_read_out_of_order_are_mended(tmp_path: Path) -> None:
    cache = LeaderEpochCache(Files(), str(tmp_path))
    cache.assign(9, 100)
    cache.prepend([(3, 50), (4, 40)])
    assert cache.entries == [(4, 40), (9, 100)]


def test_a_snapshot_from_behind_its_offset_is_not_believed(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    produce(log, 0)
    log.close()
    entry = ProducerEntry(PRODUCER, 0)
    entry.batches.append(BatchMetadata(0, 50, 0, 1))
    (tmp_path / "t-0" / "00000000000000000001.snapshot").write_bytes(encode_snapshot([entry]))
    again = manager_of(tmp_path).get_log("t", 0)
    assert again is not None
    produce(again, 1)
    assert again.log_end_offset == 2


# The switch


def test_tests_run_with_the_dear_ones() -> None:
    assert invariants.THOROUGH


@pytest.mark.parametrize(("wanted", "thorough"), [("", "False"), ("all", "True")])
def test_the_cheap_ones_are_always_on(wanted: str, thorough: str, tmp_path: Path) -> None:
    """Under `python -O`, too, which leaves out each `assert`."""
    script = (
        "import sys\n"
        "from pybroker_kafka.protocol import invariants\n"
        "from tests.unit.storage.helpers import batch_of, log_of\n"
        "log = log_of(sys.argv[1])\n"
        "log.log_start_offset = 5\n"
        "print(invariants.THOROUGH)\n"
        "try:\n"
        "    log.update_high_watermark(0)\n"
        "except invariants.BrokenInvariant:\n"
        "    print('found')\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", script, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, invariants.VARIABLE: wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [thorough, "found"]

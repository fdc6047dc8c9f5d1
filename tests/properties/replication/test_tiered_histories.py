"""Random histories of a tiered partition on two brokers, beside a dumb twin (`tiered_world`).

Produce, with transactions; roll, replicate, copy, delete locally, expire, delete records, elect
(cleanly or not), restart, and kill. In the end all that is in the store belongs to a segment with
metadata. `TIER_FIRST_SEED` and `TIER_SEEDS` choose other histories.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.remote.segment_copy import SegmentCopy
from pybroker_kafka.protocol.errors import KafkaError, ProtocolError
from pybroker_kafka.replication.remote import copying, expiry, reading
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.remote.index_cache import SegmentIndexes
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.support import examples
from tests.support.nightly import chosen
from tests.support.tiered_world import NAME, Tasks, World, history

FIRST_SEED = int(os.environ.get("TIER_FIRST_SEED", "0"))
MOST_SEEDS = 1500  # to find a planted fault; most take fewer than 50
SEEDS = int(os.environ.get("TIER_SEEDS", examples.of(60)))


# What the histories with these seeds have found.
FOUND_BY = (
    100_806,  # a copy that was not removed, and whose metadata another leader had deleted
    103_420,  # a hole before the last of the segments that a deposed leader deleted
    108_322,  # the same behind a segment that is not of its lineage
    110_283,  # the same where another copy had the records, and was not found any more
    112_966,  # a hole where an unclean leader does not know of deleted records
)


def test_every_record_that_counts_is_read() -> None:
    for seed in (*range(FIRST_SEED, FIRST_SEED + SEEDS), *FOUND_BY):
        try:
            trio.run(history, seed)
        except BaseException:
            print(f"TIER_FIRST_SEED={seed} TIER_SEEDS=1")
            raise


def test_a_history_is_a_function_of_its_seed() -> None:
    assert trio.run(history, 7) == trio.run(history, 7)


async def abandon() -> None:
    """A leader loses its role in a copy; the next one deletes the orphan; then the copy goes on."""
    with tempfile.TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            world = World(0, directory, nursery)
            world.is_calm = True
            while len(world.leader.log.segments) < 2:
                await world.produce()
            world.is_calm, world.fault_rate, world.late_rate = False, 0, 1
            await world.copy()
            await world.answer()  # the metadata is written, and the thread waits
            world.leader.cancel_tasks()
            world.late_rate = 0
            await world.copy()
            await world.grow_old()
            await world.expire()
            (finished,) = world.leader.metadata.segments(NAME)
            assert len(world.parked) == 1
            await world.answer()
            for broker in world.brokers:
                broker.logs.release()
            assert world.store.segment_ids == {finished.segment_id.id}


def test_an_abandoned_copy_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trio.run(abandon)
    _abandoned(monkeypatch)
    with pytest.raises(ExceptionGroup):
        trio.run(abandon)


# Planted faults


def _abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that nobody waits for any more leaves its objects, after their orphan is deleted."""

    def run(self: Any) -> bytes | None:
        found: bytes | None = self._store.copy_log_segment_data(self._metadata, self._data)
        return found

    monkeypatch.setattr(SegmentCopy, "run", run)


def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local segment may go before the metadata of its copy is written."""
    copy = Tasks._copy_segment

    async def copy_early(
        self: Tasks, tasks: Any, hosted: Any, log: Log, candidate: copying.Candidate
    ) -> None:
        log.update_highest_offset_in_remote_storage(candidate.next_offset - 1)
        await copy(self, tasks, hosted, log, candidate)

    monkeypatch.setattr(Tasks, "_copy_segment", copy_early)


def _any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader takes the copies of another one, of other epochs, for its own."""

    def highest(_log: Log, partition: TopicIdPartition, known: Any) -> int:
        return max((one.end_offset for one in known.segments(partition)), default=-1)

    monkeypatch.setattr(copying, "highest_copied_offset", highest)


def _no_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_is_orphan", lambda *_: False)


def _late_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are deleted, and the log start stays."""
    look = expiry.look

    def look_without(*arguments: Any, **options: Any) -> Generator[None, None, expiry.Expiry]:
        found = yield from look(*arguments, **options)
        return found._replace(log_start_offset=None)

    monkeypatch.setattr(expiry, "look", look_without)


def _short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody notices that the store returns fewer bytes."""

    def read_range(self: Any, start: int, end: int) -> Any:
        return self._store.fetch_log_segment(self._metadata, start, end)

    monkeypatch.setattr(reading.RemoteSegmentFile, "read_range", read_range)


def _lost_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that failed is finished all the same."""
    in_thread = Tasks._in_thread

    async def succeed(self: Tasks, call: Any, limiter: Any) -> Any:
        try:
            return await in_thread(self, call, limiter)
        except RemoteStorageError:
            return None

    monkeypatch.setattr(Tasks, "_in_thread", succeed)


def _stale_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is noticed of records that are deleted while segments before them are copied."""
    candidates = copying.candidates
    known: dict[int, tuple[Log, list[copying.Candidate]]] = {}  # by ids of logs that stay alive

    def old(log: Log, copied_offset: int) -> Any:
        _, found = known.get(id(log), (log, []))
        behind = [one for one in found if one.segment.base_offset > copied_offset]
        if not behind:
            behind = list(candidates(log, copied_offset))
        known[id(log)] = log, behind
        return iter(behind)

    monkeypatch.setattr(copying, "candidates", old)


def _no_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first segment of a read is asked for aborted transactions."""
    aborted = SegmentIndexes.aborted

    def first_only(self: SegmentIndexes, *arguments: Any) -> Any:
        return aborted(self, *arguments)[0], True

    monkeypatch.setattr(SegmentIndexes, "aborted", first_only)


def _reused_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt to copy an offset has the same id: a late one replaces a finished one."""

    def same(*arguments: Any) -> RemoteLogSegmentMetadata:
        found = metadata_of(*arguments)
        number = found.start_offset.to_bytes(16, "big")
        return replace(found, segment_id=found.segment_id._replace(id=number))

    metadata_of = copying.metadata_of
    monkeypatch.setattr(copying, "metadata_of", same)


PLANTED = [
    _early, _any_epoch, _no_orphans, _late_start, _short_reads, _lost_answers,
    _stale_candidates, _no_aborted, _reused_ids,
]  # fmt: skip


@pytest.mark.parametrize("plant", chosen(PLANTED, PLANTED[:2]))
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(MOST_SEEDS):
        try:
            trio.run(history, seed)
        except BaseException as error:
            if not _is_finding(error):
                raise
            return
    pytest.fail(f"{MOST_SEEDS} histories do not show it")


def _is_finding(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_finding, error.exceptions))
    findings = AssertionError | KafkaError | ProtocolError | ValueError | FileNotFoundError
    return isinstance(error, findings)

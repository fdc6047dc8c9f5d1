"""Faults put into the machines on purpose, to see that the simulation finds them.

Each is a small change of one rule, as a bug would make it. `plant(name)` is a context in which the
fault is there; `find(name)` runs seeds until one notices.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.replication.controller.partition_states import PartitionStateMachine
from pybroker_kafka.replication.follower import FollowerPartition, FollowerState
from pybroker_kafka.replication.follower_fetcher import FollowerFetcher
from pybroker_kafka.replication.isr import IsrState, RemoteReplica
from pybroker_kafka.replication.leadership import Leadership
from pybroker_kafka.replication.partition import Partition
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_maintenance import LogMaintenance
from pybroker_kafka.storage.segment_reader import LOG_SUFFIX
from tests.simulation.cluster import Result, simulate
from tests.simulation.disk import Disk, Inode, MemoryFile, MemoryFiles

MAX_SEEDS = 500


def _hw_without_a_member() -> Any:
    """The HW does not wait for one member of the ISR."""
    advance = Partition.maybe_advance_high_watermark

    def forgetful(self: Partition, now_ms: int) -> bool:
        others = [r for b, r in self.remotes.items() if b in self.isr.maximal]
        if not others:
            return advance(self, now_ms)
        slowest = min(others, key=lambda replica: replica.log_end_offset)
        kept = slowest.log_end_offset
        slowest.log_end_offset = self.log.log_end_offset
        try:
            return advance(self, now_ms)
        finally:
            slowest.log_end_offset = kept

    return patch.object(Partition, "maybe_advance_high_watermark", forgetful)


@contextmanager
def _truncation_to_the_hw() -> Iterator[None]:
    """A new follower cuts its log to its HW, as before KIP-101, whatever the leader has."""
    begin = FollowerPartition.__init__

    def cut(self: FollowerPartition, partition: Partition, *, truncates_on_fetch: bool) -> None:
        begin(self, partition, truncates_on_fetch=truncates_on_fetch)
        self.state = FollowerState.TRUNCATING

    with (
        patch.object(FollowerPartition, "__init__", cut),
        patch.object(FollowerFetcher, "_has_epochs", lambda _self, _state: False),
    ):
        yield


def _isr_below_the_hw() -> Any:
    """Whoever fetches is taken into the ISR, wherever it is."""

    def eager(self: Partition, replica: RemoteReplica) -> Any:
        broker_id = replica.broker_id
        if self.isr.is_in_flight or broker_id in self.isr.maximal or not self.is_leader:
            return None
        return self._alter_isr(self.isr.propose_expand(broker_id))

    return patch.object(Partition, "propose_isr_expansion", eager)


def _stale_controller() -> Any:
    """Brokers obey whoever says that it is the controller."""

    def trusting(self: Leadership, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        if 0 <= broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    return patch.object(Leadership, "check_sender", trusting)


def _unsynced_is_durable() -> Any:
    """flush.messages is forgotten: what the page cache has counts as being on the disk."""
    return patch.object(Log, "note_unflushed", lambda _self, _info, _now_ms: None)


def _acknowledged_before_min_insync() -> Any:
    """min.insync.replicas is not looked at."""

    def one(self: Partition) -> None:
        self.effective_min_isr = 1

    return patch.object(Partition, "config_changed", one)


def _shrink_before_it_is_agreed() -> Any:
    """A replica that is to leave the ISR is not waited for, before the controller knows."""
    shrink = IsrState.propose_shrink

    def hasty(self: IsrState, out_of_sync: frozenset[int]) -> frozenset[int]:
        self.maximal = shrink(self, out_of_sync)
        return self.maximal

    return patch.object(IsrState, "propose_shrink", hasty)


def _followers_forget_producers() -> Any:
    """Only leaders remember sequence numbers."""
    append = Log.append_as_follower

    def forgetful(self: Log, records: Any, *, now_ms: int) -> Any:
        with patch.object(Log, "_apply_producer", lambda *_: None):
            return append(self, records, now_ms=now_ms)

    return patch.object(Log, "append_as_follower", forgetful)


def _election_outside_the_isr() -> Any:
    """A live replica is elected, in sync or not, where no replica in the ISR lives."""

    def careless(_self: PartitionStateMachine, states: Any) -> Any:
        yield from ()
        return {topic for topic, _partition in states}

    return patch.object(PartitionStateMachine, "_topics_allowing_unclean", careless)


def _dirty_reads() -> Any:
    """Consumers read up to the log end."""
    return patch.object(
        Partition, "readable_end_offset", lambda self, _isolation: self.log.log_end_offset
    )


@contextmanager
def _answered_before_written() -> Iterator[None]:
    """What is appended is written with the next append only: who dies before has lost it."""
    kept: dict[Inode, int] = {}
    write, sync, revive = MemoryFile.write_at, MemoryFile.sync, Disk.revive

    def put_off(self: MemoryFile, data: Any, position: int) -> None:
        write(self, data, position)
        if self.path.endswith(LOG_SUFFIX):
            kept[self._inode] = position

    def written(self: MemoryFile) -> None:
        kept.pop(self._inode, None)
        sync(self)

    def without(self: Disk) -> MemoryFiles:
        for inode in self.inodes.values():
            position = kept.pop(inode, len(inode.data))
            if position < len(inode.data):
                inode.data = inode.data[:position]
                inode.dirty = None
        return revive(self)

    with (
        patch.object(MemoryFile, "write_at", put_off),
        patch.object(MemoryFile, "sync", written),
        patch.object(Disk, "revive", without),
    ):
        yield


@contextmanager
def _retention_right_after_a_jump() -> Iterator[None]:
    """What the wall clock says is believed at once."""
    with patch.object(WallClock, "rests", lambda _self, _now_ms, _interval_ms: False):
        yield


def _producers_expire_by_the_wall_clock() -> Any:
    """Producers count as idle since the time in their last batch, as the wall clock has it now."""

    def forget(self: LogMaintenance, now_ms: int) -> Iterator[None]:
        for log in self._table.current.online():
            entries, limit_ms = log.producer_state.entries, self._config.producer_id_expiration_ms
            for entry in list(entries.values()):
                idle_ms = self._wall.at_ms(now_ms) - entry.last_timestamp
                if entry.current_txn_first_offset < 0 and idle_ms >= limit_ms:
                    del entries[entry.producer_id]
            yield

    return patch.object(LogMaintenance, "_expire_producers", forget)


PLANTED: dict[str, Callable[[], Any]] = {
    "HW advanced without an ISR member": _hw_without_a_member,
    "truncation to HW instead of by epoch": _truncation_to_the_hw,
    "ISR admitted below HW": _isr_below_the_hw,
    "stale controller accepted": _stale_controller,
    "unsynced bytes counted as durable": _unsynced_is_durable,
    "acknowledgement before min.insync": _acknowledged_before_min_insync,
    "ISR shrunk before it is agreed": _shrink_before_it_is_agreed,
    "followers forget producers": _followers_forget_producers,
    "election outside of the ISR": _election_outside_the_isr,
    "consumers read beyond the HW": _dirty_reads,
    "answered before written": _answered_before_written,
    "retention right after a jump of the clock": _retention_right_after_a_jump,
    "producers expire by the wall clock": _producers_expire_by_the_wall_clock,
}


def find(name: str, seeds: range = range(MAX_SEEDS)) -> Result | None:
    """The first seed that notices the fault; None if none does."""
    for seed in seeds:
        with PLANTED[name]():
            result = simulate(seed)
        if result.error is not None:
            return result
    return None

"""Drives the replica manager: performs its effects, keeps its timers, shrinks ISRs.

`applied_replicas` contains the calls of the manager by other rooms.

Followers' fetches that have records to fetch are collected and answered together, from a task of
their own, when the round that brought the records is over or a little later: see follower_pace. If
very many are due at once, another task answers some in each of its turns.

Effects: FlushNeeded goes to the log flusher, AlterIsr and FailedLogDir to the controller's side
(`on_isr_change`, `on_failed_log_dir`). `on_flush` is called at the end of a flush, with the offset
if it succeeded, for followers that wait for it. RebuildProducers is done in a task here.
ShareFetchesDue goes to the leader's side of share groups (`on_share_fetches_due`), RemoteRead,
RebuildFromTier and TakeOverTier to the remote tier's side (`on_remote_read`,
`on_rebuild_from_tier`, `on_take_over_tier`).
"""

import logging
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

import trio

from ...protocol.errors import KafkaError
from ...replication.replica_manager import ReplicaManager
from ...replication.types import (
    AlterIsr,
    Effect,
    FailedLogDir,
    FlushNeeded,
    FollowersWait,
    MoreToAnswer,
    RebuildFromTier,
    RebuildProducers,
    RemoteRead,
    ShareFetchesDue,
    TakeOverTier,
)
from ...storage.log import Log
from ..resources import stopwatch
from .applied_replicas import AppliedReplicas
from .follower_pace import URGENT_BYTES, FollowerPace
from .log_flusher import LogFlusher

logger = logging.getLogger("pybroker.broker.replicas.replica_runtime")

_MS: Final = 1000


class ReplicaRuntime(AppliedReplicas):
    __slots__ = (
        "_followers_wait",
        "_is_urgent",
        "_more",
        "_pace",
        "_rebuild",
        "_sleep_until_ms",
        "_to_rebuild",
        "_urgent_bytes",
        "_wake",
        "flusher",
        "on_failed_log_dir",
        "on_flush",
        "on_isr_change",
        "on_rebuild_from_tier",
        "on_remote_read",
        "on_share_fetches_due",
        "on_take_over_tier",
    )

    def __init__(
        self,
        manager: ReplicaManager,
        clock: Callable[[], int],
        *,
        on_isr_change: Callable[[AlterIsr], None] | None = None,
        on_failed_log_dir: Callable[[FailedLogDir], None] | None = None,
        on_flush: Callable[[FlushNeeded, int | None], None] | None = None,
        urgent_bytes: int = URGENT_BYTES,
    ) -> None:
        super().__init__(manager, clock)
        self.flusher = LogFlusher(self._flushed, self._flush_failed)
        self.on_isr_change = on_isr_change
        self.on_failed_log_dir = on_failed_log_dir
        self.on_flush = on_flush
        self.on_share_fetches_due: Callable[[ShareFetchesDue], None] | None = None
        self.on_rebuild_from_tier: Callable[[RebuildFromTier], None] | None = None
        self.on_take_over_tier: Callable[[TakeOverTier], None] | None = None
        self.on_remote_read: Callable[[RemoteRead], None] | None = None
        self._sleep_until_ms: float = inf
        self._wake = trio.Event()
        self._pace = FollowerPace()
        self._urgent_bytes = urgent_bytes  # once so many are collected, they are answered at once
        self._followers_wait = trio.Event()
        self._is_urgent = trio.Event()
        self._more = trio.Event()
        self._to_rebuild: deque[Log] = deque()
        self._rebuild = trio.Event()

    def perform(self, effect: Effect) -> None:
        if isinstance(effect, FlushNeeded):
            self.flusher.request(effect)
        elif isinstance(effect, FollowersWait):
            self._followers_wait.set()
            if effect.is_urgent:
                self._is_urgent.set()
        elif isinstance(effect, MoreToAnswer):
            self._more.set()
        elif isinstance(effect, RebuildProducers):
            if effect.log not in self._to_rebuild:
                self._to_rebuild.append(effect.log)
                self._rebuild.set()
        elif isinstance(effect, ShareFetchesDue):
            if self.on_share_fetches_due is not None:
                self.on_share_fetches_due(effect)
        elif isinstance(effect, (RemoteRead, RebuildFromTier, TakeOverTier)):
            self._perform_in_tier(effect)
        elif isinstance(effect, AlterIsr):
            if self.on_isr_change is not None:
                self.on_isr_change(effect)
        elif self.on_failed_log_dir is not None:
            self.on_failed_log_dir(effect)

    def _perform_in_tier(self, effect: RemoteRead | RebuildFromTier | TakeOverTier) -> None:
        if isinstance(effect, RemoteRead):
            self.parked(effect.wait_ms, self.clock())
            if self.on_remote_read is not None:
                self.on_remote_read(effect)
        elif isinstance(effect, TakeOverTier):
            if self.on_take_over_tier is not None:
                self.on_take_over_tier(effect)
        elif self.on_rebuild_from_tier is not None:
            self.on_rebuild_from_tier(effect)

    def look_again(self) -> None:
        """Time has passed faster than trio's clock: check the deadlines."""
        self._wake.set()

    def parked(self, wait_ms: int, now_ms: int) -> None:
        """Something waits for at most `wait_ms`: see that the timer task wakes up in time."""
        if now_ms + wait_ms < self._sleep_until_ms:
            self._wake.set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Timers, ISR shrinking and flushes, until cancelled."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.flusher.run)
            nursery.start_soon(self._run_timers)
            nursery.start_soon(self._run_isr_check)
            nursery.start_soon(self._answer_followers)
            nursery.start_soon(self._answer_more)
            nursery.start_soon(self._rebuild_producers)
            task_status.started()

    async def _run_timers(self) -> None:
        manager = self.manager
        while True:
            next_ms = manager.waiting.next_deadline_ms()
            self._sleep_until_ms = inf if next_ms is None else next_ms
            wait_ms = inf if next_ms is None else next_ms - self.clock()
            with trio.move_on_after(max(0, wait_ms) / _MS):
                await self._wake.wait()
                self._wake = trio.Event()
            manager.waiting.tick(self.clock())
            self.apply_effects()

    async def _answer_followers(self) -> None:
        """The task wakes at the end of the round: when other tasks have reached a wait."""
        manager, pace = self.manager, self._pace
        collected = manager.waiting.collected
        collected.urgent_bytes = self._urgent_bytes
        while True:
            await self._followers_wait.wait()
            self._followers_wait = trio.Event()
            wait = pace.wait_seconds(stopwatch.now(), stopwatch.cpu())
            if wait and not self._is_urgent.is_set():
                before = collected.append_count
                with trio.move_on_after(wait):
                    await self._is_urgent.wait()
                pace.paused(collected.append_count - before)
            collected.paces = pace.is_on
            if self._is_urgent.is_set():
                self._is_urgent = trio.Event()
            manager.waiting.answer_followers()
            pace.answered(stopwatch.now())
            self.apply_effects()

    async def _answer_more(self) -> None:
        """More operations were due than are answered at once: some at a time, between other
        tasks."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self.manager.waiting.answer_more(self.clock()):
                self.apply_effects()
                await trio.lowlevel.checkpoint()
            self.apply_effects()

    async def _rebuild_producers(self) -> None:
        """One log after the other, in pieces, between other tasks."""
        while True:
            await self._rebuild.wait()
            self._rebuild = trio.Event()
            while self._to_rebuild:
                try:
                    while not self._to_rebuild[0].rebuild_some():
                        await trio.lowlevel.checkpoint()
                except KafkaError:
                    pass  # the next append gets this error
                self._to_rebuild.popleft()

    async def _run_isr_check(self) -> None:
        interval_ms = self.manager.config.replica_lag_time_max_ms / 2
        while True:
            await trio.sleep(interval_ms / _MS)
            self.manager.isr_changes.maybe_shrink(self.clock())
            self.apply_effects()

    def _flushed(self, effect: FlushNeeded, offset: int) -> None:
        partition = self.manager.partitions.get((effect.topic, effect.partition))
        if partition is not None and partition.log is not effect.log:
            return  # it has moved to another directory; the flush that counts is that log's
        self.manager.flushed(effect.topic, effect.partition, offset, self.clock())
        if self.on_flush is not None:
            self.on_flush(effect, offset)
        self.apply_effects()

    def _flush_failed(self, effect: FlushNeeded) -> None:
        self.manager.waiting.storage_failed((effect.topic, effect.partition))
        if self.on_flush is not None:
            self.on_flush(effect, None)
        self.apply_effects()

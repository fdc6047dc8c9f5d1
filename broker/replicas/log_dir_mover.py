"""Runs the moves of replicas between log directories.

Job: a task for each move drives it step by step; large reads and flushes run in a thread.
`num.replica.alter.log.dirs.threads` moves copy at a time (one per log directory unless set), the
others wait for their turn.

Invariants: the effects of a step are processed before the next one; a failed move ends, and the
replica stays where it is until another request or a restart of the broker.

Mirrors ReplicaAlterLogDirsManager and ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

import logging

import trio

from ...protocol.errors import KafkaError
from ...replication import log_dir_moves
from ...replication.hosted_partitions import Move
from ...replication.log_dir_moves import Flush, Over, Pause, Prepare, Read
from ...replication.types import LeadershipResult
from ..observability.metrics import BrokerMetrics
from .applied_replicas import AppliedReplicas

logger = logging.getLogger("pybroker.broker.moves")

_MS = 1000


class LogDirMover:
    __slots__ = ("_limiter", "_manager", "_nursery", "_replicas", "_tasks")

    def __init__(self, replicas: AppliedReplicas, copies_at_once: int) -> None:
        self._replicas = replicas
        self._manager = replicas.manager
        self._limiter = trio.CapacityLimiter(copies_at_once)
        self._nursery: trio.Nursery | None = None
        self._tasks: set[Move] = set()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Drive the moves until cancelled; a step that has begun in a thread is waited for."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        moves = self._manager.moves
        prefix = "kafka_server_replicaalterlogdirsmanager_"
        metrics.gauge(prefix + "maxlag", lambda: moves.max_lag, clientId="ReplicaAlterLogDirs")
        metrics.gauge(prefix + "movingpartitionscount", lambda: len(moves.active))

    def on_leadership(self, _result: LeadershipResult) -> None:
        """Moves of an earlier run may continue now."""
        self.begin()

    def begin(self) -> None:
        """Start a task for each move that has none."""
        for move in self._manager.moves.active.values():
            if move not in self._tasks:
                assert self._nursery is not None, "the mover does not run"
                self._tasks.add(move)
                self._nursery.start_soon(self._drive, move)

    # One move

    async def _drive(self, move: Move) -> None:
        try:
            async with self._limiter:
                while await self._step(move):
                    pass
        except KafkaError as error:
            with self._replicas.applying as manager:
                manager.moves.failed(move, error)
        finally:
            self._tasks.discard(move)

    async def _step(self, move: Move) -> bool:
        clock = self._replicas.clock
        with self._replicas.applying as manager:
            step = manager.moves.next_step(move, clock())
        if isinstance(step, Over):
            return False
        if isinstance(step, Read):
            data = await trio.to_thread.run_sync(log_dir_moves.read_piece, move, step.piece)
            with self._replicas.applying as manager:
                manager.moves.copied(move, data, clock())
        elif isinstance(step, Flush):
            await trio.to_thread.run_sync(step.run)
        elif isinstance(step, Prepare):
            await trio.to_thread.run_sync(step.run)
            log_dir_moves.prepared(move)
        else:
            assert isinstance(step, Pause)
            await trio.sleep(step.wait_ms / _MS)
        return True

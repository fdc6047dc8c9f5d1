"""Resets of positions to offsets, and checks of positions under new leaders.

Each broker has a job of its own, so that a silent broker delays only its own partitions.
Invariant: an answer applies only to the attempt that requested it; a partition that was sought
elsewhere meanwhile keeps its position.

Mirrors: OffsetFetcher of the Java client; KIP-320.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster, now_ms
from ..errors import ClientError
from .offset_requests import Found, by_leader, leader_epoch_ends, list_offsets
from .options import ConsumerOptions
from .positions import NO_EPOCH, PartitionState, Position, Positions
from .topics_view import Leader, TopicsView

BACKOFF_MS: Final = int(RETRY_BACKOFF_SECONDS * 1000)


class PositionChecks:
    """See the module. `fail` is called with errors for the application, `heed` with an error of one
    partition."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        view: TopicsView,
        fail: Callable[[Exception], None],
        heed: Callable[[TopicPartition, ErrorCode], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._positions = positions
        self._view = view
        self._fail = fail
        self._heed = heed

    # Resets

    def resets(self, now: int) -> tuple[set[int], bool]:
        """The brokers to ask for offsets, and whether the leaders of all partitions are known."""
        wanted = self._positions.resets(now)
        nodes = by_leader(wanted, self._view.leader) if wanted else {}
        return set(nodes), sum(map(len, nodes.values())) == len(wanted)

    async def reset(self, node: int) -> None:
        """Ask one broker for the offsets of resets. Raises ClientError."""
        wanted = self._positions.resets(now_ms())
        leaders = by_leader(wanted, self._view.leader).get(node)
        if not leaders:
            return
        connection = await self._cluster.connection(node)
        asked = {tp: (wanted[tp][0], leader) for tp, leader in leaders.items()}
        found = await list_offsets(connection, asked, reads_committed=self._options.reads_committed)
        for partition, each in found.items():
            if partition in wanted:
                self._take_reset(partition, wanted[partition], each)

    def _take_reset(
        self, partition: TopicPartition, asked: tuple[int, int], found: Found | ErrorCode
    ) -> None:
        state = self._positions.get(partition)
        if state is None or state.attempt != asked[1] or state.reset_to is None:
            return  # the position was changed meanwhile
        if isinstance(found, Found):
            if found.offset >= 0:
                state.seek(Position(found.offset, found.epoch))
            else:  # no record is that young
                state.request_reset(-1)
            return
        state.backoff_until_ms = now_ms() + BACKOFF_MS
        self._heed(partition, found)

    # Leaders have changed

    def unvalidated(self) -> dict[TopicPartition, tuple[int, Leader]]:
        """Positions whose leader has changed since they were checked: the epoch, and the leader."""
        found = {}
        for partition, state in self._positions.items():
            at = state.fetch_position
            if at is None or at.epoch == NO_EPOCH:
                continue
            leader = self._view.leader(partition)
            if leader is None or leader.node < 0 or leader.epoch == NO_EPOCH:
                continue
            if state.is_ahead_of(leader.epoch, now_ms()):
                continue
            if state.validated_epoch == NO_EPOCH and leader.epoch == at.epoch:
                state.validated_epoch = leader.epoch
            elif leader.epoch > state.validated_epoch:
                found[partition] = (at.epoch, leader)
        return found

    async def validate(self, node: int) -> None:
        """Check that the log up to the position has not changed since it was read.

        Raises ClientError.
        """
        wanted = self.unvalidated()
        states = {tp: self._positions[tp] for tp in wanted}
        before = {tp: (state.attempt, state.fetch_position) for tp, state in states.items()}
        leaders = by_leader(wanted, self._view.leader).get(node)
        if not leaders:
            return
        connection = await self._cluster.connection(node)
        asked = {tp: (wanted[tp][0], leader) for tp, leader in leaders.items()}
        has_refused = False
        for partition, end in (await leader_epoch_ends(connection, asked)).items():
            state = self._positions.get(partition)
            if state is None or before.get(partition) != (state.attempt, state.fetch_position):
                continue  # a broker that answers late speaks of another position
            if isinstance(end, ErrorCode):
                state.backoff_until_ms = now_ms() + BACKOFF_MS
                self._heed(partition, end)
                has_refused = True
            else:
                self._take_end(partition, state, end, leaders[partition])
        if has_refused:
            await trio.sleep(RETRY_BACKOFF_SECONDS)

    def _take_end(
        self, partition: TopicPartition, state: PartitionState, end: Position, leader: Leader
    ) -> None:
        at = state.fetch_position
        if at is None:
            return
        if end.offset >= at.offset and end.epoch != NO_EPOCH:
            state.validated_epoch = leader.epoch
            return
        reset_to = self._options.reset_to
        name = f"{partition[0]}-{partition[1]}"
        if end.offset >= 0 and end.epoch != NO_EPOCH and state.position is not None:
            diverged = min(end.offset, state.position.offset)
            if reset_to is not None:
                state.seek(Position(diverged, end.epoch))
                state.validated_epoch = leader.epoch
                return
            self._fail(
                ClientError(f"{name} was truncated at offset {end.offset}: seek to continue")
            )
        elif reset_to is not None:
            state.request_reset(reset_to)
            return
        else:
            self._fail(ClientError(f"{name} has no record of epoch {at.epoch}: seek to continue"))
        state.is_paused = True

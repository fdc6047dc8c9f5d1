"""Copies the positions of the source's groups to the target: checkpoints, and offsets of groups.

`checkpoints` decides; this module sends the requests.
Mirrors: MirrorCheckpointConnector, MirrorCheckpointTask.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.topics import TopicPartition
from ..admin.group_offsets import CommittedOffset, GroupOffsets
from ..admin.groups import Groups
from ..cluster import Cluster
from ..consumer.received import Received
from ..errors import ClientError
from ..producer import Producer
from .checkpoints import IDLE, Checkpoints
from .compacted_topics import TopicTail, read_topic
from .formats import Checkpoint, OffsetSync
from .settings import FlowSettings
from .stats import FlowStats
from .sync_store import SyncStore


class GroupKeeper:
    """The groups of one flow. `tail` is the topic of its pairs of offsets. Each method raises
    ClientError if a cluster does not answer; refusals by groups are reported by `report`."""

    def __init__(
        self,
        flow: FlowSettings,
        source: Cluster,
        target: Cluster,
        producer: Producer,
        tail: TopicTail,
        stats: FlowStats,
        report: Callable[[str], None],
    ) -> None:
        self._flow = flow
        self._source, self._target = source, target
        self._producer = producer
        self._stats = stats
        self._report = report
        self._checkpoints = Checkpoints()
        self._store = SyncStore(keeps_history=True)
        self._groups: list[str] = []
        self._tail = tail

    @property
    def _topic(self) -> str:
        return self._flow.policy.checkpoints_topic(self._flow.source.alias)

    async def load(self) -> None:
        """Read the checkpoints written before, and list the groups."""
        try:
            await read_topic(self._flow.target, self._topic, 1, self._take_checkpoint)
        except ClientError as error:
            self._report(f"older checkpoints cannot be read: {error}")
            self._store = SyncStore(keeps_history=False)
        await self.refresh()

    def _take_checkpoint(self, record: Received) -> None:
        try:
            self._checkpoints.take(Checkpoint.parse(record.key, record.value))
        except ProtocolError:
            return  # of another version

    def _take_sync(self, record: Received) -> None:
        try:
            self._store.take(OffsetSync.parse(record.key, record.value))
        except ProtocolError:
            return

    async def refresh(self) -> None:
        """Find the groups that read copied topics."""
        found = []
        for group in await self._listed():
            if self._flow.groups(group):
                topics = {topic for topic, _ in await self._offsets(self._source, group)}
                if any(self._flow.topics(topic) for topic in topics):
                    found.append(group)
        self._groups = found

    async def write_checkpoints(self) -> None:
        """Write the checkpoints of all groups that have moved."""
        began = time.monotonic()
        await self._tail.catch_up(self._take_sync)
        self._store.is_complete = True
        for group in self._groups:
            offsets = await self._offsets(self._source, group)
            for checkpoint in self._checkpoints.news(self._flow, self._store, group, offsets):
                await self._producer.enqueue(
                    self._topic, checkpoint.value(), key=checkpoint.key(), partition=0
                )
                self._checkpoints.take(checkpoint)
                self._stats.checkpoints += 1
        await self._producer.flush()
        self._stats.checkpoint_ms = int((time.monotonic() - began) * 1000)

    async def sync_offsets(self) -> None:
        """Commit the checkpoints' offsets at the target, for groups that are idle there."""
        groups = [group for group in self._checkpoints.groups if group in self._groups]
        described = await Groups(self._target).describe(groups)
        for group, there in described.values.items():
            committed = await self._offsets(self._target, group) if there.state == IDLE else {}
            wanted = self._checkpoints.to_commit(group, there.state, committed)
            if not wanted:
                continue
            results = await GroupOffsets(self._target).alter(group, wanted)
            for error in results.errors.values():
                if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:  # it has members now
                    self._report(f"group {group!r}: {error}")
                    break

    async def _listed(self) -> list[str]:
        results = await Groups(self._source).list()
        for error in results.errors.values():
            self._report(str(error))
        return sorted({each.group_id for some in results.values.values() for each in some})

    async def _offsets(self, cluster: Cluster, group: str) -> dict[TopicPartition, CommittedOffset]:
        return (await GroupOffsets(cluster).list(group)).values

"""Selects the checkpoints to write, and the offsets to commit at the target; pure.

A checkpoint is written if it differs from the last one of its group and partition: the group has
moved back at the source, or forward at the target. Committed offsets never go back, and those of a
group with members at the target stay unchanged.
Mirrors: MirrorCheckpointTask, CheckpointStore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.topics import TopicPartition
from ..admin.group_offsets import CommittedOffset
from .formats import Checkpoint
from .settings import FlowSettings
from .sync_store import SyncStore

IDLE: Final = "Empty"  # states of a group
ABSENT: Final = "Dead"


class Checkpoints:
    """The checkpoints of one flow: the last one of each group and partition of the target."""

    def __init__(self) -> None:
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def take(self, checkpoint: Checkpoint) -> None:
        """Record a checkpoint that is written."""
        of_group = self._last.setdefault(checkpoint.group, {})
        of_group[checkpoint.topic, checkpoint.partition] = checkpoint

    @property
    def groups(self) -> Iterable[str]:
        return self._last.keys()

    def news(
        self,
        flow: FlowSettings,
        store: SyncStore,
        group: str,
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> list[Checkpoint]:
        """The checkpoints to write for a group, by its offsets at the source."""
        found = []
        for (topic, partition), committed in sorted(offsets.items()):
            if not flow.topics(topic):
                continue
            target_offset = store.translate((topic, partition), committed.offset)
            if target_offset is None or target_offset < 0:
                continue
            checkpoint = Checkpoint(
                group,
                _topic_at_target(flow, topic),
                partition,
                committed.offset,
                target_offset,
                committed.metadata,
            )
            if self._is_news(checkpoint):
                found.append(checkpoint)
        return found

    def _is_news(self, checkpoint: Checkpoint) -> bool:
        place = (checkpoint.topic, checkpoint.partition)
        last = self._last.get(checkpoint.group, {}).get(place)
        return (
            last is None
            or checkpoint.source_offset < last.source_offset
            or checkpoint.target_offset > last.target_offset
        )

    def to_commit(
        self, group: str, state: str, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> dict[TopicPartition, CommittedOffset]:
        """The offsets to commit for a group, by its state and offsets at the target."""
        if state not in (IDLE, ABSENT):
            return {}
        return {
            place: CommittedOffset(one.target_offset, metadata=one.metadata)
            for place, one in self._last.get(group, {}).items()
            if place not in committed or committed[place].offset < one.target_offset
        }


def _topic_at_target(flow: FlowSettings, topic: str) -> str:
    """The name at the target; a topic that came from there gets its own name back."""
    if flow.policy.topic_source(topic) == flow.target.alias:
        return flow.policy.original_topic(topic)
    return flow.remote(topic)

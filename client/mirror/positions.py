"""The position of each partition's copying, stored at the target as by Kafka Connect.

The topic `mm2-offsets.A.internal` is that of MirrorMaker 2's own workers: a mirror continues where
MirrorMaker 2 has stopped, and vice versa. With exactly once, the positions are in the same
transaction as the copied records.
Mirrors: KafkaOffsetBackingStore, OffsetStorageWriter.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.topics import TopicPartition
from ..consumer.received import Received
from ..producer import Producer
from .compacted_topics import read_topic
from .formats import SourcePosition
from .settings import FlowSettings

FIRST_OFFSET_NEXT = 1  # behind the last copied record


async def read_positions(flow: FlowSettings, partitions: int) -> dict[TopicPartition, int]:
    """The next offset of each partition that has a stored position. Raises ClientError."""
    found: dict[TopicPartition, int] = {}

    def take(record: Received) -> None:
        position = SourcePosition.parse(record.key, record.value or b'{"offset":-1}')
        if position is not None and position.cluster == flow.source.alias:
            if record.value is None or position.offset < 0:
                found.pop(position.place, None)
            else:
                found[position.place] = position.offset + FIRST_OFFSET_NEXT

    await read_topic(flow.target, flow.positions_topic, partitions, take)
    return found


async def write_positions(
    flow: FlowSettings, producer: Producer, positions: Mapping[TopicPartition, int]
) -> None:
    """Enqueue positions, given as next offsets. Raises ClientError."""
    for (topic, partition), next_offset in positions.items():
        offset = next_offset - FIRST_OFFSET_NEXT
        position = SourcePosition(flow.source.alias, topic, partition, offset)
        await producer.enqueue(flow.positions_topic, position.value(), key=position.key())

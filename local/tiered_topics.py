"""The segments of topics in the remote tier, as the metadata topic knows them: for commands and for
the console. The store itself is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from ..client.admin.admin import Admin
from ..client.errors import ClientError
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.topics import REMOTE_LOG_METADATA_TOPIC
from ..storage.remote.metadata_cache import RemoteLogMetadataCache
from ..storage.remote.metadata_records import read
from ..storage.remote.segments import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from ..client.consumer.consumer import Consumer

POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0  # without any record of the metadata topic


async def read_segments(
    admin: Admin, consumer: Callable[[], Consumer], topics: Collection[str] = ()
) -> list[RemoteLogSegmentMetadata]:
    """The segments that the metadata topic knows, of all topics unless some are named, in the order
    of partitions and offsets. `consumer` reads from the first record on. Raises ClientError."""
    caches: dict[TopicIdPartition, RemoteLogMetadataCache] = {}

    def take(value: bytes | memoryview | None) -> None:
        try:
            record = None if value is None else read(value)
        except ProtocolError:
            return
        if record is None or isinstance(record, RemotePartitionDeleteMetadata):
            return
        if not topics or record.topic_id_partition.topic in topics:
            caches.setdefault(record.topic_id_partition, RemoteLogMetadataCache()).apply(record)

    answer = (await admin.client.metadata([REMOTE_LOG_METADATA_TOPIC])).topics[0]
    if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return []
    places = [(REMOTE_LOG_METADATA_TOPIC, one.partition_index) for one in answer.partitions]
    async with consumer() as reader:
        starts = await reader.beginning_offsets(places)
        ends = await reader.end_offsets(places)
        left = {place for place in places if starts[place] < ends[place]}
        await reader.assign(left)
        waited_seconds = 0.0
        while left:
            records = await reader.poll(POLL_SECONDS)
            waited_seconds = 0.0 if records else waited_seconds + POLL_SECONDS
            if waited_seconds >= PATIENCE_SECONDS:
                raise ClientError(f"{REMOTE_LOG_METADATA_TOPIC} cannot be read to its end")
            for one in records:
                take(one.value)
                if one.offset + 1 >= ends[one.topic, one.partition]:
                    left.discard((one.topic, one.partition))
    ordered = sorted(caches, key=lambda one: (one.topic, one.partition, one.topic_id))
    return [segment for partition in ordered for segment in caches[partition].segments()]

"""What the runtimes of the coordinators share: the size of their topic, and reading a partition.

Mirrors what GroupMetadataManager and TransactionStateManager have each for themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import trio

from replication.controller import znodes
from replication.controller.operations import GetData, ZkCode
from replication.partition import Partition

if TYPE_CHECKING:
    from broker.zookeeper_client import ZooKeeperClient


class PartitionLoad(Protocol):
    """What a coordinator reads of one partition; `add` and `decode` may run in a thread."""

    next_offset: int

    def add(self, records: bytes, /) -> None: ...

    def decode(self) -> None: ...


async def internal_partition_count(zookeeper: ZooKeeperClient, topic: str, configured: int) -> int:
    """Partitions of an internal topic: those that it has, or those that it will be made with.

    All brokers must place keys alike, so an existing topic counts, whatever this broker's
    configuration says.
    """
    found = await zookeeper.execute_one(GetData(znodes.topic_path(topic)))
    if found.code is ZkCode.OK:
        return len(znodes.decode_topic(topic, found.data).partitions)
    return configured


async def read_partition(load: PartitionLoad, replica: Partition, buffer_bytes: int) -> None:
    """Read all of a partition into `load`, and decode it.

    Positions are looked up on the loop; only bytes are read and parsed in the thread. The replica
    may move to another log directory meanwhile, and then has another log.
    """
    while load.next_offset < replica.log.log_end_offset:
        offset = load.next_offset
        read = replica.log.read(
            offset,
            buffer_bytes,
            upper_bound_offset=replica.log.log_end_offset,
            min_one_batch=True,
        )
        if len(read.records) == 0:
            break
        await trio.to_thread.run_sync(_add, load, read.records)
        if load.next_offset <= offset:
            break
    await trio.to_thread.run_sync(load.decode)


def _add(load: PartitionLoad, records: Any) -> None:
    load.add(records.read())

"""A leader writes the ISR of its partition into ZooKeeper itself, as brokers did before KIP-497.

Job: with an inter.broker.protocol.version below 2.7-IV2 leaders do not ask the controller: a leader
replaces the partition's state if it still has the known version, and notifies the controller
through a znode that the controller reads.

Invariant: a write whose answer was lost with the connection is recognised by the written data.

Mirrors kafka.utils.ReplicationUtils.updateLeaderAndIsr and KafkaZkClient.propagateIsrChanges.
"""

from collections.abc import Iterable
from dataclasses import replace

from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import Create, Flow, GetData, SetData, expect, run_one
from ..types import AlterIsr
from . import znodes
from .znodes import LeaderAndIsr


def write_isr(change: AlterIsr, leader: int, controller_epoch: int) -> Flow[int | None]:
    """The partition epoch that it has now; None if another broker has changed the state."""
    path = znodes.partition_state_path(change.topic, change.partition)
    wanted = LeaderAndIsr(
        leader=leader,
        leader_epoch=change.leader_epoch,
        isr=change.isr,
        partition_epoch=change.partition_epoch,
        controller_epoch=controller_epoch,
    )
    write = SetData(path, znodes.encode_partition_state(wanted), change.partition_epoch)
    written = yield from run_one(write)
    if expect(written, path, ZkCode.BAD_VERSION, ZkCode.NO_NODE).ok:
        return written.version
    stored = yield from run_one(GetData(path))
    if not expect(stored, path, ZkCode.NO_NODE).ok:
        return None
    found = znodes.decode_partition_state(stored.data, stored.version)
    is_ours = found == replace(wanted, partition_epoch=stored.version)
    return stored.version if is_ours else None


def notify_controller(partitions: Iterable[TopicPartition]) -> Flow[None]:
    path = f"{znodes.ISR_CHANGES}/isr_change_"
    data = znodes.encode_partition_list(partitions)
    expect((yield from run_one(Create(path, data, sequential=True))), path)

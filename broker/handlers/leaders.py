"""The current leader of a partition, for a client that asked the wrong broker (KIP-951)."""

from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...replication.replica_manager import ReplicaManager


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int
    host: str | None = None
    port: int = -1
    rack: str | None = None


def current_leader(
    manager: ReplicaManager, key: TopicPartition, listener: str
) -> CurrentLeader | None:
    """The leader by our own replica's state, else by the metadata; None if neither knows."""
    partition = manager.partitions.get(key)
    if partition is not None:
        leader_id, leader_epoch = partition.leader_id, partition.leader_epoch
    else:
        state = manager.metadata.partition_state(*key)
        if state is None:
            return None
        leader_id, leader_epoch = state.leader, state.leader_epoch
    broker = manager.metadata.broker(leader_id)
    endpoint = None if broker is None else broker.endpoint(listener)
    if broker is None or endpoint is None:
        return CurrentLeader(leader_id, leader_epoch)
    return CurrentLeader(leader_id, leader_epoch, endpoint.host, endpoint.port, broker.rack)

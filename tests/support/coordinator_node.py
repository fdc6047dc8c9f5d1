"""A coordinator's runtime over a real replica manager and real logs, on a virtual clock.

A test's node makes its `runtime` and asks it; the test plays the controller and the followers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import trio

from pybroker_kafka.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.replication import ME, NOW, ReplicaCluster

TOPIC_ID = bytes(range(16, 32))
FOLLOWER = 2

RuntimeT = TypeVar("RuntimeT", bound=CoordinatorRuntime[Any, Any])


class CoordinatorNode(Generic[RuntimeT]):
    """What one broker's coordinator stands on; its topic has one partition."""

    runtime: RuntimeT

    def __init__(self, directory: Path, replicas: tuple[int, ...]) -> None:
        self.cluster = ReplicaCluster(directory)
        self.replicas = replicas
        start = trio.current_time()
        self.clock_offset_ms = 0
        self.clock: Callable[[], int] = lambda: (
            NOW + self.clock_offset_ms + int((trio.current_time() - start) * 1000)
        )
        self.replica_runtime = ReplicaRuntime(self.cluster.manager, self.clock)

    def lead(self, leader: int = ME, *, epoch: int = 0) -> None:
        """The controller makes somebody the leader of the partition."""
        topic = self.runtime.topic
        self.cluster.publish(leader, topic=topic, leader_epoch=epoch)
        result = self.cluster.role(
            leader, replicas=self.replicas, topic=topic, topic_id=TOPIC_ID, leader_epoch=epoch
        )
        assert result.error_code == ErrorCode.NONE
        self.replica_runtime.apply_effects()
        self.runtime.on_leadership_change(result.became_leader, result.became_follower)

    def stop_replica(self, *, epoch: int) -> None:
        """The controller has this broker delete its replica of the partition."""
        topic = self.runtime.topic
        state = StopReplicaPartitionState(
            partition_index=0, leader_epoch=epoch, delete_partition=True
        )
        request = StopReplicaRequest(
            controller_id=ME,
            controller_epoch=1,
            broker_epoch=1,
            topic_states=[StopReplicaTopicState(topic_name=topic, partition_states=[state])],
        )
        result = self.cluster.manager.leadership.stop_replicas(request, self.clock())
        assert result.error_code == ErrorCode.NONE
        self.replica_runtime.apply_effects()
        self.runtime.on_leadership_change((), result.stopped)

    def follower_catches_up(self) -> None:
        """The other replica fetches to the end of the partition."""
        topic = self.runtime.topic
        partition = self.cluster.manager.partitions[topic, 0]
        offset = partition.log.log_end_offset
        partition.update_follower(partition.remotes[FOLLOWER], offset, 0, offset, -1, self.clock())
        self.cluster.manager.flushed(topic, 0, offset, self.clock())
        self.replica_runtime.apply_effects()

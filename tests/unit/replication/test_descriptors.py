"""Replicas for which there are no file descriptors: refused, not lost, and begun later."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.stop_replica import StopReplicaPartitionV0, StopReplicaRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import Done, RoleChange
from tests.support.descriptors import no_descriptors
from tests.support.replication import KEY, ME, TOPIC, ReplicaCluster

SPARE = 8


@pytest.fixture
def cluster(tmp_path: Path) -> ReplicaCluster:
    cluster = ReplicaCluster(tmp_path)
    cluster.log_manager.files.keep_spare_descriptors(SPARE)
    return cluster


def refuse(cluster: ReplicaCluster, leader: int = ME, leader_epoch: int = 0) -> None:
    files = cluster.log_manager.files
    with no_descriptors():
        held = files.open_to_read(cluster.log_manager.directories[0].path + "/meta.properties")
        result = cluster.role(leader, replicas=(ME, 2), leader_epoch=leader_epoch)
        again = cluster.manager.leadership.retry_refused(cluster.now_ms)
        assert held.size()
    assert result.partition_errors == {KEY: ErrorCode.REPLICA_NOT_AVAILABLE}
    assert not result.became_leader
    assert again.partition_errors == {KEY: ErrorCode.REPLICA_NOT_AVAILABLE}
    assert not cluster.manager.hosted.offline
    assert KEY not in cluster.manager.partitions


def test_a_refused_replica_begins_when_there_are_descriptors(
    cluster: ReplicaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(cluster)
    assert caplog.text.count(f"{TOPIC}-0 and further replicas wait: Out of file descr") == 1
    cluster.publish(ME)
    assert cluster.manager.hosted.missing_error(KEY) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    result = cluster.manager.leadership.retry_refused(cluster.now_ms)
    assert result.became_leader == [RoleChange(TOPIC, 0, ME, 0)]
    assert cluster.partition.is_leader
    assert not cluster.manager.leadership.refused
    assert cluster.manager.leadership.retry_refused(cluster.now_ms).partition_errors == {}


def test_what_the_controller_has_said_last_counts(cluster: ReplicaCluster) -> None:
    refuse(cluster, leader_epoch=3)
    result = cluster.role(replicas=(ME, 2), leader_epoch=2)
    assert result.partition_errors == {KEY: ErrorCode.STALE_CONTROLLER_EPOCH}
    result = cluster.role(2, replicas=(ME, 2), leader_epoch=4)
    assert result.became_follower == [RoleChange(TOPIC, 0, 2, 4)]
    assert not cluster.manager.leadership.refused


def test_a_deleted_replica_is_not_begun(cluster: ReplicaCluster) -> None:
    refuse(cluster)
    stop = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name=TOPIC, partition_index=0)],
    )
    assert cluster.manager.leadership.stop_replicas(stop, cluster.now_ms).deleted == [KEY]
    assert not cluster.manager.leadership.refused


def test_a_refused_append_takes_no_partition_offline(cluster: ReplicaCluster) -> None:
    cluster.topic_config["segment.bytes"] = "200"
    cluster.role()
    cluster.produce("first", b"x" * 100, acks=1)
    files = cluster.log_manager.files
    with no_descriptors():
        held = files.open_to_read(cluster.log_manager.directories[0].path + "/meta.properties")
        done = cluster.produce("refused", b"x" * 100, acks=1)
        assert isinstance(done, Done)
        assert done.result[KEY].error_code is ErrorCode.KAFKA_STORAGE_ERROR
        assert held.size()
    assert not cluster.manager.hosted.offline
    done = cluster.produce("again", b"x" * 100, acks=1)
    assert isinstance(done, Done)
    assert (done.result[KEY].error_code, done.result[KEY].base_offset) == (ErrorCode.NONE, 1)

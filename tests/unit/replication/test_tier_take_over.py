"""A leader without any record begins when it is known what the remote tier has of its partition."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import (
    FlushNeeded,
    LeadershipResult,
    RoleChange,
    TakeOverTier,
    TierState,
)
from pybroker_kafka.storage.local_log import CutNotNoted, EpochsNotOnDisk
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, ReplicaCluster
from tests.unit.storage.tiered import tiered_config

STATE = TierState(60, [(0, 5), (2, 30)], encode_snapshot([]))


class Tiered(ReplicaCluster):
    def config_for(self, topic: str) -> LogConfig:
        return tiered_config()


def tier_read(tiered: Tiered, found: TierState | None, start: int = 0) -> LeadershipResult:
    """At the second time, behind the flush that it asks for."""
    manager = tiered.manager
    read = manager.leadership.tier_read
    try:
        return read(KEY, found, start, tiered.now_ms)
    except EpochsNotOnDisk:
        log = tiered.partition.log
        assert manager.effects[-1] == FlushNeeded(*KEY, 0, log)
        assert log.log_end_offset == 0
        assert not tiered.partition.is_leader
        log.flush()
    return read(KEY, found, start, tiered.now_ms)


@pytest.fixture
def tiered(tmp_path: Path) -> Tiered:
    cluster = Tiered(tmp_path)
    cluster.manager.hosted.has_tier = True
    return cluster


def test_a_leader_waits_for_the_tier_and_begins_behind_it(tiered: Tiered) -> None:
    manager = tiered.manager
    result = tiered.role(leader_epoch=3)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert result.became_leader == []
    assert manager.effects == [TakeOverTier(KEY, TOPIC_ID)]
    assert not tiered.partition.is_leader
    assert manager.partitions[KEY].check_access(-1, True) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    result = tier_read(tiered, STATE, 5)
    assert result.became_leader == [RoleChange(TOPIC, 0, ME, 3)]
    log = tiered.partition.log
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (5, 60, 60)
    assert log.leader_epochs.entries == [(0, 5), (2, 30), (3, 60)]
    assert manager.leadership.awaiting_tier == {}
    # Once it is known, it is not asked again.
    assert tiered.role(leader_epoch=4).became_leader


def test_without_anything_in_the_tier_the_log_begins_at_0(tiered: Tiered) -> None:
    tiered.role(leader_epoch=3)
    result = tiered.manager.leadership.tier_read(KEY, None, 0, tiered.now_ms)
    assert result.became_leader == [RoleChange(TOPIC, 0, ME, 3)]
    assert tiered.partition.log.log_end_offset == 0


def test_the_newest_role_counts(tiered: Tiered) -> None:
    tiered.role(leader_epoch=3)
    tiered.role(leader_epoch=5)
    assert tiered.role(leader_epoch=4).partition_errors == {KEY: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert len(tiered.manager.effects) == 1
    assert tier_read(tiered, STATE).became_leader == [RoleChange(TOPIC, 0, ME, 5)]


def test_a_role_that_goes_while_the_epochs_are_forced_to_disk(tiered: Tiered) -> None:
    leadership = tiered.manager.leadership
    tiered.role(leader_epoch=3, replicas=(ME, 2))
    with pytest.raises(EpochsNotOnDisk):
        leadership.tier_read(KEY, STATE, 0, 0)
    assert tiered.role(leader=2, leader_epoch=4, replicas=(ME, 2)).became_follower
    tiered.partition.log.flush()
    assert not leadership.tier_read(KEY, STATE, 0, 0).became_leader
    log = tiered.partition.log
    assert (log.log_end_offset, log.leader_epochs.entries) == (0, [])


def test_a_follower_waits_for_nothing(tiered: Tiered) -> None:
    leadership = tiered.manager.leadership
    tiered.role(leader_epoch=3, replicas=(ME, 2))
    assert tiered.role(leader=2, leader_epoch=4, replicas=(ME, 2)).became_follower
    assert leadership.awaiting_tier == {}
    assert not leadership.tier_read(KEY, STATE, 0, 0).became_leader
    assert tiered.partition.log.log_end_offset == 0


def test_a_stopped_replica_waits_no_more(tiered: Tiered) -> None:
    tiered.role(leader_epoch=3)
    partition = StopReplicaPartitionState(partition_index=0, leader_epoch=4, delete_partition=True)
    topic = StopReplicaTopicState(topic_name=TOPIC, partition_states=[partition])
    request = StopReplicaRequest(controller_epoch=tiered.controller_epoch, topic_states=[topic])
    tiered.manager.leadership.stop_replicas(request, 0)
    assert tiered.manager.leadership.awaiting_tier == {}
    assert not tiered.manager.leadership.tier_read(KEY, STATE, 0, 0).became_leader


def test_a_log_that_cannot_restart_yet(tiered: Tiered, monkeypatch: pytest.MonkeyPatch) -> None:
    tiered.role(leader_epoch=3)
    leadership = tiered.manager.leadership

    def refuse(log: Log, *_arguments: object) -> None:
        raise CutNotNoted(log.name, 60)

    with monkeypatch.context() as patched:
        patched.setattr(Log, "restart_behind_tier", refuse)
        with pytest.raises(CutNotNoted):
            leadership.tier_read(KEY, STATE, 0, 0)
    assert tier_read(tiered, STATE).became_leader


def test_a_disk_that_fails_when_the_log_restarts(
    tiered: Tiered, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiered.role(leader_epoch=3)
    leadership = tiered.manager.leadership

    def fail(log: Log, *_arguments: object) -> None:
        log.local.fail("restarting", OSError("broken"))

    monkeypatch.setattr(Log, "restart_behind_tier", fail)
    found = leadership.tier_read(KEY, STATE, 0, 0).partition_errors
    assert found == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert leadership.awaiting_tier == {}
    assert KEY in tiered.manager.hosted.offline


def test_a_leader_of_the_first_epoch_whose_disk_is_lost_waits_too(tiered: Tiered) -> None:
    """After a clean stop of the last broker and its start nobody raises the epoch."""
    result = tiered.role(leader_epoch=0, is_new=False)
    assert not result.became_leader
    assert tier_read(tiered, TierState(60, [(0, 0)], encode_snapshot([]))).became_leader
    assert tiered.partition.log.log_end_offset == 60


def test_leaders_that_wait_for_nothing(tiered: Tiered) -> None:
    assert tiered.role(leader_epoch=0, is_new=True).became_leader  # the partition is new
    tiered.role(leader_epoch=1, topic="u")
    assert len(tiered.manager.effects) == 1
    tiered.manager.hosted.has_tier = False
    assert tiered.role(leader_epoch=1, topic="v").became_leader

"""LeaderAndIsr, StopReplica, ISR changes, log directories: what the controller and disks do."""

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
)
from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import AlterIsr, FailedLogDir, RoleChange
from pybroker_kafka.storage.log_config import LogConfig
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, ReplicaCluster, done
from tests.unit.storage.tiered import tiered_config

REPLICAS = (ME, 2, 3)


def test_roles_and_epochs(cluster: ReplicaCluster) -> None:
    result = cluster.role(replicas=REPLICAS, leader_epoch=2)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert result.became_leader == [RoleChange(TOPIC, 0, ME, 2)]
    assert cluster.partition.is_leader
    cluster.produce("p", b"a", acks=1)
    result = cluster.role(leader=3, replicas=REPLICAS, leader_epoch=3)
    assert result.became_follower == [RoleChange(TOPIC, 0, 3, 3)]
    assert not result.became_leader
    assert not cluster.partition.is_leader
    cluster.role(replicas=REPLICAS, leader_epoch=6)
    assert cluster.partition.leader_epoch_start_offset == 1
    # Epoch 6 is in the cache without a record of it: followers of epoch 5 find out.
    offsets = cluster.manager.offsets
    assert offsets.end_offset_for_epoch(KEY, -1, 5) == (ErrorCode.NONE, 2, 1)
    assert offsets.end_offset_for_epoch(KEY, -1, 6) == (ErrorCode.NONE, 6, 1)
    assert offsets.end_offset_for_epoch(KEY, -1, 9) == (ErrorCode.NONE, -1, -1)
    assert (
        cluster.manager.offsets.end_offset_for_epoch(KEY, 5, 2)[0] is ErrorCode.FENCED_LEADER_EPOCH
    )


@pytest.mark.parametrize(("epoch", "high_watermark"), [(3, 1), (4, 0)])
def test_a_leader_that_may_have_had_a_successor_knows_nothing_of_its_followers(
    cluster: ReplicaCluster, epoch: int, high_watermark: int
) -> None:
    """Broker 2 has the record of epoch 2. In an epoch that we have not heard of it may have cut it
    for another leader's, so out of a gap only what it fetches now counts."""
    cluster.role(replicas=REPLICAS, leader_epoch=2)
    cluster.produce("p", b"a", acks=1)
    cluster.follow(2, 1)
    assert cluster.partition.log.high_watermark == 0  # broker 3 is in the ISR and has nothing
    cluster.role(replicas=REPLICAS, isr=(ME, 2), leader_epoch=epoch, partition_epoch=9)
    cluster.manager.take_completed()
    assert cluster.partition.log.high_watermark == high_watermark
    cluster.follow(2, 1)
    assert cluster.partition.log.high_watermark == 1


def test_old_requests_change_nothing(cluster: ReplicaCluster) -> None:
    cluster.manager.leadership.broker_epoch = 100
    cluster.controller_epoch = 5
    cluster.role(replicas=REPLICAS, leader_epoch=2, broker_epoch=100)
    result = cluster.role(leader=2, replicas=REPLICAS, leader_epoch=3, broker_epoch=99)
    assert result.error_code is ErrorCode.STALE_BROKER_EPOCH
    result = cluster.role(leader=2, replicas=REPLICAS, leader_epoch=3, controller_epoch=4)
    assert result.error_code is ErrorCode.STALE_CONTROLLER_EPOCH
    for leader_epoch in (1, 2):
        result = cluster.role(leader=2, replicas=REPLICAS, leader_epoch=leader_epoch)
        assert result.partition_errors[KEY] is ErrorCode.STALE_CONTROLLER_EPOCH
    assert cluster.partition.is_leader
    assert cluster.partition.leader_epoch == 2
    assert cluster.manager.leadership.controller_epoch == 5


def test_a_replica_that_is_not_ours(cluster: ReplicaCluster) -> None:
    result = cluster.role(leader=2, replicas=(2, 3))
    assert result.partition_errors[KEY] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not cluster.manager.partitions


def test_topic_ids(cluster: ReplicaCluster) -> None:
    cluster.role(topic_id=bytes(16))
    assert cluster.partition.topic_id == bytes(16)
    # The same epoch again is news only because it brings the id.
    assert cluster.role(topic_id=b"i" * 16).partition_errors[KEY] is ErrorCode.NONE
    assert cluster.partition.topic_id == b"i" * 16
    assert cluster.partition.log.topic_id == b"i" * 16
    result = cluster.role(topic_id=b"j" * 16, leader_epoch=1)
    assert result.partition_errors[KEY] is ErrorCode.INCONSISTENT_TOPIC_ID


def test_topic_id_of_a_log_from_before_a_restart(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role(topic_id=b"i" * 16)
    cluster.log_manager.clean_shutdown()
    again = ReplicaCluster(tmp_path)
    result = again.role(topic_id=b"j" * 16)
    assert result.partition_errors[KEY] is ErrorCode.INCONSISTENT_TOPIC_ID
    assert again.role(topic_id=b"i" * 16).partition_errors[KEY] is ErrorCode.NONE


def test_the_oldest_form_of_the_request(cluster: ReplicaCluster) -> None:
    request = LeaderAndIsrRequest(
        controller_epoch=1,
        ungrouped_partition_states=[
            LeaderAndIsrPartitionState(
                topic_name=TOPIC, partition_index=0, leader=ME, isr=[ME], replicas=[ME]
            )
        ],
    )
    result = cluster.manager.leadership.become_leader_or_follower(request, cluster.now_ms)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    stop = StopReplicaRequest(
        controller_epoch=1,
        delete_partitions=True,
        ungrouped_partitions=[StopReplicaPartitionV0(topic_name=TOPIC, partition_index=0)],
    )
    assert cluster.manager.leadership.stop_replicas(stop, cluster.now_ms).deleted == [KEY]


def _stop(leader_epoch: int, *, delete: bool) -> StopReplicaRequest:
    return StopReplicaRequest(
        controller_epoch=1,
        topic_states=[
            StopReplicaTopicState(
                topic_name=TOPIC,
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
                    )
                ],
            )
        ],
    )


class TieredCluster(ReplicaCluster):
    def config_for(self, topic: str) -> LogConfig:
        return tiered_config()


def _noted(cluster: ReplicaCluster) -> list[tuple[tuple[str, int], bytes, bool]]:
    """Deletions in the tier, and whether the log is there yet when they are noted."""
    found = []

    def note(key: tuple[str, int], topic_id: bytes) -> None:
        found.append((key, topic_id, cluster.log_manager.get_log(*key) is not None))

    cluster.manager.hosted.note_tier_deletion = note
    return found


def test_the_leader_deletes_a_topic_from_the_tier(tmp_path: Path) -> None:
    cluster = TieredCluster(tmp_path)
    noted = _noted(cluster)
    topics: list[tuple[tuple[str, int], bytes]] = []
    cluster.manager.hosted.note_topic_deletion = lambda key, id_: topics.append((key, id_))
    cluster.role(leader=2, replicas=REPLICAS)
    result = cluster.manager.leadership.stop_replicas(_stop(-2, delete=True), cluster.now_ms)
    assert not result.deleted_with_topic
    assert not topics
    assert result.deleted_by_leader == [(KEY, TOPIC_ID)]
    assert noted == [(KEY, TOPIC_ID, True)], "the leader may never come back"
    noted.clear()
    cluster.role(leader=-1, leader_epoch=1, replicas=REPLICAS)
    result = cluster.manager.leadership.stop_replicas(_stop(-2, delete=True), cluster.now_ms)
    assert result.deleted_with_topic == [(KEY, TOPIC_ID)], "there is no leader to do it"
    noted.clear()
    topics.clear()
    cluster.role(leader_epoch=5)
    result = cluster.manager.leadership.stop_replicas(_stop(5, delete=True), cluster.now_ms)
    assert not result.deleted_with_topic, "it is moved, perhaps"
    cluster.role(leader_epoch=6)
    result = cluster.manager.leadership.stop_replicas(_stop(-2, delete=True), cluster.now_ms)
    assert result.deleted_with_topic == [(KEY, TOPIC_ID)]
    assert noted == [(KEY, TOPIC_ID, True)]
    assert topics == [(KEY, TOPIC_ID)]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_replica_without_a_role_deletes_a_topic_from_the_tier(
    tmp_path: Path, is_damaged: bool
) -> None:
    before = TieredCluster(tmp_path)
    before.role()
    before.produce("p", b"a", acks=1)
    before.log_manager.clean_shutdown()
    if is_damaged:
        (data,) = (tmp_path / "logs0" / f"{TOPIC}-0").glob("*.log")
        data.write_bytes(b"garbage" * 20)
    after = TieredCluster(tmp_path)
    noted = _noted(after)
    stop = _stop(-2, delete=True)
    result = after.manager.leadership.stop_replicas(stop, after.now_ms)
    assert result.deleted == [KEY]
    assert result.deleted_with_topic == [(KEY, TOPIC_ID)]
    assert noted == [(KEY, TOPIC_ID, not is_damaged)]
    again = after.manager.leadership.stop_replicas(stop, after.now_ms)
    assert not again.deleted_with_topic


def test_stop_replica(cluster: ReplicaCluster) -> None:
    cluster.role(leader_epoch=5)
    result = cluster.manager.leadership.stop_replicas(_stop(4, delete=True), cluster.now_ms)
    assert result.partition_errors == {KEY: ErrorCode.FENCED_LEADER_EPOCH}
    result = cluster.manager.leadership.stop_replicas(_stop(5, delete=False), cluster.now_ms)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert KEY in cluster.manager.partitions
    result = cluster.manager.leadership.stop_replicas(_stop(-2, delete=True), cluster.now_ms)
    assert result.deleted == [KEY]
    assert result.stopped == [RoleChange(TOPIC, 0, ME, 5)]
    assert cluster.log_manager.get_log(*KEY) is None
    assert not cluster.manager.partitions
    assert not cluster.manager.hosted.topic_stats
    # A new topic of the same name starts from nothing.
    cluster.role(topic_id=b"n" * 16)
    assert cluster.partition.log.log_end_offset == 0
    stale = _stop(-2, delete=True)
    stale.controller_epoch = 0
    assert (
        cluster.manager.leadership.stop_replicas(stale, cluster.now_ms).error_code
        is ErrorCode.STALE_CONTROLLER_EPOCH
    )


def test_high_watermark_survives_a_restart(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role()
    cluster.produce("p", b"a", b"b")
    cluster.log_manager.clean_shutdown()
    again = ReplicaCluster(tmp_path)
    again.role(leader=2, replicas=(ME, 2), leader_epoch=1)
    assert again.partition.log.high_watermark == 2


def test_isr_shrinks_and_expands_through_the_controller(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS, leader_epoch=1, partition_epoch=10)
    cluster.follow(2, 0)
    cluster.follow(3, 0)
    cluster.produce("p", b"a", acks=1)
    cluster.now_ms += 29_000
    cluster.follow(2, 1)
    cluster.now_ms += 2_000
    manager = cluster.manager
    manager.isr_changes.maybe_shrink(cluster.now_ms)
    (proposal,) = manager.take_effects()
    assert isinstance(proposal, AlterIsr)
    assert proposal.isr == (ME, 2)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 10)
    # Until the controller agrees, the HW still waits for the one that lags.
    assert cluster.partition.log.high_watermark == 0
    manager.isr_changes.maybe_shrink(cluster.now_ms)
    assert not manager.take_effects()
    manager.isr_changes.altered(proposal, ErrorCode.NONE, [ME, 2], 11, cluster.now_ms)
    assert cluster.partition.log.high_watermark == 1
    # Back at the HW: it may join.
    cluster.follow(3, 1)
    (proposal,) = manager.take_effects()
    assert isinstance(proposal, AlterIsr)
    assert proposal.isr == (ME, 2, 3)
    assert cluster.partition.isr.maximal == {ME, 2, 3}
    assert cluster.partition.isr.committed == {ME, 2}
    # A member by expansion is waited for at once.
    cluster.produce("p", b"b", acks=1)
    cluster.follow(2, 2)
    assert cluster.partition.log.high_watermark == 1
    manager.isr_changes.altered(proposal, ErrorCode.NONE, [ME, 2, 3], 12, cluster.now_ms)
    assert cluster.partition.isr.committed == {ME, 2, 3}


def _proposal(cluster: ReplicaCluster) -> AlterIsr:
    cluster.role(replicas=(ME, 2), isr=(ME,), leader_epoch=1, partition_epoch=10)
    cluster.follow(2, 0)
    (proposal,) = cluster.manager.take_effects()
    assert isinstance(proposal, AlterIsr)
    return proposal


def test_isr_proposal_not_tried_is_rolled_back(cluster: ReplicaCluster) -> None:
    proposal = _proposal(cluster)
    cluster.manager.isr_changes.altered(
        proposal, ErrorCode.INELIGIBLE_REPLICA, [], -1, cluster.now_ms
    )
    assert cluster.partition.isr.maximal == {ME}
    assert not cluster.partition.isr.is_in_flight
    cluster.follow(2, 0)
    assert len(cluster.manager.take_effects()) == 1


def test_isr_proposal_of_an_unknown_outcome_is_sent_again(cluster: ReplicaCluster) -> None:
    proposal = _proposal(cluster)
    cluster.manager.isr_changes.altered(
        proposal, ErrorCode.UNKNOWN_SERVER_ERROR, [], -1, cluster.now_ms
    )
    assert cluster.manager.take_effects() == [proposal]
    assert cluster.partition.isr.maximal == {ME, 2}


def test_isr_proposal_refused_for_good_waits_for_the_controller(cluster: ReplicaCluster) -> None:
    proposal = _proposal(cluster)
    cluster.manager.isr_changes.altered(
        proposal, ErrorCode.INVALID_UPDATE_VERSION, [], -1, cluster.now_ms
    )
    assert not cluster.manager.take_effects()
    assert cluster.partition.isr.is_in_flight
    cluster.role(replicas=(ME, 2), isr=(ME,), leader_epoch=2, partition_epoch=11)
    assert not cluster.partition.isr.is_in_flight
    # The late answer to the old proposal does not touch the new state.
    cluster.manager.isr_changes.altered(proposal, ErrorCode.NONE, [ME, 2], 12, cluster.now_ms)
    assert cluster.partition.isr.committed == {ME}


def test_a_dead_or_lagging_replica_does_not_join(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS, isr=(ME,))
    cluster.produce("p", b"a")
    cluster.follow(2, 0)
    cluster.alive([ME, 2])
    cluster.follow(3, 1)
    assert not cluster.manager.take_effects()
    cluster.follow(2, 1)
    assert len(cluster.manager.take_effects()) == 1


def test_one_directory_fails_the_other_lives(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path, dirs=2)
    cluster.role(partition=0)
    cluster.role(partition=1)
    first, second = cluster.manager.partitions[TOPIC, 0], cluster.manager.partitions[TOPIC, 1]
    assert first.log.health is not second.log.health
    first.log.health.fail(OSError("I/O error"))
    outcome = cluster.produce("p")
    assert done(outcome)[KEY].error_code is ErrorCode.KAFKA_STORAGE_ERROR
    effects = cluster.manager.take_effects()
    assert effects == [FailedLogDir(first.log.health.path, (KEY,))]
    assert set(cluster.manager.partitions) == {(TOPIC, 1)}
    assert done(cluster.produce("p"))[KEY].error_code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("leader", "isr", "end_offset"),
    [(ME, (ME,), 2), (2, (2, ME), 2), (2, (2, 3), 0)],
)
def test_a_log_whose_topic_id_is_lost(
    tmp_path: Path, leader: int, isr: tuple[int, ...], end_offset: int
) -> None:
    """A member of the ISR has this topic's records; any other replica may be of an earlier topic
    of the name, which was deleted while this broker was down, and is copied anew."""
    before = ReplicaCluster(tmp_path)
    before.role()
    before.produce("p", b"a", b"b", acks=1)
    before.log_manager.clean_shutdown()
    (tmp_path / "logs0" / f"{TOPIC}-0" / "partition.metadata").write_bytes(b"\xff garbage")
    after = ReplicaCluster(tmp_path)
    result = after.role(leader, replicas=REPLICAS, isr=isr, leader_epoch=1)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert after.partition.log.log_end_offset == end_offset
    assert after.partition.topic_id == TOPIC_ID
    after.log_manager.clean_shutdown()
    again = ReplicaCluster(tmp_path).log_manager.get_log(*KEY)
    assert again is not None
    assert (again.topic_id, again.log_end_offset) == (TOPIC_ID, end_offset)


def test_a_log_whose_topic_id_is_lost_waits_for_a_leader(tmp_path: Path) -> None:
    """Without one nobody knows what becomes of it: it is neither dropped nor given up. What is
    given up stays offline for as long as the broker lives, whoever comes to lead later."""
    before = ReplicaCluster(tmp_path)
    before.role()
    before.produce("p", b"a", b"b", acks=1)
    before.log_manager.clean_shutdown()
    (tmp_path / "logs0" / f"{TOPIC}-0" / "partition.metadata").write_bytes(b"\xff garbage")
    after = ReplicaCluster(tmp_path)
    result = after.role(-1, replicas=REPLICAS, isr=(2,), leader_epoch=1)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert KEY not in after.manager.partitions
    kept = after.log_manager.get_log(*KEY)
    assert kept is not None
    assert kept.log_end_offset == 2
    result = after.role(2, replicas=REPLICAS, isr=(2,), leader_epoch=2)
    assert result.partition_errors == {KEY: ErrorCode.NONE}
    assert (after.partition.log.log_end_offset, after.partition.topic_id) == (0, TOPIC_ID)


def test_a_damaged_partition_is_offline_until_its_topic_is_deleted(tmp_path: Path) -> None:
    before = ReplicaCluster(tmp_path)
    before.role()
    before.produce("p", b"a", acks=1)
    before.log_manager.clean_shutdown()
    (data,) = (tmp_path / "logs0" / f"{TOPIC}-0").glob("*.log")
    data.write_bytes(b"garbage" * 20)
    after = ReplicaCluster(tmp_path)
    result = after.role(leader_epoch=1)
    assert result.partition_errors == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert after.role(topic="other").partition_errors == {("other", 0): ErrorCode.NONE}
    assert not after.manager.effects, "the directory is online"
    stop = StopReplicaRequest(
        controller_id=ME,
        controller_epoch=1,
        topic_states=[
            StopReplicaTopicState(
                topic_name=TOPIC,
                partition_states=[
                    StopReplicaPartitionState(
                        partition_index=0, leader_epoch=-2, delete_partition=True
                    )
                ],
            )
        ],
    )
    assert after.manager.leadership.stop_replicas(stop, after.now_ms).deleted == [KEY]
    assert after.role(leader_epoch=0).partition_errors == {KEY: ErrorCode.NONE}
    assert after.partition.log.log_end_offset == 0
